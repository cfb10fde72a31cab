"""Runs side by side: means over seeds at the same update, with the tokens seen by then."""

import json
from pathlib import Path
from typing import Any

import pytest

from vaswani_transformer.report.run_comparison import compare_runs
from vaswani_transformer.run_folder import RunFolder


def _run(folder: Path, *bleu: float) -> RunFolder:
    """A validation after every tenth update, and a training interval of 1,000 tokens before each."""
    records: list[dict[str, Any]] = []
    for i, score in enumerate(bleu, start=1):
        records.append({"kind": "train", "update": 10 * i, "target_tokens": 1000 * i})
        records.append({"kind": "validation", "update": 10 * i, "bleu": score, "chrf": 2 * score})
    folder.mkdir()
    (folder / "log.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return RunFolder(folder)


def test_scores_are_means_over_the_seeds(tmp_path: Path) -> None:
    groups = {
        "tuned": [_run(tmp_path / "a", 10, 20), _run(tmp_path / "b", 12, 24)],
        "scratch": [_run(tmp_path / "c", 1)],
    }
    table = compare_runs(groups, tmp_path / "curves.png")
    assert table.splitlines()[2:] == [
        "| tuned | 10 | 1,000 | 11.00 ± 1.41 | 22.00 ± 2.83 | 2 |",
        "| tuned | 20 | 2,000 | 22.00 ± 2.83 | 44.00 ± 5.66 | 2 |",
        "| scratch | 10 | 1,000 | 1.00 | 2.00 | 1 |",
    ]
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_a_validation_between_two_logged_updates_has_its_own_tokens(tmp_path: Path) -> None:
    run = _run(tmp_path / "a", 10)
    records = [json.loads(line) for line in run.log.read_text(encoding="utf-8").splitlines()]
    validation = next(record for record in records if record["kind"] == "validation")
    run.log.write_text(json.dumps({**validation, "target_tokens": 777}) + "\n", encoding="utf-8")
    assert "| a | 10 | 777 |" in compare_runs({"a": [run]})


def test_a_task_is_compared_by_its_own_scores(tmp_path: Path) -> None:
    labels = [_run(tmp_path / name) for name in "ab"]
    for run, accuracy in zip(labels, (80.0, 90.0), strict=True):
        records = [
            {"kind": "train", "update": 5, "target_tokens": 64},
            {"kind": "validation", "update": 5, "accuracy": accuracy, "macro_f1": 70.0},
        ]
        run.log.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    assert compare_runs({"all labels": labels}).splitlines() == [
        "| runs | updates | target tokens | accuracy | macro F1 | seeds |",
        "|---|---:|---:|---:|---:|---:|",
        "| all labels | 5 | 64 | 85.00 ± 7.07 | 70.00 ± 0.00 | 2 |",
    ]
    sentence = "The runs of 'a' are scored by accuracy, macro F1, and those of 'b' by BLEU, chrF; compare runs of one task"
    with pytest.raises(ValueError, match=sentence):
        compare_runs({"a": labels, "b": [_run(tmp_path / "c", 1)]})


def test_test_sets_that_both_have_are_compared_text_by_text(tmp_path: Path) -> None:
    runs = {name: _run(tmp_path / name) for name in ("one", "two", "better", "elsewhere")}
    record = {"kind": "validation", "update": 5, "accuracy": 50.0}
    hits = {"one": [1.0] * 10 + [0.0] * 30, "two": [1.0] * 20 + [0.0] * 20, "better": [1.0] * 40, "elsewhere": [1.0] * 40}
    for name, run in runs.items():
        run.log.write_text(json.dumps(record) + "\n", encoding="utf-8")
        reference = "other" if name == "elsewhere" else "same"
        lines = [{"test_set": "toy", "reference_sha256": reference, "weights": [1] * 40, "points": {"accuracy": hits[name]}}]
        run.outcomes.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    seeds = [runs["one"], runs["two"]]
    assert compare_runs({"plain": seeds, "better": [runs["better"]]}).splitlines()[-3:] == [
        "| test set | runs | score | plain | these | difference | p |",
        "|---|---|---|---:|---:|---:|---:|",
        "| toy | better | accuracy | 37.50 | 100.00 | +62.50 | 0.0001 |",
    ]
    assert "difference" not in compare_runs({"plain": seeds, "elsewhere": [runs["elsewhere"]]})  # other references


def test_runs_with_other_numbers_of_tokens_to_find_are_not_paired(tmp_path: Path) -> None:
    """Of 4 texts each: one run finds 1 of 2 hidden tokens, the other 4 of 10; divided by the first one's, that would be 200 points."""
    runs = {name: _run(tmp_path / name) for name in ("few", "many")}
    for run, (weight, found) in zip(runs.values(), ((2, 1.0), (10, 4.0)), strict=True):
        run.log.write_text(json.dumps({"kind": "validation", "update": 5, "accuracy": 100 * found / weight}) + "\n", encoding="utf-8")
        lines = [
            {"test_set": "hidden", "reference_sha256": "same", "weights": [weight] * 4, "points": {"accuracy": [found] * 4}},
            {"test_set": "as many", "reference_sha256": "same", "weights": [1] * 4, "points": {"accuracy": [0.5] * 4}},
        ]
        run.outcomes.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    assert compare_runs({name: [run] for name, run in runs.items()}).splitlines()[-4:] == [
        "|---|---|---|---:|---:|---:|---:|",
        "| as many | many | accuracy | 50.00 | 50.00 | +0.00 | 1.0000 |",
        "",
        "many and few are not compared on hidden: they had other numbers of tokens to find there.",
    ]


def test_a_picture_with_another_ending_is_refused_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"written as \.png; .*curves\.jpg has another ending"):
        compare_runs({"a": [RunFolder(tmp_path / "nothing")]}, tmp_path / "curves.jpg")


def test_what_has_no_validation_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no validation yet"):
        compare_runs({"a": [_run(tmp_path / "a")]})
    with pytest.raises(FileNotFoundError, match="no training log"):
        compare_runs({"b": [RunFolder(tmp_path / "b")]})
