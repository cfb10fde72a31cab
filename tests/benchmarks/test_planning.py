from pathlib import Path

import numpy as np
import pytest

from benchmarks.planning import benchmark_planning, measure, simulated_lengths
from vaswani_transformer.files.json_files import read_json


def test_lengths_are_like_those_of_the_corpus() -> None:
    sources, targets = simulated_lengths(200_000)
    assert sources.dtype == targets.dtype == np.int32
    assert sources.min() >= 2 and sources.max() <= 256 and targets.max() <= 256
    assert np.log(sources).mean() == pytest.approx(3.25, abs=0.03)
    assert np.log(targets / sources).mean() == pytest.approx(0.14, abs=0.02)
    assert np.corrcoef(np.log(sources), np.log(targets))[0, 1] > 0.9


def test_lengths_drawn_in_parts_differ_from_part_to_part() -> None:
    sources, _ = simulated_lengths(2**20 + 1000)
    assert len(sources) == 2**20 + 1000
    assert sources[:1000].tolist() != sources[-1000:].tolist()


def test_what_is_measured_adds_up() -> None:
    row = measure(3000, 500)
    assert (row["pairs"], row["lengths_bytes"]) == (3000, 2 * 4 * 3000)
    assert row["seconds"] > 0 and row["cpu_seconds"] > 0
    sources, targets = simulated_lengths(3000)
    positions = (sources.sum() + targets.sum()) / (1 - row["padding_share"])
    assert positions <= row["batches"] * 2 * 500
    assert 0 < row["padding_share"] < 0.2


def test_each_size_is_measured_alone_and_written(tmp_path: Path) -> None:
    (table,) = benchmark_planning([4000], 500, tmp_path)
    results = read_json(tmp_path / "results.json")
    (row,) = results["planning"]
    assert results["tokens_per_side"] == 500
    assert row["peak_bytes"] > row["libraries_bytes"] > 2**20
    assert (tmp_path / "table.md").read_text(encoding="utf-8") == table
    assert [len(line.split("|")) for line in table.splitlines()] == [12, 12, 12]
    assert table.splitlines()[2].startswith("| 4,000 |")


def test_a_size_that_cannot_be_planned_says_why(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"^Planning 100 pairs failed: ValueError: .*micro-batch may hold only 5"):
        list(benchmark_planning([100], 5, tmp_path))
