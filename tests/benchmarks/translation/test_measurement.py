import json
import os
import subprocess
import sys
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from sacrebleu import BLEU
from transformers import PreTrainedTokenizerBase

from benchmarks.translation.contestants import ON_CPU
from benchmarks.translation.measurement import Material, ParallelFiles, Settings, benchmark_translation
from benchmarks.translation.report import write_report
from vaswani_transformer import VaswaniForConditionalGeneration
from vaswani_transformer.translation.translate import translate

pytest.importorskip("ctranslate2", reason="the extra `ctranslate2` is not installed")

ROOT = Path(__file__).parents[3]
QUICK = Settings(sentences=2, batch_sizes=(2,), beams=(2, 1), repeats=2, device="cpu", memory=False)


@pytest.fixture(scope="module")
def results(checkpoint: Path, files: ParallelFiles) -> dict[str, Any]:
    """Of everybody, and after the last setting."""
    return list(benchmark_translation(str(checkpoint), [files], QUICK))[-1]


def test_everybody_is_measured_with_every_beam(results: dict[str, Any], tmp_path: Path) -> None:
    measured = [(row["beams"], row["contestant"]) for row in results["speed"]]
    assert measured == [(beams, name) for beams in (2, 1) for name in ON_CPU]
    assert [(row["beams"], row["contestant"]) for row in results["quality"]] == [(beams, name) for beams in (2, 1) for name in ON_CPU]
    for row in results["speed"]:
        assert row["test_set"] == "tiny" and row["sentences"] == row["batch_size"] == 2 and row["target_tokens"] > 0
        assert len(row["all_seconds"]) == len(row["all_cpu_seconds"]) == 2 and min(row["all_seconds"]) > 0
        assert row["sentences_per_second"] == pytest.approx(2 / row["seconds"])
        assert row["target_tokens_per_second"] == pytest.approx(row["target_tokens"] / row["seconds"])
        if row["contestant"] == ON_CPU[0]:
            assert row["ratio"] == row["cpu_ratio"] == {"median": 1, "low": 1, "high": 1}
    write_report(results, tmp_path)
    written = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert written["speed"][0]["contestant"] == "marian"


def test_quality_is_of_all_sentences(
    results: dict[str, Any], checkpoint: Path, sentences: list[str], tokenizer: PreTrainedTokenizerBase
) -> None:
    """What `translate` finds, blank sentences among it, gets the BLEU that is reported."""
    rows = {(row["beams"], row["contestant"]): row for row in results["quality"]}
    model = VaswaniForConditionalGeneration.from_pretrained(checkpoint)
    for beams in (2, 1):
        own = translate(model, tokenizer, sentences, num_beams=beams)
        score = BLEU(force=True).corpus_score(own, [sentences]).score
        assert rows[beams, "ours"]["bleu"] == pytest.approx(score)
        assert rows[beams, "ours"]["share_as_ours"] == rows[beams, "ours-packed"]["share_as_ours"] == 1
        assert all(0.25 <= row["share_as_ours"] <= 1 for row in rows.values())  # the blank ones at least
        assert "tok:13a" in rows[beams, "ours"]["signature"]


def test_what_was_measured_on_what(
    results: dict[str, Any], checkpoint: Path, tokenizer: PreTrainedTokenizerBase, sentences: list[str]
) -> None:
    assert results["model"] == "/".join(checkpoint.parts[-2:])
    assert list(results["weights_sha256"]) == ["model.safetensors"]
    assert results["architecture"]["d_model"] == 32
    (test_set,) = results["test_sets"]
    assert (test_set["sentences"], test_set["timed_sentences"], test_set["source"]) == (8, 2, "tiny.en")
    ids = tokenizer([sentence for sentence in sentences if sentence.strip()])["input_ids"]
    assert test_set["source_tokens"] == sum(map(len, ids))
    assert {"torch", "transformers", "ctranslate2", "sacrebleu"} <= results["versions"].keys()
    assert list(results["contestants"]) == list(ON_CPU)
    assert str(checkpoint.parent.parent) not in json.dumps({k: v for k, v in results.items() if k != "command"})


