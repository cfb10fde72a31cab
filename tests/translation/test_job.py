import gzip
import json
import os
import signal
import sys
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from vaswani_transformer.translation.job import JobSettings, Translate, translate_file
from vaswani_transformer.translation.translate import Outcome, Translation

PACKAGE = str(Path(sys.modules[JobSettings.__module__].__file__ or "").parents[1])


def run(tmp_path: Path, content: bytes, translate: Translate, target: str = "out", **settings: Any) -> tuple[bytes, Any]:
    """Output and progress of a job on a file."""
    (tmp_path / "in").write_bytes(content)
    path = tmp_path / target
    path.unlink(missing_ok=True)
    done = translate_file(str(tmp_path / "in"), str(path), translate, JobSettings(**settings), progress=False)
    return path.read_bytes(), done


@pytest.mark.parametrize("window", [1, 2, 3, 100])
def test_order_is_kept(window: int, tmp_path: Path, reverse: Translate) -> None:
    content = b"a\nlonger one\n\nb\xc3\xa4\r\nlast"
    output, done = run(tmp_path, content, reverse, window=window)
    assert output.decode() == "a\neno regnol\n\näb\ntsal\n"
    assert (done.lines, done.failed, done.complete) == (5, 0, True)


def test_sorting_is_within_a_window(tmp_path: Path) -> None:
    asked: list[list[str]] = []

    def echo(sentences: Sequence[str]) -> Iterator[tuple[int, Outcome]]:
        asked.append(list(sentences))
        yield from ((index, [Translation(text, None)]) for index, text in enumerate(sentences))

    output, _ = run(tmp_path, b"".join(b"%d\n" % n for n in range(10)), echo, window=4)
    assert [len(sentences) for sentences in asked] == [4, 4, 2]
    assert output == b"".join(b"%d\n" % n for n in range(10))


def test_an_empty_input_gives_an_empty_output(tmp_path: Path, reverse: Translate) -> None:
    assert run(tmp_path, b"", reverse)[0] == b""
    assert run(tmp_path, b"", reverse, format="jsonl")[0] == b""


def test_a_bad_line_keeps_its_place_and_is_named(tmp_path: Path, reverse: Translate, capsys: pytest.CaptureFixture[str]) -> None:
    output, done = run(tmp_path, b"ab\n\xff\npoison\nn\x00l\n" + b"m" * 2**20 + b"\ncd", reverse, window=4)
    assert output == b"ba\n\n\nl\x00n\n" + b"m" * 2**20 + b"\ndc\n"
    assert done.failed == 2
    named = capsys.readouterr().err.splitlines()
    source = tmp_path / "in"
    assert named == [
        f"{source}:2: not valid UTF-8 (byte 0xff at position 1)",
        f"{source}:3: poisoned",
        f"2 of 6 lines of {source} could not be translated.",
    ]


def test_tsv_with_a_header(tmp_path: Path, reverse: Translate) -> None:
    output, done = run(tmp_path, b"id\tsource\n1\tab\n2\n\n3\tcd\n", reverse, format="tsv", column="source", window=2)
    assert output == b"id\tsource\ttranslation\n1\tab\tba\n2\t\n\n3\tcd\tdc\n"
    assert (done.lines, done.failed) == (5, 1)


def test_csv_rows_over_several_lines(tmp_path: Path, reverse: Translate) -> None:
    content = b'id;source\r\n1;"a;b"\r\n2;"c\r\nd"\r\n3\r\n4;"poison"\r\n5;e\r\n'
    output, done = run(tmp_path, content, reverse, format="csv", column="source", window=2)
    assert output == b'id;source;translation\n1;"a;b";"b;a"\n2;"c\r\nd";d  c\n3;\n4;"poison";\n5;e;e\n'
    assert (done.lines, done.failed) == (6, 2)


