"""How often an epoch shows the pairs of each target language, if a model learns several with corpora of different size."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def draw(groups: NDArray[Any], temperature: float, generator: np.random.Generator) -> NDArray[Any]:
    """The n pairs of one epoch; group g's share is in proportion to its size to the power of 1 / `temperature`.

    An epoch holds whole copies of each group and a random remainder, so pairs of a group differ by at most one in how often they appear.

    Args:
        groups: [n] each pair's group, a small number.
        temperature: 1 keeps the proportions; the higher, the more equal they become.
        generator: chooses the remainders.

    Returns:
        [n] pair indices, of the smallest unsigned type that holds them.
    """
    sizes = np.bincount(groups)
    kind: Any = np.min_scalar_type(len(groups))
    parts = []
    for group, shown in enumerate(shares(sizes, temperature)):
        if shown:
            members = np.flatnonzero(groups == group).astype(kind)
            copies, rest = divmod(shown, len(members))
            parts += [members] * copies
            parts.append(generator.permutation(members)[:rest])
    return np.concatenate(parts)


def shares(sizes: NDArray[np.int64], temperature: float) -> list[int]:
    """How many pairs of each group an epoch holds: whole numbers nearest to the proportions, with the same sum as `sizes`."""
    weights = np.where(sizes > 0, sizes.astype(float) ** (1 / temperature), 0.0)
    exact = weights / weights.sum() * sizes.sum()
    counts = np.floor(exact).astype(np.int64)
    missing = int(sizes.sum() - counts.sum())
    counts[np.argsort(counts - exact, kind="stable")[:missing]] += 1
    return [int(count) for count in counts]
