"""Little tasks, and little models to begin with."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration, VaswaniForMaskedLM, train_tokenizer
from vaswani_transformer.data.builtin.corpus import builtin_pairs

SIZES = {
    "d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
    "encoder_ffn_dim": 16, "decoder_ffn_dim": 16,
}  # fmt: skip
COLOURS = ["red", "green", "blue"]


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """`masking` is an encoder, `translator` has two layers of each kind; both have one tokenizer."""
    tokenizer = train_tokenizer((f"{english} {german}" for english, german in builtin_pairs("train", 80)), 300)
    torch.manual_seed(5)
    settings = {**SIZES, "dropout": 0.0, "vocab_size": len(tokenizer)}
    VaswaniForMaskedLM(VaswaniConfig(**settings)).save_pretrained(tmp_path / "masking")
    layers = {"encoder_layers": 2, "decoder_layers": 2}
    VaswaniForConditionalGeneration(VaswaniConfig(**settings | layers)).save_pretrained(tmp_path / "translator")
    for name in ("masking", "translator"):
        tokenizer.save_pretrained(tmp_path / name)
    return tmp_path


@pytest.fixture
def write_recipe(tmp_path: Path) -> Callable[..., Path]:
    """A recipe's file, with the settings that a test changes."""

    def write(name: str, data: dict[str, Any], **settings: Any) -> Path:
        marks = settings.get("answers", {}).get("kind") == "span"
        writes_text = not marks and settings.get("task") not in ("classification", "tagging")
        sizes = {key: size for key, size in SIZES.items() if writes_text or not key.startswith("decoder_")}
        recipe = {
            "name": name, "source_language": "en", "data": data, "tokenizer": {"vocab_size": 280},
            "model": {"preset": "tiny", "dropout": 0.1, **sizes},
            "batching": {"source_tokens": 200, "target_tokens": 200, "micro_batches": 1},
            "training": {"updates": 8, "warmup_updates": 4, "validate_every": 4, "checkpoint_every": 2, "log_every": 4},
            **settings,
        }  # fmt: skip
        file = tmp_path / f"{name}.yaml"
        file.write_text(yaml.safe_dump(recipe), encoding="utf-8")
        return file

    return write


@pytest.fixture
def colours(tmp_path: Path, write_recipe: Callable[..., Path]) -> Path:
    """Texts with a label each: 60 to train on, the last two of which are the only blue ones."""
    for name, count in (("train", 60), ("dev", 12)):
        lines = []
        for number in range(count):
            colour = "blue" if number >= 58 or (name == "dev" and number % 3 == 2) else COLOURS[number % 2]
            lines.append(f"{colour} the {name} thing {number} looks {colour} to me")
        (tmp_path / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    held_out = {"format": "labelled_lines", "path": "dev.txt"}
    data = {"train": [{"format": "labelled_lines", "path": "train.txt"}], "validation": held_out, "test": {"dev": held_out}}
    return write_recipe("colours", data, task="classification")


@pytest.fixture
def english_german(tmp_path: Path, write_recipe: Callable[..., Path]) -> Path:
    """A recipe that begins with a translator, and so says nothing of a shape."""
    pairs = list(builtin_pairs("train", 50))
    for name, some in (("train", pairs[:44]), ("dev", pairs[44:])):
        for side, texts in zip(("en", "de"), zip(*some, strict=True), strict=True):
            (tmp_path / f"{name}.{side}").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    corpora = {name: {"format": "lines", "source": f"{name}.en", "target": f"{name}.de"} for name in ("train", "dev")}
    data = {"train": [corpora["train"]], "validation": corpora["dev"], "test": {"dev": corpora["dev"]}}
    search = {"num_beams": 2, "extra_length": 3}
    return write_recipe("pairs", data, target_language="de", init_from="runs/absent/averaged", model={}, search=search)