def test_every_csv_row_has_its_own_translation_beside_marks_inside_of_cells(tmp_path: Path, reverse: Translate) -> None:
    content = b'id,source\n1,The 5" dog\n2,ab\n3,a 6" cat\n4,cd\n'
    output, done = run(tmp_path, content, reverse, format="csv", column="source", window=2)
    assert output == b'id,source,translation\n1,The 5" dog,"god ""5 ehT"\n2,ab,ba\n3,a 6" cat,"tac ""6 a"\n4,cd,dc\n'
    assert (done.lines, done.failed) == (5, 0)


def test_a_column_that_is_not_there_leaves_no_trace(tmp_path: Path, reverse: Translate) -> None:
    content = b"id,source\n1,ab\n"
    with pytest.raises(ValueError, match="There is no column sorce"):
        run(tmp_path, content, reverse, format="csv", column="sorce")
    assert run(tmp_path, content, reverse, format="csv", column="source")[0] == b"id,source,translation\n1,ab,ba\n"


def test_jsonl(tmp_path: Path, reverse: Translate) -> None:
    content = b'{"text": "ab"}\n{"text": "poison"}\n{"text": 5}\n'
    output, done = run(tmp_path, content, reverse, format="jsonl")
    records = [json.loads(line) for line in output.splitlines()]
    assert records[0] == {"text": "ab", "translation": "ba"}
    assert records[1] == {"text": "poison", "translation": "", "error": "poisoned"}
    assert records[2]["error"] == "the field text holds a number instead of a string"
    assert done.failed == 2


def test_texts_are_split_into_sentences_and_joined(tmp_path: Path) -> None:
    def shout(sentences: Sequence[str]) -> Iterator[tuple[int, Outcome]]:
        assert "poison." not in sentences or len(sentences) == 5
        for index, text in reversed(list(enumerate(sentences))):
            yield index, [Translation(text.upper().replace(".", "!"), None)]

    text = "One. Two, Mr. Smith.  Three.\n\nFour. "
    content = "".join(json.dumps({"text": text}) + "\n" for text in (text, " ", "Five."))
    output, done = run(tmp_path, content.encode(), shout, format="jsonl", split_language="en")
    translations = [json.loads(line)["translation"] for line in output.splitlines()]
    assert translations == ["ONE! TWO, MR! SMITH!  THREE!\n\nFOUR! ", "", "FIVE!"]
    assert done.failed == 0


def test_a_text_with_a_failing_sentence_fails(tmp_path: Path, reverse: Translate) -> None:
    output, done = run(tmp_path, b"One. A poison. Two.\nThree. Four.\n", reverse, split_language="en")
    assert output == b"\n.eerhT .ruoF\n"
    assert done.failed == 1


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="no format 'xlsx'; choose one of text, tsv, csv, jsonl"):
        JobSettings(format="xlsx")
    with pytest.raises(ValueError, match="`column` is 'text', and a line of the format text has none; leave it out"):
        JobSettings(column="text")
    with pytest.raises(ValueError, match="at least 1"):
        JobSettings(window=0)
    with pytest.raises(ValueError, match="at least 1"):
        JobSettings(hypotheses=0)
    for columns in ({"hypotheses": 2}, {"scores": True}):
        with pytest.raises(ValueError, match="one translation each"):
            JobSettings(split_language="en", **columns)
    with pytest.raises(ValueError, match="split_sentences is 'klingon', which is no language's code"):
        JobSettings(split_language="klingon")


