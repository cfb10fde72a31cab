"""The parts of scores, and how likely a difference is by chance, against all exchanges counted one by one."""

from itertools import product

import pytest

from vaswani_transformer.evaluation.outcomes import DRAWS, Outcomes, chance_of_difference, shares


def test_a_share_is_that_of_all_labels() -> None:
    found = shares("accuracy", [["a", "b", "a"], ["b"]], [["a", "a", "a"], ["b"]])
    assert found == Outcomes([3, 1], {"accuracy": [2.0, 1.0]}) and found.score("accuracy") == 75.0


@pytest.mark.parametrize(("points", "others"), [([1, 1, 1, 0, 1, 1], [0, 0, 1, 1, 0, 0]), ([0.5, 2, 0, 1, 3], [0.1, 0, 1, 1, 0.3])])
def test_the_chance_is_the_share_of_exchanges_with_such_a_difference(points: list[float], others: list[float]) -> None:
    differences = [one - other for one, other in zip(points, others, strict=True)]
    sums = [
        abs(sum(sign * value for sign, value in zip(signs, differences, strict=True))) for signs in product((1, -1), repeat=len(points))
    ]
    exact = sum(value >= abs(sum(differences)) - 1e-12 for value in sums) / len(sums)
    found = chance_of_difference(points, others)
    assert found == pytest.approx(exact, abs=4 * (exact * (1 - exact) / DRAWS) ** 0.5 + 1 / DRAWS)
    assert found == chance_of_difference(others, points) == chance_of_difference(points, others)


def test_equal_models_never_differ_and_sure_differences_reach_the_least_value() -> None:
    assert chance_of_difference([1, 0, 1], [1, 0, 1]) == 1.0
    assert chance_of_difference([1] * 60, [0] * 60) == 1 / (DRAWS + 1)
