"""Words in columns, a word a line and an empty line behind each text: CoNLL-U, and the columns of the CoNLL shared tasks."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ...strict_yaml import require_at_least
from ...tasks import BETWEEN_WORDS, TAGGED
from .corpus import Corpus, SentencePair, existing
from .text import file_lines

_DOCUMENT = "-DOCSTART-"


@dataclass(frozen=True, kw_only=True)
class ConllCorpus(Corpus):
    """One file `path`, plain, `.gz` or `.xz`, with a word a line in columns that tabs, or else spaces, part.

    `word_column` and `tag_column` count from 1. In a file whose name says `.conllu` they are 2 and 4, the form and its universal part of
    speech; comments, ranges such as `3-4` and empty nodes such as `8.1` are not words. Otherwise they are the first and the last one.
    """

    format: Literal["conll"] = "conll"
    path: str
    word_column: int | None = None
    tag_column: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least(self, 1, "word_column", "tag_column")

    @property
    def title(self) -> str:
        return self.path

    def _content(self, code: Callable[[object], str]) -> str:
        column = "" if self.tag_column is None else f", labels in column {self.tag_column}"
        return f"words in columns {code(self.path)}{column}"

    def files(self, root: Path) -> dict[str, Path]:
        return {self.path: root / self.path}

    def _pairs(self, root: Path, languages: tuple[str, str]) -> Iterator[SentencePair]:
        if languages != TAGGED:
            raise ValueError(f"{self.path}: `format: conll` is for `task: tagging`; choose another format or task.")
        words: list[str] = []
        tags: list[str] = []
        begin = 0
        for number, line in enumerate(file_lines(existing(root / self.path)), start=1):
            if not line.strip():
                if words:
                    yield self._text(words, tags, begin)
                words, tags = [], []
            elif (found := self._word(line, number)) is not None:
                begin = begin if words else number
                words.append(found[0])
                tags.append(found[1])
        if words:
            yield self._text(words, tags, begin)

    def _text(self, words: list[str], tags: list[str], line: int) -> SentencePair:
        return SentencePair(BETWEEN_WORDS.join(words), BETWEEN_WORDS.join(tags), self.path, line)

    def _word(self, line: str, number: int) -> tuple[str, str] | None:
        """Word and label; None for a line that is no word."""
        is_conllu = ".conllu" in Path(self.path).name
        if (is_conllu and line.startswith("#")) or line.startswith(_DOCUMENT):
            return None
        cells = line.split("\t") if "\t" in line else line.split()
        if is_conllu and not cells[0].isdecimal():
            return None
        word, tag = self.word_column or (2 if is_conllu else 1), self.tag_column or (4 if is_conllu else len(cells))
        if max(word, tag) > len(cells) or len(cells) < 2:
            raise ValueError(
                f"{self.path}:{number} has {len(cells)} columns, but the word is in column {word} and its label in column "
                f"{max(tag, 2)}; repair the line, or set `word_column` and `tag_column` in the recipe."
            )
        if not (cells[word - 1].strip() and cells[tag - 1].strip()):
            raise ValueError(f"{self.path}:{number} has no {'label' if cells[word - 1].strip() else 'word'}; add it, or remove the line.")
        return cells[word - 1], cells[tag - 1].strip()
