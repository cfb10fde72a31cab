"""One file with a label and a text on each line."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ...tasks import LABELLED
from .corpus import Corpus, SentencePair, existing
from .text import file_lines


@dataclass(frozen=True, kw_only=True)
class LabelledLinesCorpus(Corpus):
    """One file `path`, plain, `.gz` or `.xz`: on each line a label, white space, and the text."""

    format: Literal["labelled_lines"] = "labelled_lines"
    path: str

    @property
    def title(self) -> str:
        return self.path

    def _content(self, code: Callable[[object], str]) -> str:
        return f"labelled lines {code(self.path)}"

    def files(self, root: Path) -> dict[str, Path]:
        return {self.path: root / self.path}

    def _pairs(self, root: Path, languages: tuple[str, str]) -> Iterator[SentencePair]:
        if languages != LABELLED:
            raise ValueError(f"{self.path}: `format: labelled_lines` is for `task: classification`; choose another format or task.")
        for number, line in enumerate(file_lines(existing(root / self.path)), start=1):
            if line.strip():
                label, *rest = line.split(maxsplit=1)
                yield SentencePair(rest[0] if rest else "", label, self.path, number)
