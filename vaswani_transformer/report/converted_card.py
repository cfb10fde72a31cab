"""The card of a checkpoint that others trained: where it comes from, its licence, and how the conversion was checked."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import ModelCardData

from ..files.atomic_file import write_text
from ..files.json_files import read_json
from ..licences import licence_metadata
from .markdown import Markdown, front_matter
from .model_card import card_environment, count_parameters


@dataclass(frozen=True)
class Conversion:
    """The facts about one conversion."""

    toolkit: str
    """"Marian" or "fairseq"."""
    origin: str
    """The repository, address or file that was converted."""
    licence: str
    """The licence of the weights, as their owners state it, or "unknown"."""
    weights_sha256: str
    """SHA-256 of the file that was converted."""
    languages: tuple[str, ...]
    """Codes of source and target, where they are known."""
    compared_with: Markdown
    agreement: str
    """What agreed."""
    difference: float
    """The largest difference between the original's and the converted model's logit of a token."""
    translations: list[tuple[str, str]]
    """Sentences of the self-check, with the converted model's translations."""


def write_converted_card(folder: Path, name: str, conversion: Conversion) -> None:
    """Write README.md into a converted folder, where only it is missing; `name` is what a reader loads."""
    metadata: Any = ModelCardData(
        model_name=name,
        language=list(dict.fromkeys(conversion.languages)) or None,
        **licence_metadata(conversion.licence),
        library_name="transformers",
        pipeline_tag="translation",
        tags=["translation", "vaswani", "transformer", conversion.toolkit.lower()],
    )
    text = (
        card_environment()
        .get_template("converted.md")
        .render(
            metadata=front_matter(metadata),
            name=name,
            conversion=conversion,
            config=read_json(folder / "config.json"),
            search=read_json(folder / "generation_config.json"),
            tokenizer=read_json(folder / "tokenizer_config.json")["tokenizer_class"],
            parameters=count_parameters(folder / "model.safetensors"),
        )
    )
    write_text(folder / "README.md", text)
