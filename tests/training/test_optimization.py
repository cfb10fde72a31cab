"""Equation 3 by hand, and Adam with the paper's numbers."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from vaswani_transformer.recipe import Recipe
from vaswani_transformer.training.building import build_model
from vaswani_transformer.training.optimization import build_optimizer, clip_gradients, gradient_norm, learning_rate, set_learning_rate


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
    adam = build_optimizer(nn.Linear(2, 2), make_recipe().training)
    set_learning_rate(adam, 0.25)
    (group,) = adam.param_groups
    assert (group["betas"], group["eps"], group["weight_decay"], group["lr"]) == ((0.9, 0.98), 1e-9, 0, 0.25)


def test_frozen_parameters_are_left_out(make_recipe: Callable[..., Recipe]) -> None:
    layer = nn.Linear(2, 2)
    layer.weight.requires_grad_(False)
    adam = build_optimizer(layer, make_recipe().training)
    assert [id(parameter) for parameter in adam.param_groups[0]["params"]] == [id(layer.bias)]


def test_norm_and_clipping_see_all_gradients_together() -> None:
    parameters = [nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1))]
    parameters[0].grad, parameters[1].grad = torch.tensor([3.0]), torch.tensor([4.0])
    norm = gradient_norm(parameters)
    assert norm.item() == 5.0
    clip_gradients(parameters, max_norm=1.0, norm=norm)
    assert parameters[0].grad.item() == pytest.approx(0.6, abs=1e-5)


def test_weight_decay_by_hand(make_recipe: Callable[..., Recipe]) -> None:
    layer = nn.Linear(1, 1).double()
    nn.init.constant_(layer.weight, 2.0)
    nn.init.constant_(layer.bias, 2.0)
    adam = build_optimizer(layer, make_recipe(weight_decay=0.1, adam_epsilon=1e-30).training)
    set_learning_rate(adam, 0.5)
    layer.weight.grad, layer.bias.grad = torch.full((1, 1), 3.0).double(), torch.full((1,), 3.0).double()
    adam.step()
    # The first step of Adam is one learning rate against the gradient, whatever its size; only the matrix is multiplied by 1 - 0.5 * 0.1
    assert layer.weight.item() == pytest.approx(2.0 * 0.95 - 0.5, rel=1e-12)
    assert layer.bias.item() == pytest.approx(2.0 - 0.5, rel=1e-12)


def test_weight_decay_goes_with_the_learning_rate_of_a_layer(make_recipe: Callable[..., Recipe]) -> None:
    recipe = make_recipe(weight_decay=0.1)
    model = build_model(recipe, 280, torch.device("cpu"))
    adam = build_optimizer(model, recipe.training, layer_decay=0.5)
    set_learning_rate(adam, 1.0)
    names = {parameter: name for name, parameter in model.named_parameters()}
    found = {names[p]: (group["lr"], group["weight_decay"]) for group in adam.param_groups for p in group["params"]}
    assert found.keys() == set(names.values())
    for name, (rate, decay) in found.items():
        assert rate == (1.0 if "layers" in name else 0.5)
        assert decay == (0.0 if name.endswith("bias") or "layer_norm" in name else 0.1)
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    adam.step()
    for name, parameter in model.named_parameters():
        rate, decay = found[name]
        torch.testing.assert_close(parameter, before[name] * (1 - rate * decay), rtol=1e-6, atol=0)


def test_resuming_with_weight_decay_changes_no_bit(
    make_recipe: Callable[..., Recipe], assert_resuming_changes_no_bit: Callable[[Recipe], None]
) -> None:
    assert_resuming_changes_no_bit(make_recipe(weight_decay=0.1))
