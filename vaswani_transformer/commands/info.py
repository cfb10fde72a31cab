"""`vaswani info`."""

import os
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import get_args

_PACKAGES = ("torch", "transformers", "tokenizers", "accelerate", "ctranslate2", "peft", "sentencepiece")
_VARIABLES = (
    *("CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "ONEDNN_MAX_CPU_ISA", "FBGEMM_ENABLE_INSTRUCTIONS", "ATEN_CPU_CAPABILITY"),
    *("HF_HOME", "HF_HUB_OFFLINE", "VASWANI_CACHE"),
)
"""Those that change what this command tells."""


def info() -> None:
    """Show versions, devices and what will be used on this machine.

    Paste it into a report of a problem.
    """
    for name, value in {**_software(), **_machine(), **_uses()}.items():
        print(f"{name:<20} {value}")


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
    from ..translation.processes import processes

    device = processes().device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    on_cpu = device.type == "cpu"
    precisions = ["float32", "bfloat16"] if on_cpu else ["float32", "bfloat16", "float16"]
    types = _packed_types() if on_cpu else precisions
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
