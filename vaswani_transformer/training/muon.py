"""Muon for the matrices of the layers, and Adam for all else. The paper takes Adam alone."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, distributed, nn

from .sharding import part_of, whole

_MOMENTUM = 0.95
_ITERATIONS = 5
_A, _B, _C = 3.4445, -4.7750, 2.0315
_SIZE_OF_ADAMS_STEPS = 0.2
"""The root mean square of Adam's steps at a learning rate of 1 is about this (Liu et al., 2025, section 2.2)."""

Group = dict[str, Any]


class MuonAndAdam(torch.optim.Optimizer):
    """One optimizer of two rules, with one list of groups and one state.

    Muon (Jordan et al., 2024) gives the mean gradient of a matrix nearly equal singular values before it takes the step, so that directions
    that are rare in the gradients move as far as the others:

        m = 0.95 m + 0.05 g,   W = (1 - rate * decay) W - rate * scale * 0.2 * sqrt(max(A, B)) * orthogonal(0.05 g + 0.95 m)

    for a matrix of A rows and B columns. The factor makes its steps as large as Adam's (Liu et al., 2025), so both rules share a rate.
    `torch.optim.Muon` computes the same, one matrix at a time and always in bfloat16, which a CPU without products in bfloat16 does more
    than ten times slower. Here, all matrices of one shape are one product in their own precision, and the ranks share the matrices.

    Sharded matrices are gathered first, and of the result each rank keeps its part.
    """

    def __init__(self, matrices: list[Group], others: list[Group], betas: tuple[float, float], epsilon: float) -> None:
        """
        Args:
            matrices: groups for Muon, with `weight_decay` and `muon`, its scale; every parameter has two dimensions.
            others: groups for Adam, with `weight_decay`.
            betas: Adam's.
            epsilon: Adam's.
        """
        self._adam = torch.optim.Adam(others, lr=0.0, betas=betas, eps=epsilon, decoupled_weight_decay=True, fused=True)
        super().__init__([*matrices, *self._adam.param_groups], {"lr": 0.0, "weight_decay": 0.0})
        self._share()

    def _share(self) -> None:
        """Adam works on the groups and the state of this optimizer."""
        self._adam.param_groups = [group for group in self.param_groups if "muon" not in group]
        self._adam.state = self.state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        self._share()

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Do one step of both; a parameter without a gradient stays as it is."""
        self._adam.step()
        for group in self.param_groups:
            if "muon" in group:
                self._step(group)

    def _step(self, group: Group) -> None:
        by_shape: dict[torch.Size, list[tuple[nn.Parameter, Tensor]]] = defaultdict(list)
        for parameter in group["params"]:
            if parameter.grad is None:
                continue
            state = self.state[parameter]
            if "momentum" not in state:
                state["momentum"] = torch.zeros_like(parameter)
            state["momentum"].lerp_(parameter.grad, 1 - _MOMENTUM)
            ahead = parameter.grad.lerp(state["momentum"], _MOMENTUM)
            by_shape[parameter.shape].append((parameter, whole(ahead)))
        for shape, moved in by_shape.items():
            size = group["lr"] * group["muon"] * _SIZE_OF_ADAMS_STEPS * max(shape) ** 0.5
            steps = orthogonal_by_ranks(torch.stack([ahead for _, ahead in moved]))
            for (parameter, _), step in zip(moved, steps, strict=True):
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
                parameter.sub_(part_of(step, parameter), alpha=size)


def orthogonal(matrices: Tensor) -> Tensor:
    """The matrices with singular values near 1, between about 0.7 and 1.2, and the same singular vectors.

    Five Newton-Schulz iterations X = a X + (b X X' + c (X X')^2) X with the coefficients of Jordan et al. (2024), from X of Frobenius
    norm 1. Singular values far below a thousandth of the norm stay smaller. A matrix of zeros stays zero.

    Args:
        matrices: [K, A, B].

    Returns:
        [K, A, B].
    """
    is_tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if is_tall else matrices
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=torch.finfo(x.dtype).tiny)
    for _ in range(_ITERATIONS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=_B, alpha=_C), x, beta=_A)
    return x.mT if is_tall else x


def orthogonal_by_ranks(matrices: Tensor) -> Tensor:
    """`orthogonal` of matrices that are the same on all ranks, all of which must call this: each computes a share, and all get the whole.

    Args:
        matrices: [K, A, B].

    Returns:
        [K, A, B].
    """
    ranks = distributed.get_world_size() if distributed.is_initialized() else 1
    if ranks == 1:
        return orthogonal(matrices)
    share = -(-len(matrices) // ranks)  # rounded up; the last ranks may have fewer or none
    first = share * distributed.get_rank()
    own = orthogonal(matrices[first : first + share])
    everything = matrices.new_empty(ranks * share, *matrices.shape[1:])
    padded = torch.cat([own, own.new_zeros(share - len(own), *own.shape[1:])])
    distributed.all_gather(list(everything.split(share)), padded)
    return everything[: len(matrices)]


def muon_flops(groups: Iterable[Group]) -> float:
    """Floating point operations of one step of Muon, its matrix products alone, on all ranks together; 0 where no group is Muon's."""
    shapes = (sorted(parameter.shape) for group in groups if "muon" in group for parameter in group["params"])
    return float(sum(_ITERATIONS * (4 * short * short * long + 2 * short**3) for short, long in shapes))
