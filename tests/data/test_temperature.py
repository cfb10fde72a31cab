"""Temperature: whole numbers nearest to n^(1/T), and of each group every pair as often as every other, or once more."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vaswani_transformer.data.temperature import draw, shares

BY_HAND = [
    ([100, 25], 1.0, [100, 25]),
    ([100, 25], 2.0, [83, 42]),  # 10 : 5 of 125
    ([64, 8, 0], 3.0, [48, 24, 0]),  # 4 : 2 of 72
    ([1000, 10], 1e9, [505, 505]),
    (
        [1, 1, 1, 4],
        1e9,
        [2, 2, 1, 2],
    ),  # 7 among four: the larger group's part is larger by a hair, then the first
]


@pytest.mark.parametrize(("sizes", "temperature", "expected"), BY_HAND)
def test_shares_by_hand(sizes: list[int], temperature: float, expected: list[int]) -> None:
    assert shares(np.array(sizes), temperature) == expected


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=4).filter(any),
    st.floats(1, 100),
    st.integers(0, 3),
)
def test_an_epoch_is_whole_copies_and_a_remainder(sizes: list[int], temperature: float, seed: int) -> None:
    groups = np.random.default_rng(9).permutation(np.repeat(np.arange(len(sizes)), sizes)).astype(np.uint16)
    drawn = draw(groups, temperature, np.random.default_rng(seed))
    assert len(drawn) == len(groups)
    times = np.bincount(drawn, minlength=len(groups))
    for group, shown in enumerate(shares(np.array(sizes), temperature)):
        own = times[groups == group]
        assert own.sum() == shown
        assert len(own) == 0 or own.max() - own.min() <= 1


def test_the_remainder_is_another_with_another_seed() -> None:
    groups = np.repeat([0, 1], [90, 10])
    first, again, second = (set(draw(groups, 2.0, np.random.default_rng(seed))) for seed in (1, 1, 2))
    assert first == again != second
