import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from benchmarks.interleaved import Ratio
from benchmarks.training.report import panels, table, write_report


def speed(threads: int, contestant: str, ratio: float) -> dict[str, Any]:
    return {
        "shape": "tiny", "threads": threads, "contestant": contestant, "target_tokens_per_second": 1000 * ratio, "padding_share": 0.0352,
        "share_of_matrix_rate": 0.123, "ratio": {"median": ratio, "low": ratio - 0.25, "high": ratio + 0.5},
        "cpu_ratio": {"median": ratio + 0.125, "low": ratio, "high": ratio},
        "memory": {"peak_bytes": 300 * 2**20, "imports_bytes": 200 * 2**20},
    }  # fmt: skip


@pytest.fixture
def results() -> dict[str, Any]:
    """A loop and ours, on one thread and on two."""
    lead = {
        "shape": "tiny",
        "threads": 1,
        "contestant": "ours-bf16",
        "against": "marian",
        "ratio": {"median": 3.1, "low": 3, "high": 3.2},
    }
    lead |= {"cpu_ratio": {"median": 2.9, "low": 2.8, "high": 3}}
    sizes = {
        "encoder_layers": 4,
        "decoder_layers": 4,
        "d_model": 128,
        "encoder_ffn_dim": 256,
        "encoder_attention_heads": 4,
    }
    return {
        "date": "2026-11-21T12:00:00+00:00",
        "machine": {"cpu": "a CPU", "threads": 1, "cores": 2, "instructions": ["avx2"], "load_average": 0.5},
        "versions": {"torch": "2.13.0"},
        "settings": {"repeats": 5, "batch_tokens": 4096, "trainer_sentences": 128, "dropout": 0.1, "label_smoothing": 0.1,
                     "give_back_memory": False},
        "shapes": {"tiny": {**sizes, "vocab_size": 10_000}},
        "contestants": {"marian": "MarianMTModel as it comes", "ours-bf16": "ours bfloat16"},
        "corpus": {"sha256": {"train.en": "1", "train.de": "2"}, "pairs": 28_997},
        "matrix_rates": {"1": {"float32": 60e9, "bfloat16": 150e9}, "2": {"float32": 110e9, "bfloat16": 280e9}},
        "speed": [speed(t, name, r) for t in (1, 2) for name, r in [("marian", 1.0), ("ours-bf16", 3.0 + t)]],
        "leads": [lead | {"as": "marian", "goal": 2.5}, lead | {"as": "best-loop", "goal": None}],
    }  # fmt: skip


def rows(text: str) -> list[list[str]]:
    return [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|") and "---" not in line]


def test_ours_stands_beside_the_goals(results: dict[str, Any]) -> None:
    header, *leads = rows(table(results).partition("**")[0])
    assert leads[0] == [
        "tiny",
        "1",
        "ours bfloat16",
        "MarianMTModel as it comes",
        "3.10 (3.00-3.20)",
        "2.90",
        "2.5",
    ]
    assert leads[1][3:] == ["MarianMTModel as it comes, the fastest loop", "3.10 (3.00-3.20)", "2.90", "-"]
    assert len(header) == len(leads[0])


def test_a_table_for_each_shape_and_number_of_threads(results: dict[str, Any]) -> None:
    _, one, _, two = table(results).split("**")[1:]
    text = table(results)
    assert text.index("TINY: 4+4, 128/256, 4 heads, 10,000; 1 thread**") < text.index("; 2 threads**")
    header, first, ours = rows(one)
    assert first == [
        "MarianMTModel as it comes",
        "1,000",
        "1.00 (0.75-1.50)",
        "1.12",
        "3.5%",
        "12.3%",
        "300 (100)",
    ]
    assert ours[:3] == ["ours bfloat16", "4,000", "4.00 (3.75-4.50)"] and len(header) == len(ours)
    assert rows(two)[2][1] == "5,000"


def test_the_caption_says_what_was_measured_on_what(results: dict[str, Any]) -> None:
    caption = table(results).partition("\n|")[0]
    for fact in (
        *(
            "a CPU, 2 cores",
            "torch 2.13.0",
            "load 0.5",
            "train.en and train.de: 28,997 pairs",
            "Medians of 5 rounds",
        ),
        *("at most 4,096", "128 sentences", "against MarianMTModel as it comes"),
        "1 thread: 60 GFLOP/s float32, 150 bfloat16; 2 threads: 110",
    ):
        assert fact in caption
    assert "given free memory back" not in caption


def test_a_panel_for_each_shape_and_a_colour_for_each_number_of_threads(results: dict[str, Any]) -> None:
    (panel,) = panels(results)
    assert list(panel.series) == ["1 thread", "2 threads"]
    assert panel.series["2 threads"] == [Ratio(1, 0.75, 1.5), Ratio(5, 4.75, 5.5)]
    assert panel.names == ["MarianMTModel as it comes", "ours bfloat16"]


def test_the_three_files(results: dict[str, Any], tmp_path: Path) -> None:
    write_report(results, tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["results.json", "results.png", "table.md"]
    assert json.loads((tmp_path / "results.json").read_text(encoding="utf-8")) == results
    assert (tmp_path / "table.md").read_text(encoding="utf-8") == table(results)
    with Image.open(tmp_path / "results.png") as picture:
        assert picture.format == "PNG"
