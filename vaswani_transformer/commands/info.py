"""`vaswani info`."""

import os
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

if TYPE_CHECKING:
    from ..configuration_vaswani import VaswaniConfig

_PACKAGES = ("torch", "transformers", "tokenizers", "accelerate", "ctranslate2", "peft", "sentencepiece")
_VARIABLES = (
    *("CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "ONEDNN_MAX_CPU_ISA", "FBGEMM_ENABLE_INSTRUCTIONS", "ATEN_CPU_CAPABILITY"),
    *("HF_HOME", "HF_HUB_OFFLINE", "VASWANI_CACHE"),
)
"""Those that change what this command tells."""

_LIMIT = 24 * 2**30


def info(
    model: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="Predict the cost of this model: tiny, base, big, a folder, or a repository of the Hub."),
    ] = None,
    length: Annotated[int | None, typer.Option(min=1, metavar="N", help="With --model: tokens of a source, and of its target.")] = None,
    sentences: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="With --model: pairs of a micro-batch, or sentences at once.  [default: 1]")
    ] = None,
    beams: Annotated[int | None, typer.Option(min=1, metavar="N", help="With --model: hypotheses of a sentence.  [default: 4]")] = None,
    seconds: Annotated[
        bool, typer.Option("--seconds", help="With --model: also measure shorter texts on this machine, and predict the time.")
    ] = False,
) -> None:
    """Show versions, devices and what will be used on this machine.

    \b
    vaswani info
    vaswani info --model base --length 4096
    vaswani info --model tiny --length 1024 --seconds

    Paste it into a report of a problem.

    With --model it predicts instead: memory and floating point operations of one update and of one translation at a length, in float32 on a
    CPU, and the longest texts that 24 GiB would train on. --seconds predicts the time, too, from texts of up to half the length; that takes
    about as long as two updates and one translation of the length itself. Of an encoder alone, as a classifier is, it counts operations.
    """
    if (model is None) != (length is None):
        raise typer.BadParameter("--model and --length belong together: what a model costs depends on the length.")
    if model is None or length is None:
        if seconds or sentences or beams:
            named = "--seconds" if seconds else "--sentences" if sentences else "--beams"
            raise typer.BadParameter(f"{named} needs --model and --length: whose cost?")
        facts = {**_software(), **_machine(), **_uses()}
    else:
        facts = _costs(model, length, sentences or 1, beams, seconds)
    for name, value in facts.items():
        print(f"{name:<20} {value}")


