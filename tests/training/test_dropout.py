"""Dropout with cheap masks: the same distribution as PyTorch's, seeded, with the gradient of what it did."""

import pytest
import torch
from torch import nn

from tests.test_decoding import build_model
from vaswani_transformer.bare_layers import can_run_bare
from vaswani_transformer.training.dropout import BitDropout, use_bit_dropout


def _training(rate: float) -> BitDropout:
    return BitDropout(rate).train()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_entries_are_zero_or_scaled(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    output = _training(0.25)(torch.ones(50, 41, dtype=dtype))
    assert output.dtype == dtype
    assert set(output.flatten().tolist()) == {0.0, torch.tensor(4 / 3, dtype=dtype).item()}


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.9])
def test_the_rate_is_right(rate: float) -> None:
    torch.manual_seed(1)
    size = 1_000_003
    output = _training(rate)(torch.ones(size, dtype=torch.float64))
    five_deviations = 5 * (rate * (1 - rate) / size) ** 0.5
    assert (output == 0).double().mean().item() == pytest.approx(rate, abs=five_deviations + 2**-17)
    assert output.mean().item() == pytest.approx(1, abs=five_deviations / (1 - rate))


def test_neighbours_know_nothing_of_each_other() -> None:
    torch.manual_seed(2)
    kept = (_training(0.5)(torch.ones(400_000)) > 0).float() - 0.5
    for distance in (1, 2, 3, 4, 8):
        correlation = (kept[:-distance] * kept[distance:]).mean().item() * 4
        assert abs(correlation) < 5 / 400_000**0.5


def test_the_gradient_is_that_of_the_mask() -> None:
    torch.manual_seed(3)
    x = torch.randn(7, 5, dtype=torch.float64, requires_grad=True)
    output = _training(0.4)(x)
    (gradient,) = torch.autograd.grad(output.sum(), x)
    assert torch.equal(gradient * x.detach(), output.detach())


def test_masks_depend_on_the_seed() -> None:
    masks = []
    for seed in (4, 4, 5):
        torch.manual_seed(seed)
        masks.append(_training(0.5)(torch.ones(100)))
    assert torch.equal(masks[0], masks[1])
    assert not torch.equal(masks[0], masks[2])


@pytest.mark.parametrize("module", [_training(0.0), BitDropout(0.5).eval()])
def test_nothing_is_dropped_without_a_rate_or_in_evaluation(module: BitDropout) -> None:
    x = torch.randn(3)
    assert module(x) is x


def test_replaces_every_dropout_of_a_model_and_no_parameter() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.3), nn.ModuleList([nn.Dropout(0.2)])).eval()
    names = list(model.state_dict())
    use_bit_dropout(model)
    found = [module for module in model.modules() if isinstance(module, nn.Dropout)]
    assert [type(module) for module in found] == [BitDropout, BitDropout]
    assert [(module.p, module.training) for module in found] == [(0.3, False), (0.2, False)]
    assert list(model.state_dict()) == names


def test_a_search_in_evaluation_may_pass_it_by() -> None:
    model = build_model()
    use_bit_dropout(model)
    assert can_run_bare(model.eval())
    assert not can_run_bare(model.train())
