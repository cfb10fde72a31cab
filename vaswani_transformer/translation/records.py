"""What a line of a file holds, and how its translation or label is written beside it: one line out for every line in, whatever happens.

With N hypotheses a line and scores, the columns of `text` and the appended columns of `tsv` are

    translation  score  translation  score  ...      (N times, best first; no scores unless asked for)

separated by tabs; line breaks and tabs inside a translation become spaces. In `csv` they have the input's own separator, and a row may
span several lines, within quotation marks. `jsonl` adds `"translation"` (and `"score"`), or for N above 1
`"translations": [{"translation": ..., "score": ...}, ...]`. A line that could not be translated has empty columns, or an empty
`"translation"` (`"translations": []`) and the reason as `"error"`. A blank line has blank translations without a score. Labels are named
`label`, or `labels` for those of all words, in place of `translation`.
"""

import csv
import io
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from ..files.delimiters import csv_delimiter
from ..files.lines import LONGEST_LINE
from .translate import Failure, Outcome, Translation

FORMATS = ("text", "tsv", "csv", "jsonl")


class BadLine(ValueError):
    """A line without a text; the sentence says why."""


@dataclass(frozen=True)
class Layout:
    """The content of a line of output: how many hypotheses, whether with scores, and what each is called."""

    hypotheses: int = 1
    scores: bool = False
    name: str = "translation"

    @property
    def columns(self) -> int:
        return self.hypotheses * (1 + self.scores)

    def cells(self, outcome: Outcome) -> list[str]:
        """The columns; all empty for a failure."""
        if isinstance(outcome, Failure):
            return [""] * self.columns
        return [cell for hypothesis in outcome for cell in self._cells(hypothesis)]

    def _cells(self, hypothesis: Translation) -> Iterator[str]:
        text = " ".join(hypothesis.text.splitlines())
        yield text if self.columns == 1 else text.replace("\t", " ")
        if self.scores:
            yield "" if hypothesis.score is None else f"{hypothesis.score:.6f}"

    def header(self) -> list[str]:
        """Names of the columns."""
        numbers = [""] if self.hypotheses == 1 else [f"_{number}" for number in range(1, self.hypotheses + 1)]
        kinds = [self.name, "score"] if self.scores else [self.name]
        return [kind + number for number in numbers for kind in kinds]

    def fields(self, outcome: Outcome) -> dict[str, Any]:
        """The fields of a JSON object."""
        entries = [] if isinstance(outcome, Failure) else [self._fields(entry) for entry in outcome]
        error = {"error": outcome.reason} if isinstance(outcome, Failure) else {}
        if self.hypotheses > 1:
            return {f"{self.name}s": entries, **error}
        return {**(entries[0] if entries else {self.name: ""}), **error}

    def _fields(self, hypothesis: Translation) -> dict[str, Any]:
        if not self.scores:
            return {self.name: hypothesis.text}
        score = hypothesis.score
        return {self.name: hypothesis.text, "score": None if score is None else round(score, 6)}


class Records(Protocol):
    """One format of files."""

    @property
    def header(self) -> bytes | None:
        """The output's line for the input's first line, if that is a header."""

    def source(self, line: bytes) -> str:
        """The text; blank for a blank line. Raises `BadLine`."""

    def render(self, line: bytes, outcome: Outcome) -> bytes:
        """The line of output, without its line break."""


@dataclass(frozen=True)
class TextLines:
    """A line is a text."""

    layout: Layout

    @property
    def header(self) -> None:
        return None

    def source(self, line: bytes) -> str:
        """See `Records.source`."""
        return _decoded(line)

    def render(self, line: bytes, outcome: Outcome) -> bytes:
        """See `Records.render`."""
        return "\t".join(self.layout.cells(outcome)).encode()


@dataclass(frozen=True)
class TsvRows:
    """A line is a row of cells separated by tabs, without quoting; every row has as many as the first.

    Only the cell with the text is decoded; the others are copied byte for byte.
    """

    layout: Layout
    column: int
    width: int
    header: bytes | None

    @classmethod
    def of(cls, layout: Layout, column: str, first_line: bytes) -> "TsvRows":
        """Find a column by its name in the first line, or by its number from 1 in a file without a header.

        Raises:
            ValueError: there is no such column.
        """
        names = [name.decode(errors="replace") for name in first_line.split(b"\t")]
        number, has_header = _find_column(names, column)
        header = b"\t".join([first_line, *(name.encode() for name in layout.header())])
        return cls(layout, number, len(names), header if has_header else None)

    def source(self, line: bytes) -> str:
        """See `Records.source`."""
        if self._is_blank(line):
            return ""
        _check_length(line)
        cells = line.split(b"\t")
        _check_width(cells, self.width)
        return _decoded(cells[self.column])

    def render(self, line: bytes, outcome: Outcome) -> bytes:
        """See `Records.render`."""
        if self._is_blank(line):
            return b""
        cells = [cell.replace("\t", " ").encode() for cell in self.layout.cells(outcome)]
        return b"\t".join([line[:LONGEST_LINE], *cells])

    def _is_blank(self, line: bytes) -> bool:
        return not line and self.width > 1


