"""A look at a corpus before anything is made of it: what cleaning would do, how long the sentences are, what they are written in.

All of it is counted while the pairs stream by; in memory are hashes, histograms and at most `_MOST_WORDS` different words.
"""

import hashlib
import heapq
import re
import unicodedata
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache

from ..recipe import CleaningSettings
from .cleaning import CleaningReport, clean, count_words
from .sources.corpus import SentencePair
from .workers import available_cores

_MOST_WORDS = 300_000
_CHARACTERS_A_LINE = 200
_PUNCTUATION = re.compile(r"\S(\s?)[.,](?=\s|$)")


@dataclass
class Side:
    """One language of a corpus.

    Attributes:
        lengths: how many kept sentences have so many words; where a script puts no space between words, a character is one.
        scripts: letters by their script, such as LATIN.
        words: different words; counting ends at `_MOST_WORDS`.
        detached: full stops and commas with a space before them, and those without.
    """

    lengths: Counter[int] = field(default_factory=Counter)
    scripts: Counter[str] = field(default_factory=Counter)
    words: set[str] = field(default_factory=set)
    detached: Counter[bool] = field(default_factory=Counter)

    def add(self, text: str) -> None:
        """Count one more text."""
        self.lengths[count_words(text)] += 1
        self.scripts.update(script for character in text[:_CHARACTERS_A_LINE] if (script := _script(character)))
        if len(self.words) < _MOST_WORDS:
            self.words.update(text.split())
        self.detached.update(bool(space) for space in _PUNCTUATION.findall(text))

    @property
    def total_words(self) -> int:
        return sum(length * number for length, number in self.lengths.items())

    def quantile(self, share: float) -> int:
        """The length that so many of the sentences do not exceed."""
        wanted, seen = share * self.lengths.total(), 0
        for length, number in sorted(self.lengths.items()):
            seen += number
            if seen >= wanted:
                return length
        return 0

    @property
    def script(self) -> str:
        """The script of most letters."""
        return self.scripts.most_common(1)[0][0] if self.scripts else "NONE"

    @property
    def is_tokenized(self) -> bool:
        """Whether full stops and commas stand apart, as tools leave them that split text into tokens."""
        return self.detached[True] > 9 * self.detached[False]


@dataclass
class Survey:
    """What there is to know of a training corpus. `held_out` are the pairs that were chosen from it."""

    cleaning: CleaningReport
    source: Side
    target: Side
    held_out: list[SentencePair]

    @property
    def pairs(self) -> int:
        """Those left to train on."""
        return self.cleaning.kept - len(self.held_out)


def survey(pairs: Iterable[SentencePair], held_out: Iterable[SentencePair] = (), choose: int = 0, seed: int = 1) -> Survey:
    """Read a corpus once and count.

    Args:
        pairs: the training pairs.
        held_out: pairs of validation and test sets that there are already.
        choose: so many pairs to hold out of the rest, each with a source of its own. A hash of source and seed decides, so that neither
            the order of the corpus nor its duplicates do.
        seed: see `choose`.
    """
    kept, report = clean(pairs, CleaningSettings(), held_out, available_cores())
    sides = Side(), Side()
    ranked = _ranked(_counted(kept, sides), seed)
    chosen = heapq.nsmallest(choose, ranked)
    deque(ranked, maxlen=0)  # what `nsmallest` leaves, which is all if nothing is to be chosen
    return Survey(report, *sides, [pair for _, pair in chosen])


def _counted(pairs: Iterator[SentencePair], sides: tuple[Side, Side]) -> Iterator[SentencePair]:
    for pair in pairs:
        sides[0].add(pair.source)
        sides[1].add(pair.target)
        yield pair


def _ranked(pairs: Iterator[SentencePair], seed: int) -> Iterator[tuple[int, SentencePair]]:
    """Each source once, with the number that decides whether it is chosen."""
    seen: set[int] = set()
    for pair in pairs:
        rank = _rank(" ".join(pair.source.split()), seed)
        if rank not in seen:
            seen.add(rank)
            yield rank, pair


def _rank(source: str, seed: int) -> int:
    return int.from_bytes(hashlib.blake2b(source.encode(), digest_size=8, key=str(seed).encode()).digest())


@cache
def _script(character: str) -> str | None:
    """The first word of a letter's name in Unicode, which is its script: LATIN, CYRILLIC, CJK ..."""
    return unicodedata.name(character, "UNKNOWN").split()[0] if character.isalpha() else None
