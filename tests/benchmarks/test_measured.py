"""The tables in the documents are those of the results beside them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks import formulas, table_2, task_scores
from benchmarks.layers import report as layers
from benchmarks.length import report as length
from benchmarks.length.measurement import WORK, error_of
from benchmarks.report import Results
from vaswani_transformer.files.json_files import read_json

MEASURED = Path(__file__).parents[2] / "docs" / "measured"


@pytest.mark.parametrize(
    ("name", "table"),
    [("table_1", layers.table), ("length", length.table), ("table_2", table_2.table), ("formulas", formulas.table)],
)
def test_a_page_shows_what_was_measured(name: str, table: Callable[[Results], str]) -> None:
    folder = MEASURED / name
    assert (folder / "table.md").read_text(encoding="utf-8") == table(read_json(folder / "results.json"))
    assert (folder / "results.png").is_file()


def test_the_page_on_tasks_shows_what_was_measured() -> None:
    assert (MEASURED / "tasks" / "table.md").read_text(encoding="utf-8") == task_scores.table(
        read_json(MEASURED / "tasks" / "results.json")
    )


def test_the_predicted_memory_is_within_a_fifth() -> None:
    errors = [error_of(row) for row in read_json(MEASURED / "length" / "results.json")["rows"]]
    known = [error for error in errors if error is not None]
    assert len(known) >= 6 and max(map(abs, known)) <= 0.2


def test_the_predicted_time_of_the_longest_texts_is_within_a_fifth() -> None:
    results = read_json(MEASURED / "length" / "results.json")
    seconds = {(row["preset"], row["work"], row["length"]): row.get("cpu_seconds") for row in results["rows"]}
    beyond = [row for row in results["times"] if not row["fitted"]]
    assert {(row["preset"], row["work"]) for row in beyond} == {(name, work) for name in ("tiny", "base") for work in WORK}
    for row in beyond:
        measured = seconds[row["preset"], row["work"], row["length"]]
        assert abs(row["seconds"] / measured - 1) <= 0.2, row
