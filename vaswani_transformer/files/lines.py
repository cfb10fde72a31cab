"""Lines of a file or stream of any size, in windows, so that memory is bounded.

Lines end at the byte "\\n" and nowhere else. They stay bytes here: what cannot be decoded concerns its line only.
"""

import codecs
import hashlib
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import BinaryIO, NamedTuple

from .compression import damage_explained, open_bytes

LONGEST_LINE = 8 * 2**20
"""In bytes. A longer line is cut one byte behind this length, so that its length tells that it was cut; the rest is skipped."""

LARGEST_WINDOW = 8 * 2**20
"""Bytes after which a window ends, however few its lines."""

STANDARD_STREAM = "-"

_WIDE_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)
"""UTF-32's other mark begins like UTF-16's."""


class Window(NamedTuple):
    """Some lines in a row.

    `start` is the number of lines before the first, `lines` come without their ends, and `digest` is the SHA-256 of all that was read up to
    the last: an equal digest means that the same input was read.
    """

    start: int
    lines: list[bytes]
    digest: str


class LineReader:
    """Counts and hashes the lines that it hands out."""

    def __init__(self, stream: BinaryIO, name: str, separators: str = "") -> None:
        """Begin.

        Args:
            stream: the input.
            name: for messages.
            separators: characters that separate cells, as in CSV: a line end in a cell between quotation marks then ends no line.
        """
        self.lines_read = 0
        self.separators = separators
        self._stream, self._name = stream, name
        self._hash = hashlib.sha256()

    @property
    def digest(self) -> str:
        """SHA-256 of all that was read, in hexadecimal."""
        return self._hash.hexdigest()

    def read(self) -> bytes | None:
        """The next line without its line break, and without a byte order mark in the first line; None after the last line.

        Raises:
            ValueError: a compressed file is damaged, or the input begins with the mark of UTF-16 or UTF-32.
        """
        line = self._read_raw(LONGEST_LINE + 2)
        if not line:
            return None
        rest = line
        if self.lines_read == 0:
            if line.startswith(_WIDE_MARKS):
                raise ValueError(f"{self._name} is in UTF-16 or UTF-32; convert it to UTF-8, for instance with `iconv -f UTF-16 -t UTF-8`.")
            line = line.removeprefix(codecs.BOM_UTF8)
        is_open = bool(self.separators) and _ends_in_quotes(line, False, self.separators)
        while is_open and len(line) <= LONGEST_LINE and (rest := self._read_raw(LONGEST_LINE + 2)):
            line += rest
            is_open = _ends_in_quotes(rest, True, self.separators)
        while rest and not rest.endswith(b"\n"):
            rest = self._read_raw(LONGEST_LINE)
        self.lines_read += 1
        return line.removesuffix(b"\n").removesuffix(b"\r")

    def skip(self, count: int) -> bool:
        """Read `count` lines and drop them; False if there are fewer."""
        return all(self.read() is not None for _ in range(count))

    def windows(self, most_lines: int, begun: Sequence[bytes] = ()) -> Iterator[Window]:
        """What is left, in windows of at most `most_lines` lines: where they are cut depends on the content only.

        `begun` are lines that have been read and belong to the first window.
        """
        start, lines, size = self.lines_read - len(begun), [*begun], sum(map(len, begun))
        while True:
            while len(lines) < most_lines and size < LARGEST_WINDOW and (line := self.read()) is not None:
                lines.append(line)
                size += len(line)
            if not lines:
                return
            yield Window(start, lines, self.digest)
            start, lines, size = self.lines_read, [], 0

    def _read_raw(self, most_bytes: int) -> bytes:
        with damage_explained(self._name, lambda: self.lines_read):
            raw = self._stream.readline(most_bytes)
        self._hash.update(raw)
        return raw


@cache
def _opening(separators: str) -> re.Pattern[bytes]:
    """A quotation mark at the beginning of a cell, behind one of the separators."""
    return re.compile(rb"(?<=[" + re.escape(separators.encode()) + rb'])"')


def _ends_in_quotes(line: bytes, is_open: bool, separators: str) -> bool:
    """Whether a cell between quotation marks goes on behind this line; `is_open` tells whether it begins in one.

    A mark inside of any other cell is a character like any other, as in 5" and for Python's csv module.
    """
    place, opening = 0, _opening(separators)
    while True:
        if is_open:
            place = line.find(b'"', place) + 1
            if not place:
                return True
            if line[place : place + 1] == b'"':  # two stand for one
                place += 1
            else:
                is_open = False
        elif place == 0 and line.startswith(b'"'):
            place, is_open = 1, True
        elif found := opening.search(line, place):
            place, is_open = found.end(), True
        else:
            return False


@contextmanager
def open_input(name: str) -> Iterator[BinaryIO]:
    """Open a file, plain or compressed by its suffix, or standard input for "-".

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the compression is not known.
    """
    if name == STANDARD_STREAM:
        yield sys.stdin.buffer
        return
    require_input(name)
    with open_bytes(Path(name)) as stream:
        yield stream


def require_input(name: str) -> None:
    """Refuse what `open_input` would, before a model is loaded for it.

    Raises:
        FileNotFoundError: there is no such file.
    """
    path = Path(name)
    if name != STANDARD_STREAM and (not path.exists() or path.is_dir()):
        raise FileNotFoundError(f"There is no file {path} to read; check its name.")


def count_lines(name: str) -> int | None:
    """How many lines a file has; None for what can be read only once. Takes a second or so for a gigabyte, decompression apart."""
    if name == STANDARD_STREAM or not Path(name).is_file():
        return None
    lines, last = 0, b"\n"
    with open_input(name) as stream:
        try:
            with damage_explained(name):
                while chunk := stream.read(2**20):
                    lines, last = lines + chunk.count(b"\n"), chunk[-1:]
        except ValueError:
            return None  # reading line by line will come to the same place and say which line it is
    return lines + (last != b"\n")
