"""When a difference counts, and whether it is the paper's."""

import random

import pytest

from benchmarks.variations.agreement import ENOUGH, agreement, direction, needed_errors, noise_of_a_difference, noise_of_a_run


def test_the_noise_is_the_standard_deviation_of_a_run() -> None:
    draw = random.Random(1).gauss
    groups = [[10 * row + draw(0, 0.5) for _ in range(2)] for row in range(4000)]
    assert noise_of_a_run(groups) == pytest.approx(0.5, rel=0.05)
    # As many runs of four seeds, and a row that diverges with one of them
    groups = [[draw(0, 0.5) for _ in range(4)] for _ in range(2000)]
    assert noise_of_a_run([*groups, [0.0, 1e6, 0.0, 0.0]]) == pytest.approx(0.5, rel=0.1)


def test_one_seed_has_no_noise() -> None:
    assert noise_of_a_run([[1.0], [2.0]]) is None


def test_few_degrees_of_freedom_need_more_standard_errors() -> None:
    student = pytest.importorskip("scipy.stats", reason="the extra `tasks` is not installed").t
    assert [needed_errors(freedom) for freedom in range(1, ENOUGH)] == pytest.approx(list(student.ppf(0.975, range(1, ENOUGH))), abs=5e-4)
    assert needed_errors(ENOUGH) == needed_errors(1000) == 2


def test_directions_and_agreement() -> None:
    assert noise_of_a_difference(0.3, 2, 2) == pytest.approx(0.3)
    assert [direction(gain, 0.3) for gain in (0.61, 0.6, -0.6, -0.61)] == ["better", "same", "same", "worse"]
    assert [direction(gain, 0.3, freedom=2) for gain in (1.3, 1.2, -1.3)] == ["better", "same", "worse"]
    assert agreement("better", "better") == "yes" and agreement("same", "same") == "yes"
    assert agreement("same", "worse") == "within noise"
    assert agreement("better", "worse") == "no" and agreement("worse", "same") == "no"
