"""The built-in corpus: generated English-German sentence pairs in three disjoint splits, for a first run that needs no download.

`builtin_lexicon` holds the words and their inflection, `builtin_grammar` writes a clause in both languages, `builtin_author` fills clauses
with words that fit together, `builtin_sentences` makes sentences of them; here their stream is freed of repetition and divided.
"""

import hashlib
from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import Literal, get_args

from .sentences import sentences

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


def _distinct(seed: int) -> Iterator[tuple[str, str]]:
    """The stream of sentences, each English and each German sentence once: splits that differ in one language then differ in both."""
    seen_english: set[str] = set()
    seen_german: set[str] = set()
    drought = 0
    for english, german in sentences(seed):
        if english in seen_english or german in seen_german:
            drought += 1
            if drought > _LONGEST_DROUGHT:
                return
            continue
        drought = 0
        seen_english.add(english)
        seen_german.add(german)
        yield english, german


def _of_split(split: Split) -> Iterator[tuple[str, str]]:
    return (pair for pair in _distinct(_SEED) if _split_of(pair[0]) == split)


@cache
def _default_pairs() -> dict[Split, tuple[tuple[str, str], ...]]:
    """All three splits at their default sizes, from one walk through the stream."""
    pairs: dict[Split, list[tuple[str, str]]] = {split: [] for split in SIZES}
    for pair in _distinct(_SEED):
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
    if split not in get_args(Split):
        raise ValueError(f"The built-in corpus has no split {split!r}; choose one of {', '.join(get_args(Split))}.")
    if size is None:
        size = SIZES[split]
    if size < 0:
        raise ValueError(f"The size of the built-in corpus is a number of sentence pairs and cannot be {size}.")
    if size <= SIZES[split]:
        return iter(_default_pairs()[split][:size])
    return islice(_of_split(split), size)