def _costs(model: str, length: int, sentences: int, asked_beams: int | None, seconds: bool) -> dict[str, str]:
    from transformers import AutoConfig

    from ..configuration_vaswani import PRESETS, VaswaniConfig
    from ..training.cost import training_flops, translation_flops
    from ..training.memory_cost import Memory, longest_that_fits, parameters, training_memory, translation_memory, why_unknown
    from ..training.process_memory import process_bytes
    from ..training.time_cost import predicted_seconds
    from ..translation.loading import require_one_of

    if model not in PRESETS and Path(model).is_dir():
        require_one_of(Path(model), ["config.json"])
    config = VaswaniConfig.from_preset(model) if model in PRESETS else AutoConfig.from_pretrained(model)
    if not isinstance(config, VaswaniConfig):
        raise ValueError(f"{model} is a {config.model_type} model; the formulas for cost know this package's own models only.")
    if config.most_positions is not None and length > config.most_positions:
        raise ValueError(f"{model} has positions for {config.most_positions:,} tokens, and --length asks for {length:,}; ask for fewer.")
    if not config.is_encoder_decoder:
        if asked_beams is not None:
            raise ValueError(f"--beams is for a model that writes text, and {model} is an encoder alone; leave it out.")
        return _costs_of_encoder(model, config, length, sentences, seconds)
    beams = asked_beams or 4
    libraries = process_bytes("VmRSS") or 0  # all that a training imports is imported now

    def told(memory: Memory) -> str:
        parts = f"weights {_gib(memory.lasting)}, kept {_gib(memory.states)}, passing {_gib(memory.passing)}, libraries {_gib(libraries)}"
        return f"{_gib(memory.total + libraries)} GiB ({parts})"

    lengths, unknown = (sentences, length, length), why_unknown(config)
    facts = {
        "model": f"{model}, {parameters(config):,} parameters, {config.decoder_entries:,} target entries",
        "lengths": f"{sentences} x {length:,} source and as many target tokens, padding included",
        "train: FLOPs": f"{training_flops(config, *lengths, sentences * length):.3g} an update, forward and backward",
        "translate: FLOPs": f"{translation_flops(config, *lengths, beams):.3g}, with {beams} beams",
    }
    if unknown is not None:
        if seconds:
            raise ValueError(f"--seconds first asks whether there is memory enough. {unknown}")
        return facts | {"memory": f"not predicted. {unknown}"}
    facts |= {
        "train: memory": told(training_memory(config, *lengths)),
        "translate: memory": told(translation_memory(config, *lengths, beams)),
        "24 GiB train to": f"{longest_that_fits(config, _LIMIT - libraries, sentences):,} tokens a side",
    }
    if seconds:
        _check_room(training_memory(config, sentences, length // 2 + 1, length // 2 + 1).total + libraries, length // 2)
        update, translation = predicted_seconds(config, length, sentences, beams)
        facts |= {"train: seconds": f"{update:.3g} an update", "translate: seconds": f"{translation:.3g}, both with {_threads()}"}
    return facts


def _costs_of_encoder(model: str, config: "VaswaniConfig", length: int, sentences: int, seconds: bool) -> dict[str, str]:
    """What is known of a model without a decoder; the formulas for memory and time are those of translators."""
    import torch

    from .. import modeling_tasks
    from ..training.cost import training_flops

    if seconds:
        raise ValueError(f"--seconds measures a model with a decoder, and {model} is an encoder alone; leave it out.")
    name = next(name for name in config.architectures or () if hasattr(modeling_tasks, name))
    with torch.device("meta"):
        parameters = getattr(modeling_tasks, name)(config).num_parameters()
    flops = training_flops(config, sentences, length, 0, 0, labels=0)
    return {
        "model": f"{model}, {parameters:,} parameters, {name}, which has no decoder",
        "lengths": f"{sentences} x {length:,} tokens, padding included",
        "train: FLOPs": f"{flops:.3g} an update of the encoder, forward and backward; the map to labels or words comes on top",
        "encode: FLOPs": f"{flops / 3:.3g}, the same forward only",
        "memory": "not predicted for an encoder alone",
    }


def _check_room(size: int, length: int) -> None:
    """Raise a `ValueError` if an update that is to be measured needs more memory than this machine has."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if size > whole:
        raise ValueError(
            f"--seconds would train on {length:,} tokens a side, which needs {_gib(size)} GiB, and this machine has {_gib(whole)}; ask for "
            "the cost without it."
        )


def _threads() -> str:
    import torch

    return f"as many threads of PyTorch as this process has ({torch.get_num_threads()}), on the machine as busy as it is now"


def _gib(size: int) -> str:
    return f"{size / 2**30:.2f}"


def _software() -> dict[str, str]:
    import platform

    from .. import __version__

    return {"vaswani_transformer": __version__, "python": platform.python_version(), **{name: _version(name) for name in _PACKAGES}}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _machine() -> dict[str, str]:
    import torch

    from ..data.workers import available_cores
    from ..packing import has_bfloat16, has_fbgemm, int8_saturates
    from ..provenance import hardware, instructions

    gpus = [torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())]
    return {
        "processor": hardware(torch.device("cpu"), 1)["cpu"],
        "cores and threads": f"{available_cores()} cores for this process; PyTorch takes {torch.get_num_threads()} threads",
        "instructions": " ".join(instructions()) or "not listed by this system",
        "PyTorch uses": torch.backends.cpu.get_cpu_capability(),
        "float16 (FBGEMM)": "yes" if has_fbgemm() else "no",
        "bfloat16 (oneDNN)": "yes" if has_bfloat16() else "no",
        "int8 (FBGEMM)": "7 bits a value, without VNNI" if int8_saturates() else "8 bits a value",
        "GPUs": "; ".join(f"{gpu.name}, {gpu.total_memory / 2**30:.0f} GiB" for gpu in gpus) or "none",
        "variables": " ".join(f"{name}={os.environ[name]}" for name in _VARIABLES if name in os.environ) or "none that matter",
    }


def _uses() -> dict[str, str]:
    import torch
    from huggingface_hub.constants import HF_ASSETS_CACHE

    from ..data.cache import CACHE
    from ..training.precision import emulates_bfloat16
    from ..translation.processes import processes

    device = processes().device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    on_cpu = device.type == "cpu"
    bfloat16 = "bfloat16 (computed in float32 here)" if emulates_bfloat16(on_cpu) else "bfloat16"
    precisions = ["float32", bfloat16] if on_cpu else ["float32", bfloat16, "float16"]
    types = _packed_types() if on_cpu else ["float32", "bfloat16", "float16"]
    default = "weights packed in float32" if on_cpu else "in the type that the model holds"
    cache = os.environ.get(CACHE)
    return {
        "train on": f"{name}, in the recipe's training.precision: {', '.join(precisions)}",
        "translate on": f"{name}, {default}; --dtype may be {', '.join(types)}",
        "prepared data in": "no cache" if cache == "off" else str(Path(cache or HF_ASSETS_CACHE) / "vaswani_transformer"),
    }


def _packed_types() -> list[str]:
    """What weights can be packed as on this machine."""
    from ..packing import WeightType, check_weight_type

    found = []
    for kind in get_args(WeightType):
        with suppress(ValueError):  # which says why not
            check_weight_type(kind)
            found.append(kind)
    return found