def test_batches_are_of_sentences_evenly_spaced_and_sorted_by_length() -> None:
    sources = [[7] * length for length in (3, 0, 9, 1, 5, 8, 2)]
    material = Material("lengths", sources, [""] * 7, [4, 0, 9, 3, 6, 8, 0], {})
    assert material.batches(4) == [[2, 5, 4, 0], [6, 3]]
    # of the six with text, the first, the last, and one from the middle
    assert sorted(chain(*material.batches(2, 3))) in ([0, 3, 6], [0, 4, 6])
    assert material.batches(1, 100) == material.batches(1)
    assert material.ids_of([[3, 6]]) == [[[7], [7, 7]]]
    assert material.lengths_of([[2, 5], [4, 0, 3], [6]], "references") == [8, 4, 1]  # 8.5 to the even number
    assert material.lengths_of([[2, 5], [4]], "own") == [None, None]


def test_results_come_after_every_setting(checkpoint: Path, files: ParallelFiles) -> None:
    settings = replace(QUICK, contestants=("ours-packed",), batch_sizes=(1, 2), repeats=1)
    other = replace(files, name="other")
    counts = []
    for results in benchmark_translation(str(checkpoint), [files, other], settings):
        counts.append(len(results["speed"]))
    assert counts == list(range(1, 9))
    measured = [(row["test_set"], row["beams"], row["batch_size"]) for row in results["speed"]]
    assert measured == [(name, beams, size) for name in ("tiny", "other") for beams in (2, 1) for size in (1, 2)]


def test_everybody_gets_as_long_as_the_references(
    checkpoint: Path, files: ParallelFiles, tokenizer: PreTrainedTokenizerBase, sentences: list[str]
) -> None:
    settings = replace(QUICK, sentences=None, batch_sizes=(1,), beams=(2,), repeats=1, lengths=("own", "references"))
    results = list(benchmark_translation(str(checkpoint), [files], settings))[-1]
    lengths = [len(tokens) for tokens in tokenizer([s for s in sentences if s.strip()])["input_ids"]]
    forced = [row["target_tokens"] for row in results["speed"] if row["lengths"] == "references"]
    assert forced == [sum(lengths)] * len(ON_CPU)
    assert len(results["speed"]) == 2 * len(forced)


def test_memory_stands_in_the_rows_and_no_share_without_ours(checkpoint: Path, files: ParallelFiles) -> None:
    settings = replace(QUICK, contestants=("ctranslate2",), batch_sizes=(2,), beams=(1,), memory=True)
    (results,) = benchmark_translation(str(checkpoint), [files], settings)
    assert results["speed"][0]["memory"].keys() == {"peak_bytes", "imports_bytes"}
    assert "share_as_ours" not in results["quality"][0]


def test_what_cannot_be_measured_is_refused(checkpoint: Path, files: ParallelFiles, tmp_path: Path) -> None:
    for settings, message in [
        ({"repeats": 0}, "`repeats` is 0; it must be 1 or more"),
        ({"beams": (4, 0)}, "`beams` is"),
        ({"batch_sizes": ()}, "`batch_sizes` is"),
        ({"batch_sizes": (8, 8)}, "name each number once"),
        ({"lengths": ("long",)}, "name own or references, or both"),
    ]:
        with pytest.raises(ValueError, match=message):
            Settings(**settings)
    with pytest.raises(ValueError, match="same name"):
        next(benchmark_translation(str(checkpoint), [files, files], QUICK))
    (tmp_path / "blank").write_text("\n \n")
    blank = ParallelFiles("blank", str(tmp_path / "blank"), str(tmp_path / "blank"))
    with pytest.raises(ValueError, match="no line with text"):
        next(benchmark_translation(str(checkpoint), [blank], QUICK))


def run(*arguments: object) -> subprocess.CompletedProcess:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "benchmarks.translation", *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


def test_the_command(checkpoint: Path, files: ParallelFiles, tmp_path: Path) -> None:
    done = run(
        checkpoint, "--set", files.name, files.source, files.reference, "--contestants", "ours", "ours-packed-int8", "--repeats", 1,
        "--batch-sizes", 2, "--beams", 1, "--no-memory", "--device", "cpu", "--output", tmp_path / "out",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "table.md").read_text(encoding="utf-8") in done.stdout
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == [
        "results.json",
        "results.png",
        "table.md",
    ]
    refused = run(checkpoint, "--source", files.source)
    assert refused.returncode == 1
    assert refused.stderr.splitlines()[-1] == "error: Give --source and --reference, or --set NAME SOURCE REFERENCE."
