"""How often an epoch shows the pairs of each target language, where a model learns several of different size."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def draw(groups: NDArray[Any], temperature: float, generator: np.random.Generator) -> NDArray[Any]:
    """The pairs of one epoch: as many as there are, of group g in proportion to its size to the power of 1 / `temperature`.

    A pair of a group is shown as often as every other, or once more: whole copies of the group, and a random remainder.

    Args:
        groups: [n] of each pair a small number, its group.
        temperature: 1 leaves the proportions as they are; the higher, the more equal they are.
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
    """How many pairs of each group make up an epoch of as many as there are: whole numbers, nearest to the proportions."""
    weights = np.where(sizes > 0, sizes.astype(float) ** (1 / temperature), 0.0)
    exact = weights / weights.sum() * sizes.sum()
    counts = np.floor(exact).astype(np.int64)
    missing = int(sizes.sum() - counts.sum())
    counts[np.argsort(counts - exact, kind="stable")[:missing]] += 1
    return [int(count) for count in counts]
