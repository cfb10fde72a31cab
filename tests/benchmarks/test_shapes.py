"""Models of different shape in one run: the same batches and steps for everybody, ratios within a precision."""

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer

from benchmarks.report import write_files
from benchmarks.shapes import ENGINES, Settings, benchmark_shapes, main, panels, parse, table
from benchmarks.translation.measurement import ParallelFiles
from vaswani_transformer.recipe import load_recipe
from vaswani_transformer.shipped_recipes import find_recipe
from vaswani_transformer.shortlist import SHORTLIST_FILE, Shortlist
from vaswani_transformer.tokenizer_identity import tokenizer_hash

QUICK = Settings(batch_sizes=(1, 4), engines=("float32", "int8"), repeats=2)


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """2 + 1 layers of the tiny width."""
    file = tmp_path / "shallow.yaml"
    model = {"preset": "tiny", "encoder_layers": 2, "decoder_layers": 1}
    file.write_text(replace(load_recipe(find_recipe("builtin_tiny")), model=model).to_yaml(), encoding="utf-8")
    return file


def test_everybody_takes_the_same_steps(checkpoint: Path, recipe: Path, files: ParallelFiles, tmp_path: Path) -> None:
    *_, results = benchmark_shapes([str(checkpoint), str(recipe)], files, replace(QUICK, tokenizer=checkpoint))
    assert [(row["batch_size"], row["engine"]) for row in results["speed"][::2]] == [
        (1, "float32"), (1, "int8"), (4, "float32"), (4, "int8"),
    ]  # fmt: skip
    for first, second in zip(results["speed"][::2], results["speed"][1::2], strict=True):
        assert first["ratio"] == {"median": 1.0, "low": 1.0, "high": 1.0}
        rounds = [a / b for a, b in zip(first["all_seconds"], second["all_seconds"], strict=True)]
        assert second["ratio"]["low"] == min(rounds)
        assert first["target_tokens"] >= second["target_tokens"] - second["sentences"] > 0  # but for an end within the last step
        assert first["sentences"] == second["sentences"] == 6  # of eight lines two are blank
    shapes = [(facts["encoder_layers"], facts["decoder_layers"], facts["trained"]) for facts in results["models"]]
    assert shapes == [(1, 2, True), (2, 1, False)]
    write_files(results, table(results), panels(results), "times as fast", tmp_path / "out")
    assert "| 2 + 1 |" in (tmp_path / "out" / "table.md").read_text(encoding="utf-8") and "are random" in table(results)


@pytest.mark.parametrize("settings", [QUICK, replace(QUICK, lengths="own", tokenizer=Path("somewhere"))])
def test_random_weights_need_a_tokenizer_and_an_end(recipe: Path, files: ParallelFiles, settings: Settings) -> None:
    with pytest.raises(ValueError, match="its weights are random"):
        next(benchmark_shapes([str(recipe)], files, settings))


def test_shortlists_and_ctranslate2_take_part(checkpoint: Path, recipe: Path, files: ParallelFiles, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2", reason="the extra `ctranslate2` is not installed")
    settings = replace(QUICK, batch_sizes=(1,), repeats=1, engines=tuple(ENGINES)[2:], against="ctranslate2-int8", d_model=32)
    with pytest.raises(ValueError, match=f"no {SHORTLIST_FILE}"):
        next(benchmark_shapes([str(checkpoint)], files, settings))
    with pytest.raises(ValueError, match="no engine 'ctranslate2-int8' here"):
        next(benchmark_shapes([str(checkpoint)], files, replace(settings, engines=("int8",))))
    folder = shutil.copytree(checkpoint, tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokens = torch.arange(len(tokenizer))
    shortlist = Shortlist(tokens.unsqueeze(1), tokens[: len(tokens) // 2], len(tokens), {"tokenizer": tokenizer_hash(tokenizer)})
    (folder / SHORTLIST_FILE).write_bytes(shortlist.to_bytes())
    *_, results = benchmark_shapes([str(folder), str(recipe)], files, replace(settings, tokenizer=folder))
    assert [row["engine"] for row in results["speed"][::2]] == list(settings.engines)
    reference = next(row for row in results["speed"] if row["engine"] == "ctranslate2-int8")
    for row in results["speed"]:
        assert row["ratio"]["median"] == pytest.approx(reference["seconds"] / row["seconds"])
    assert results["models"][1]["d_model"] == 32
    assert "against test/model in CTranslate2 int8".replace("test", tmp_path.name) in table(results)


def test_trained_models_may_end_by_themselves(
    checkpoint: Path, files: ParallelFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["shapes", str(checkpoint), "--source", files.source, "--reference", files.reference, "--lengths", "own", "--repeats", "1"]
    monkeypatch.setattr(sys, "argv", [*command, "--engines", "float32", "--batch-sizes", "2", "--output", str(tmp_path / "out")])
    main(parse())
    assert "Each translation is as long as its search makes it" in capsys.readouterr().out
    assert {file.name for file in (tmp_path / "out").iterdir()} == {"results.json", "table.md", "results.png"}
