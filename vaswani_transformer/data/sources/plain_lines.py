"""One file of text in one language, for pretraining."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ...tasks import UNLABELLED
from .corpus import Corpus, SentencePair, existing
from .text import file_lines


@dataclass(frozen=True, kw_only=True)
class PlainLinesCorpus(Corpus):
    """One file `path`, plain, `.gz` or `.xz`, with a text on each line, such as one side of a parallel corpus."""

    format: Literal["plain_lines"] = "plain_lines"
    path: str

    @property
    def title(self) -> str:
        return self.path

    def _content(self, code: Callable[[object], str]) -> str:
        return f"lines of text {code(self.path)}"

    def files(self, root: Path) -> dict[str, Path]:
        return {self.path: root / self.path}

    def _pairs(self, root: Path, languages: tuple[str, str]) -> Iterator[SentencePair]:
        if languages != UNLABELLED:
            raise ValueError(f"{self.path}: `format: plain_lines` is for `task: pretraining`; choose another format or task.")
        for number, line in enumerate(file_lines(existing(root / self.path)), start=1):
            yield SentencePair(line, line, self.path, number)
