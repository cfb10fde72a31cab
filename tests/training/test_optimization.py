"""Equation 3 by hand, and Adam with the paper's numbers."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from vaswani_transformer.recipe import Recipe
from vaswani_transformer.training.optimization import build_adam, clip_gradients, gradient_norm, learning_rate, set_learning_rate


@pytest.mark.parametrize(
    ("update", "expected"),
    [
        (1, 1 / 4 * 1 / 64),  # 16^-0.5 * 1 * 16^-1.5
        (8, 1 / 4 * 8 / 64),  # half of the warm-up, half of the peak
        (16, 1 / 4 * 1 / 4),  # the peak: both terms are 16^-0.5
        (64, 1 / 4 * 1 / 8),  # four times later, half of the peak
    ],
)
def test_equation_3_by_hand(update: int, expected: float) -> None:
    assert learning_rate(update, d_model=16, warmup_updates=16) == pytest.approx(expected, rel=1e-15)
    assert learning_rate(update, d_model=16, warmup_updates=16, scale=2.0) == pytest.approx(2 * expected, rel=1e-15)


def test_the_base_model_peaks_at_7e_4() -> None:
    rates = [learning_rate(update, 512, 4000) for update in range(1, 12_001)]
    assert max(rates) == rates[3999] == pytest.approx(6.987712e-4, rel=1e-6)


@pytest.mark.parametrize(("update", "warmup"), [(0, 4000), (1, 0)])
def test_updates_count_from_1(update: int, warmup: int) -> None:
    with pytest.raises(ValueError, match="counts updates from 1"):
        learning_rate(update, 512, warmup)


def test_adam_is_the_papers(make_recipe: Callable[..., Recipe]) -> None:
    adam = build_adam(nn.Linear(2, 2), make_recipe().training)
    set_learning_rate(adam, 0.25)
    (group,) = adam.param_groups
    assert (group["betas"], group["eps"], group["weight_decay"], group["lr"]) == ((0.9, 0.98), 1e-9, 0, 0.25)


def test_frozen_parameters_are_left_out(make_recipe: Callable[..., Recipe]) -> None:
    layer = nn.Linear(2, 2)
    layer.weight.requires_grad_(False)
    adam = build_adam(layer, make_recipe().training)
    assert [id(parameter) for parameter in adam.param_groups[0]["params"]] == [id(layer.bias)]


def test_norm_and_clipping_see_all_gradients_together() -> None:
    parameters = [nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1))]
    parameters[0].grad, parameters[1].grad = torch.tensor([3.0]), torch.tensor([4.0])
    norm = gradient_norm(parameters)
    assert norm.item() == 5.0
    clip_gradients(parameters, max_norm=1.0, norm=norm)
    assert parameters[0].grad.item() == pytest.approx(0.6, abs=1e-5)
