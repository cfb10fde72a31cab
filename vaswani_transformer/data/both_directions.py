"""Pairs in both directions: in the first epochs, half of the sources and targets change places (Ding, Wu and Tao, 2021, section 2.2).

A small corpus so teaches twice as much before its sentences are known by heart. Every pair is turned in one of two epochs that follow each
other, and the two together hold each pair in both directions. Which half it is depends on seed and epoch alone, so a resumed training
draws what an undisturbed one draws.
"""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from .encoding import TokenPairs, TokenSequences

_STREAM = 0x7475726E
"""Keeps these random numbers apart from those that plan the batches of the same seed and epoch."""


class DrawnCorpus(Protocol):
    """A corpus that every epoch draws anew: the same ids for equal seed, epoch and pair, whichever rank asks."""

    def lengths(self, epoch: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """[n] tokens of each source and of each target in an epoch, `</s>` included."""

    def pairs(self, indices: NDArray[np.int64], epoch: int) -> TokenPairs:
        """The pairs `indices` [B] as an epoch draws them: pair 0 of the result is pair `indices[0]`, and so on."""


class TurnedCorpus:
    """A corpus of which half the pairs are turned in each of the first `epochs` epochs, and none after them.

    Args:
        corpus: pairs of two languages in one vocabulary, without a token for the direction.
        seed: of the training.
        epochs: an even number gives every pair in both directions equally often.
        drawn: `corpus` as it is drawn anew otherwise, such as with BPE-dropout; by default `corpus` itself.
    """

    def __init__(self, corpus: TokenPairs, seed: int, epochs: int, drawn: DrawnCorpus | None = None) -> None:
        self._corpus, self._seed, self._epochs, self._drawn = corpus, seed, epochs, drawn
        self._halves: dict[int, NDArray[np.bool_]] = {}

    def lengths(self, epoch: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """[n] tokens of each source and of each target in an epoch, `</s>` included."""
        plain = (self._corpus.source_lengths, self._corpus.target_lengths) if self._drawn is None else self._drawn.lengths(epoch)
        if epoch >= self._epochs:
            return plain
        (sources, targets), turned = plain, self.turned(epoch)
        return np.where(turned, targets, sources), np.where(turned, sources, targets)

    def pairs(self, indices: NDArray[np.int64], epoch: int) -> TokenPairs:
        """The pairs `indices` [B] as an epoch has them: pair 0 of the result is pair `indices[0]`, and so on."""
        if self._drawn is None:
            plain = TokenPairs(self._corpus.source.take(indices), self._corpus.target.take(indices))
        else:
            plain = self._drawn.pairs(indices, epoch)
        if epoch >= self._epochs:
            return plain
        turned, numbers = self.turned(epoch)[indices], np.arange(len(indices))
        both = TokenSequences.joined([plain.source, plain.target])
        first, last = np.where(turned, (numbers + len(numbers), numbers), (numbers, numbers + len(numbers)))
        return TokenPairs(both.take(first), both.take(last))

    def turned(self, epoch: int) -> NDArray[np.bool_]:
        """[n] which pairs are turned in one of the first epochs."""
        couple, is_second = divmod(epoch, 2)
        if couple not in self._halves:
            draws = np.random.default_rng([self._seed, couple, _STREAM]).integers(2, size=len(self._corpus), dtype=np.uint8)
            self._halves = {couple: draws.astype(bool)}
        return ~self._halves[couple] if is_second else self._halves[couple]
