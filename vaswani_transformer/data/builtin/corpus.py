"""The built-in corpus: generated English-German sentence pairs in three disjoint splits, for a first run that needs no download.

`builtin_lexicon` holds the words and their inflection, `builtin_grammar` writes a clause in both languages, `builtin_author` fills clauses
with words that fit together, `builtin_sentences` makes sentences of them; here their stream is freed of repetition and divided.
"""

import hashlib
from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import Literal, TypeVar, get_args

from .marks import AlignedPair
from .sentences import aligned_sentences, sentences

PairT = TypeVar("PairT", tuple[str, str], AlignedPair)
Split = Literal["train", "validation", "test"]

SIZES: dict[Split, int] = {"train": 24_000, "validation": 500, "test": 1_000}
"""Pairs of each split, unless the caller asks for another number."""

_SEED = 1706
_SHARES = 30
_HELD_OUT: dict[int, Split] = {0: "validation", 1: "test", 2: "test"}
"""Of thirty shares of all sentences one is for validation and two are for the test."""

_LONGEST_DROUGHT = 100_000
"""After so many draws without a new sentence the grammar counts as exhausted."""


def _split_of(english: str) -> Split:
    """By the sentence alone, so that no other sentence and no size changes where it belongs."""
    share = int.from_bytes(hashlib.blake2b(english.encode(), digest_size=8).digest(), "big") % _SHARES
    return _HELD_OUT.get(share, "train")


def _distinct(stream: Iterator[PairT]) -> Iterator[PairT]:
    """The stream of sentences, each English and each German sentence once: splits that differ in one language then differ in both."""
    seen_english: set[str] = set()
    seen_german: set[str] = set()
    drought = 0
    for pair in stream:
        english, german = pair[0], pair[1]
        if english in seen_english or german in seen_german:
            drought += 1
            if drought > _LONGEST_DROUGHT:
                return
            continue
        drought = 0
        seen_english.add(english)
        seen_german.add(german)
        yield pair


def _of_split(stream: Iterator[PairT], split: Split) -> Iterator[PairT]:
    return (pair for pair in _distinct(stream) if _split_of(pair[0]) == split)


@cache
def _default_pairs() -> dict[Split, tuple[tuple[str, str], ...]]:
    """All three splits at their default sizes, from one walk through the stream."""
    pairs: dict[Split, list[tuple[str, str]]] = {split: [] for split in SIZES}
    for pair in _distinct(sentences(_SEED)):
        pairs[_split_of(pair[0])].append(pair)
        if all(len(pairs[split]) >= size for split, size in SIZES.items()):
            break
    return {split: tuple(pairs[split][:size]) for split, size in SIZES.items()}


def builtin_pairs(split: Split, size: int | None = None) -> Iterator[tuple[str, str]]:
    """The sentence pairs of a split, English and German, always the same and in the same order.

    Args:
        split: `train`, `validation` or `test`; no sentence of either language is in two of them.
        size: so many from the beginning; by default `SIZES`. More than that is generated on demand.

    Raises:
        ValueError: there is no such split, or `size` is negative or more than the grammar can say.
    """
    size = _checked(split, size)
    if size <= SIZES[split]:
        return iter(_default_pairs()[split][:size])
    return islice(_of_split(sentences(_SEED), split), size)


def builtin_alignments(split: Split, size: int | None = None) -> Iterator[AlignedPair]:
    """The pairs of `builtin_pairs`, in the same order, each with its true word alignment.

    The grammar that writes a pair knows which words say the same (the rule stands at the top of the module `grammar`).

    Args:
        split: `train`, `validation` or `test`.
        size: so many from the beginning; by default `SIZES`.

    Raises:
        ValueError: as for `builtin_pairs`.
    """
    return islice(_of_split(aligned_sentences(_SEED), split), _checked(split, size))


def _checked(split: Split, size: int | None) -> int:
    if split not in get_args(Split):
        raise ValueError(f"The built-in corpus has no split {split!r}; choose one of {', '.join(get_args(Split))}.")
    if size is None:
        return SIZES[split]
    if size < 0:
        raise ValueError(f"The size of the built-in corpus is a number of sentence pairs and cannot be {size}.")
    return size
