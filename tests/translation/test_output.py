import io
import json
import os
import re
from pathlib import Path

import pytest

from vaswani_transformer.files.lines import LineReader
from vaswani_transformer.translation.output import FileOutput, JobProgress, open_output, skip_finished

SETTINGS = {"num_beams": 4}


def begun(path: Path) -> Path:
    """Two windows of an unfinished job."""
    with open_output(str(path), SETTINGS) as output:
        output.append(b"one\n", 1, 0, "d1")
        output.append(b"two\n", 2, 1, "d2")
    return path


def test_a_file_appears_when_it_is_complete(tmp_path: Path) -> None:
    path = begun(tmp_path / "out")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["out.partial", "out.progress.json"]
    with open_output(str(path), SETTINGS) as output:
        assert output.progress == JobProgress(2, 1, "d2", 8)
        output.append(b"three\n", 3, 1, "d3")
        output.finish()
    assert [file.name for file in tmp_path.iterdir()] == ["out"]
    assert path.read_bytes() == b"one\ntwo\nthree\n"


@pytest.mark.parametrize("name", ["out.zip", "out.bz2", "out.zst"])
def test_a_compression_that_cannot_be_written_is_told_before_any_work(name: str, tmp_path: Path) -> None:
    with (
        pytest.raises(ValueError, match=rf"{name} cannot be written: an output is plain or ends in \.gz or \.xz"),
        open_output(str(tmp_path / name), SETTINGS),
    ):
        pass
    assert not list(tmp_path.iterdir())


def test_what_is_behind_the_recorded_size_is_cut_off(tmp_path: Path) -> None:
    path = begun(tmp_path / "out")
    with open(f"{path}.partial", "ab") as torn:
        torn.write(b"thr")
    with open_output(str(path), SETTINGS) as output:
        output.append(b"three\n", 3, 1, "d3")
        output.finish()
    assert path.read_bytes() == b"one\ntwo\nthree\n"


@pytest.mark.parametrize("renamed", [False, True])
def test_a_job_killed_at_its_very_end_is_finished(renamed: bool, tmp_path: Path) -> None:
    path = begun(tmp_path / "out")
    journal = tmp_path / "out.progress.json"
    content = json.loads(journal.read_text())
    content["progress"]["complete"] = True
    journal.write_text(json.dumps(content))
    if renamed:
        os.replace(f"{path}.partial", path)
    with open_output(str(path), SETTINGS) as output:
        assert output.progress.complete
        output.finish()
    assert [file.name for file in tmp_path.iterdir()] == ["out"]
    assert path.read_bytes() == b"one\ntwo\n"


def refused(path: Path, error: type[Exception], sentence: str, settings: dict[str, int] = SETTINGS) -> None:
    before = {file.name: file.read_bytes() for file in path.parent.iterdir() if file.is_file()}
    with pytest.raises(error, match=re.compile(sentence)), open_output(str(path), settings):
        pass
    assert {file.name: file.read_bytes() for file in path.parent.iterdir() if file.is_file()} == before


def test_another_job_is_refused(tmp_path: Path) -> None:
    path = begun(tmp_path / "out")
    refused(path, ValueError, "started with other settings: num_beams was 4 and is now 1. Use", {"num_beams": 1})
    refused(path, ValueError, "num_beams was 4 and is now None; window was None and is now 3", {"window": 3})


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    refused(tmp_path / "out", FileExistsError, "out exists already; remove it")
    (tmp_path / "other.partial").write_text("mine")
    refused(tmp_path / "other", FileExistsError, r"other\.partial has no other\.progress\.json beside it")
    with (
        pytest.raises(FileNotFoundError, match="There is no folder"),
        open_output(str(tmp_path / "no" / "out"), {}),
    ):
        pass


def test_a_lost_piece_is_noticed(tmp_path: Path) -> None:
    path = begun(tmp_path / "out")
    os.truncate(f"{path}.partial", 5)
    refused(path, ValueError, "has 5 bytes, but 8 had been written")


def test_two_processes_do_not_write_one_file(tmp_path: Path) -> None:
    path = begun(tmp_path / "out")
    with open_output(str(path), SETTINGS):
        refused(path, FileExistsError, "Another process writes")


def test_a_file_that_could_not_be_written_leaves_the_windows_before(tmp_path: Path) -> None:
    output = FileOutput(tmp_path / "out", SETTINGS)
    output.append(b"one\n", 1, 0, "d1")

    class FullDisk(io.BytesIO):
        def write(self, content: object) -> int:
            raise OSError(28, "No space left on device")

    output._stream = FullDisk()
    with pytest.raises(OSError, match="No space"):
        output.append(b"two\n", 2, 0, "d2")
    assert "1 lines are safe" in output.advice()
    output.close()
    with open_output(str(tmp_path / "out"), SETTINGS) as again:
        assert again.progress.lines == 1


def test_streams_are_written_at_once(capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path) -> None:
    with open_output("-", {}) as output:
        output.append(b"one\n", 1, 0, "")
        assert capfdbinary.readouterr().out == b"one\n"
        assert "cannot be resumed" in output.advice()
    os.mkfifo(tmp_path / "pipe")
    reading = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    with open_output(str(tmp_path / "pipe"), {}) as output:
        output.append(b"one\n", 1, 0, "")
        output.finish()
    assert os.read(reading, 9) == b"one\n"
    os.close(reading)
    with open_output("/dev/null", {}) as output:
        output.append(b"one\n", 1, 0, "")


def test_an_input_goes_on_only_behind_the_same_lines() -> None:
    whole = LineReader(io.BytesIO(b"a\nb\nc\n"), "whole")
    whole.skip(2)
    done = JobProgress(2, 0, whole.digest, 4)
    again = LineReader(io.BytesIO(b"a\nb\nc\n"), "again")
    again.read()
    skip_finished(done, again, "again")
    assert again.read() == b"c"
    for changed in (b"a\nB\nc\n", b"a\n", b"a\nb", b""):
        with pytest.raises(ValueError, match="The first 2 lines of input are not those"):
            skip_finished(done, LineReader(io.BytesIO(changed), "input"), "input")
