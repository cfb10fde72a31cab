"""The benchmark of alignments, on a model that knows nothing."""

from pathlib import Path

import pytest
import torch
from transformers import PreTrainedTokenizerBase

from benchmarks.alignment import Gold, benchmark_alignment, diagonal, table
from benchmarks.report import Results
from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_transformer.data.builtin.corpus import builtin_alignments
from vaswani_transformer.files.json_files import read_json
from vaswani_transformer.inspection.alignment import alignment_error_rate


@pytest.fixture(scope="module")
def folder(tokenizer: PreTrainedTokenizerBase, tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(3)
    config = VaswaniConfig(
        vocab_size=len(tokenizer), d_model=16, encoder_layers=1, decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=2,
        encoder_ffn_dim=32, decoder_ffn_dim=32, max_position_embeddings=256,
    )  # fmt: skip
    path = tmp_path_factory.mktemp("model")
    VaswaniForConditionalGeneration(config).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("output")


@pytest.fixture(scope="module")
def results(folder: Path, output: Path) -> Results:
    return benchmark_alignment(str(folder), 4, output)


def test_every_layer_and_head_is_scored_and_written(results: Results, output: Path) -> None:
    assert read_json(output / "results.json") == results
    keys = {(row["layer"], row["head"], row["shifted"], row["level"]) for row in results["heads"]}
    assert keys == {
        (layer, head, s, level) for layer in (0, 1) for head in (0, 1, None) for s in (False, True) for level in ("subword", "word")
    }
    assert all(0 <= row["aer"] <= 1 and row["sure"] == results["heads"][0]["sure"] for row in results["heads"])
    assert (output / "table.md").read_text(encoding="utf-8") == table(results)
    assert (output / "alignment.png").read_bytes().startswith(b"\x89PNG")


def test_the_rule_for_all_sentences_is_the_layer_that_agrees_most(results: Results) -> None:
    best = max((row for row in results["heads"] if row["head"] is None), key=lambda row: row["agreement"])
    chosen = next(row for row in results["rules"] if row["name"].startswith("`choose_layer`"))
    assert (chosen["layer"], chosen["shifted"]) == (best["layer"], best["shifted"])
    same = next(row for row in results["heads"] if all(row[key] == chosen.get(key) for key in ("layer", "head", "shifted", "level")))
    assert same["aer"] == chosen["aer"]


def test_the_diagonal_and_the_other_direction() -> None:
    """Word by word where both sides are as long; the roles of the languages can be exchanged."""
    pairs = list(builtin_alignments("test", 50))
    english, german = ([Gold.of(pair, source) for pair in pairs] for source in ("en", "de"))
    assert [pair.source for pair in english] == [pair.target for pair in german]
    assert all({(j, i) for i, j in one.sure} == set(other.sure) for one, other in zip(english, german, strict=True))
    equal = next(pair for pair in english if len(pair.source_words) == len(pair.target_words))
    assert diagonal(equal) == [(place, place) for place in range(len(equal.source_words))]
    assert 0.2 < alignment_error_rate([diagonal(pair) for pair in english], [pair.sure for pair in english]).aer < 0.6


def test_what_is_missing_is_said(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no program absent-aligner"):
        benchmark_alignment(str(folder), 2, tmp_path, eflomal="absent-aligner")
    with pytest.raises(ValueError, match="at least one sentence"):
        benchmark_alignment(str(folder), 0, tmp_path)