@dataclass(frozen=True)
class CsvRows:
    """A line is a row of cells, some in quotation marks; every row has as many as the first. It is copied byte for byte."""

    layout: Layout
    column: int
    width: int
    delimiter: str
    header: bytes | None

    @classmethod
    def of(cls, layout: Layout, column: str, first_line: bytes) -> "CsvRows":
        """See `TsvRows.of`; the first line also decides the separator of the cells."""
        first = first_line.decode(errors="replace")
        delimiter = csv_delimiter(first)
        try:
            names = _parsed_row(first, delimiter)
        except BadLine as error:
            raise ValueError(f"The first line is {error}; repair it, or choose another format.") from error
        number, has_header = _find_column(names, column)
        made = cls(layout, number, len(names), delimiter, None)
        return replace(made, header=made._extended(first_line, layout.header())) if has_header else made

    def source(self, line: bytes) -> str:
        """See `Records.source`."""
        if not line:
            return ""
        cells = _parsed_row(_decoded(line), self.delimiter)
        _check_width(cells, self.width)
        return cells[self.column]

    def render(self, line: bytes, outcome: Outcome) -> bytes:
        """See `Records.render`."""
        return self._extended(line[:LONGEST_LINE], self.layout.cells(outcome)) if line else b""

    def _extended(self, line: bytes, cells: list[str]) -> bytes:
        added = io.StringIO()
        # A row of one empty cell would be written `""`; the empty cell put first stands for the line that these cells extend
        csv.writer(added, delimiter=self.delimiter, lineterminator="").writerow(["", *cells])
        return line + added.getvalue().encode()


@dataclass(frozen=True)
class JsonRecords:
    """A line is a JSON object. Its own text stays unchanged, unless it already has a field that will be written."""

    layout: Layout
    field: str

    @property
    def header(self) -> None:
        return None

    def source(self, line: bytes) -> str:
        """See `Records.source`."""
        if not line.strip():
            return ""
        record = self._parsed(line)
        if self.field not in record:
            raise BadLine(f"no field {json.dumps(self.field, ensure_ascii=False)}")
        text = record[self.field]
        if not isinstance(text, str):
            raise BadLine(f"the field {self.field} holds {_json_type(text)} instead of a string")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise BadLine(f"half a surrogate pair at character {error.start + 1} of the field {self.field}") from error
        return text

    def render(self, line: bytes, outcome: Outcome) -> bytes:
        """See `Records.render`."""
        if not line.strip():
            return b""
        added = self.layout.fields(outcome)
        try:
            record = self._parsed(line)
        except BadLine:
            return _json(added)
        if added.keys() & record.keys():
            return _json({**record, **added})
        opened = line.strip()[:-1].rstrip()
        return opened + (b", " if record else b"") + _json(added)[1:]

    @staticmethod
    def _parsed(line: bytes) -> dict[str, Any]:
        text = _decoded(line)
        try:
            record = json.loads(text)
        except json.JSONDecodeError as error:
            raise BadLine(f"not valid JSON ({error.msg} at character {error.pos + 1})") from error
        except (RecursionError, ValueError) as error:  # nested too deeply, or a number with thousands of digits
            raise BadLine(f"JSON that cannot be read ({error})") from error
        if not isinstance(record, dict):
            raise BadLine(f"{_json_type(record)} instead of a JSON object")
        return record


def make_records(kind: str, column: str | None, layout: Layout, first_line: bytes) -> Records:
    """The format `kind`, one of `FORMATS`.

    Args:
        column: the column of "tsv" and "csv" with the text, the first by default; for "jsonl" the field, "text" by default.
        first_line: the input's first line.

    Raises:
        ValueError: there is no such format or column.
    """
    if kind == "text":
        return TextLines(layout)
    if kind == "tsv":
        return TsvRows.of(layout, column or "1", first_line)
    if kind == "csv":
        return CsvRows.of(layout, column or "1", first_line)
    if kind == "jsonl":
        return JsonRecords(layout, column or "text")
    raise ValueError(f"There is no format {kind!r}; choose one of {', '.join(FORMATS)}.")


def _find_column(names: Sequence[str], column: str) -> tuple[int, bool]:
    """The position of a column, and whether the first line names it."""
    if column in names:
        return names.index(column), True
    if column.isdecimal() and 1 <= int(column) <= len(names):
        return int(column) - 1, False
    known = ", ".join(name[:40] for name in names[:20])
    raise ValueError(
        f"There is no column {column}: the first line has {len(names)} ({known}). Name one of them, or give its number from 1 "
        "if there is no header."
    )


def _check_width(cells: Sequence[str] | Sequence[bytes], width: int) -> None:
    if len(cells) != width:
        raise BadLine(f"{len(cells)} columns, but the first line has {width}")


def _parsed_row(text: str, delimiter: str) -> list[str]:
    csv.field_size_limit(sys.maxsize)  # the model, and not the parser, refuses a cell that is too long
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)) or [[""]]
    except csv.Error as error:
        raise BadLine(f"not valid CSV ({error})") from error
    if len(rows) > 1:
        raise BadLine("not valid CSV (a line break outside of quotation marks)")
    return rows[0]


def _decoded(text: bytes) -> str:
    _check_length(text)
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        raise BadLine(f"not valid UTF-8 (byte 0x{text[error.start]:02x} at position {error.start + 1})") from error


def _check_length(line: bytes) -> None:
    if len(line) > LONGEST_LINE:
        raise BadLine(f"longer than {LONGEST_LINE} bytes")


def _json(content: dict[str, Any]) -> bytes:
    # A lone surrogate cannot be encoded; written with a backslash, it is JSON's own escape.
    return json.dumps(content, ensure_ascii=False).encode("utf-8", "backslashreplace")


def _json_type(value: Any) -> str:
    kinds = {dict: "an object", list: "a list", str: "a string", bool: "a truth value", type(None): "null"}
    return kinds.get(type(value), "a number")
