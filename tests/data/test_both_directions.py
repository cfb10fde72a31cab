"""Both directions: every pair once each way in two epochs, the same for equal seed, and plain afterwards."""

import numpy as np
import pytest
from numpy.typing import NDArray

from vaswani_transformer.data.both_directions import TurnedCorpus
from vaswani_transformer.data.encoding import TokenPairs, TokenSequences

PAIRS = 200
ALL = np.arange(PAIRS)


@pytest.fixture
def corpus() -> TokenPairs:
    """Sources are below 1,000 and targets above it; no two sentences are equal."""
    return TokenPairs(
        TokenSequences.of([[number] * (1 + number % 3) for number in range(PAIRS)], np.int32),
        TokenSequences.of([[1000 + number] * (2 + number % 5) for number in range(PAIRS)], np.int32),
    )


def written(pairs: TokenPairs) -> list[tuple[list[int], list[int]]]:
    return [(source.tolist(), target.tolist()) for source, target in zip(pairs.source, pairs.target, strict=True)]


def turned_round(pairs: list[tuple[list[int], list[int]]]) -> list[tuple[list[int], list[int]]]:
    return [(target, source) for source, target in pairs]


def test_two_epochs_hold_each_pair_in_both_directions(corpus: TokenPairs) -> None:
    found, plain = TurnedCorpus(corpus, seed=1, epochs=4), written(corpus)
    for first in (0, 2):
        some, others = (written(found.pairs(ALL, epoch)) for epoch in (first, first + 1))
        assert others == turned_round(some)
        assert all(pair in (plain[number], turned_round(plain)[number]) for number, pair in enumerate(some))
        of_the_first = np.array([source[0] < 1000 for source, _ in some])
        assert abs(of_the_first.mean() - 0.5) < 5 * 0.5 / PAIRS**0.5
    assert written(found.pairs(ALL, 0)) != written(found.pairs(ALL, 2))


def test_afterwards_pairs_are_plain(corpus: TokenPairs) -> None:
    found = TurnedCorpus(corpus, seed=1, epochs=2)
    for epoch in (2, 3, 9):
        assert written(found.pairs(ALL, epoch)) == written(corpus)
        assert all(
            np.array_equal(*sides) for sides in zip(found.lengths(epoch), (corpus.source_lengths, corpus.target_lengths), strict=True)
        )


def test_lengths_are_those_of_the_pairs(corpus: TokenPairs) -> None:
    found = TurnedCorpus(corpus, seed=3, epochs=3)
    for epoch in range(4):
        pairs = found.pairs(ALL, epoch)
        sources, targets = found.lengths(epoch)
        assert sources.dtype == targets.dtype == np.int32
        assert np.array_equal(sources, pairs.source_lengths) and np.array_equal(targets, pairs.target_lengths)


def test_seed_epoch_and_pair_decide_alone(corpus: TokenPairs) -> None:
    found, some = TurnedCorpus(corpus, seed=5, epochs=9), np.array([17, 3, 150, 3])
    asked = {epoch: written(found.pairs(some, epoch)) for epoch in (8, 0, 5, 1)}
    for epoch, pairs in asked.items():
        again = written(TurnedCorpus(corpus, seed=5, epochs=9).pairs(ALL, epoch))
        assert pairs == [again[number] for number in some]
    assert not np.array_equal(TurnedCorpus(corpus, 6, 9).turned(0), found.turned(0))


class Doubled:
    """Draws every sentence twice in a row, and names the epoch before it."""

    def __init__(self, corpus: TokenPairs) -> None:
        self._corpus = corpus

    def lengths(self, epoch: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        sources, targets = (2 * lengths + 1 for lengths in (self._corpus.source_lengths, self._corpus.target_lengths))
        return sources.astype(np.int32), targets.astype(np.int32)

    def pairs(self, indices: NDArray[np.int64], epoch: int) -> TokenPairs:
        sides = (self._corpus.source, self._corpus.target)
        return TokenPairs(*(TokenSequences.of([[9000 + epoch, *side[i], *side[i]] for i in indices], np.int32) for side in sides))


def test_what_is_drawn_anew_is_turned(corpus: TokenPairs) -> None:
    drawn = Doubled(corpus)
    found = TurnedCorpus(corpus, seed=1, epochs=2, drawn=drawn)
    for epoch in range(3):
        turned, pairs = found.turned(epoch) & (epoch < 2), written(drawn.pairs(ALL, epoch))
        expected = [turned_round([pair])[0] if is_turned else pair for pair, is_turned in zip(pairs, turned, strict=True)]
        assert written(found.pairs(ALL, epoch)) == expected
        assert found.lengths(epoch)[0].tolist() == [len(source) for source, _ in expected]
