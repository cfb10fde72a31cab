"""Weights laid out once for a CPU's matrix units, in fewer bits where asked: what a translator needs and a training does not.

A step of a search multiplies a few rows by every weight of the model, so its time is that of reading the weights. oneDNN reads them in
its own order sooner than in PyTorch's, bfloat16 halves what is read, and int8 quarters it.
"""

import warnings
from collections.abc import Callable
from typing import Any, Literal, get_args

import torch
from torch import nn

Function = Callable[[torch.Tensor], torch.Tensor]
WeightType = Literal["float32", "bfloat16", "int8"]


class PackedLinear(nn.Module):
    """x W^T + b for x `[..., in]` in any float type, `[..., out]` in the same; W and b cannot be trained, moved or saved.

    In bfloat16 the product is computed in it. In int8, W has one scale a row of its own, and x is rounded to 8 bits with the scale and
    the offset that its least and largest number ask for ("dynamic quantisation"): one scale for all rows of x, so that a sentence's
    numbers depend, within the rounding, on its batch.
    """

    def __init__(
        self, weight: torch.Tensor, bias: torch.Tensor | None, dtype: WeightType, keep: bool = False
    ) -> None:
        """`weight` is `[out, in]`, `bias` `[out]`; with `keep` they stay at hand as `weight` and `bias`, as they are."""
        super().__init__()
        if keep:
            self.weight, self.bias = weight.detach(), None if bias is None else bias.detach()
        self.dtype = torch.float32 if dtype == "int8" else getattr(torch, dtype)
        weight = weight.detach().to(self.dtype)
        bias = None if bias is None else bias.detach().to(self.dtype)
        if dtype == "int8":
            product, packed = torch.ops.quantized.linear_dynamic.default, quantized(weight, bias)
            self.product: Function = lambda x: product(x, packed)
        else:
            product = torch.ops.mkldnn._linear_pointwise.default
            packed = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous())
            self.product = lambda x: product(x, packed, bias, "none", [], "")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.dtype is self.dtype:
            return self.product(x)
        return self.product(x.to(self.dtype)).to(x.dtype)


def quantized(weight: torch.Tensor, bias: torch.Tensor | None) -> torch.ScriptObject:
    """`weight` `[out, in]` in 8 bits, one scale a row, as PyTorch's quantised product wants it."""
    scales = weight.abs().amax(dim=1).clamp(min=torch.finfo(torch.float32).tiny).double() / 127
    with warnings.catch_warnings():
        # The tensor type is marked for a removal that has no date; the products have no other input yet.
        warnings.filterwarnings("ignore", message=".*quantize_per_channel.*")
        rounded = torch.quantize_per_channel(
            weight, scales, torch.zeros(len(weight), dtype=torch.long), 0, torch.qint8
        )
    return torch.ops.quantized.linear_prepack(rounded, bias)


def pack_linear_layers(model: nn.Module, dtype: WeightType) -> None:
    """Put a `PackedLinear` in place of every linear layer below `model`; a self-attention's q, k and v become one product.

    Raises:
        ValueError: a type that is not there, a model that is not on a CPU, or one that is packed already.
    """
    if dtype not in get_args(WeightType):
        raise ValueError(
            f"Weights cannot be packed as {dtype!r}; choose one of {', '.join(get_args(WeightType))}."
        )
    if is_packed(model):
        raise ValueError("The weights are packed already; load the model again to pack them otherwise.")
    if any(parameter.device.type != "cpu" for parameter in model.parameters()):
        raise ValueError(
            "Packed weights are for CPUs; on a GPU, use the model as it is, in torch.bfloat16 or torch.float16."
        )
    for module in list(model.modules()):
        if hasattr(module, "qkv_proj"):
            parts: list[Any] = [module.q_proj, module.k_proj, module.v_proj]
            weight = torch.cat([part.weight for part in parts])
            bias = None if parts[0].bias is None else torch.cat([part.bias for part in parts])
            module.qkv_proj = PackedLinear(weight, bias, dtype)
            for name in ("q_proj", "k_proj", "v_proj"):
                delattr(module, name)
        # In attention over the source, a search multiplies these two with keys and values where there is one source
        kept = ("q_proj", "out_proj") if hasattr(module, "q_proj") else ()
        for name, child in list(module.named_children()):
            if type(child) is nn.Linear:
                setattr(module, name, PackedLinear(child.weight, child.bias, dtype, keep=name in kept))


def is_packed(model: nn.Module) -> bool:
    """Whether `pack_linear_layers` has changed `model`."""
    return any(isinstance(module, PackedLinear) for module in model.modules())


__all__ = ["PackedLinear", "pack_linear_layers"]