def test_the_bar_counts_lines(tmp_path: Path, reverse: Translate, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in").write_bytes(b"a\n\n\xff\nd\n")
    translate_file(str(tmp_path / "in"), str(tmp_path / "out"), reverse, JobSettings(window=2))
    shown = capsys.readouterr().err
    assert "4/4" in shown and "sentence/s" in shown


def test_memory_does_not_grow_with_the_input(tmp_path: Path, reverse: Translate) -> None:
    def peak(lines: int) -> int:
        with gzip.open(tmp_path / "in.gz", "wb", compresslevel=1) as stream:
            for start in range(0, lines, 1000):
                stream.write(b"".join(b"line %d of many\n" % n for n in range(start, start + 1000)))
        target = tmp_path / f"{lines}.gz"
        tracemalloc.start()
        translate_file(str(tmp_path / "in.gz"), str(target), reverse, JobSettings(window=500), progress=False)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        with gzip.open(target, "rb") as stream:
            assert sum(1 for _ in stream) == lines
        return peak

    peak(1000)  # what is imported and cached once
    assert peak(60_000) < 1.2 * peak(3000)


CONTENT = b"id\ttext\n" + b"".join(b"%d\tsentence number %d\n" % (n, n) for n in range(9))


def in_a_process(action: Callable[[], Any]) -> int:
    """The status, negative for a signal, of a forked process that runs `action` and is gone without any cleaning up."""
    process = os.fork()
    if process == 0:
        status = 1
        try:
            action()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def killing_itself(instruction: int, action: Callable[[], Any]) -> Callable[[], None]:
    """`action`, killed before it executes the given line of our code, counted over all it executes."""
    left = instruction

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal left
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        if event == "line":
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    def run() -> None:
        sys.settrace(trace)
        action()

    return run


@pytest.mark.parametrize("target", ["out.tsv", "out.tsv.gz"])
def test_killed_anywhere_the_output_is_the_same(target: str, tmp_path: Path, reverse: Translate) -> None:
    """Killed at every 40th line of code, and once more after going on, a job ends with the bytes of one that never stopped."""
    settings = {"format": "tsv", "column": "text", "window": 2}
    expected, _ = run(tmp_path, CONTENT, reverse, target, **settings)
    path = tmp_path / target

    def job() -> None:
        translate_file(str(tmp_path / "in"), str(path), reverse, JobSettings(**settings), progress=False)

    instruction, killed = 1, 0
    while True:
        path.unlink()
        if in_a_process(killing_itself(instruction, job)) == 0:
            break
        killed += 1
        assert not path.exists() or path.read_bytes() == expected, "a file under its own name is complete"
        in_a_process(killing_itself(300 + instruction // 2, job))
        if list(tmp_path.glob(f"{target}.progress.json")) or not path.exists():
            assert in_a_process(job) == 0
        assert path.read_bytes() == expected
        assert sorted(file.name for file in tmp_path.iterdir()) == ["in", target]
        instruction += 40
    assert killed > 20


def test_another_input_or_another_job_does_not_go_on(tmp_path: Path, reverse: Translate) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_bytes(b"a\nb\nc\n")

    def stopped(sentences: Sequence[str]) -> Iterator[tuple[int, Outcome]]:
        if "c" in sentences:
            signal.raise_signal(signal.SIGTERM)
        yield from reverse(sentences)

    def go_on(translate: Translate = reverse, **settings: Any) -> Any:
        return translate_file(str(source), str(target), translate, JobSettings(**{"window": 1, **settings}), {"model": "x"})

    with pytest.raises(KeyboardInterrupt):
        go_on(stopped)
    with pytest.raises(ValueError, match="window was 1 and is now 2"):
        go_on(window=2)
    source.write_bytes(b"a\nB\nc\n")
    with pytest.raises(ValueError, match="The first 2 lines"):
        go_on()
    source.write_bytes(b"a\nb\nchanged behind\n")
    assert go_on().lines == 3
    assert target.read_bytes() == b"a\nb\ndniheb degnahc\n"


def test_who_stops_a_job_is_told_how_to_go_on(tmp_path: Path, reverse: Translate, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in").write_bytes(b"a\nb\nc\n")
    before = signal.getsignal(signal.SIGTERM)
    interrupted = signal.signal(signal.SIGINT, signal.default_int_handler)  # a test run in the background begins with SIGINT ignored

    def stopped(sentences: Sequence[str]) -> Iterator[tuple[int, Outcome]]:
        if sentences == ["b"]:
            signal.raise_signal(signal.SIGINT)
        yield from reverse(sentences)

    with pytest.raises(KeyboardInterrupt):
        translate_file(str(tmp_path / "in"), str(tmp_path / "out"), stopped, JobSettings(window=1))
    assert f"1 lines are safe in {tmp_path / 'out'}.partial; the same command resumes" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGTERM) is before
    signal.signal(signal.SIGINT, interrupted)
