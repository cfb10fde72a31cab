"""Weights laid out once for a CPU's matrix units, in fewer bits if asked: for translating, not for training.

A step of a search multiplies a few rows by every weight of the model, so its time is that of reading the weights. oneDNN reads them
faster in its own order than in PyTorch's; 16 bits halve what it reads, and int8 quarters it. FBGEMM, which multiplies 32-bit numbers by
16-bit ones, has almost nothing to prepare, so for a few rows it is twice as fast as oneDNN in bfloat16.
"""

import copy
import math
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any, Literal, NoReturn, get_args

import torch
from torch import nn
from transformers import PreTrainedModel

from .layers import VaswaniCrossAttention, VaswaniLayer, VaswaniSelfAttention
from .parallel_heads import ChainedHeads, ParallelHeads

Function = Callable[[torch.Tensor], torch.Tensor]
WeightType = Literal["float32", "bfloat16", "float16", "int8"]


class PackedLinear(nn.Module):
    """x W^T + b for x `[..., in]` in any float type, `[..., out]`; W and b cannot be trained, converted, moved, saved or pickled.

    - float32: the product of `nn.Linear`. For a few rows, W is the sum of two float16 matrices, off by at most its last place or 2^-36.
    - float16: W is rounded to 11 binary digits, and all else is float32, so that no row depends on another. Without AVX-512, the last
      places of a row depend on the number of rows, since FBGEMM then adds the terms of one or two rows in another order.
    - bfloat16: W is rounded to 8 binary digits. In a product of many rows, x and the result are rounded, too; of a few rows they are not.
      So a row depends on the number of rows.
    - int8: W has one scale for each of its rows. x is rounded to 8 bits, with the scale and the offset that follow from its least and
      largest number ("dynamic quantisation"). All rows of x share that scale, so a row depends, within the rounding, on the others.
      Where 8 bits would overflow (see `int8_saturates`), x is rounded to 7.

    If FBGEMM can multiply a few rows here, float32 and bfloat16 keep a second copy of W for it, of the same size.
    """

    def __init__(
        self,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        dtype: WeightType,
        keep: bool = False,
        offset: float = 0.0,
        rectified: bool = False,
    ) -> None:
        """Pack.

        Args:
            weight: `[out, in]`.
            bias: `[out]`.
            keep: also keep both unchanged as `weight` and `bias`.
            offset: about where the results that matter lie. `relative` subtracts it before the results are rounded.
            rectified: the results are max(0, x W^T + b), for another product. In bfloat16 they stay so, even if x is of a wider type.
        """
        super().__init__()
        self.kind = dtype
        self.integers: tuple[torch.Tensor, torch.Tensor] | None = None
        """The numbers and scales of int8, once rows of them were wanted; see `selected_rows`."""
        if keep:
            self.weight, self.bias = weight.detach(), None if bias is None else bias.detach()
        weight = weight.detach().float()
        bias = None if bias is None else bias.detach().float()
        self.offset = offset
        if offset:
            bias = (weight.new_zeros(len(weight)) if bias is None else bias) - offset
        if dtype == "float32":
            self.product = onednn_product(weight, bias, rectified)
            few, most_rows = split_product, 4
        elif dtype == "bfloat16":
            weight = weight.bfloat16()
            self.product = onednn_product(weight, bias, rectified)
            few, most_rows = float16_product, 16
        else:
            pack = float16_product if dtype == "float16" else quantized_product
            self.product = pack(weight, bias, rectified)
            few, most_rows = None, 0
        self.few, self.most_of_few = self.product, 0
        if few is not None and has_fbgemm() and weight.abs().max() <= torch.finfo(torch.float16).max:
            self.few, self.most_of_few = few(weight.float(), bias, rectified), most_rows * weight.shape[1]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.relative(x) + self.offset if self.offset else self.relative(x)

    def relative(self, x: torch.Tensor) -> torch.Tensor:
        """x W^T + b - offset."""
        product = self.few if x.numel() <= self.most_of_few else self.product
        return _WithoutGradient.apply(x, product) if x.requires_grad else product(x)

    def without_offset(self) -> Function:
        """`relative` for a search, which takes no gradients: one call less in every product."""
        few, product, most_of_few = self.few, self.product, self.most_of_few
        return product if few is product else lambda x: few(x) if x.numel() <= most_of_few else product(x)

    def __deepcopy__(self, memo: dict[int, Any]) -> "PackedLinear":
        """A copy shares the packed weights, which cannot change."""
        copied = memo[id(self)] = type(self).__new__(type(self))
        copied.__dict__ = copy.deepcopy(self.__dict__, memo)
        return copied

    def __reduce_ex__(self, protocol: Any) -> Any:
        refuse("pickled", "pickle the model before `pack_weights`, and pack it where it is loaded")

    def _save_to_state_dict(self, *args: Any, **kwargs: Any) -> None:
        refuse("saved", SAVE_BEFORE)

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        refuse("replaced", "load them into the model before `pack_weights`")


