"""Cells within limits of their own, a measurement that goes on, and what follows from it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.layers import measurement
from benchmarks.layers.cells import MEASURED, MODES, TOO_LARGE, TOO_LONG, Cell, Limits, measure
from benchmarks.layers.measurement import Settings, benchmark_layers, conclusions, crossing, slope
from benchmarks.layers.report import table, write_picture, write_tables

LIMITS = Limits(repeats=1, seconds=0.01, cell_seconds=60, cell_gib=8)
SMALL = Settings(contestants=("attention", "lstm"), widths=(64,), lengths=(8, 16, 32), repeats=1, seconds=0.01, cell_seconds=60, cell_gib=8)


def test_a_cell_tells_seconds_and_memory_of_both_modes() -> None:
    forward, training = measure(Cell("eager", 64, 512, 1), LIMITS)
    assert (forward["mode"], training["mode"]) == MODES
    assert forward["outcome"] == training["outcome"] == MEASURED
    assert forward["cpu_seconds"] > 0 and training["cpu_seconds"] > 0
    weights = 512 * 512 * 4
    assert training["peak_bytes"] is None or 2 * weights < training["peak_bytes"] < 12 * weights


def test_a_cell_ends_at_its_limits() -> None:
    """Weights of 16,384 x 16,384 numbers are 1 GiB, and a recurrence of so many steps takes longer than a tenth of a second."""
    (row, _) = measure(Cell("eager", 64, 16384, 1), replace(LIMITS, cell_gib=0.5))
    assert row["outcome"] == TOO_LARGE and row["seconds"] is None
    rows = measure(Cell("lstm", 128, 16384, 1), replace(LIMITS, cell_seconds=0.1, repeats=1000, seconds=60))
    assert rows[-1]["outcome"] == TOO_LONG


def test_results_of_something_else_are_refused(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ValueError, match=r"results\.json holds no results of this measurement; choose another --output"):
        next(benchmark_layers(SMALL, tmp_path / "results.json"))


def test_the_same_command_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Cell] = []

    def seconds_by_hand(cell: Cell, limits: Limits) -> list[dict[str, Any]]:
        """Attention takes n^2 d, a recurrence n d^2; at n = 32 attention has no time left."""
        asked.append(cell)
        n, d = cell.length, cell.d_model
        cost = {"attention": n * n * d, "lstm": n * d * d}[cell.contestant] * 1e-9
        facts = {"contestant": cell.contestant, "d_model": d, "length": n, "threads": cell.threads}
        over = cell.contestant == "attention" and n > 256
        figures = {"outcome": TOO_LONG if over else MEASURED, "seconds": cost, "cpu_seconds": cost, "runs": 1, "peak_bytes": n * 100}
        return [{**facts, "mode": mode, **figures} for mode in MODES]

    monkeypatch.setattr(measurement, "measure", seconds_by_hand)
    settings = replace(SMALL, widths=(64, 128, 192), lengths=(32, 64, 128, 256, 512, 1024))
    file = tmp_path / "results.json"
    for results in benchmark_layers(replace(settings, widths=(64,)), file):
        write_tables(results, tmp_path)
    assert len(asked) == 5 + 6  # attention's row ends at 512
    for results in benchmark_layers(settings, file):
        write_tables(results, tmp_path)
    write_picture(results, tmp_path)
    assert len(asked) == 3 * 11
    found = {(row["contestant"], row["mode"]): row for row in results["exponents"]}
    own = found["attention", "training"]
    assert own["length"] == pytest.approx(2) and own["width"] == pytest.approx(1) and own["memory"] == pytest.approx(1)
    assert found["lstm", "forward"]["length"] == pytest.approx(1) and found["lstm", "forward"]["width"] == pytest.approx(2)
    crossed = {row["d_model"]: row["length"] for row in results["crossovers"] if row["mode"] == "forward"}
    assert crossed == {64: pytest.approx(64), 128: pytest.approx(128), 192: pytest.approx(192)}
    assert "| self-attention | O(n^2 d) | 1 | forward | 2.00 | 2 | 1.00 | 1 | 256 |" in table(results)
    assert "skipped" in table(results) and {path.name for path in tmp_path.iterdir()} == {"results.json", "table.md", "results.png"}
    assert "is true in 6 of these 6 comparisons" in table(results) and "n is 1.0 to 1.0 times d" in table(results)
    list(benchmark_layers(replace(settings, cell_seconds=61), file))
    assert len(asked) == 3 * 11 + 3  # only what reached a limit is tried again
    with pytest.raises(ValueError, match="other limits"):
        next(benchmark_layers(replace(settings, cell_seconds=1), file))


def test_exponents_need_enough_cells() -> None:
    cells = [
        {"contestant": "gru", "d_model": 64, "length": n, "threads": 1, "mode": "forward", "outcome": MEASURED,
         "seconds": 1.0, "cpu_seconds": 1.0, "peak_bytes": None} for n in (8, 16)
    ]  # fmt: skip
    found = conclusions(cells)
    assert found["exponents"][0]["length"] is None and found["exponents"][0]["width"] is None and found["crossovers"] == []


def test_slopes_and_crossings() -> None:
    assert slope([1, 2, 4], [3, 12, 48]) == pytest.approx(2)
    assert slope([1, 2, 4], [3, 0.0, 48]) is None
    assert crossing([10, 100], [0.1, 10]) == pytest.approx(10**1.5)
    assert crossing([10, 100], [0.1, 0.9]) is None and crossing([10, 100], [2, 3]) is None


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"contestants": ("rnn",)}, "no 'rnn'"),
        ({"widths": (65,)}, "multiples of 64"),
        ({"lengths": (1,)}, "2 or more"),
        ({"threads": (0,)}, "threads"),
    ],
)
def test_settings_are_checked(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Settings(**settings)


def test_exact_memory_is_that_of_the_tensors() -> None:
    """Attention that stores 8 MiB of weights needs twice that at its peak, and no heap that kept anything."""
    forward, _ = measure(Cell("eager", 64, 1448, 1), LIMITS, exact_memory=True)
    assert forward["outcome"] == "measured"
    assert 16 <= forward["peak_bytes"] / 2**20 <= 20
