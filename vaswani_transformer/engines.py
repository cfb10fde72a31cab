"""What translates: a checkpoint in PyTorch, or its export in another engine behind the same `generate`."""

from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import AutoTokenizer

from .files.checksums import file_sha256
from .translation.checkpoint import load_translator, local_folder
from .translation.processes import processes

ENGINES = ("pytorch", "ctranslate2")

_DTYPES = ("float32", "bfloat16", "float16", "int8")
_PROSE_AND_PICTURES = {".md", ".png"}


class Engine(NamedTuple):
    """Something with Hugging Face's `generate`, its tokenizer, and what tells it from every other engine."""

    model: Any
    tokenizer: Any
    identity: dict[str, Any]


def load_engine(name: str, engine: str = "pytorch", dtype: str | None = None) -> Engine:
    """Load a translator onto this process' device.

    Args:
        name: a checkpoint's folder or repository of the Hub; for "ctranslate2" a folder that `export_ctranslate2` wrote.
        engine: one of `ENGINES`.
        dtype: "float32", "bfloat16", "float16", "int8" (our models on a CPU), or with CTranslate2 any of its compute types; by default
            what the files hold, and float32 on a CPU.

    Raises:
        FileNotFoundError: there is no such model.
        ValueError: the engine does not run this model, or not in this precision.
    """
    if engine not in ENGINES:
        raise ValueError(f"There is no engine {engine!r}; choose {' or '.join(ENGINES)}.")
    with processes().main_process_first():
        folder = local_folder(name)
    identity = {"model": folder_sha256(folder), "engine": engine, "dtype": dtype}
    load = _load_pytorch if engine == "pytorch" else _load_ctranslate2
    return Engine(*load(folder, dtype), identity)


def folder_sha256(folder: Path) -> dict[str, str]:
    """SHA-256 of every file of a model, prose and pictures apart."""
    files = sorted(path for path in folder.iterdir() if path.is_file())
    return {path.name: file_sha256(path) for path in files if path.suffix not in _PROSE_AND_PICTURES}


def _load_pytorch(folder: Path, dtype: str | None) -> tuple[Any, Any]:
    """A checkpoint, its weights packed where it knows how and the device is a CPU."""
    if dtype is not None and dtype not in _DTYPES:
        raise ValueError(f"PyTorch runs {', '.join(_DTYPES)} here, not {dtype}; choose one of them, or --engine ctranslate2.")
    if (folder / "model.bin").is_file() and not (folder / "model.safetensors").is_file():
        raise ValueError(f"{folder} is an export for CTranslate2; run it with --engine ctranslate2, or give the checkpoint itself.")
    device = processes().device
    model, tokenizer = load_translator(folder, device=device)
    if device.type == "cpu" and hasattr(model, "pack_weights"):
        model.float().pack_weights(dtype or "float32")
    elif dtype == "int8":
        raise ValueError(f"int8 is for this package's models on a CPU; run {folder} in bfloat16, or --engine ctranslate2.")
    elif dtype is not None:
        model.to(getattr(torch, dtype))
    return model, tokenizer


def _load_ctranslate2(folder: Path, dtype: str | None) -> tuple[Any, Any]:
    if not (folder / "model.bin").is_file():
        raise ValueError(
            f"{folder} is no export for CTranslate2; make one: python scripts/export.py {folder} {folder}-ctranslate2 --to ctranslate2"
        )
    from .interop.ctranslate2 import CTranslate2Model  # an extra, which only this engine needs

    model = CTranslate2Model.from_pretrained(folder, device=processes().device.type, compute_type=dtype or "default")
    return model, AutoTokenizer.from_pretrained(folder)
