"""The documents' ways to a new pair, as they stand there: the recipe, and the Trainer's lines."""

import csv
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM

from tests.documents import only_block, section
from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration, train_tokenizer
from vaswani_transformer.data.builtin.corpus import builtin_pairs
from vaswani_transformer.files.json_files import read_json

RECIPE = section("docs/fine-tuning.md", "To a new pair, or a new domain")
TRAINER = section("docs/fine-tuning.md", "With `Seq2SeqTrainer`")
PAIRS = list(builtin_pairs("train", 120))


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """A translator that has learnt nothing yet, where the README has one."""
    torch.manual_seed(0)
    tokenizer = train_tokenizer([text for pair in PAIRS for text in pair[:2]], 400)
    widths = {"d_model": 16, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32}
    model = VaswaniForConditionalGeneration(VaswaniConfig.from_preset("tiny", vocab_size=len(tokenizer), **widths))
    for name in ("averaged", "published"):
        model.save_pretrained(tmp_path / "runs/builtin_tiny" / name)
        tokenizer.save_pretrained(tmp_path / "runs/builtin_tiny" / name)
    return tmp_path


def test_the_recipe_trains(origin: Path, run_python: Callable[..., None]) -> None:
    for name, chosen in (("train", PAIRS[:100]), ("dev", PAIRS[100:])):
        for suffix, side in (("en", 0), ("sv", 1)):
            lines = "".join(f"{pair[side]}\n" for pair in chosen)
            (origin / f"{name}.{suffix}").write_text(lines, encoding="utf-8")
    (origin / "recipe.yaml").write_text(only_block(RECIPE, "yaml"), encoding="utf-8")
    small = [
        "tokenizer.vocab_size=450",
        "training.updates=2",
        "training.validate_every=2",
        "training.checkpoint_every=2",
    ]
    settings = [word for setting in small for word in ("--set", setting)]
    run_python(origin, "-m", "vaswani_transformer", "train", "recipe.yaml", "--run-folder", "runs/tuned", *settings)
    transfer = read_json(origin / "runs/tuned/initial/transfer.json")
    assert transfer["copied"] > 256
    assert transfer["copied"] + transfer["composed"] + transfer["random"] == 450


def test_the_trainer_trains(origin: Path, run_python: Callable[..., None]) -> None:
    for name, chosen in (("train", PAIRS[:100]), ("dev", PAIRS[100:110])):
        with open(origin / f"{name}.csv", "w", encoding="utf-8", newline="") as stream:
            csv.writer(stream).writerows([("en", "sv"), *(pair[:2] for pair in chosen)])
    run_python(origin, "-c", only_block(TRAINER, "python").replace("max_steps=1000", "max_steps=2"))
    before, after = (
        AutoModelForSeq2SeqLM.from_pretrained(origin / folder).state_dict()
        for folder in ("runs/builtin_tiny/published", "runs/trainer/model")
    )
    assert not torch.equal(before["model.shared.weight"], after["model.shared.weight"])
