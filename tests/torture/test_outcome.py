"""Two run folders are compared by everything but the clock and the memory."""

from pathlib import Path

import pytest

from tests.torture.outcome import differences, outcome
from vaswani_transformer.files.atomic_file import write_text
from vaswani_transformer.files.checksums import write_checksums
from vaswani_transformer.files.json_files import write_json
from vaswani_transformer.run_folder import RunFolder


def _run(path: Path, seconds: float, loss: float) -> RunFolder:
    run = RunFolder(path)
    write_text(run.recipe, "name: x\n")
    write_text(run.log, f'{{"update": 1, "loss": {loss}, "seconds": {seconds}}}\n')
    write_json(run.training, {"flops": 5.0, "seconds": seconds, "peak_memory_bytes": int(seconds * 1e9)})
    write_json(run.state / "update-2" / "state.json", {"state": {"update": 2, "total": {"seconds": seconds}}})
    write_checksums(run.state / "update-2")
    return run


def test_the_clock_and_the_memory_do_not_count(tmp_path: Path) -> None:
    one, other = _run(tmp_path / "one", 1.0, 0.5), _run(tmp_path / "other", 2.0, 0.5)
    write_json(other.state / "update-1" / "state.json", {"state": "of a signal"})
    assert differences(outcome(one), outcome(other)) == []


def test_everything_else_does(tmp_path: Path) -> None:
    one, other = _run(tmp_path / "one", 1.0, 0.5), _run(tmp_path / "other", 2.0, 0.25)
    write_text(other.path / "averaged" / ".config.json.unfinished", "{")
    (other.state / "update-2" / "state.json").write_text('{"state": {"update": 3}}', encoding="utf-8")
    one.training.unlink()
    assert differences(outcome(one), outcome(other)) == [
        "averaged/.config.json.unfinished should not be there",
        'log.jsonl differs in record 1: {"update": 1, "loss": 0.25} instead of {"update": 1, "loss": 0.5}',
        "state/update-2/SHA256SUMS differs",
        "state/update-2/state.json differs",
        "training.json should not be there",
    ]


@pytest.mark.parametrize(("lines", "told"), [(0, "0 records instead of 1"), (2, "2 records instead of 1")])
def test_gaps_and_doubles_of_the_log_count(tmp_path: Path, lines: int, told: str) -> None:
    one, other = _run(tmp_path / "one", 1.0, 0.5), _run(tmp_path / "other", 1.0, 0.5)
    write_text(other.log, one.log.read_text(encoding="utf-8") * lines)
    assert differences(outcome(one), outcome(other)) == [f"log.jsonl differs: {told}"]
