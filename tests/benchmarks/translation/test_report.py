import json
from pathlib import Path
from typing import Any

from PIL import Image

from benchmarks.interleaved import Ratio
from benchmarks.translation.report import panels, table, write_report


def cells(text: str) -> list[list[str]]:
    """Of every row with numbers."""
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]
    return [row for row in rows if row[0].isdigit()]


def test_the_table_has_a_row_for_each_setting_and_contestant(results: dict[str, Any]) -> None:
    text = table(results)
    assert text.index("**tiny, beam 4**") < text.index("**tiny, greedy**")
    rows = cells(text)
    assert [row[:2] for row in rows] == [
        *(["1", "MarianMTModel float32"], ["1", "ours float32"]),
        *(["8", "MarianMTModel float32"], ["8", "ours float32"]) * 2,
    ]
    # 6 sentences and 6,000 tokens in 4 seconds; and in 1.5
    assert rows[0][2:] == ["1.5", "1,500", "1.00 (0.75-1.50)", "1.12", "33.46", "98.8%", "300 (100)"]
    assert rows[1][2:] == ["4.0", "4,000", "2.50 (2.25-3.00)", "2.62", "33.46", "100.0%", "300 (100)"]
    header = next(line for line in text.splitlines() if line.startswith("| batch"))
    assert header.count("|") == len(rows[0]) + 1


def test_what_was_as_long_as_the_references_has_a_table_and_a_panel_of_its_own(
    results: dict[str, Any],
) -> None:
    for row in results["speed"][-2:]:
        row |= {"beams": 4, "lengths": "references"}
    text = table(results)
    assert text.index("**tiny, beam 4**") < text.index("**tiny, beam 4, as long as the references**")
    assert [panel.title for panel in panels(results)] == [
        "tiny, beam 4",
        "tiny, beam 4, as long as the references",
    ]


def test_the_caption_says_what_was_measured_on_what(results: dict[str, Any]) -> None:
    caption = table(results).partition("**")[0]
    for fact in ("run/averaged", "a CPU, 2 cores", "torch 2.13.0", "avx2", "8 sentences, 6 of them timed",
                 "detokenising are not timed", "against MarianMTModel float32", "medians of 5 rounds", "(tok:13a)"):  # fmt: skip
        assert fact in caption


def test_what_was_not_measured_is_a_dash(results: dict[str, Any]) -> None:
    for row in results["quality"]:
        del row["share_as_ours"]
    del results["speed"][0]["memory"]
    results["speed"][1]["memory"] = {"peak_bytes": None, "imports_bytes": None}
    results["speed"][2]["memory"] |= {"device_peak_bytes": 2**30}
    rows = cells(table(results))
    assert [row[7:] for row in rows[:3]] == [["-", "-"], ["-", "-"], ["-", "300 (100) + 1,024 on the GPU"]]


def test_a_panel_for_each_search_and_a_colour_for_each_batch_size(results: dict[str, Any]) -> None:
    drawn = panels(results)
    assert [(panel.title, list(panel.series)) for panel in drawn] == [
        ("tiny, beam 4", ["batch 1", "batch 8"]),
        ("tiny, greedy", ["batch 8"]),
    ]
    assert drawn[0].series["batch 1"] == [Ratio(1, 0.75, 1.5), Ratio(2.5, 2.25, 3)]
    assert drawn[0].names == ["MarianMTModel float32", "ours float32"]


def test_the_three_files(results: dict[str, Any], tmp_path: Path) -> None:
    write_report(results, tmp_path / "new")
    assert sorted(file.name for file in (tmp_path / "new").iterdir()) == [
        "results.json",
        "results.png",
        "table.md",
    ]
    assert json.loads((tmp_path / "new" / "results.json").read_text(encoding="utf-8")) == results
    assert (tmp_path / "new" / "table.md").read_text(encoding="utf-8") == table(results)
    with Image.open(tmp_path / "new" / "results.png") as picture:
        assert picture.format == "PNG"
