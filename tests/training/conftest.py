"""A world small enough to train in a second: numbers spelled out in two made-up languages."""

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from accelerate.state import AcceleratorState

from vaswani_transformer.recipe import Recipe, parse_recipe
from vaswani_transformer.run_folder import RunFolder
from vaswani_transformer.training import engine
from vaswani_transformer.training.engine import train

SOURCE = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
PLACES = ["hall", "yard", "shed", "barn"]
TARGET = ["null", "eins", "zwei", "drei", "vier", "fuenf", "sechs", "sieben", "acht", "neun"]


@pytest.fixture(autouse=True)
def fresh_accelerate() -> Iterator[None]:
    """Accelerate remembers precision and devices for the whole process."""
    yield
    AcceleratorState._reset_state(reset_partial_state=True)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A folder with 60 training and 4 validation pairs of one to three words."""
    numbers = [digits for length in (1, 2, 3) for digits in itertools.product(range(10), repeat=length)][::17]
    for name, chosen in (("train", numbers[:60]), ("validation", numbers[60:64])):
        for side, words in (("en", SOURCE), ("de", TARGET)):
            lines = [" ".join(words[digit] for digit in digits) for digits in chosen]
            (tmp_path / f"{name}.{side}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return tmp_path


@pytest.fixture
def make_recipe(corpus: Path) -> Callable[..., Recipe]:
    """Build a tiny recipe; `fine` replaces whole sections, other keyword arguments change its training settings."""

    def make(batching: dict[str, Any] | None = None, fine: dict[str, Any] | None = None, **training: Any) -> Recipe:
        width = {"d_model": 16, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32}
        heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
        return parse_recipe({
            "name": "numbers",
            "source_language": "en",
            "target_language": "de",
            "data": {
                "root": str(corpus),
                "train": [{"format": "lines", "source": "train.en", "target": "train.de"}],
                "validation": {"format": "lines", "source": "validation.en", "target": "validation.de"},
                "test": {},
            },
            "tokenizer": {"vocab_size": 280},
            "model": {"preset": "tiny", "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.1, **width, **heads},
            "batching": {"source_tokens": 256, "target_tokens": 256, "micro_batches": 2, **(batching or {})},
            "training": {
                "updates": 8, "warmup_updates": 4, "log_every": 3, "validate_every": 4, "checkpoint_every": 4,
                "average_checkpoints": 2, **training,
            },
            "search": {"num_beams": 2, "extra_length": 5},
            **(fine or {}),
        })  # fmt: skip

    return make


@pytest.fixture
def make_answers(tmp_path: Path) -> Callable[..., Recipe]:
    """Contexts of about 40 words with one place in them, which is the answer; every fifth has none."""
    for name, count, shift in (("train", 60, 0), ("validation", 20, 100)):
        asked = []
        for number in range(shift, shift + count):
            context = [f"{'no' if i % 2 else 'so'} {(number * 7 + i * 3) % 10}" for i in range(20)]
            context[(number * 3) % 20] = f"at {PLACES[number % 4]}" if number % 5 else "at rest"
            text = " ".join([f"day {number}", *context])
            answers = [{"text": PLACES[number % 4], "answer_start": text.index("at ") + 3}] if number % 5 else []
            asked.append({"context": text, "qas": [{"question": "where is it", "answers": answers}]})
        (tmp_path / f"{name}.json").write_text(json.dumps({"data": [{"paragraphs": asked}]}), encoding="utf-8")

    sizes = {"d_model": 16, "encoder_layers": 1, "encoder_ffn_dim": 32, "encoder_attention_heads": 2}

    def make(fine: dict[str, Any] | None = None, **training: Any) -> Recipe:
        data: dict[str, Any] = {
            "root": str(tmp_path), "licence": "cc0-1.0",
            "train": [{"format": "squad", "path": "train.json"}],
            "validation": {"format": "squad", "path": "validation.json"},
            "test": {"toy": {"format": "squad", "path": "validation.json"}},
        }  # fmt: skip
        settings = {
            "updates": 8, "warmup_updates": 4, "log_every": 3, "validate_every": 4, "checkpoint_every": 4, "average_checkpoints": 2,
        }  # fmt: skip
        return parse_recipe({
            "name": "toy", "task": "question_answering", "source_language": "en", "data": data, "tokenizer": {"vocab_size": 300},
            "answers": {"kind": "span", "overlap": 10, "longest": 4, "longest_question": 12, "may_be_none": True},
            "model": {"preset": "tiny", "dropout": 0.1, **sizes},
            "batching": {"source_tokens": 512, "target_tokens": 512, "micro_batches": 2, "max_sentence_tokens": 40},
            "training": settings | training, **(fine or {}),
        })  # fmt: skip

    return make


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "run")


@pytest.fixture
def assert_resuming_changes_no_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Recipe], None]:
    """Compare a training of 8 updates with one that was stopped after 4 of them."""

    def check(recipe: Recipe) -> None:
        run, other = RunFolder(tmp_path / "undisturbed"), RunFolder(tmp_path / "stopped")
        assert train(recipe, run)
        monkeypatch.setattr(engine.Training, "is_complete", property(lambda self: self.state.update >= 4))
        train(recipe, other)
        monkeypatch.undo()
        assert train(recipe, other)
        for name in ("model.safetensors", "optimizer.safetensors"):
            assert (run.state / "update-8" / name).read_bytes() == (other.state / "update-8" / name).read_bytes()

    return check
