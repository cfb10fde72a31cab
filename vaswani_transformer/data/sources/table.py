"""A table with a column for each language: TSV, CSV, JSONL or Parquet."""

import csv
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from ...files.compression import COMPRESSED
from ...files.delimiters import csv_delimiter
from .corpus import SentencePair, existing
from .rows import ROWS_PER_READ, RowsCorpus, batched_rows
from .text import file_lines


@dataclass(frozen=True, kw_only=True)
class TableCorpus(RowsCorpus):
    """One file `path`: `.tsv`, `.csv`, `.jsonl` or `.parquet`, text ones also `.gz` or `.xz`."""

    format: Literal["table"] = "table"
    path: str

    @property
    def title(self) -> str:
        return self.path

    def _content(self, code: Callable[[object], str]) -> str:
        return f"table {code(self.path)}"

    def files(self, root: Path) -> dict[str, Path]:
        return {self.path: root / self.path}

    def _pairs(self, root: Path, languages: tuple[str, str]) -> Iterator[SentencePair]:
        path = existing(root / self.path)
        suffix = next(ending for ending in reversed(["", *path.suffixes]) if ending not in COMPRESSED)
        if suffix not in _READERS:
            raise ValueError(
                f"{path} is of no known kind of table; the name must end in {', '.join(_READERS)} (the text ones also .gz or .xz)."
            )
        return self._pairs_of(_READERS[suffix](path, self.columns_read(languages)), languages, self.path)


def _read_tsv(path: Path, columns: tuple[str, ...]) -> Iterator[tuple[int, dict[str, str]]]:
    """Tab-separated values have no quoting: a quotation mark is a character like any other.

    Where there is no header, columns are called by their numbers: "1", "2", ...
    """
    header: list[str] = []
    for number, line in enumerate(file_lines(path), start=1):
        cells = line.split("\t")
        if number == 1:
            by_number = all(column.isdecimal() and column not in cells for column in columns)
            header = [str(position) for position in range(1, len(cells) + 1)] if by_number else cells
            if not by_number:
                continue
        if line:
            _check_width(cells, header, f"{path}:{number}")
            yield number, dict(zip(header, cells, strict=True))


def _read_csv(path: Path, columns: tuple[str, ...]) -> Iterator[tuple[int, dict[str, str]]]:
    """Separated by commas, or by whatever the first line has in their place."""
    csv.field_size_limit(sys.maxsize)  # a very long sentence is for cleaning to drop, not for the parser to fail on
    lines = file_lines(path)
    first = next(lines, "")
    reader = csv.reader((f"{line}\n" for line in chain([first], lines)), strict=True, delimiter=csv_delimiter(first))
    try:
        header = next(reader, [])
        for cells in reader:
            if cells:
                _check_width(cells, header, f"{path}:{reader.line_num}")
                yield reader.line_num, dict(zip(header, cells, strict=True))
    except csv.Error as error:
        raise ValueError(f"{path}:{reader.line_num} is not valid CSV ({error}); quote the line properly, or use a .tsv file.") from error


def _check_width(cells: list[str], header: list[str], where: str) -> None:
    if len(cells) != len(header):
        raise ValueError(f"{where} has {len(cells)} columns, but {len(header)} belong there; repair or remove the line.")


def _read_jsonl(path: Path, columns: tuple[str, ...]) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(file_lines(path), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(f"{path}:{number} is not valid JSON ({error}); each line must hold one object.") from error
        if not isinstance(row, dict):
            raise ValueError(f"{path}:{number} holds {type(row).__name__} instead of an object with the columns as keys.")
        yield number, row


def _read_parquet(path: Path, columns: tuple[str, ...]) -> Iterator[tuple[int, dict[str, Any]]]:
    import pyarrow  # comes with datasets, and only this format needs it
    from pyarrow import parquet

    try:
        file = parquet.ParquetFile(path)
        wanted = list(columns) if set(columns) <= set(file.schema_arrow.names) else None
        yield from batched_rows(batch.to_pydict() for batch in file.iter_batches(ROWS_PER_READ, columns=wanted))
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(f"{path} cannot be read as Parquet ({error}); it is probably incomplete: fetch it again.") from error


_READERS: dict[str, Callable[[Path, tuple[str, ...]], Iterator[tuple[int, dict[str, Any]]]]] = {
    ".tsv": _read_tsv,
    ".csv": _read_csv,
    ".jsonl": _read_jsonl,
    ".parquet": _read_parquet,
}
