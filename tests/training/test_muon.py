"""Muon against singular values, PyTorch's own Muon and Adam, and in a whole training."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from vaswani_transformer.recipe import Recipe
from vaswani_transformer.training import muon
from vaswani_transformer.training.building import build_model
from vaswani_transformer.training.muon import MuonAndAdam, muon_flops, orthogonal, orthogonal_by_ranks
from vaswani_transformer.training.optimization import build_optimizer, set_learning_rate


def random_tensor(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("shape", [(6, 6), (4, 9), (9, 4)])
def test_singular_values_go_to_1_and_singular_vectors_stay(shape: tuple[int, int]) -> None:
    matrices = torch.stack([random_tensor(*shape, seed=seed) * 10.0**seed for seed in range(3)])
    for matrix, found in zip(matrices, orthogonal(matrices), strict=True):
        left, values, right = torch.linalg.svd(matrix, full_matrices=False)
        expected = values / values.norm()
        for _ in range(5):  # the iteration is a polynomial of each singular value alone
            expected = 3.4445 * expected - 4.7750 * expected**3 + 2.0315 * expected**5
        torch.testing.assert_close(found, left @ torch.diag(expected) @ right, rtol=0, atol=1e-12)
        assert expected.min() > 0.65 and expected.max() < 1.25


def test_a_matrix_of_zeros_stays_zero_beside_others() -> None:
    matrices = torch.stack([torch.zeros(3, 4), torch.ones(3, 4)])
    found = orthogonal(matrices)
    assert found[0].count_nonzero() == 0 and found.isfinite().all()


@pytest.mark.parametrize(("matrices", "ranks", "shares"), [(5, 2, [3, 2]), (5, 4, [2, 2, 1, 0]), (1, 3, [1, 0, 0])])
def test_ranks_share_the_matrices_and_all_get_the_bits_of_one(
    matrices: int, ranks: int, shares: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = random_tensor(matrices, 4, 6).float()
    wanted, computed, sent = orthogonal(given), [], []
    monkeypatch.setattr(muon, "orthogonal", lambda share: computed.append(len(share)) or orthogonal(share))
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: ranks)
    for rank in range(ranks):
        monkeypatch.setattr(torch.distributed, "get_rank", lambda rank=rank: rank)
        monkeypatch.setattr(torch.distributed, "all_gather", lambda _, own: sent.append(own))
        orthogonal_by_ranks(given)
    assert computed == shares
    monkeypatch.setattr(torch.distributed, "all_gather", lambda parts, _: [part.copy_(own) for part, own in zip(parts, sent, strict=True)])
    assert orthogonal_by_ranks(given).equal(wanted)


@pytest.fixture
def built(make_recipe: Callable[..., Recipe]) -> Callable[..., tuple[nn.Module, torch.optim.Optimizer]]:
    def build(layer_decay: float = 1.0, **settings: Any) -> tuple[nn.Module, torch.optim.Optimizer]:
        recipe = make_recipe(optimizer="muon", **settings)
        model = build_model(recipe, 280, torch.device("cpu"))
        return model, build_optimizer(model, recipe.training, layer_decay)

    return build


def set_gradients(model: nn.Module, seed: int) -> None:
    for number, parameter in enumerate(model.parameters()):
        parameter.grad = random_tensor(*parameter.shape, seed=1000 * seed + number).to(parameter.dtype)


def test_linear_maps_of_layers_are_muons_and_all_else_is_adams(built: Callable[..., Any]) -> None:
    model, optimizer = built()
    assert isinstance(optimizer, MuonAndAdam)
    muons = {id(parameter) for group in optimizer.param_groups if "muon" in group for parameter in group["params"]}
    maps = {
        id(module.weight) for name, module in model.named_modules() if isinstance(module, nn.Linear) and ".layers." in f".{name}"
    }  # fmt: skip
    assert muons == maps
    everything = [id(parameter) for group in optimizer.param_groups for parameter in group["params"]]
    assert sorted(everything) == sorted(map(id, model.parameters()))


def test_it_steps_as_pytorchs_muon_and_adam_do(built: Callable[..., Any]) -> None:
    """PyTorch's Muon works in bfloat16; its Adam is the same to the bit."""
    model, optimizer = built(weight_decay=0.1)
    other, _ = built(weight_decay=0.1)
    groups = {"muon": [], "decayed": [], "vectors": []}
    muons = {id(parameter) for group in optimizer.param_groups if "muon" in group for parameter in group["params"]}
    for own, theirs in zip(model.parameters(), other.parameters(), strict=True):
        assert own.equal(theirs)
        groups["muon" if id(own) in muons else "decayed" if own.ndim > 1 else "vectors"].append(theirs)
    theirs_of_muon = torch.optim.Muon(groups["muon"], lr=0.02, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    adam = torch.optim.Adam(
        [{"params": groups["decayed"], "weight_decay": 0.1}, {"params": groups["vectors"]}],
        lr=0.02, betas=(0.9, 0.98), eps=1e-9, decoupled_weight_decay=True, fused=True,
    )  # fmt: skip
    before = [parameter.detach().clone() for parameter in model.parameters()]
    set_learning_rate(optimizer, 0.02)
    for update in range(3):
        set_gradients(model, update)
        set_gradients(other, update)
        optimizer.step()
        theirs_of_muon.step()
        adam.step()
    for own, theirs, first in zip(model.parameters(), other.parameters(), before, strict=True):
        if id(own) in muons:
            moved, wanted = own - first, theirs - first
            assert (moved - wanted).norm() < 0.02 * wanted.norm() and wanted.norm() > 0
        else:
            assert own.equal(theirs)


def test_decay_and_rate_of_a_layer_by_hand(built: Callable[..., Any]) -> None:
    """Without a gradient in sight, the only change is the decay; with one, the step has the size that is asked for."""
    _, optimizer = built(layer_decay=0.5, weight_decay=0.25, muon_learning_rate_scale=3.0)
    set_learning_rate(optimizer, 0.5)
    (matrices,) = [group for group in optimizer.param_groups if "muon" in group]
    assert matrices["lr"] == 0.5  # the only layer of each stack is its top one
    weight = matrices["params"][0]
    before = weight.detach().clone()
    weight.grad = random_tensor(*weight.shape).float()
    optimizer.step()
    step = (before * (1 - 0.5 * 0.25) - weight) / (0.5 * 3.0 * 0.2 * max(weight.shape) ** 0.5)
    torch.testing.assert_close(step, orthogonal(weight.grad[None])[0], rtol=0, atol=1e-5)
    untouched = matrices["params"][1].detach().clone()
    weight.grad = None
    optimizer.step()
    assert matrices["params"][1].equal(untouched)


def test_its_operations_are_counted_by_hand() -> None:
    square, tall, vector = nn.Parameter(torch.zeros(3, 3)), nn.Parameter(torch.zeros(5, 2)), nn.Parameter(torch.zeros(7))
    # X X', its square, and their product with X, each twice its multiplications, in five iterations
    of_square = 5 * 2 * 3 * 27
    of_tall = 5 * 2 * (2 * 2 * 5 + 2 * 2 * 2 + 2 * 2 * 5)
    assert muon_flops([{"params": [square, tall], "muon": 1.0}, {"params": [vector]}]) == of_square + of_tall
    assert muon_flops([{"params": [vector]}]) == 0


def test_resuming_changes_no_bit(make_recipe: Callable[..., Recipe], assert_resuming_changes_no_bit: Callable[[Recipe], None]) -> None:
    assert_resuming_changes_no_bit(make_recipe(optimizer="muon", weight_decay=0.1))


@pytest.mark.parametrize(
    ("training", "fine_tuning", "sentence"),
    [
        ({"muon_learning_rate_scale": 2.0}, {}, "`muon_learning_rate_scale` is for `optimizer: muon`"),
        ({"optimizer": "muon", "muon_learning_rate_scale": 0.0}, {}, "`muon_learning_rate_scale` must be above 0"),
        ({"optimizer": "muon"}, {"lora": {"rank": 2}}, "`fine_tuning` trains none of them here"),
    ],
)  # fmt: skip
def test_what_muon_is_not_for_is_refused(
    training: dict[str, Any], fine_tuning: dict[str, Any], sentence: str, make_recipe: Callable[..., Recipe]
) -> None:
    with pytest.raises(ValueError, match=sentence):
        make_recipe(fine={"init_from": "a/folder", "fine_tuning": fine_tuning}, **training)
