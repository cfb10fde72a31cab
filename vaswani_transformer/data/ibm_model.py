"""Which target tokens translate a source token: IBM model 1 (Brown et al., 1993, section 4.2) by expectation maximisation.

Every target token comes from one token of its source, and which one does not depend on where it stands. The end of the source takes the
place of the paper's empty word, from which target tokens come that translate nothing.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tqdm.auto import tqdm

from .encoding import TokenSequences

ITERATIONS = 5
"""Later ones change hardly any token's best translations."""

_LINKS_AT_ONCE = 2**21
_DENSE = 2**28
"""Pairs of a source and a target token, up to which a table finds each one's place; beyond, a search in sorted order does."""


class Lexicon(NamedTuple):
    """t(target | source), for all n pairs of tokens that some sentence pair holds, in ascending order."""

    source: NDArray[np.int64]
    """[n]"""
    target: NDArray[np.int64]
    """[n]"""
    probability: NDArray[np.float64]
    """[n]"""

    def best(self, entries: int, most: int) -> NDArray[np.int32]:
        """`[entries, most]`: the likeliest target tokens of each source token, best first, then -1."""
        order = np.lexsort((self.target, -self.probability, self.source))
        source = self.source[order]
        rank = np.arange(len(source)) - np.searchsorted(source, source)
        kept = rank < most
        found = np.full((entries, most), -1, dtype=np.int32)
        found[source[kept], rank[kept]] = self.target[order][kept]
        return found


def ibm_model_1(
    source: TokenSequences,
    target: TokenSequences,
    target_entries: int,
    iterations: int = ITERATIONS,
    progress: bool = False,
) -> Lexicon:
    """Learn t(target | source) from sentence pairs; nothing is drawn, so the same pairs give the same numbers.

    Args:
        source: token ids of n sources.
        target: of their translations.
        target_entries: ids are below this.
        iterations: of EM, from the same probability for all.
        progress: show a bar.

    Raises:
        ValueError: the sides do not have equally many sentences, or none at all.
    """
    if len(source) != len(target) or not len(source):
        raise ValueError(f"A lexicon is learned from sentence pairs, and here are {len(source)} sources and {len(target)} targets.")
    chunks = list(_chunks(source.lengths.astype(np.int64) * target.lengths))
    bar = tqdm(total=len(chunks) * (iterations + 1), desc="aligning", disable=not progress)
    keys: NDArray[np.int64] = np.empty(0, dtype=np.int64)
    found: list[NDArray[np.int64]] = []
    for chunk in chunks:
        found.append(np.unique(_links(source, target, chunk, target_entries)[0]))
        if chunk is chunks[-1] or sum(map(len, found)) > len(keys):
            keys, found = np.unique(np.concatenate((keys, *found))), []
        bar.update()
    place = _Places(keys)
    probability = np.full(len(keys), 1.0)
    for _ in range(iterations):
        counts = np.zeros(len(keys))
        for chunk in chunks:
            links, words = _links(source, target, chunk, target_entries)
            at = place(links)
            weights = probability[at]
            counts += np.bincount(at, weights / np.bincount(words, weights)[words], len(keys))
            bar.update()
        totals = np.bincount(keys // target_entries, counts)
        probability = counts / totals[keys // target_entries]
    bar.close()
    return Lexicon(keys // target_entries, keys % target_entries, probability)


class _Places:
    """Where each key stands among the sorted `keys`."""

    def __init__(self, keys: NDArray[np.int64]) -> None:
        self.keys, self.table = keys, None
        if keys[-1] < _DENSE:
            self.table = np.zeros(keys[-1] + 1, dtype=np.int32)
            self.table[keys] = np.arange(len(keys), dtype=np.int32)

    def __call__(self, wanted: NDArray[np.int64]) -> NDArray[Any]:
        return np.searchsorted(self.keys, wanted) if self.table is None else self.table[wanted]


def _chunks(links: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Sentences `[n]` in order, in chunks of about as many `links`."""
    group = np.cumsum(links) // _LINKS_AT_ONCE
    yield from np.split(np.arange(len(links)), np.flatnonzero(np.diff(group)) + 1)


def _links(
    source: TokenSequences, target: TokenSequences, chunk: NDArray[Any], entries: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each pair of a source and a target token of one sentence pair: source id * `entries` + target id; the target word's number."""
    widths = target.lengths[chunk].astype(np.int64)
    counts = source.lengths[chunk] * widths
    sentence = np.repeat(np.arange(len(chunk)), counts)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    in_source, in_target = np.divmod(within, widths[sentence])
    sources, targets = (np.concatenate([side[index] for index in chunk]).astype(np.int64) for side in (source, target))
    words = (np.cumsum(widths) - widths)[sentence] + in_target
    lengths = source.lengths[chunk].astype(np.int64)
    return sources[(np.cumsum(lengths) - lengths)[sentence] + in_source] * entries + targets[words], words
