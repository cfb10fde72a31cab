"""When a difference counts, and whether it is the paper's."""

import random

import pytest

from benchmarks.variations.agreement import agreement, direction, needed_errors, noise_of_a_difference, noise_of_a_run


def test_the_noise_is_the_standard_deviation_of_a_run() -> None:
    draw = random.Random(1).gauss
    groups = [[10 * row + draw(0, 0.5) for _ in range(2)] for row in range(4000)]
    assert noise_of_a_run(groups) == pytest.approx(0.5, rel=0.05)
    # As many runs of four seeds, and a row that diverges with one of them
    groups = [[draw(0, 0.5) for _ in range(4)] for _ in range(2000)]
    assert noise_of_a_run([*groups, [0.0, 1e6, 0.0, 0.0]]) == pytest.approx(0.5, rel=0.1)


def test_one_seed_has_no_noise() -> None:
    assert noise_of_a_run([[1.0], [2.0]]) is None


def test_directions_and_agreement() -> None:
    assert noise_of_a_difference(0.3, 2, 2) == pytest.approx(0.3)
    assert [direction(gain, 0.3) for gain in (0.61, 0.6, -0.6, -0.61)] == ["better", "same", "same", "worse"]
    # With two rows of two seeds, 5 % of a normal difference are beyond 4.30 standard errors, as the tables of Student's t print it
    assert [round(needed_errors(freedom), 2) for freedom in (1, 2, 6, 19, 20, 100)] == [12.71, 4.30, 2.45, 2.09, 2.0, 2.0]
    assert [direction(gain, 0.3, freedom=2) for gain in (1.3, 1.2, -1.3)] == ["better", "same", "worse"]
    assert agreement("better", "better") == "yes" and agreement("same", "same") == "yes"
    assert agreement("same", "worse") == "within noise"
    assert agreement("better", "worse") == "no" and agreement("worse", "same") == "no"
