import codecs
import gzip
import hashlib
import io
import lzma
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vaswani_transformer.files import lines
from vaswani_transformer.files.compression import compress
from vaswani_transformer.files.lines import LineReader, count_lines, open_input


def reader(content: bytes) -> LineReader:
    return LineReader(io.BytesIO(content), "input")


def all_lines(content: bytes) -> list[bytes]:
    return [line for window in reader(content).windows(3) for line in window.lines]


def test_lines_end_at_line_feeds_only() -> None:
    assert all_lines(b"a\nb\r\n\n\xe2\x80\xa8c\rd\x0b\x00e") == [
        b"a",
        b"b",
        b"",
        b"\xe2\x80\xa8c\rd\x0b\x00e",
    ]
    assert all_lines(b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n") == [b"a", b"\xef\xbb\xbfb"]
    assert all_lines(b"") == []
    assert all_lines(b"\n") == [b""]


@given(st.binary(max_size=60), st.integers(1, 4), st.integers(0, 5))
def test_windows_hold_every_line_once_wherever_reading_begins(content: bytes, size: int, skipped: int) -> None:
    windows = list(reader(content).windows(size))
    assert [window.start for window in windows] == [size * number for number in range(len(windows))]
    assert all(len(window.lines) == size for window in windows[:-1])
    again = reader(content)
    if again.skip(skipped * size):
        assert list(again.windows(size)) == windows[skipped:]
    begun = reader(content)
    first = begun.read()
    assert list(begun.windows(size, [] if first is None else [first])) == windows


def test_a_window_ends_by_bytes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LARGEST_WINDOW", 10)
    windows = list(reader(b"123456\n" * 5).windows(100))
    assert [len(window.lines) for window in windows] == [2, 2, 1]


def test_the_digest_tells_one_input_from_another() -> None:
    digests = {list(reader(content).windows(9))[-1].digest for content in (b"a\nb", b"a\nb\n", b"a\r\nb\n")}
    assert len(digests) == 3


def test_of_an_endless_line_the_beginning_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LONGEST_LINE", 10)
    read = all_lines(b"1234567890\n" + b"x" * 95 + b"\nz\n" + b"1234567890\r\n" + b"12345678901\n" + b"y" * 30)
    assert [len(line) for line in read] == [10, 12, 1, 10, 11, 12]
    assert read[2] == b"z"


@pytest.mark.parametrize(("suffix", "module"), [("", None), (".gz", gzip), (".xz", lzma)])
def test_compressed_members_read_as_one_file(suffix: str, module: object, tmp_path: Path) -> None:
    path = tmp_path / f"text{suffix}"
    path.write_bytes(b"".join(compress(part, str(path)) for part in (b"a\nb\n", b"c\n", b"d")))
    with open_input(str(path)) as stream:
        assert stream.read() == b"a\nb\nc\nd"
    assert count_lines(str(path)) == 4
    assert compress(b"a", str(path)) == compress(b"a", str(path))


def test_a_damaged_archive_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress(b"a line\n" * 100_000)[:-200])
    with open_input(str(path)) as stream, pytest.raises(ValueError, match=r"text\.gz cannot be decompressed"):
        LineReader(stream, str(path)).skip(100_000)
    assert count_lines(str(path)) is None


def test_what_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    for name in ("missing", "."):
        with pytest.raises(FileNotFoundError, match="There is no file"), open_input(str(tmp_path / name)):
            pass
    (tmp_path / "a.zst").touch()
    with pytest.raises(ValueError, match=r"only \.gz, \.xz and plain"), open_input(str(tmp_path / "a.zst")):
        pass
    assert count_lines("-") is None


def test_between_quotation_marks_a_line_goes_on() -> None:
    content = b'a,"b\r\nc"\r\n"d ""e"",\n\n",f\ng\n"never closed\nh\n'
    reader = LineReader(io.BytesIO(content), "x.csv", separators=",")
    assert list(iter(reader.read, None)) == [b'a,"b\r\nc"', b'"d ""e"",\n\n",f', b"g", b'"never closed\nh']
    assert reader.lines_read == 4
    assert reader.digest == hashlib.sha256(content).hexdigest()


def test_a_quotation_mark_inside_of_a_cell_is_a_character() -> None:
    rows = [b'"a\nb",c', b'1,The 5" dog sleeps.', b'2,a "word" and "another', b'3,"a"",b\nc""",d', b'"",""', b'4 |"e', b'5" wide,"g\n"']
    content = codecs.BOM_UTF8 + b"\n".join(rows)
    assert list(iter(LineReader(io.BytesIO(content), "x.csv", separators=",").read, None)) == rows
    assert list(iter(LineReader(io.BytesIO(content.replace(b",", b"]")), "x.csv", separators="]").read, None)) == [
        row.replace(b",", b"]") for row in rows
    ]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-32"])
def test_other_encodings_are_named(encoding: str) -> None:
    mark = codecs.BOM_UTF16_BE if encoding == "utf-16-be" else b""
    with pytest.raises(ValueError, match=r"^in\.txt is in UTF-16 or UTF-32; convert it to UTF-8"):
        LineReader(io.BytesIO(mark + "A man.\nYes.\n".encode(encoding)), "in.txt").read()


def test_a_quotation_mark_that_is_never_closed_costs_no_more_than_the_longest_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vaswani_transformer.files.lines.LONGEST_LINE", 10)
    reader = LineReader(io.BytesIO(b'"' + b"abc\n" * 5), "x.csv", separators=",")
    assert [len(line) for line in iter(reader.read, None)] == [12, 3, 3]