class _WithoutGradient(torch.autograd.Function):
    """A product that refuses to be trained: operations without a derivative would silently leave gradients out."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, product: Function) -> torch.Tensor:
        return product(x)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        refuse("trained", "load the model again, train it, and pack it then")


SAVE_BEFORE = "save the model before `pack_weights`, and pack it after loading"


def refuse(what: str, remedy: str) -> NoReturn:
    """Raise the `ValueError` of a packed model; `what` cannot be done to its weights."""
    raise ValueError(f"Packed weights cannot be {what}; {remedy}.")


def onednn_product(weight: torch.Tensor, bias: torch.Tensor | None, rectified: bool) -> Function:
    """x W^T + b for factors and results in W's type; the sums, with b, are float32."""
    product = torch.ops.mkldnn._linear_pointwise.default
    packed = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous())
    behind = "relu" if rectified else "none"
    return computed_in(weight.dtype, lambda x: product(x, packed, bias, behind, [], ""), stays=rectified)


def split_product(weight: torch.Tensor, bias: torch.Tensor | None, rectified: bool) -> Function:
    """x W^T + b in float32, with W as the sum of two float16 matrices, stored side by side."""
    larger = weight.half().float()
    # Unscaled, the smaller one's numbers would lose digits to float16's least exponent. Its terms come first, while sums are still small.
    scales = torch.tensor([[2.0**-11], [1.0]])
    product = float16_product(torch.cat(((weight - larger) / scales[0], larger), dim=-1), bias, rectified)
    return computed_in(torch.float32, lambda x: product((x.unsqueeze(-2) * scales).flatten(-2)))


def float16_product(weight: torch.Tensor, bias: torch.Tensor | None, rectified: bool) -> Function:
    """x W^T + b with W in float16 and everything else in float32."""
    products = torch.ops.quantized
    product = products.linear_relu_dynamic_fp16 if rectified else products.linear_dynamic_fp16
    return fbgemm_product(product.default, products.linear_prepack_fp16(weight, bias))


def quantized_product(weight: torch.Tensor, bias: torch.Tensor | None, rectified: bool) -> Function:
    """x W^T + b with both factors in 8 bits (x in 7 where it must be), W with one scale a row."""
    return int8_product(weight, bias, rectified, reduce_range=int8_saturates())


@cache
def int8_saturates() -> bool:
    """Whether FBGEMM adds two 8-bit products in 16 bits, where large ones overflow: on x86 without AVX-512's VNNI.

    A trial product decides, because FBGEMM also obeys an environment variable (`FBGEMM_ENABLE_INSTRUCTIONS`).
    """
    ones = torch.ones(1, 64)
    return int8_product(ones, None, False, reduce_range=False)(ones).item() < 63


def int8_product(weight: torch.Tensor, bias: torch.Tensor | None, rectified: bool, reduce_range: bool) -> Function:
    """See `quantized_product`; `reduce_range` leaves x 7 bits."""
    return product_of_integers(integers(weight), bias, rectified, reduce_range)


def integers(weight: torch.Tensor) -> torch.Tensor:
    """`weight` in 8 bits, with one scale for each row."""
    scales = weight.abs().amax(dim=1).clamp(min=torch.finfo(torch.float32).tiny).double() / 127
    with warnings.catch_warnings():
        # The tensor type is deprecated without a date of removal; the products accept no other input yet.
        warnings.filterwarnings("ignore", message=".*quantize_per_channel.*")
        return torch.quantize_per_channel(weight, scales, torch.zeros(len(weight), dtype=torch.long), 0, torch.qint8)


