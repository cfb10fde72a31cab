"""Dropout whose masks are cheap on a CPU, for training only: the model itself has PyTorch's.

PyTorch draws one double of the Mersenne Twister for every entry. Here one draw of 64 bits decides about four entries.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

_LEVELS = 2**16
"""The number of values of 16 random bits."""


class BitDropout(nn.Dropout):
    """`nn.Dropout` with its rate rounded to a multiple of 2^-16; entries are scaled by exactly that rounded rate."""

    def forward(self, x: Tensor) -> Tensor:
        """`x` of any shape; with probability `p` an entry is 0, else divided by 1 - p."""
        if not self.training or self.p == 0:
            return x
        output: Tensor = _Dropout.apply(x, self.p)
        return output


def use_bit_dropout(model: nn.Module) -> None:
    """Put a `BitDropout` in place of every `nn.Dropout` below `model`, with the same mode and rate."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if type(child) is nn.Dropout:
                setattr(module, name, BitDropout(child.p).train(child.training))


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, rate: float) -> Tensor:
        dropped = min(round(rate * _LEVELS), _LEVELS - 1)
        draws = torch.empty((x.numel() + 3) // 4, dtype=torch.int64, device=x.device).random_(-(2**63), None)
        bits = draws.view(torch.int16)[: x.numel()].view(x.shape)
        # Write the wanted type directly: on a CPU, comparing and then converting takes nine times as long
        factors = torch.ge(bits, dropped - _LEVELS // 2, out=torch.empty_like(x))
        factors *= _LEVELS / (_LEVELS - dropped)
        ctx.save_for_backward(factors)
        return x * factors

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (factors,) = ctx.saved_tensors
        return gradient * factors, None
