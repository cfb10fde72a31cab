"""Scores of some of the vocabulary's tokens: a product with those rows of the matrix only, with the same roundings as with all of them.

A search within a shortlist selects rows once for a batch and multiplies by them in every step. To lay rows out for FBGEMM takes as long
as many small products, so few vectors are multiplied by plain float32 rows, whose numbers are those that the packed weights are rounded to.
"""

import torch
from torch import nn
from torch.nn.functional import linear

from .packing import Function, PackedLinear, computed_in, int8_saturates, integers, onednn_product, product_of_integers

FEW_VECTORS = 16
"""Up to so many vectors, plain rows are faster than packing them would be."""


def rows_of(module: nn.Module, chosen: torch.Tensor) -> Function:
    """A function from vectors `[..., in]` to scores `[..., n]`: what `module`, less its offset, gives in the places `chosen` `[n]`.

    Args:
        module: an `nn.Linear`, or the `PackedLinear` that `pack_linear_layers` puts in front of the softmax.
        chosen: rows of its weight.
    """
    if not isinstance(module, PackedLinear):
        assert isinstance(module, nn.Linear)
        plain, shift = module.weight.index_select(0, chosen), None if module.bias is None else module.bias[chosen]
        return lambda x: linear(x, plain, shift)
    bias = None if module.bias is None else module.bias[chosen].float()
    if module.offset:
        bias = (torch.zeros(len(chosen)) if bias is None else bias) - module.offset
    if module.kind == "int8":
        return _Int8Rows(module, chosen, bias)
    weight = module.weight.index_select(0, chosen).float()
    if module.kind == "bfloat16":
        return _Bfloat16Rows(weight.bfloat16(), bias, FEW_VECTORS if module.most_of_few else 0)
    if module.kind == "float16":
        weight = weight.half().float()
    return computed_in(torch.float32, lambda x: linear(x, weight, bias))


class _Bfloat16Rows:
    """Few vectors stay as they are; of many, vectors and results are rounded, too: as `PackedLinear` does."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None, most_of_few: int) -> None:
        self.weight, self.bias, self.most_of_few = weight, bias, most_of_few * weight.shape[1]
        self.few: Function | None = None
        self.many: Function | None = None

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        if x.numel() <= self.most_of_few:
            if self.few is None:
                weight, bias = self.weight.float(), self.bias
                self.few = computed_in(torch.float32, lambda x: linear(x, weight, bias))
            return self.few(x)
        if self.many is None:
            self.many = onednn_product(self.weight, self.bias, False)
        return self.many(x)


class _Int8Rows:
    """Products of 8-bit numbers; those of few vectors are computed in float32, which holds them exactly."""

    def __init__(self, module: PackedLinear, chosen: torch.Tensor, bias: torch.Tensor | None) -> None:
        if module.integers is None:
            rounded = integers(module.weight.float())
            module.integers = rounded.int_repr(), rounded.q_per_channel_scales()
        self.numbers, self.scales = (part.index_select(0, chosen) for part in module.integers)
        self.bias, self.saturates = bias, int8_saturates()
        self.largest = 127 if self.saturates else 255
        self.few: torch.Tensor | None = None
        self.many: Function | None = None

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        if x.numel() > FEW_VECTORS * x.shape[-1]:
            if self.many is None:
                zeros = torch.zeros(len(self.scales), dtype=torch.long)
                rounded = torch._make_per_channel_quantized_tensor(self.numbers, self.scales, zeros, 0)
                self.many = product_of_integers(rounded, self.bias, False, self.saturates)
            return self.many(x)
        if self.few is None:
            self.few = self.numbers * self.scales.float().unsqueeze(-1)
        scale, zero = torch._choose_qparams_per_tensor(x, self.saturates)
        rounded = torch.fake_quantize_per_tensor_affine(x, scale, zero, 0, self.largest)
        return linear(rounded, self.few, self.bias)


__all__ = ["rows_of"]
