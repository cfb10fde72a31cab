"""Means, deviations and differences by hand, and what the report says of runs that are missing."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks.transfer.report import draw, summary, table


def run(start: str, share: float, seed: int, accuracy: float, *, rate: float = 1.0, validation: float = 50.0) -> dict[str, Any]:
    return {
        "task": "toy", "start": start, "share": share, "seed": seed, "rate": rate, "examples": int(400 * share), "missing_labels": [],
        "validation": validation, "scores": {"accuracy": accuracy, "macro_f1": accuracy / 2}, "seconds": 900.0, "flops": 1e12,
    }  # fmt: skip


def results(*runs: dict[str, Any], rates: tuple[float, ...] = (1.0,)) -> dict[str, Any]:
    sizes = {"d_model": 128, "encoder_layers": 4, "decoder_layers": 4, "vocab_size": 8000}
    cost = {"updates": 6000, "target_tokens": 7_000_000, "flops": 2e15, "seconds": 5400.0}
    start = {**sizes, "name": "masking", "is_fresh": False, "has_decoder": False, "training": cost}
    fresh = {**start, "name": "fresh_masking", "is_fresh": True}
    return {
        "shares": [1.0, 0.1], "seeds": [1, 2], "rates": list(rates), "starts": [start, fresh], "planned": 12,
        "tasks": {"toy": {"task": "classification", "metric": "accuracy", "seeds": {"1": 2, "0.1": 2}}}, "runs": list(runs),
    }  # fmt: skip


@pytest.fixture
def measured() -> dict[str, Any]:
    poor = {**run("scratch", 0.1, 1, 40.0), "missing_labels": ["blue"]}
    failed = {"task": "toy", "start": "masking", "share": 0.1, "seed": 2, "rate": 1.0, "failed": "The loss is not finite."}
    whole = [run("scratch", 1.0, 1, 80.0), run("masking", 1.0, 1, 82.0), run("scratch", 1.0, 2, 84.0), run("masking", 1.0, 2, 88.0)]
    return results(*whole, poor, run("masking", 0.1, 1, 60.0), run("scratch", 0.1, 2, 50.0), failed)


def test_means_deviations_and_differences_by_hand(measured: dict[str, Any]) -> None:
    rows = {(row["metric"], row["share"]): row["starts"] for row in summary(measured)}
    assert list(rows) == [("accuracy", 1.0), ("macro_f1", 1.0), ("accuracy", 0.1), ("macro_f1", 0.1)]
    # 82 and 88: the mean is 85, both lie 3 from it, and the root of (9 + 9) / (2 - 1) is 4.243
    assert rows["accuracy", 1.0]["masking"] == {"seeds": [1, 2], "mean": 85.0, "deviation": pytest.approx(4.2426, abs=1e-4), "gain": 3.0}
    # Only beside the same seed: 60 - 40, and not 60 - 45
    assert rows["accuracy", 0.1]["masking"] == {"seeds": [1], "mean": 60.0, "deviation": None, "gain": 20.0}
    assert rows["macro_f1", 0.1]["scratch"]["gain"] is None


def test_the_table_says_what_failed_and_what_is_missing(measured: dict[str, Any]) -> None:
    text = table(measured)
    assert "| `toy` | accuracy | 400 | 100 % | 2 | 82.0 ± 2.8 | 85.0 ± 4.2 (+3.0) | - |" in text
    assert "| `toy` | accuracy | 40 | 10 % | 2 | 45.0 ± 7.1 | 60.0 (+20.0), 1 of 2 seeds | - |" in text
    assert "| masking | 128 | 4 | 8,000 | 6,000 | 7,000,000 | 2e+15 | 1.5 |" in text
    assert "| fresh_masking, random weights | 128 | 4 | 8,000 | - | - | - | - |" in text
    assert "over the seeds, which draw the examples, too (the first of 1, 2)" in text
    assert "one training each, with seed 1, which draws the examples" in table(results() | {"seeds": [1]})
    once = measured["tasks"]["toy"] | {"seeds": {"1": 2, "0.1": 1}}
    assert "| 10 % | 1 | 45.0 ± 7.1 | 60.0 (+20.0) | - |" in table(measured | {"tasks": {"toy": once}})  # as it was planned
    assert "8 of 12 trainings are done" in text and "took 1.8 hours and 7e+12 FLOPs" in text
    assert "- `toy`, 10 %, seed 1: no example is labelled blue." in text
    assert "- `toy`, 10 %, seed 2, masking: The loss is not finite." in text


def test_the_validation_set_chooses_the_learning_rate() -> None:
    runs = [run("scratch", 1.0, 1, 90.0, validation=60.0), run("scratch", 1.0, 1, 70.0, rate=0.3, validation=61.0)]
    (row, _) = summary(results(*runs, rates=(1.0, 0.3)))
    assert row["starts"]["scratch"]["mean"] == 70.0  # the test set has no say
    assert "among 1, 0.3 times the recipe's" in table(results(*runs, rates=(1.0, 0.3)))


def test_the_picture(measured: dict[str, Any], tmp_path: Path) -> None:
    draw(measured, tmp_path / "table.png")
    assert (tmp_path / "table.png").read_bytes().startswith(b"\x89PNG")
    draw(results(), tmp_path / "none.png")
    assert not (tmp_path / "none.png").exists() and "0 of 12 trainings are done" in table(results())
