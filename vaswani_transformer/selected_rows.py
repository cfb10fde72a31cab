"""Scores of some of the vocabulary's tokens: a product with those rows of the matrix only, with the same roundings as with all of them.

With a bound for the error of scores in 8 bits, these rows are also enough to know the likeliest token of all.

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


class Likeliest:
    """The likeliest token of all after a few states, of which 8 bits of the weights say which it can be.

    A rough score (w + d) (x + e) is off from w x by d x + (w + d) e. So it is off by the length of d times that of x at most, and by the
    length of w + d times that of e, whose numbers are at most one step of 8 bits. Whatever lies further below the largest rough score than
    two such errors is not the likeliest. The others, a few, are scored exactly.
    """

    MOST = 256
    """If so many tokens could be the likeliest, all are scored."""
    ROUNDING = 1.01
    """Leaves room for the last places of float32."""

    def __init__(self, exact: PackedLinear, rough: PackedLinear) -> None:
        """`rough` is a copy of `exact` in 8 bits, and knows how far it is `apart`."""
        assert rough.apart is not None
        self.exact, self.all, self.rough, self.apart = exact, exact.without_offset(), rough.without_offset(), rough.apart
        self.steps = 127 if int8_saturates() else 255

    def __call__(self, x: torch.Tensor) -> tuple[list[int], list[float]]:
        """The likeliest token after each of `x` `[R, in]`, the first of equals, and its score less the offset; R is small."""
        near = self.could_be(x)
        if not 0 < len(near) <= self.MOST:  # NaN is near nothing
            scores, tokens = self.all(x).max(-1)
        else:
            scores, places = rows_of(self.exact, near)(x).max(-1)
            tokens = near[places]
        return tokens.tolist(), scores.tolist()

    def could_be(self, x: torch.Tensor) -> torch.Tensor:
        """The tokens of which one must be the likeliest after a row of `x`, ascending, `[n]`."""
        scores = self.rough(x)
        least, most = (float(end) for end in torch.aminmax(x))
        step = (max(most, 0.0) - min(least, 0.0)) / self.steps
        error = self.apart.weights * float(x.norm(dim=-1).max()) + self.apart.size * step * x.shape[-1] ** 0.5
        margins = scores - (scores.amax(-1, keepdim=True) - 2 * self.ROUNDING * error)
        return (margins.amax(0) >= 0).nonzero().squeeze(-1)


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


__all__ = ["Likeliest", "rows_of"]
