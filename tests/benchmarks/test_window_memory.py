"""The memory of restricted attention: how cells become rows and ratios, what is refused, and what the page shows."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks import window_memory
from benchmarks.layers.cells import FORWARD, MODES, TRAINING, Cell, Limits
from benchmarks.window_memory import LENGTHS, benchmark_window_memory, ratios, table
from vaswani_transformer.files.json_files import read_json

MEASURED = Path(__file__).parents[2] / "docs" / "measured" / "window_memory"


def test_medians_of_processes_become_rows_and_ratios(monkeypatch: pytest.MonkeyPatch) -> None:
    peaks = {"eager": [10, 30, 20], "attention": [1, 2, 3], "restricted": [60, 50, 40]}
    asked: list[Cell] = []

    def by_hand(cell: Cell, limits: Limits, exact_memory: bool) -> list[dict[str, Any]]:
        size = peaks[cell.contestant][sum(each.contestant == cell.contestant for each in asked)] * 2**20
        asked.append(cell)
        facts = {"contestant": cell.contestant, "d_model": cell.d_model, "length": cell.length}
        figures = {"peak_bytes": size, "cpu_seconds": 0.25}
        return [{**facts, "mode": mode, **figures, "peak_bytes": size * (1 + MODES.index(mode))} for mode in MODES]

    monkeypatch.setattr(window_memory, "measure", by_hand)
    results = benchmark_window_memory([64], processes=3)
    assert {(cell.contestant, cell.length) for cell in asked} == set(LENGTHS.items()) and len(asked) == 9
    assert ratios(results, FORWARD) == {64: 2.5} == ratios(results, TRAINING)
    assert "| forward | 64 | 20 | 2 | 50 | 2.50 | 0.25 |" in table(results)
    assert "| forward and backward | 64 | 40 | 4 | 100 | 2.50 | 0.25 |" in table(results)


def test_a_limit_that_ends_a_cell_leaves_no_ratio(monkeypatch: pytest.MonkeyPatch) -> None:
    def ended(cell: Cell, limits: Limits, exact_memory: bool) -> list[dict[str, Any]]:
        facts = {"contestant": cell.contestant, "d_model": cell.d_model, "length": cell.length}
        return [{**facts, "mode": mode, "peak_bytes": None, "cpu_seconds": None} for mode in MODES]

    monkeypatch.setattr(window_memory, "measure", ended)
    results = benchmark_window_memory([64], processes=2)
    assert ratios(results, FORWARD) == {} and "| forward | 64 | - | - | - | - | - |" in table(results)


def test_nonsense_is_refused() -> None:
    with pytest.raises(ValueError, match="`--widths` holds 65"):
        benchmark_window_memory([64, 65], 1)
    with pytest.raises(ValueError, match="`--processes` is 0"):
        benchmark_window_memory([64], 0)


def test_the_page_shows_that_without_a_gradient_a_window_takes_at_most_twice_the_memory() -> None:
    results = read_json(MEASURED / "results.json")
    found = ratios(results, FORWARD)
    assert list(found) == [64, 128, 256, 512, 1024] and max(found.values()) <= 2
    assert (MEASURED / "table.md").read_text(encoding="utf-8") == table(results)
