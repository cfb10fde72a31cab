"""The only way to load from disk what translates or labels: a checkpoint in PyTorch, or its export in another engine behind the same
`generate`.

Every load is checked: the folder is a model's, its files are those that were saved, no weight is missing, and the tokenizer fits.
"""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from huggingface_hub import snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
from safetensors import SafetensorError
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedTokenizerBase,
)

from ..configuration_vaswani import ENCODER, VaswaniConfig
from ..files.checksums import file_sha256, verify
from ..files.json_files import read_json
from ..modeling_tasks import VaswaniEncoderModel
from .processes import processes

ENGINES = ("pytorch", "ctranslate2")

VOCABULARIES = ("tokenizer.json", "vocab.json", "vocab-src.json")
"""Our tokenizers have the first of these files, Marian's the second, those of models from fairseq the third."""

_DTYPES = ("float32", "bfloat16", "float16", "int8")
_PROSE_AND_PICTURES = {".md", ".png"}
_OTHER_FRAMEWORKS = ["*.h5", "*.msgpack", "*.ot", "*.onnx", "*.tflite"]
_LABELLING = {"ForSequenceClassification": AutoModelForSequenceClassification, "ForTokenClassification": AutoModelForTokenClassification}
_IN_A_RUN = ("averaged", "published")
"""The models' folders in a run, the most wanted first."""


class Checkpoint(NamedTuple):
    """A model on the CPU, any of transformers' sequence-to-sequence models, and its tokenizer."""

    model: Any
    tokenizer: PreTrainedTokenizerBase


class Engine(NamedTuple):
    """An object with Hugging Face's `generate`, its tokenizer, and facts that distinguish it from every other engine."""

    model: Any
    tokenizer: Any
    identity: dict[str, Any]


def local_folder(model_name: str | Path) -> Path:
    """The folder of a model, downloaded if needed.

    Raises:
        FileNotFoundError: there is no such model.
    """
    if Path(model_name).is_dir():
        return Path(model_name)
    try:
        return Path(snapshot_download(str(model_name), ignore_patterns=_OTHER_FRAMEWORKS))
    except (HFValidationError, HfHubHTTPError, LocalEntryNotFoundError) as error:
        raise FileNotFoundError(f"{model_name} is neither a folder nor a repository that the Hub can give us.") from error


def load_checkpoint(folder: Path, dtype: torch.dtype | str = "auto", *, only_ours: bool = False) -> Checkpoint:
    """Load a model and its tokenizer with installed classes only, whatever code the folder holds.

    Args:
        folder: config, weights and tokenizer; with `SHA256SUMS`, files that differ from it are refused.
        dtype: of the weights; by default that of the files.
        only_ours: refuse all models but `VaswaniForConditionalGeneration`.

    Raises:
        FileNotFoundError: there is no such folder, or a file is missing in it.
        ValueError: a file is damaged, weights are missing, the tokenizer does not fit, or it is another kind of model.
    """
    _check_files(folder, only_ours)
    _require_decoder(folder)
    verify(folder)
    try:
        model, loading = AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=dtype, output_loading_info=True)
    except SafetensorError as error:
        raise ValueError(f"The weights in {folder} are damaged or incomplete ({error}); copy them again.") from error
    except ValueError as error:
        if not str(error).startswith("Unrecognized configuration class"):
            raise
        kind = read_json(folder / "config.json").get("model_type")
        raise ValueError(f"{folder} holds a model of the type {kind!r}, which has no encoder and decoder; give a translator.") from error
    except RuntimeError as error:  # shapes
        raise ValueError(f"The weights in {folder} are not those of its config.json ({first_line(error)}); copy both again.") from error
    return _with_tokenizer(folder, model, loading["missing_keys"])


def check_start(folder: Path, *, with_decoder: bool) -> None:
    """Refuse what no training can start from, without reading the weights.

    Args:
        folder: of a model.
        with_decoder: the model to train writes text.

    Raises:
        FileNotFoundError, ValueError: as `load_checkpoint`, of a model of ours.
    """
    _check_files(folder, only_ours=True)
    if with_decoder:
        _require_decoder(folder)


def load_encoder(folder: Path) -> Checkpoint:
    """Load the encoder of a translator of ours, or of a model of the encoder's tasks, and its tokenizer.

    Raises:
        FileNotFoundError, ValueError: as `load_checkpoint`.
    """
    _check_files(folder, only_ours=True)
    return _without_decoder(folder, VaswaniEncoderModel)


