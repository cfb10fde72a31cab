"""Dropout for training only: of entries, with masks that are cheap on a CPU (the model itself has PyTorch's), and of whole words.

PyTorch draws one double of the Mersenne Twister for every entry. Here one draw of 64 bits decides about four entries.
"""

from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from transformers import PreTrainedTokenizerBase

from ..bare_layers import replaceable
from ..languages import target_languages

_LEVELS = 2**16
"""The number of values of 16 random bits."""


@replaceable  # so that validation searches as fast as a user does
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


class WordDropout(nn.Module):
    """Blanks out tokens of a model's input, so that it must tell them from their neighbours and from the other side.

    Word dropout (Sennrich and Zhang, 2019, section 3.3, after Gal and Ghahramani, 2016) zeroes the vectors of words. Here the id of another
    token, such as `<pad>`, takes their place, so any model can be trained with it as it is; the attention mask stays, and what the model
    shall predict, too.
    """

    def __init__(self, rate: float, blank_id: int, kept_ids: Collection[int] = ()) -> None:
        """
        Args:
            rate: probability of each token, from 0 to 1 (excluded).
            blank_id: what takes its place.
            kept_ids: tokens that stay, such as `</s>` and the codes of languages.
        """
        super().__init__()
        self.rate, self.blank_id = rate, blank_id
        self._kept = torch.tensor(sorted(kept_ids), dtype=torch.int64)

    def forward(self, ids: Tensor) -> Tensor:
        """`ids` [B, T] with new blanks in training, and as they are otherwise."""
        if not self.training or self.rate == 0:
            return ids
        self._kept = self._kept.to(ids.device)
        chosen = torch.rand(ids.shape, device=ids.device) < self.rate
        return ids.masked_fill(chosen & ~torch.isin(ids, self._kept), self.blank_id)

    def extra_repr(self) -> str:
        """The settings, for `print`."""
        return f"rate={self.rate}, blank_id={self.blank_id}"


def word_dropout(rate: float, tokenizer: PreTrainedTokenizerBase) -> WordDropout:
    """Word dropout for a tokenizer: its `<unk>`, or `<pad>` where it has none, takes the place of all tokens but those of control."""
    blank = tokenizer.unk_token_id if tokenizer.unk_token_id is not None else tokenizer.pad_token_id
    return WordDropout(rate, blank, {*tokenizer.all_special_ids, *target_languages(tokenizer).values()})


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
