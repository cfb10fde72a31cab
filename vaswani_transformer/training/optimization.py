"""The optimizer and its learning rate (paper section 5.3)."""

import re
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from ..recipe import TrainingSettings
from .muon import MuonAndAdam
from .sharding import whole

_HEADS = ("parallel_heads.", "classifier.")
_LAYER = re.compile(r"(encoder|decoder)\.layers\.(\d+)\.")


def learning_rate(update: int, d_model: int, warmup_updates: int, scale: float = 1.0) -> float:
    """Equation 3: linear warm-up, then decay with the inverse square root of the update's number.

    `scale * d_model^-0.5 * min(update^-0.5, update * warmup_updates^-1.5)`; both terms meet at the peak, update = `warmup_updates`.

    Args:
        update: number of the update, counted from 1.
        d_model: width of the model.
        warmup_updates: the paper's 4,000.
        scale: 1 in the paper.

    Raises:
        ValueError: `update` or `warmup_updates` is below 1.
    """
    if update < 1 or warmup_updates < 1:
        raise ValueError(
            f"Equation 3 counts updates from 1 and warms up for at least one, not update={update}, warmup_updates={warmup_updates}."
        )
    return scale * d_model**-0.5 * min(update**-0.5, update * warmup_updates**-1.5)


def cooldown(update: int, updates: int, share: float) -> float:
    """What the learning rate is multiplied by at the end of a training: 1, then linearly down over the last `share` of all updates.

    The last update has 1 / (n + 1) where n updates cool down, so the update after it would have 0 (Hägele et al., 2024, section 3).

    Args:
        update: number of the update, counted from 1.
        updates: how many the training has.
        share: of them that cool down; 0, as in the paper, leaves equation 3 alone.
    """
    cooling = round(share * updates)
    return min(1.0, (updates + 1 - update) / (cooling + 1)) if cooling else 1.0


def build_optimizer(module: nn.Module, settings: TrainingSettings, layer_decay: float = 1.0) -> torch.optim.Optimizer:
    """The optimizer of the trainable parameters; `set_learning_rate` sets the rate of every update.

    `weight_decay` is decoupled (Loshchilov and Hutter, 2019, algorithm 2: AdamW): an update first multiplies each matrix, embeddings
    included, by 1 - rate * decay, where the rate is that of its own group, schedule and `layer_decay` included. Vectors, which are biases
    and the weights of LayerNorm, do not decay.

    The fused kernel of Adam reads and writes each parameter once, which is several times faster than torch's loop, also on a CPU.
    """
    matrices: dict[tuple[float, float], list[nn.Parameter]] = {}
    others: dict[tuple[float, float], list[nn.Parameter]] = {}
    depths = _depths([name for name, _ in module.named_parameters()])
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            decay = settings.weight_decay if parameter.ndim > 1 else 0.0
            for_muon = settings.optimizer == "muon" and is_matrix_of_layer(name, parameter)
            (matrices if for_muon else others).setdefault((layer_decay ** depths[name], decay), []).append(parameter)
    of_adam, of_muon = (
        [{"params": parameters, "scale": scale, "weight_decay": decay} for (scale, decay), parameters in groups.items()]
        for groups in (others, matrices)
    )
    if settings.optimizer == "adam":
        return torch.optim.Adam(
            of_adam, lr=0.0, betas=settings.adam_betas, eps=settings.adam_epsilon, decoupled_weight_decay=True, fused=True
        )
    of_muon = [{**group, "muon": settings.muon_learning_rate_scale} for group in of_muon]
    return MuonAndAdam(of_muon, of_adam, settings.adam_betas, settings.adam_epsilon)


def is_matrix_of_layer(name: str, parameter: nn.Parameter) -> bool:
    """Whether a parameter is the matrix of a linear map in a layer or in parallel heads, which Muon can take: no embeddings, no vector."""
    is_inside = _LAYER.search(name) is not None or "parallel_heads." in name
    return is_inside and name.endswith(".weight") and parameter.ndim == 2


def _depths(names: list[str]) -> dict[str, int]:
    """How many layers below its stack's top one each parameter is; a parameter in no layer, such as embeddings, is below all.

    Parallel heads, and the map to labels, are above all.
    """
    layers = {name: (match[1], int(match[2])) for name in names if (match := _LAYER.search(name))}
    tops = {stack: max(number for other, number in layers.values() if other == stack) for stack, _ in layers.values()}
    below_all = max(tops.values(), default=-1) + 1
    depths = {name: tops[layers[name][0]] - layers[name][1] if name in layers else below_all for name in names}
    return {name: 0 if any(head in name for head in _HEADS) else depth for name, depth in depths.items()}


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Give every group of parameters `rate`, times its own scale."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group["scale"]


def gradient_norm(parameters: Iterable[nn.Parameter]) -> Tensor:
    """Euclidean norm of all gradients together, including the parts of all ranks; a scalar that is still on the device."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    return whole(torch.nn.utils.get_total_norm(gradients))


def clip_gradients(parameters: Iterable[nn.Parameter], max_norm: float, norm: Tensor) -> None:
    """Scale the gradients down to `max_norm` where their `norm` is larger. The paper does not clip."""
    torch.nn.utils.clip_grads_with_norm_(list(parameters), max_norm, norm)
