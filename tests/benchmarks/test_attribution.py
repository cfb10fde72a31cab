"""The benchmark of attributions, on a model that knows nothing."""

from pathlib import Path
from typing import get_args

import pytest
import torch
from transformers import PreTrainedTokenizerBase

from benchmarks.attribution import as_maps, benchmark_attribution, table
from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_transformer.files.json_files import read_json
from vaswani_transformer.inspection.alignment import alignment_of
from vaswani_transformer.inspection.attribution import Attribution, Method


def test_every_method_is_scored_and_written(tokenizer: PreTrainedTokenizerBase, tmp_path: Path) -> None:
    pytest.importorskip("inseq", reason="inseq is not installed: the extra `attribution`")
    torch.manual_seed(3)
    config = VaswaniConfig(
        vocab_size=len(tokenizer), d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2,
        encoder_ffn_dim=32, decoder_ffn_dim=32,
    )  # fmt: skip
    VaswaniForConditionalGeneration(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    results = benchmark_attribution(str(tmp_path), 1, tmp_path / "output", steps=2)
    assert read_json(tmp_path / "output" / "results.json") == results
    assert (tmp_path / "output" / "table.md").read_text(encoding="utf-8") == table(results)
    names = [row["name"] for row in results["methods"]]
    assert names[:-2] == [f"`{method}`" for method in get_args(Method)]
    assert all(0 <= row["aer"] <= 1 for row in results["methods"])


def test_the_size_of_a_score_counts_and_not_its_sign() -> None:
    found = Attribution(
        method="input_x_gradient", source=("a", "b", "</s>"), target=("A", "B", "</s>"), read=("<s>", "A", "B"),
        scores=torch.tensor([[0.1, 0.2, 0.9], [-0.3, 0.2, 0.0], [0.0, 0.0, 1.0]]), prefix_scores=torch.zeros(3, 3),
        log_probabilities=torch.zeros(3), source_text="a b", target_text="A B", source_words=((0,), (1,), (2,)),
        target_words=((0,), (1,), (2,)), read_words=((0,), (1,), (2,)),
    )  # fmt: skip
    assert alignment_of(as_maps(found), layer=0, shifted=False).links == ((0, 1), (1, 0))


def test_the_best_stands_first() -> None:
    rows = [{"name": name, "aer": rate, "precision": 0.5, "recall": 0.25} for name, rate in (("worse", 0.5), ("better", 0.125))]
    assert table({"methods": rows}).splitlines()[2:] == ["| better | 12.5 | 50.0 | 25.0 |", "| worse | 50.0 | 50.0 | 25.0 |"]


def test_no_sentence_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^Give at least one sentence to attribute\.$"):
        benchmark_attribution("absent", 0, tmp_path)
