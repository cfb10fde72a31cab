"""Adam and its learning rate (paper section 5.3)."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from ..recipe import TrainingSettings


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


def build_adam(parameters: Iterable[nn.Parameter], settings: TrainingSettings) -> torch.optim.Adam:
    """Adam without weight decay; the rate of every update is set by `set_learning_rate`.

    The fused kernel reads and writes each parameter once, which is several times faster than torch's loop, also on a CPU.
    """
    return torch.optim.Adam(
        [parameter for parameter in parameters if parameter.requires_grad],
        lr=0.0,
        betas=settings.adam_betas,
        eps=settings.adam_epsilon,
        fused=True,
    )


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate


def gradient_norm(parameters: Iterable[nn.Parameter]) -> Tensor:
    """Euclidean norm of all gradients together, a scalar that still lives on the device."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    return torch.nn.utils.get_total_norm(gradients)


def clip_gradients(parameters: Iterable[nn.Parameter], max_norm: float, norm: Tensor) -> None:
    """Scale the gradients down to `max_norm` where `norm`, theirs, is larger. The paper does not clip."""
    torch.nn.utils.clip_grads_with_norm_(list(parameters), max_norm, norm)
