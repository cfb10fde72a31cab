"""Two files whose lines are each other's translation."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ...tasks import TAGGED
from .corpus import Corpus, SentencePair, existing, words_apart
from .text import file_lines


@dataclass(frozen=True, kw_only=True)
class LinesCorpus(Corpus):
    """Two line-aligned text files `source` and `target`, plain, `.gz` or `.xz`."""

    format: Literal["lines"] = "lines"
    source: str
    target: str

    @property
    def title(self) -> str:
        return self.source

    def _content(self, code: Callable[[object], str]) -> str:
        return f"line-aligned files {code(self.source)} and {code(self.target)}"

    def files(self, root: Path) -> dict[str, Path]:
        return {name: root / name for name in (self.source, self.target)}

    def _pairs(self, root: Path, languages: tuple[str, str]) -> Iterator[SentencePair]:
        paths = [existing(path) for path in (root / self.source, root / self.target)]
        pairs = aligned([(str(path), file_lines(path)) for path in paths], self.source)
        if languages != TAGGED:
            return pairs
        return (pair._replace(source=words_apart(pair.source), target=words_apart(pair.target)) for pair in pairs)


def aligned(sides: list[tuple[str, Iterator[str]]], origin: str) -> Iterator[SentencePair]:
    """Pairs of the lines of two texts, each given by its name for messages and its lines.

    Raises:
        ValueError: they have not equally many lines; the sentence names both numbers.
    """
    names, lines = zip(*sides, strict=True)
    for number, (source, target) in enumerate(itertools.zip_longest(*lines), start=1):
        if source is None or target is None:
            shorter, longer = (0, 1) if source is None else (1, 0)
            total = number + sum(1 for _ in lines[longer])
            raise ValueError(
                f"{names[shorter]} has {number - 1} lines but {names[longer]} has {total}: line-aligned files must have equally "
                "many. Find where they part (a lost or split line), or fetch both again."
            )
        yield SentencePair(source, target, origin, number)
