"""The log has every update once, however often a run was killed; what is shown is readable wherever it goes, and the time left adds up."""

import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest

from vaswani_transformer.recipe import TrainingSettings
from vaswani_transformer.training.progress import Forecast, ProgressDisplay, TrainingLog, describe_interval
from vaswani_transformer.training.state import Totals, TrainState, Validation


def _updates(path: Path) -> list[int]:
    return [json.loads(line)["update"] for line in path.read_text(encoding="utf-8").split("\n")[:-1]]


def test_records_behind_those_of_the_state_are_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    log = TrainingLog(path, records=0, silent=False)
    for update in (1, 2, 2, 3):
        log.write({"kind": "train", "update": update, "samples": "one line\u2028to us"})
    assert log.records == 4
    resumed = TrainingLog(path, records=2, silent=False)
    assert _updates(path) == [1, 2]
    resumed.write({"kind": "validation", "update": 2})
    assert _updates(path) == [1, 2, 2] and resumed.records == 3


def test_a_torn_last_line_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes('{"kind": "train", "update": 1}\n{"kind": "train", "upd ä'.encode()[:-1])
    TrainingLog(path, records=1, silent=False)
    assert _updates(path) == [1]


def test_a_full_disk_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = TrainingLog(tmp_path / "log.jsonl", records=0, silent=False)
    monkeypatch.setattr(log, "_path", Path("/dev/full"))
    with pytest.raises(OSError, match=r"The disk is full: /dev/full could not be written"):
        log.write({"kind": "train", "update": 1})


def test_other_ranks_are_silent(tmp_path: Path) -> None:
    log = TrainingLog(tmp_path / "log.jsonl", records=0, silent=True)
    log.write({"kind": "train", "update": 1})
    assert not (tmp_path / "log.jsonl").exists()


RECORD = {
    "kind": "train", "update": 50, "epoch": 1.25, "loss": 4.5, "nll": math.log(20.0), "learning_rate": 1e-3, "gradient_norm": 0.75,
    "target_tokens": 1_200_000, "source_tokens": 1_100_000, "padding_share": 0.031, "tokens_per_second": 1234.4, "seconds": 50.0,
}  # fmt: skip


def _settings(**changed: Any) -> TrainingSettings:
    return TrainingSettings(**{"updates": 100, "validate_every": 40, "checkpoint_every": 25, **changed})


def _after_50_updates() -> TrainState:
    """Updates took 1 s each, the validation 20 s, the two savings 4 s each."""
    done = [Validation(40, {"bleu": 1.0, "loss": 5.0})]
    return TrainState(50, total=Totals(seconds=50.0), seconds=70.0, validations=done, checkpoints=[25, 50], saving_seconds=8.0)


def test_time_left_is_that_of_updates_validations_and_savings() -> None:
    forecast = Forecast(_settings(), _after_50_updates())
    # 50 updates, validations after 80 and 100, savings after 50 (it is due now), 75 and 100
    assert forecast.seconds_left() == pytest.approx(50 * 1 + 2 * 20 + 3 * 4)


def test_at_the_last_update_what_is_due_then_is_left() -> None:
    state = _after_50_updates()
    state.update = 100
    assert Forecast(_settings(), state).seconds_left() == pytest.approx(20 + 4)
    state.update = 99
    assert Forecast(_settings(updates=99), state).seconds_left() == pytest.approx(20 + 4)


def test_what_has_never_been_done_counts_nothing() -> None:
    state = TrainState(update=1, total=Totals(seconds=2.0), seconds=2.0)
    assert Forecast(_settings(), state).seconds_left() == pytest.approx(99 * 2)


def test_the_latest_updates_decide_how_fast_it_goes_on() -> None:
    """A run that is gone on with on a faster machine believes in it soon."""
    forecast = Forecast(_settings(validate_every=1000, checkpoint_every=1000), _after_50_updates())
    due_at_the_end = 20 + 4
    assert forecast.seconds_left() == pytest.approx(50 * 1 + due_at_the_end)
    for _ in range(50):
        forecast.count(0.5)
    assert forecast.seconds_left() == pytest.approx(50 * 0.75 + due_at_the_end)
    for _ in range(150):
        forecast.count(0.5)
    assert forecast.seconds_left() == pytest.approx(50 * 0.5 + due_at_the_end)


def test_an_interval_is_one_line_in_columns() -> None:
    line = describe_interval(RECORD, updates=8000, elapsed=3_725.0, left=60.0)
    assert line.startswith(
        "  50/8000  epoch   1.25  loss  4.500  ppl    20.00  lr 1.00e-03  grad   0.75    1,234 tokens/s  padding  3.1%  "
        "seen 2.30M  1:02:05 + 01:00 left (until "
    )
    wild = {
        **RECORD,
        "update": 8000,
        "epoch": 67.8,
        "nll": 800.0,
        "gradient_norm": 12.5,
        "target_tokens": 10**10,
    }
    other = describe_interval(wild, updates=8000, elapsed=3_725.0, left=60.0)
    assert "\n" not in line and line.index("tokens/s") == other.index("tokens/s") and len(line) == len(other)


def _shown(silent: bool) -> None:
    state = _after_50_updates()
    progress = ProgressDisplay(_settings(), state, silent)
    progress.advance(1.0, RECORD)
    progress.doing("Validating")
    progress.tell(RECORD)
    progress.say("Update 50: fine")
    progress.close()


def test_a_file_gets_lines_and_no_carriage_returns(capsys: pytest.CaptureFixture[str]) -> None:
    _shown(silent=False)
    captured = capsys.readouterr()
    assert captured.err == "" and "\r" not in captured.out
    first, second = captured.out.splitlines()
    assert first.startswith(" 50/100  epoch") and "01:18 + 01:42 left" in first and second == "Update 50: fine"


def test_a_terminal_gets_a_bar_as_well(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TQDM_MININTERVAL", "0")
    _shown(silent=False)
    captured = capsys.readouterr()
    assert "51/100, loss 4.500, lr 1.00e-03, 1,234 tokens/s, 01:42 left" in captured.err
    assert "Training" in captured.err and "Validating" in captured.err
    assert len(captured.out.split("\n")) == 3


def test_other_ranks_show_nothing(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    _shown(silent=True)
    assert capsys.readouterr() == ("", "")


def test_a_log_that_was_taken_away_begins_anew(tmp_path: Path) -> None:
    TrainingLog(tmp_path / "log.jsonl", records=3, silent=False).write({"kind": "train", "update": 4})
    assert _updates(tmp_path / "log.jsonl") == [4]
