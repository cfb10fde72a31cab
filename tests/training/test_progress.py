"""The log has every update once, however often a run was killed."""

import json
from pathlib import Path

import pytest

from vaswani_transformer.training.progress import ProgressBar, TrainingLog


def _updates(path: Path) -> list[int]:
    return [json.loads(line)["update"] for line in path.read_text(encoding="utf-8").splitlines()]


def test_records_behind_the_resumed_update_are_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    log = TrainingLog(path, resumed_update=0, silent=False)
    for update in (1, 2, 2, 3):
        log.write({"kind": "train", "update": update})
    log.close()
    resumed = TrainingLog(path, resumed_update=2, silent=False)
    assert _updates(path) == [1, 2, 2]
    resumed.write({"kind": "train", "update": 3})
    assert _updates(path) == [1, 2, 2, 3]  # in the file at once, not when the log is closed
    resumed.close()


def test_a_torn_last_line_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"kind": "train", "update": 1}\n{"kind": "train", "upd', encoding="utf-8")
    TrainingLog(path, resumed_update=5, silent=False).close()
    assert _updates(path) == [1]


def test_other_ranks_are_silent(tmp_path: Path) -> None:
    log = TrainingLog(tmp_path / "log.jsonl", resumed_update=0, silent=True)
    log.write({"kind": "train", "update": 1})
    log.close()
    assert not (tmp_path / "log.jsonl").exists()


def test_the_bar_shows_loss_rate_and_speed(capsys: pytest.CaptureFixture[str]) -> None:
    bar = ProgressBar(done=0, total=2, silent=False)
    bar.advance(loss=1.5, learning_rate=1e-3, tokens_per_second=1234.0)
    bar.say("Update 1: fine")
    bar.close()
    captured = capsys.readouterr()
    assert "loss 1.500, lr 1.00e-03, 1,234 tokens/s" in captured.err
    assert "Update 1: fine" in captured.out