def _without_decoder(folder: Path, model_class: Any, **settings: Any) -> Checkpoint:
    verify(folder)
    try:
        model, loading = model_class.from_pretrained(folder, output_loading_info=True, **settings)
    except (SafetensorError, RuntimeError) as error:
        raise ValueError(f"The weights in {folder} are damaged or incomplete ({first_line(error)}); copy them again.") from error
    return _with_tokenizer(folder, model, loading["missing_keys"])


def _with_tokenizer(folder: Path, model: Any, missing: Collection[str]) -> Checkpoint:
    """A loaded model and its tokenizer, refused where weights are missing or both do not fit."""
    if missing:
        raise ValueError(f"The weights in {folder} lack {', '.join(sorted(missing))}; they are not those of its config.json.")
    tokenizer = _read_tokenizer(folder, model.config)
    check_tokenizer(folder, tokenizer, model.config)
    return Checkpoint(model, tokenizer)


def check_tokenizer(folder: str | Path, tokenizer: PreTrainedTokenizerBase, config: PreTrainedConfig) -> None:
    """Refuse a tokenizer that gives ids for which the model has no embedding.

    Raises:
        ValueError: the sentence names both numbers.
    """
    if len(tokenizer) > config.vocab_size:
        raise ValueError(
            f"The tokenizer in {folder} has {len(tokenizer)} tokens but the model embeds only {config.vocab_size}; "
            "they do not belong together: take both from the same run."
        )


def load_engine(name: str, engine: str = "pytorch", dtype: str | None = None) -> Engine:
    """Load a translator onto this process' device.

    Args:
        name: a checkpoint's folder or repository of the Hub; for "ctranslate2" a folder that `export_ctranslate2` wrote.
        engine: one of `ENGINES`.
        dtype: "float32", "bfloat16", "float16", "int8" (our models on a CPU), or with CTranslate2 any of its compute types; by default
            that of the files, and float32 on a CPU.

    Raises:
        FileNotFoundError: there is no such model.
        ValueError: the engine cannot run this model, or not in this precision, or a file is damaged.
    """
    if engine not in ENGINES:
        raise ValueError(f"There is no engine {engine!r}; choose {' or '.join(ENGINES)}.")
    with processes().main_process_first():
        folder = local_folder(name)
    load = _load_pytorch if engine == "pytorch" else _load_ctranslate2
    model, tokenizer = load(folder, dtype)
    return Engine(model, tokenizer, {"model": folder_sha256(folder), "engine": engine, "dtype": dtype})


def load_labelling(name: str) -> Engine:
    """Load a classifier or a tagger, of ours or any of transformers', onto this process' device; on a CPU in float32.

    Args:
        name: a folder, or a repository of the Hub.

    Raises:
        FileNotFoundError: there is no such model.
        ValueError: it gives no labels, or a file is damaged.
    """
    with processes().main_process_first():
        folder = local_folder(name)
    _check_files(folder, only_ours=False)
    kinds = read_json(folder / "config.json").get("architectures") or ["model without a class"]
    found = [loader for ending, loader in _LABELLING.items() if any(kind.endswith(ending) for kind in kinds)]
    if not found:
        raise ValueError(
            f"{folder} holds a {kinds[0]}, which gives texts no labels; name the folder of a classifier or a tagger. Translators and "
            "summarisers are for `vaswani translate`, and all models for the pipelines."
        )
    device = processes().device
    model, tokenizer = _without_decoder(folder, found[0], dtype=torch.float32 if device.type == "cpu" else "auto")
    return Engine(model.to(device), tokenizer, {"model": folder_sha256(folder)})


def folder_sha256(folder: Path) -> dict[str, str]:
    """SHA-256 of every file of a model, except prose and pictures."""
    files = sorted(path for path in folder.iterdir() if path.is_file())
    return {path.name: file_sha256(path) for path in files if path.suffix not in _PROSE_AND_PICTURES}


def first_line(error: Exception) -> str:
    """The part of another library's message that fits into a sentence."""
    return str(error).strip().partition("\n")[0] or type(error).__name__


