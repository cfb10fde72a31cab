from pathlib import Path

import pytest
from PIL import Image

from vaswani_transformer.report.curves import draw_curves
from vaswani_transformer.run_folder import RunFolder


def test_bleu_gets_a_panel_where_it_was_measured(run: RunFolder, tmp_path: Path) -> None:
    draw_curves(run.log, tmp_path / "both.png")
    records = run.log.read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "loss.jsonl").write_text("".join(r for r in records if '"train"' in r), encoding="utf-8")
    draw_curves(tmp_path / "loss.jsonl", tmp_path / "one.png")
    with Image.open(tmp_path / "both.png") as both, Image.open(tmp_path / "one.png") as one:
        assert both.height == one.height and both.width > 1.5 * one.width


def test_the_same_log_gives_the_same_picture(run: RunFolder, tmp_path: Path) -> None:
    for name in ("first.png", "second.png"):
        draw_curves(run.log, tmp_path / name)
    assert (tmp_path / "first.png").read_bytes() == (tmp_path / "second.png").read_bytes()
    assert sorted(file.name for file in tmp_path.glob("*.png*")) == ["first.png", "second.png"]


def test_updates_logged_twice_by_a_resumed_run_count_once(run: RunFolder, tmp_path: Path) -> None:
    lines = run.log.read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "resumed.jsonl").write_text("".join(lines[:6] + lines[3:]), encoding="utf-8")
    draw_curves(run.log, tmp_path / "straight.png")
    draw_curves(tmp_path / "resumed.jsonl", tmp_path / "resumed.png")
    assert (tmp_path / "straight.png").read_bytes() == (tmp_path / "resumed.png").read_bytes()


def test_a_log_without_curves_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no training log"):
        draw_curves(tmp_path / "log.jsonl", tmp_path / "curves.png")
    (tmp_path / "log.jsonl").write_text("", encoding="utf-8")
    with pytest.raises(ValueError, match="no training interval"):
        draw_curves(tmp_path / "log.jsonl", tmp_path / "curves.png")
    (tmp_path / "log.jsonl").write_text('{"kind": "train"', encoding="utf-8")
    with pytest.raises(ValueError, match=r"log\.jsonl:1"):
        draw_curves(tmp_path / "log.jsonl", tmp_path / "curves.png")
    assert not (tmp_path / "curves.png").exists()
