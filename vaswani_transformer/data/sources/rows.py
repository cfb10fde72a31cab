"""What the formats with columns share: which columns hold the two sides, and how their cells are read."""

from abc import ABC
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...tasks import ANSWERED, BETWEEN_TEXTS, BETWEEN_WORDS, LABELLED, MARKED, SUMMARIZED, TAGGED
from .corpus import Corpus, SentencePair, words_apart
from .marked import listed_answers, marked_pair

ROWS_PER_READ = 1000

QUESTION = "question"
"""The third column where answers are marked in a context."""


@dataclass(frozen=True, kw_only=True)
class RowsCorpus(Corpus, ABC):
    """Rows with columns `source_column` and `target_column` (the language codes when absent), or with a mapping `translation` of them."""

    source_column: str | None = None
    target_column: str | None = None

    def columns(self, languages: tuple[str, str]) -> tuple[str, str]:
        """The names of the columns with source and target."""
        return self.source_column or languages[0], self.target_column or languages[1]

    def columns_read(self, languages: tuple[str, str]) -> tuple[str, ...]:
        """All columns that are read."""
        return (*self.columns(languages), *([QUESTION] if languages == MARKED else []))

    def _pairs_of(self, rows: Iterable[tuple[int, Mapping[str, Any]]], languages: tuple[str, str], origin: str) -> Iterator[SentencePair]:
        """A pair for each numbered row."""
        columns = self.columns(languages)
        for number, row in rows:
            if languages == MARKED:
                yield _marked(row, columns, origin, number)
                continue
            if languages == LABELLED and columns[0] in row:
                row = {**row, columns[0]: _joined(row[columns[0]], " ")}
            if languages in (LABELLED, TAGGED):
                read = words_apart if languages == TAGGED else str
                written = {
                    column: _written(row[column], read, f"{origin}:{number}: column `{column}`") for column in columns if column in row
                }
                row = {**row, **written}
            elif languages in (SUMMARIZED, ANSWERED):
                between = zip(columns, (" ", BETWEEN_TEXTS), strict=True)  # sentences of one text, and several references
                row = {**row, **{column: _joined(row[column], mark) for column, mark in between if column in row}}
            source, target = (_cell(row, column, f"{origin}:{number}") for column in columns)
            yield SentencePair(source, target, origin, number)


def batched_rows(batches: Iterable[Mapping[str, list[Any]]]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of batches of columns, numbered from 1."""
    rows = (dict(zip(batch, values, strict=True)) for batch in batches for values in zip(*batch.values(), strict=True))
    return enumerate(rows, start=1)


def _marked(row: Mapping[str, Any], columns: tuple[str, str], origin: str, number: int) -> SentencePair:
    """A row with a question whose answers are marked."""
    if missing := [name for name in (*columns, QUESTION) if name not in row]:
        raise ValueError(
            f"{origin}:{number} has no column `{missing[0]}`; available are {', '.join(f'`{name}`' for name in row)}. For the context and "
            "its answers, set source_column and target_column in the recipe."
        )
    context, answers = (row[column] for column in columns)
    return marked_pair(row[QUESTION], context, listed_answers(answers, f"{origin}:{number}"), origin, number)


def _joined(value: Any, between: str) -> Any:
    """A list of texts as one."""
    return between.join(value) if isinstance(value, list) and all(isinstance(item, str) for item in value) else value


def _written(value: Any, read: Callable[[str], str], where: str) -> Any:
    """A label as text where it is a number, and the words of a text, or their labels, in one text.

    Args:
        value: what the column holds.
        read: makes the words, or the label, of one text.
        where: for messages.
    """
    if isinstance(value, list):
        if unfit := [item for item in value if not isinstance(item, str | int)]:
            raise ValueError(f"{where} holds a list with {unfit[0]!r}, which is no word and no label; repair the row.")
        return BETWEEN_WORDS.join(map(str, value))
    return read(str(value)) if isinstance(value, str | int) else value


def _cell(row: Mapping[str, Any], column: str, where: str) -> str:
    """The text of a column, also inside the column `translation` of a row; no value is empty text, which cleaning counts."""
    nested = row.get("translation")
    cells = nested if column not in row and isinstance(nested, Mapping) else row
    if column not in cells:
        raise ValueError(
            f"{where} has no column `{column}`; available are {', '.join(f'`{name}`' for name in cells)}. "
            "Set source_column and target_column in the recipe, or --source-column and --target-column of `vaswani new` (to numbers from "
            "1 where a .tsv file has no header)."
        )
    text = cells[column]
    if text is not None and not isinstance(text, str):
        raise ValueError(f"{where}: column `{column}` must hold text, not {text!r}; choose other columns in the recipe.")
    try:
        (text or "").encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{where}: column `{column}` holds half a surrogate pair at character {error.start + 1}, which is not text; repair the row."
        ) from error
    return text or ""