def _check_files(folder: Path, only_ours: bool) -> None:
    """Refuse a folder that is not a model's, and say what it is instead."""
    require_one_of(folder, ("config.json",))
    kind = read_json(folder / "config.json").get("model_type")
    if (folder / "model.bin").is_file() and not (folder / "model.safetensors").is_file():
        raise ValueError(
            f"{folder} is an export for CTranslate2; run it with `vaswani translate --engine ctranslate2`, or give the checkpoint itself."
        )
    if only_ours and kind != VaswaniConfig.model_type:
        raise ValueError(
            f"{folder} holds a model of the type {kind!r}; convert it first if it is Marian's or fairseq's (vaswani convert): only a "
            f'"{VaswaniConfig.model_type}" model will do here.'
        )
    if kind == VaswaniConfig.model_type:
        require_one_of(folder, VOCABULARIES)


def _require_decoder(folder: Path) -> None:
    """Refuse an encoder of ours alone, such as a trained classifier."""
    config = read_json(folder / "config.json")
    if config.get("model_type") == VaswaniConfig.model_type and not config.get("is_encoder_decoder", True):
        name = (config.get("architectures") or [ENCODER])[0]
        hint = "label texts with `vaswani label`, " if name.endswith(tuple(_LABELLING)) else ""
        raise ValueError(
            f"{folder} holds an encoder alone ({name}), which writes no text; {hint}name the folder of a model with a decoder, or, to "
            f"train one from these weights, save VaswaniForConditionalGeneration.from_pretrained({str(folder)!r}), whose decoder is "
            "random, and the tokenizer in a new folder."
        )


def _read_tokenizer(folder: Path, config: PreTrainedConfig) -> PreTrainedTokenizerBase:
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder, config=config, trust_remote_code=False)
    except (ImportError, OSError):  # these say what is missing
        raise
    except Exception as error:  # several libraries raise their own for a damaged file
        raise ValueError(f"The tokenizer in {folder} cannot be read ({first_line(error)}); copy its files again.") from error
    return tokenizer


def require_one_of(folder: Path, names: Sequence[str]) -> None:
    """Require one of the files `names`; if there is none, look where else the model may be.

    Raises:
        FileNotFoundError: there is none; the sentence says which folder to give.
    """
    if any((folder / name).is_file() for name in names):
        return
    models = [str(folder / name) for name in _IN_A_RUN if (folder / name / "config.json").is_file()]
    if models:
        raise FileNotFoundError(f"{folder} is the folder of a run; give a model in it: {' or '.join(models)}.")
    if folder.is_dir() and (folder / "recipe.yaml").is_file():
        raise FileNotFoundError(f"{folder} is the folder of a run that has no averaged model yet; finish its training first.")
    missing = "is not a folder" if not folder.is_dir() else f"has no {names[0]}"
    raise FileNotFoundError(f"{folder} {missing}; give the folder of a trained model, such as runs/NAME/averaged.")


def _load_pytorch(folder: Path, dtype: str | None) -> Checkpoint:
    """A checkpoint; on a CPU, its weights are packed if the model supports it."""
    if dtype is not None and dtype not in _DTYPES:
        raise ValueError(f"PyTorch runs {', '.join(_DTYPES)} here, not {dtype}; choose one of them, or --engine ctranslate2.")
    device = processes().device
    model, tokenizer = load_checkpoint(folder)
    model.to(device)
    if device.type == "cpu" and hasattr(model, "pack_weights"):
        model.float().pack_weights(dtype or "float32")
    elif dtype == "int8":
        raise ValueError(
            f"int8 is for this package's models on a CPU; run {folder} in bfloat16, or with `vaswani translate --engine ctranslate2`."
        )
    elif dtype is not None:
        model.to(getattr(torch, dtype))
    return Checkpoint(model, tokenizer)


def _load_ctranslate2(folder: Path, dtype: str | None) -> Checkpoint:
    if not (folder / "model.bin").is_file():
        raise ValueError(f"{folder} is no export for CTranslate2; make one: vaswani export {folder} {folder}-ctranslate2 --to ctranslate2")
    verify(folder)
    from ..interop.ctranslate2 import CTranslate2Model  # an extra, which only this engine needs

    model = CTranslate2Model.from_pretrained(folder, device=processes().device.type, compute_type=dtype or "default")
    return Checkpoint(model, AutoTokenizer.from_pretrained(folder))
