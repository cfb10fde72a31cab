"""Who translates: one checkpoint as it is, packed, as a Marian model, and in CTranslate2."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.translation.contestant import Contestant
from vaswani_transformer.configuration_vaswani import PAPER_SEARCH
from vaswani_transformer.files.json_files import read_json
from vaswani_transformer.interop.length_penalty import GNMT_AS_POWER
from vaswani_transformer.interop.marian import export_marian
from vaswani_transformer.packing import has_bfloat16

EXTRA_LENGTH = PAPER_SEARCH["extra_length"]
"""The limit of those whose settings cannot count from each source, where the checkpoint names no other."""


@dataclass(frozen=True)
class Kind:
    """A contestant for any checkpoint.

    Attributes:
        title: for tables and pictures.
        module: the file beside this one that has its `load`.
        export: what the checkpoint is exported to before; None where it is read as it is.
        quantization: of the export.
        options: of `load`.
    """

    title: str
    module: str = "generating_contestant"
    export: str | None = None
    quantization: str | None = None
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Entry:
    """A contestant for one checkpoint: all that it takes to load it, here or in another process."""

    name: str
    title: str
    module: str
    arguments: dict[str, Any]

    @property
    def build(self) -> Callable[[], Contestant]:
        """
        Raises:
            ImportError: its engine is not installed.
        """
        return partial(import_module(f".{self.module}", __package__).load, **self.arguments)

    def load(self) -> Contestant:
        """Build it in this process."""
        return self.build()


def _pytorch(title: str, dtype: str, *, export: str | None = None, packed: str | None = None) -> Kind:
    return Kind(title, export=export, options={"dtype": dtype, "packed": packed})


KINDS = {
    "marian": _pytorch("MarianMTModel float32", "float32", export="marian"),
    "marian-bf16": _pytorch("MarianMTModel bfloat16", "bfloat16", export="marian"),
    "ctranslate2": Kind("CTranslate2 float32", "ctranslate2_contestant", "ctranslate2"),
    "ctranslate2-as-ours": Kind("CTranslate2 float32, our search", "ctranslate2_generating", "ctranslate2"),
    "ctranslate2-int8": Kind("CTranslate2 int8", "ctranslate2_contestant", "ctranslate2", "int8"),
    "ctranslate2-float16": Kind("CTranslate2 float16", "ctranslate2_contestant", "ctranslate2", "float16"),
    "ours": _pytorch("ours float32", "float32"),
    "ours-bf16": _pytorch("ours bfloat16", "bfloat16"),
    "ours-packed": _pytorch("ours float32, packed", "float32", packed="float32"),
    "ours-packed-bf16": _pytorch("ours bfloat16, packed", "float32", packed="bfloat16"),
    "ours-packed-float16": _pytorch("ours float16, packed", "float32", packed="float16"),
    "ours-packed-int8": _pytorch("ours int8, packed", "float32", packed="int8"),
}

STANDARD = "ours"
"""The contestant whose hypotheses the others' are compared with."""

ON_CPU = tuple(
    name
    for name in (
        *("marian", "marian-bf16", "ctranslate2", "ctranslate2-as-ours", "ctranslate2-int8"),
        *("ours", "ours-packed", "ours-packed-bf16", "ours-packed-float16", "ours-packed-int8"),
    )
    if "bfloat16" not in KINDS[name].options.values() or has_bfloat16()
)
ON_GPU = ("marian", "marian-bf16", "ctranslate2", "ctranslate2-float16", "ours", "ours-bf16")
"""Who runs unless somebody else is named, nobody in bfloat16 on a processor without it; the first is what all ratios refer to."""


def enter(names: Sequence[str], folder: Path, scratch: Path, *, device: str, threads: int) -> list[Entry]:
    """Export the checkpoint in `folder` as the named contestants need it, into `scratch`.

    Raises:
        ImportError: CTranslate2 is not installed.
        ValueError: there is no such contestant, or one of them cannot be made of this checkpoint or not for this device.
    """
    for name in names:
        if name not in KINDS:
            raise ValueError(f"There is no contestant {name!r}; choose from {', '.join(KINDS)}.")
        if device != "cpu" and KINDS[name].options.get("packed"):
            raise ValueError(f"Packed weights are for CPUs; leave out {name}, or take --device cpu.")
    settings_file = folder / "generation_config.json"
    settings = read_json(settings_file) if settings_file.is_file() else {}
    given = {"device": device, "threads": threads}
    given["extra_length"] = settings.get("extra_length") or EXTRA_LENGTH
    entries = []
    for name in dict.fromkeys(names):
        kind = KINDS[name]
        options = given | kind.options | {"folder": str(_exported(kind, folder, scratch))}
        if kind.module == "ctranslate2_contestant":
            options["length_penalty"] = as_power(settings)
        entries.append(Entry(name, kind.title, kind.module, options))
    return entries


def _exported(kind: Kind, folder: Path, scratch: Path) -> Path:
    if kind.export is None:
        return folder
    out = scratch / "-".join(filter(None, (kind.export, kind.quantization)))
    if out.exists():
        return out
    if kind.export == "marian":
        return export_marian(folder, out)
    from vaswani_transformer.interop.ctranslate2_export import export_ctranslate2  # an extra

    return export_ctranslate2(folder, out, kind.quantization)


def as_power(settings: dict[str, Any]) -> float:
    """CTranslate2's penalty nearest to the checkpoint's."""
    is_gnmt = settings.get("length_penalty_type") == "gnmt"
    return settings.get("length_penalty", 1.0) * (GNMT_AS_POWER if is_gnmt else 1)
