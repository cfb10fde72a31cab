"""The paper's costs, by its own way and by ours."""

import sys
from pathlib import Path

import pytest

from benchmarks.table_2 import REPORTED, costs, main, parse, results_of, table
from vaswani_transformer.files.json_files import read_json


def test_the_papers_way_gives_what_the_paper_prints() -> None:
    """12 hours, and 3.5 days, of eight GPUs with 9.5 TFLOPS each."""
    rows = {row["model"]: row for row in costs(read_json(REPORTED), 30)}
    assert rows["base"]["by_time"] == 12 * 3600 * 8 * 9.5e12 and f"{rows['base']['by_time']:.1e}" == "3.3e+18"
    assert f"{rows['big']['by_time']:.1e}" == f"{rows['big']['by_updates']:.1e}" == "2.3e+19"
    assert rows["base"]["reported"] == 3.3e18 and rows["big"]["reported"] == 2.3e19


def test_our_way_by_hand() -> None:
    """Six operations for each weight and token, and what attention adds in sentences of 30 tokens; embeddings are looked up."""
    width, inner, vocabulary, length = 512, 2048, 37_000, 30
    encoder = 6 * (4 * width**2 + 2 * width * inner)
    decoder = 6 * (8 * width**2 + 2 * width * inner)
    attention = 6 * 3 * length * 2 * width  # encoder, decoder and between them
    by_hand = 6 * (encoder + decoder + attention + vocabulary * width) * 25_000 * 100_000
    base = costs(read_json(REPORTED), length)[0]
    assert base["counted"] == pytest.approx(by_hand, rel=1e-12)
    assert base["share"] == pytest.approx(by_hand / (43_200 * 7.6e13))


def test_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["table_2", "--output", str(tmp_path)])
    main(parse())
    assert "| GNMT + RL, ensemble | 26.3 | 41.16 | 1.8e+20 | 1.1e+21 |" in capsys.readouterr().out
    assert {path.name for path in tmp_path.iterdir()} == {"results.json", "table.md", "results.png"}
    assert "| Transformer (big) | 28.4 | 41.8 | 2.3e+19 | 2.3e+19 |" in table(results_of(10))
    with pytest.raises(ValueError, match="1 token"):
        results_of(0)