def product_of_integers(rounded: torch.Tensor, bias: torch.Tensor | None, rectified: bool, reduce_range: bool) -> Function:
    """x W^T + b with W as `integers` gave it."""
    products = torch.ops.quantized
    product = products.linear_relu_dynamic if rectified else products.linear_dynamic
    return fbgemm_product(product.default, products.linear_prepack(rounded, bias), reduce_range)


def fbgemm_product(operation: Any, packed: torch.ScriptObject, *settings: bool) -> Function:
    """A product of x with weights in FBGEMM's own order."""
    compiled = operation.op  # `operation` itself looks in Python for arguments of a tracer, which takes half as long as a small product

    def product(x: torch.Tensor) -> torch.Tensor:
        if x.dtype is not torch.float32:
            return product(x.to(torch.float32)).to(x.dtype)
        # PyTorch asks every argument whether it overrides operations, and `packed` answers by raising an exception in C++. That takes
        # longer than a small product. With overriding disabled, PyTorch does not ask.
        with torch._C.DisableTorchFunctionSubclass():
            return compiled(x, packed, *settings)

    return product


def computed_in(dtype: torch.dtype, product: Function, stays: bool = False) -> Function:
    """`product`, which takes and gives `dtype`, for any float type; if it `stays`, results are not converted to a wider one."""

    def computed(x: torch.Tensor) -> torch.Tensor:
        if x.dtype is dtype:
            return product(x)
        found = product(x.to(dtype))
        return found if stays and torch.promote_types(x.dtype, dtype) is x.dtype else found.to(x.dtype)

    return computed


def has_fbgemm() -> bool:
    """Whether PyTorch has FBGEMM's products here: on x86 with AVX2."""
    return "fbgemm" in torch.backends.quantized.supported_engines


def has_bfloat16() -> bool:
    """Whether oneDNN has bfloat16's products here: with AVX-512, AMX or AVX-NE-CONVERT, if `ONEDNN_MAX_CPU_ISA` lets it."""
    return torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported()


def check_weight_type(dtype: str) -> None:
    """Raise a `ValueError` unless weights can be packed as `dtype` on this machine."""
    lacks = {} if has_fbgemm() else {"float16": "PyTorch has FBGEMM's products on x86 with AVX2 only"}
    if not has_bfloat16():
        lacks["bfloat16"] = "oneDNN has its products on processors with AVX-512 or AMX only"
    if dtype not in get_args(WeightType):
        raise ValueError(f"Weights cannot be packed as {dtype!r}; choose one of {', '.join(get_args(WeightType))}.")
    if dtype in lacks:
        others = " or ".join(name for name in get_args(WeightType) if name not in lacks)
        raise ValueError(f"Weights cannot be packed as {dtype} here: {lacks[dtype]}; choose {others}.")


def pack_linear_layers(model: PreTrainedModel, dtype: WeightType) -> None:
    """Put a `PackedLinear` in place of every linear layer below `model`; a self-attention's q, k and v become one product.

    Raises:
        ValueError: the type is unknown or this CPU lacks it, or the model is not on a CPU, has adapters or is packed already.
    """
    check_weight_type(dtype)
    if is_packed(model):
        raise ValueError("The weights are packed already; load the model again to pack them otherwise.")
    for name, module in model.named_modules():
        if hasattr(module, "base_layer"):
            raise ValueError(f"{name} has an adapter; merge it into the weights before they are packed, with `merge_and_unload()`.")
    if any(parameter.device.type != "cpu" for parameter in model.parameters()):
        raise ValueError("Packed weights are for CPUs; on a GPU, use the model as it is, in torch.bfloat16 or torch.float16.")
    to_vocabulary = model.get_output_embeddings()
    drafting = drafting_parts(model)
    for module in list(model.modules()):
        if isinstance(module, VaswaniSelfAttention):
            join_projections(module, dtype)
        # For a single source, a search multiplies the keys and values of attention over the source with these two, but not in bfloat16
        kept = ("q_proj", "out_proj") if isinstance(module, VaswaniCrossAttention) else ()
        for name, child in list(module.named_children()):
            if type(child) is nn.Linear:
                offset = likely_logit(child) if child is to_vocabulary and dtype == "bfloat16" else 0.0
                rectified = isinstance(module, VaswaniLayer | ParallelHeads) and name == "fc1" and is_followed_by_relu(module)
                kind = "int8" if child in drafting else dtype
                # A shortlist selects rows of the last; where the embeddings are tied, keeping them takes no memory
                keep = (name in kept and kind != "bfloat16") or child is to_vocabulary
                packed = PackedLinear(child.weight, child.bias, kind, keep, offset, rectified)
                setattr(module, name, packed)
                if rectified:
                    module.activation_fn = nn.Identity()


