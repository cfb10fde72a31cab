"""`vaswani publish`: what it shows of a run, and what it refuses before any work."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer
from typer.testing import CliRunner

from vaswani_transformer import (
    VaswaniConfig,
    VaswaniForMaskedLM,
    VaswaniForQuestionAnswering,
    VaswaniForTokenClassification,
    add_mask_token,
    train_tokenizer,
)
from vaswani_transformer.__main__ import app
from vaswani_transformer.hub import publish as publish_module
from vaswani_transformer.run_folder import RunFolder

SIZES: dict[str, Any] = {
    "d_model": 16, "encoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 32,
    "id2label": {0: "B-x", 1: "B-y"},
}  # fmt: skip
SAMPLE = {"source": "A<mask> reads<mask>. Who?", "context": "A<mask> reads<mask>.", "question": "Who?", "reference": "man book"}


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """What was published; nothing is."""
    folders: list[Path] = []
    monkeypatch.setattr(publish_module, "publish", lambda folder, *_, **__: folders.append(folder))
    return folders


def run_of(kind: type[Any], path: Path, *samples: dict[str, str]) -> RunFolder:
    """A run that has been assembled, with these samples among its scores."""
    run = RunFolder(path)
    run.averaged.mkdir()
    tokenizer = add_mask_token(train_tokenizer(["a man is reading a book", "a dog runs"] * 3, 265))
    torch.manual_seed(0)
    kind(VaswaniConfig(vocab_size=len(tokenizer), **SIZES)).save_pretrained(run.published)
    tokenizer.save_pretrained(run.published)
    test_set = {"name": "toy", "pairs": 2, "metrics": {"accuracy": {"score": 50.0}}, "samples": list(samples)}
    run.evaluation.write_text(json.dumps({"test_sets": [test_set]}), encoding="utf-8")
    return run


def results(run: RunFolder) -> list[str]:
    told = CliRunner().invoke(app, ["publish", str(run.path), "--show", "3"])
    assert told.exit_code == 0, told.output
    return [line.removeprefix("  result       ") for line in told.stdout.splitlines() if line.startswith("  result")]


def test_answers_are_shown_of_question_and_context(tmp_path: Path, published: list[Path]) -> None:
    (answer,) = results(run_of(VaswaniForQuestionAnswering, tmp_path, SAMPLE))
    assert answer and answer in SAMPLE["context"] and published == [tmp_path]


def test_hidden_tokens_are_shown_one_for_each_mask(tmp_path: Path, published: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_of(VaswaniForMaskedLM, tmp_path, SAMPLE, SAMPLE | {"source": "A<mask> reads."}, SAMPLE | {"source": "A man reads."})
    tokenizer = AutoTokenizer.from_pretrained(run.published)
    bias = torch.zeros(len(tokenizer))
    bias[tokenizer.convert_tokens_to_ids("z")] = 100.0  # whatever it reads, it finds a "z"
    forward = VaswaniForMaskedLM.forward

    def biased(self: Any, *arguments: Any, **settings: Any) -> Any:
        output = forward(self, *arguments, **settings)
        output.logits = output.logits + bias
        return output

    monkeypatch.setattr(VaswaniForMaskedLM, "forward", biased)
    assert results(run) == ["z, z", "z", "no mask"]


def test_labels_are_shown_with_their_words(tmp_path: Path, published: list[Path]) -> None:
    (labels,) = results(run_of(VaswaniForTokenClassification, tmp_path, {"source": "Ab", "reference": "B-x"}))
    assert labels.startswith("A: B-")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--show", "2"], "--show prints results of a finished run, and published is none; leave it out, or give the run's folder."),
        (["--model-id", "me/x"], "--model-id is for a Space's card; leave it out, or add --space or --static-space."),
    ],
)
def test_what_would_have_no_effect_is_refused_before_any_work(words: list[str], sentence: str, published: list[Path]) -> None:
    told = CliRunner().invoke(app, ["publish", "published", *words])
    assert told.exit_code == 2 and sentence in told.stderr
    assert published == []
