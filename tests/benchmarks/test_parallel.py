"""The benchmark of drafts, on a model that knows nothing."""

import shutil
from argparse import Namespace
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedTokenizerBase

from benchmarks.parallel import benchmark_parallel, search_of, table
from benchmarks.translation.measurement import ParallelFiles
from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_transformer.data.shortlisting import save_shortlist
from vaswani_transformer.files.json_files import read_json
from vaswani_transformer.shortlist import Shortlist
from vaswani_transformer.tokenizer_identity import tokenizer_hash


@pytest.fixture(scope="module")
def folder(tokenizer: PreTrainedTokenizerBase, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("model"), tokenizer)


def save_model(path: Path, tokenizer: PreTrainedTokenizerBase, chained: bool = False) -> Path:
    torch.manual_seed(3)
    config = VaswaniConfig(
        vocab_size=len(tokenizer), d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2,
        encoder_ffn_dim=32, decoder_ffn_dim=32, parallel_heads=3, chained_heads=chained,
    )  # fmt: skip
    model = VaswaniForConditionalGeneration(config)
    model.generation_config.update(extra_length=4, allow_custom_entries=True)
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


def settings(folder: Path, source: str, output: Path, **changes: object) -> Namespace:
    chosen = {
        "sentences": 2,
        "types": ["float32"],
        "batch_sizes": [1, 3],
        "drafts": ["heads", "source", "source+heads"],
        "draft_tokens": [],
        "times_as_wide": 1,
        "repeats": 1,
        "threads": 1,
        **changes,
    }
    return Namespace(model=str(folder), source=source, output=output, **chosen)


def test_every_draft_is_timed_and_compared(folder: Path, files: ParallelFiles, tmp_path: Path) -> None:
    results = benchmark_parallel(settings(folder, files.source, tmp_path))
    assert read_json(tmp_path / "results.json")["rows"][0]["draft"] == "none"
    rows = {(row["batch_size"], row["draft"]): row for row in results["rows"]}
    assert len(rows) == len(results["rows"]) == 8
    for (size, draft), row in rows.items():
        assert row["same"] == row["compared"] == 6
        assert row["ratio"]["median"] == 1 or draft != "none"
        assert row["block"] == 1 if draft == "none" else row["block"] >= 1
        assert row["passes"] <= rows[size, "none"]["passes"]
    assert len((tmp_path / "table.md").read_text().splitlines()) == 2 + 8 + 2
    assert "| float32 | 3 | source, else heads |" in table(results)


def test_heads_propose_within_a_shortlist_where_there_is_one(
    folder: Path, tokenizer: PreTrainedTokenizerBase, files: ParallelFiles, tmp_path: Path
) -> None:
    own = shutil.copytree(folder, tmp_path / "model")
    ids = torch.arange(len(tokenizer))
    save_shortlist(own, Shortlist(ids.unsqueeze(-1), ids[:3], len(ids), {"tokenizer": tokenizer_hash(tokenizer)}))
    results = benchmark_parallel(settings(own, files.source, tmp_path, batch_sizes=[1], draft_tokens=[1, 2]))
    kinds = ["1 tokens", "1 tokens, shortlist", "2 tokens", "2 tokens, shortlist"]
    assert [row["draft"] for row in results["rows"]] == [
        "none", *(f"heads, {kind}" for kind in kinds), "source", *(f"source+heads, {kind}" for kind in kinds),
    ]  # fmt: skip
    assert all(row["same"] == row["compared"] == 6 for row in results["rows"])
    assert "| float32 | 1 | source, else heads, 2 tokens, shortlist |" in table(results)
    only = benchmark_parallel(settings(own, files.source, tmp_path, batch_sizes=[1], drafts=["source"]))
    assert [row["draft"] for row in only["rows"]] == ["none", "source"]
    assert search_of("source+heads, 2 tokens, shortlist") == {
        "num_beams": 1, "draft": "source+heads", "draft_shortlist": True, "draft_tokens": 2,
    }  # fmt: skip


def test_a_wider_model_has_the_same_blocks(tokenizer: PreTrainedTokenizerBase, files: ParallelFiles, tmp_path: Path) -> None:
    own = save_model(tmp_path / "model", tokenizer, chained=True)
    chosen = {"batch_sizes": [1], "drafts": ["heads"]}
    found = [benchmark_parallel(settings(own, files.source, tmp_path, times_as_wide=times, **chosen)) for times in (1, 2)]
    assert [results["model"]["times_as_wide"] for results in found] == [1, 2]
    passes, wide_passes = ([(row["draft"], row["passes"], row["same"]) for row in results["rows"]] for results in found)
    assert passes == wide_passes
    assert "computes the same with 2 times its width" in table(found[1]) and "width" not in table(found[0])


def test_impossible_numbers_and_empty_files_are_refused(folder: Path, files: ParallelFiles, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="1 or more"):
        benchmark_parallel(settings(folder, files.source, tmp_path, repeats=0))
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(ValueError, match="has no sentences"):
        benchmark_parallel(settings(folder, str(tmp_path / "empty"), tmp_path))
