"""Operations and paths that are counted, against what follows from each layer by hand."""

import pytest
import torch

from benchmarks.layers.counting import path_length, reach, sequential_operations
from benchmarks.layers.kinds import KINDS, NEIGHBOURS


@pytest.mark.parametrize("name", KINDS)
def test_operations_depend_on_the_length_only_in_a_recurrence(name: str) -> None:
    few, more, most = (sequential_operations(KINDS[name], length) for length in (8, 16, 24))
    assert most - more == more - few
    assert (more - few > 8) == KINDS[name].is_recurrent
    assert KINDS[name].is_recurrent or more == few


@pytest.mark.parametrize(
    ("name", "length", "expected"),
    [
        ("attention", 40, 1),
        ("eager", 40, 1),
        ("bare", 40, 1),
        ("additive", 40, 1),
        ("lstm", 17, 17),
        ("gru", 17, 17),
        ("convolution_3", 17, 16),  # one position a layer, over 16
        ("convolution_7", 17, 6),  # three
        ("separable_7", 17, 6),
        ("restricted", NEIGHBOURS // 2, 1),
        ("restricted", 2 * NEIGHBOURS, -(-(2 * NEIGHBOURS - 1) // (NEIGHBOURS // 2 - 1))),  # an even window has one less behind
        ("dilated_3", 3, 2),
    ],
)
def test_paths_by_hand(name: str, length: int, expected: int) -> None:
    assert path_length(KINDS[name], length) == expected


def test_a_dilated_stack_is_much_shorter() -> None:
    assert path_length(KINDS["dilated_3"], 100) <= 10 < path_length(KINDS["convolution_3"], 100) == 99


def test_reach_is_where_the_jacobian_is_not_zero() -> None:
    """One layer of kernel 3 and dilation 3 sees itself and what is three positions away; a recurrence sees the past."""
    distance = (torch.arange(12).unsqueeze(-1) - torch.arange(12)).abs()
    assert torch.equal(reach(KINDS["dilated_3"].build(64, 1), 12), (distance == 0) | (distance == 3))
    assert torch.equal(reach(KINDS["lstm"].build(64, 0), 12), torch.ones(12, 12, dtype=torch.bool).tril())
