"""What each text of a test set gives to a score, and whether two models differ by more than chance.

For scores that are a mean over texts, or a share of all labels or tokens. Scores of a whole corpus, such as BLEU, macro F1 and entity F1,
have no part for each text.
"""

from collections.abc import Sequence
from math import fsum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

DRAWS = 10_000
"""Of a test by approximate randomisation."""

_AT_ONCE = 2**22
"""Signs that are drawn at once; memory only."""


class Outcomes(NamedTuple):
    """The parts of scores. A score is 100 times the sum of its `points` over all texts by that of the `weights`."""

    weights: list[int]
    """Of each text: 1, or the number of its labels or tokens."""
    points: dict[str, list[float]]
    """For each score, of each text: at most its weight."""

    def score(self, name: str) -> float:
        """A score in points of 100."""
        return 100 * (fsum(self.points[name]) / sum(self.weights))


def shares(name: str, references: Sequence[Sequence[Any]], predictions: Sequence[Sequence[Any]]) -> Outcomes:
    """Outcomes by the number of right ones among the labels, or tokens, of each text.

    Args:
        name: the score's.
        references: of each text.
        predictions: of each text, equally many.
    """
    right = [float(sum(one == other for one, other in zip(*both, strict=True))) for both in zip(references, predictions, strict=True)]
    return Outcomes([len(labels) for labels in references], {name: right})


def chance_of_difference(points: Sequence[float] | NDArray[Any], others: Sequence[float] | NDArray[Any], seed: int = 1) -> float:
    """How likely two models of equal worth are to differ as much in a score, or more, on texts like these.

    By approximate randomisation (Noreen, 1989; Riezler and Maxwell, 2005): where the models are equal, it is by chance which of them gave
    the one and which the other result for a text, so both are exchanged at random, text by text. It speaks about other texts, and not about
    other seeds of the training.

    Args:
        points: of one model, text by text, as in `Outcomes`.
        others: of the other one.
        seed: of the draws.

    Returns:
        p from 1 / (`DRAWS` + 1) to 1; both directions count.
    """
    differences: NDArray[np.float64] = np.asarray(points, dtype=float) - np.asarray(others, dtype=float)
    observed = abs(differences.sum())
    differing = differences[differences != 0]
    generator = np.random.default_rng(seed)
    at_once = max(_AT_ONCE // max(len(differing), 1), 1)
    reached = 0
    for start in range(0, DRAWS, at_once):
        signs = generator.integers(0, 2, (min(at_once, DRAWS - start), len(differing)), dtype=np.int8) * 2 - 1
        # Sums of the same numbers in another order differ by rounding
        reached += int((np.abs(signs @ differing) >= observed * (1 - 1e-9)).sum())
    return (reached + 1) / (DRAWS + 1)