def drafting_parts(model: PreTrainedModel) -> set[nn.Module]:
    """The linear layers that only draft; this adds to the parallel heads a second map to the vocabulary, and `split_projection`.

    8 bits are enough for them, because a draft changes no translation: a wrong one costs time, as reading more bits does.
    """
    heads = getattr(model, "parallel_heads", None)
    if heads is None or not has_fbgemm():
        return set()
    to_vocabulary = model.get_output_embeddings()
    parts: set[nn.Module] = {module for module in heads.modules() if type(module) is nn.Linear}
    heads.to_vocabulary = PackedLinear(to_vocabulary.weight, to_vocabulary.bias, "int8")
    if isinstance(heads, ChainedHeads):
        split_projection(heads, model.get_decoder().embed_tokens.weight.detach())
    return parts


def split_projection(heads: ChainedHeads, embeddings: torch.Tensor) -> None:
    """Compute that part of the projection of `heads` which depends on the token alone, for every token of `embeddings` `[V, D]`.

    `token_proj` of a state and a token is then `state_proj` of the state plus a row of `token_vectors` `[V, D]`.
    """
    weight, bias = heads.token_proj.weight.detach(), heads.token_proj.bias.detach()
    of_states, of_tokens = weight.chunk(2, dim=1)
    if heads.config.scale_embedding:  # section 3.4
        of_tokens = of_tokens * heads.config.d_model**0.5
    heads.state_proj = PackedLinear(of_states, None, "int8")
    heads.token_vectors = nn.functional.linear(embeddings, of_tokens, bias)


def join_projections(attention: VaswaniSelfAttention, dtype: WeightType) -> None:
    """Join the three projections to a self-attention's queries, keys and values into one product."""
    parts = [attention.q_proj, attention.k_proj, attention.v_proj]
    biases: list[torch.Tensor] = [part.bias for part in parts if part.bias is not None]
    attention.qkv_proj = PackedLinear(torch.cat([part.weight for part in parts]), torch.cat(biases) if biases else None, dtype)
    del attention.q_proj, attention.k_proj, attention.v_proj


def is_followed_by_relu(layer: VaswaniLayer | ParallelHeads) -> bool:
    """Whether `fc1` may include ReLU and leave its results in its own type: `fc2`, which is packed next, takes any."""
    return type(layer.activation_fn) is nn.ReLU and type(layer.fc2) is nn.Linear


def likely_logit(to_vocabulary: nn.Linear) -> float:
    """About where the logits of likely tokens lie: log V, at which a token weighs as much as V tokens with logit 0.

    It is a whole number, so that bfloat16 does not round it.
    """
    return float(round(math.log(to_vocabulary.out_features)))


def is_packed(model: nn.Module) -> bool:
    """Whether `pack_linear_layers` has changed `model`."""
    return any(isinstance(module, PackedLinear) for module in model.modules())


def check_that_tensors_stay(model: nn.Module, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Refuse a `change` of a packed model's tensors to another type or device, as by `model.to`, before any tensor changes."""
    if is_packed(model) and (kept := next(model.parameters(), None)) is not None:
        before = kept.detach().new_empty(0)
        after = change(before)
        if (after.dtype, after.device) != (before.dtype, before.device):
            refuse("converted or moved", "convert or move the model before `pack_weights`, or load it again")


__all__ = ["PackedLinear", "pack_linear_layers"]
