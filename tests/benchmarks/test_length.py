"""Time and memory against length: what is measured, where it stops, what is predicted."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.length import measurement
from benchmarks.length.measurement import MEASURED, TOO_LARGE, Plan, benchmark_length, error_of, measure, predicted
from benchmarks.length.report import picture, table
from vaswani_transformer.files.json_files import write_json
from vaswani_transformer.report.curves import write_png

PLAN = Plan(presets=("tiny",), lengths=(8, 64, 128, 256))


@pytest.mark.parametrize(("work", "tokens"), [("training", 384), ("translating", 24)])
def test_predicted_memory_is_near_the_measured(work: str, tokens: int) -> None:
    row = measure("tiny", work, tokens, PLAN)
    error = error_of({**row, "predicted_bytes": predicted("tiny", work, tokens, PLAN)})
    if error is None:
        pytest.skip("this system does not tell the memory of a process")
    assert row["outcome"] == MEASURED and row["cpu_seconds"] > 0
    assert abs(error) < 0.2


def test_too_little_memory_ends_a_process() -> None:
    row = measure("tiny", "training", 4096, replace(PLAN, gib=1.5))
    assert row["outcome"] == TOO_LARGE


def test_it_goes_on_until_it_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def by_hand(preset: str, work: str, tokens: int, plan: Plan) -> dict[str, Any]:
        """Seconds of 2 n + 3 n^2, and no memory for more than 128 tokens."""
        asked.append(tokens)
        seconds = 2.0 * tokens + 3.0 * tokens**2
        facts = {"preset": preset, "work": work, "length": tokens, "imports_bytes": 2**29, "peak_bytes": 2**31}
        return (
            {**facts, "outcome": TOO_LARGE} if tokens > 128 else {**facts, "outcome": MEASURED, "seconds": seconds, "cpu_seconds": seconds}
        )

    monkeypatch.setattr(measurement, "measure", by_hand)
    monkeypatch.setattr(measurement, "predicted", lambda *asked: 2**30)
    plan = replace(PLAN, work=("training",), lengths=(16, 32, 64, 128, 256, 512), seconds=1e9)
    file = tmp_path / "results.json"
    *_, results = benchmark_length(plan, file)
    assert asked == [16, 32, 64, 128, 256]
    longest = next(row for row in results["times"] if row["length"] == 128)
    assert longest["seconds"] == pytest.approx(2 * 128 + 3 * 128**2) and not longest["fitted"]
    shown = table(results)
    assert "| tiny | training | 256 | out of memory | - | 2.00 | 1.50 | - |" in shown and "-25%" in shown
    write_png(picture(results), tmp_path / "picture.png")
    write_json(file, results)
    *_, again = benchmark_length(plan, file)
    assert len(asked) == 5 and again["rows"] == results["rows"]
    with pytest.raises(ValueError, match="other settings"):
        next(benchmark_length(replace(plan, gib=1.0), file))


@pytest.mark.parametrize(
    ("settings", "words"), [({"presets": ("huge",)}, "no 'huge'"), ({"work": ("dreaming",)}, "no 'dreaming'"), ({"gib": 0}, "more")]
)
def test_plans_are_checked(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Plan(**settings)
