"""A layer's parts as plain functions, which a search runs in place of modules.

At batch 1, Python takes longer to walk through the modules than the matrix products take. So a search calls plain functions.

Shapes: B sentences, T tokens of each, H heads, D = d_model, K = d_k = d_v.
"""

from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import torch
from torch import embedding, layer_norm, nn
from torch.nn.functional import linear, scaled_dot_product_attention
from torch.nn.modules.module import _has_any_global_hook
from transformers.activations import ACT2CLS
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from .layers import (
    EmbeddedTokens,
    VaswaniCrossAttention,
    VaswaniDecoderLayer,
    VaswaniEncoderLayer,
    VaswaniLayer,
    VaswaniSelfAttention,
    attention,
    sinusoids,
)
from .packing import Function, PackedLinear
from .parallel_heads import ChainedHeads, ParallelHeads

Module = TypeVar("Module", bound=nn.Module)

MANY_SENTENCES = 16
"""From this number of sentences on, one product for all heads is faster on a CPU than PyTorch's attention, which takes them one by one."""


class BareFeedForward:
    """The feed-forward network of a layer."""

    def __init__(self, layer: VaswaniLayer) -> None:
        parts = vars(layer)["_modules"]
        self.inner, self.activation, self.outer = bare(parts["fc1"]), bare(parts["activation_fn"]), bare(parts["fc2"])
        self.final_norm = bare(parts["final_layer_norm"])

    def feed_forward(self, x: torch.Tensor) -> torch.Tensor:
        """Equation 2, its residual sum and the layer's last normalisation."""
        return self.final_norm(x + self.outer(self.activation(self.inner(x))))


class BareLayer(BareFeedForward):
    """What an encoder's and a decoder's layers share: self-attention's projections and the feed-forward network."""

    def __init__(self, layer: VaswaniEncoderLayer | VaswaniDecoderLayer) -> None:
        super().__init__(layer)
        own = layer.self_attn
        self.heads, self.width, self.scaling = own.num_heads, own.head_dim, own.scaling
        # Not as attributes, because a module looks three times for each, and a search makes many of these
        parts, projections = vars(layer)["_modules"], vars(own)["_modules"]
        joint = projections.get("qkv_proj")
        self.joint = None if joint is None else bare(joint)
        self.parts = [] if self.joint else [bare(projections[name]) for name in ("q_proj", "k_proj", "v_proj")]
        self.own_out, self.own_norm = bare(projections["out_proj"]), bare(parts["self_attn_layer_norm"])

    def project(self, x: torch.Tensor) -> torch.Tensor:
        """Queries, keys and values, side by side, of `x` `[rows, D]`: `[rows, 3 * H * K]`."""
        return self.joint(x) if self.joint else torch.cat([part(x) for part in self.parts], dim=-1)

    def split_heads(self, projected: torch.Tensor, sentences: int) -> torch.Tensor:
        """`[B * T, 3 * H * K]` to queries, keys and values `[3, B, H, T, K]`."""
        return projected.view(sentences, -1, 3, self.heads, self.width).permute(2, 0, 3, 1, 4)

    def add_attended(self, x: torch.Tensor, attended: torch.Tensor) -> torch.Tensor:
        """Self-attention's residual sum, normalised; `attended` is `[rows, H * K]`."""
        return self.own_norm(x + self.own_out(attended))


def attend(
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    mask: torch.Tensor | None,
    scaling: float,
) -> torch.Tensor:
    """Attention of queries `[B, H, T, K]` to keys and values `[B, H, positions, K]`, the heads side by side, `[B * T, H * K]`."""
    if queries.shape[0] < MANY_SENTENCES or queries.device.type != "cpu":
        found = scaled_dot_product_attention(queries, keys, values, attn_mask=mask, scale=scaling)
    else:
        found, _ = attention(queries, keys, values, mask, scaling)
    return found.transpose(1, 2).reshape(-1, queries.shape[1] * queries.shape[3])


def bare(module: nn.Module) -> Function:
    """The cheapest function equal to `module`, without the cost of a module's call; `module` must be one that `is_as_written`."""
    if type(module) is PackedLinear and not module.offset:
        return module.without_offset()
    if type(module) is nn.LayerNorm:
        shape, scale, shift, eps = module.normalized_shape, module.weight, module.bias, module.eps
        return lambda x: layer_norm(x, shape, scale, shift, eps)
    if type(module) is nn.Linear:
        weight, bias = module.weight, module.bias
        return lambda x: linear(x, weight, bias)
    if type(module) is nn.Embedding and module.max_norm is None:
        table = module.weight
        return lambda tokens: embedding(table, tokens)
    if type(module) is nn.ReLU:
        return torch.relu
    return module.forward


def hiding(visible: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A mask to add to attention's scores: 0 where a position is visible, elsewhere the lowest number of `dtype`."""
    return torch.zeros(visible.shape, dtype=dtype, device=visible.device).masked_fill(~visible, torch.finfo(dtype).min)


_AS_WRITTEN = EmbeddedTokens.position_vectors
_TABLE = 64
"""Tables of sinusoids end at a multiple of so many positions, so that sentences of different lengths share one."""


def positions_between(stack: EmbeddedTokens, start: int, end: int, like: torch.Tensor) -> torch.Tensor:
    """What `stack` adds at the positions from `start` to before `end`, `[end - start, D]`, in the type and on the device of `like`."""
    config = stack.config
    if config.position_embedding_type == "learned" or type(stack).position_vectors is not _AS_WRITTEN:
        return stack.position_vectors(torch.arange(start, end, device=like.device)).to(like.dtype)
    first, last = start + config.position_offset, end + config.position_offset
    rounded = first + -(-(end - start) // _TABLE) * _TABLE
    return _sinusoids(first, rounded, config.d_model, config.sinusoidal_layout, like.dtype, like.device).narrow(0, 0, last - first)


@lru_cache(maxsize=16)
def _sinusoids(start: int, end: int, d_model: int, layout: str, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Kept, because a search of one short sentence would take as long over them as over a layer."""
    with torch.inference_mode(False):  # else a table of a search could not be used outside of inference mode
        return sinusoids(torch.arange(start, end, device=device), d_model, layout).to(dtype)


class Unpadded:
    """The tokens of a batch of sentences as rows of one matrix, without the padding between them."""

    def __init__(self, states: torch.Tensor, mask: torch.Tensor | None) -> None:
        """`states` is `[B, S, D]`, `mask` `[B, S]`, 0 on padding, or `None` where there is none."""
        self.shape, self.rows = states.shape[:2], states.flatten(0, 1)
        self.places = self.hidden = None
        if mask is not None and not bool(mask.all()):
            self.places = mask.flatten().nonzero().squeeze(-1)
            self.hidden = hiding(mask[:, None, None, :].bool(), states.dtype)
            self.rows = self.rows[self.places]

    def spread(self, rows: torch.Tensor) -> torch.Tensor:
        """Put `rows` `[R, width]`, one for each token, in their places: `[B * S, width]`, 0 on padding."""
        if self.places is None:
            return rows
        return rows.new_zeros(self.shape.numel(), rows.shape[-1]).index_copy_(0, self.places, rows)


class Written(NamedTuple):
    """What a class computes, as it was written."""

    forward: Any
    methods: frozenset[str]
    """Names of all its methods, and `COMPILED`; no instance may override one."""
    heeds_training: bool
    """Whether it computes something else in training mode."""


COMPILED = "_compiled_call_impl"
"""What `Module.compile` gives a module to be called in place of `forward`."""

WRITTEN: dict[type[nn.Module], Written] = {}
"""The classes whose modules a search may replace by functions: exactly these, and no subclass of them."""


def replaceable(written: type[Module], heeds_training: bool = True) -> type[Module]:
    """Declare that a search has functions for modules of this class."""
    methods = frozenset([COMPILED, *(name for name in dir(written) if callable(getattr(written, name)))])
    WRITTEN[written] = Written(written.forward, methods, heeds_training)
    return written


for ours in (nn.Dropout, VaswaniSelfAttention, VaswaniCrossAttention, VaswaniEncoderLayer, VaswaniDecoderLayer, ChainedHeads):
    replaceable(ours)
for basic in (nn.Linear, nn.LayerNorm, nn.Embedding, nn.ModuleList, nn.Identity, PackedLinear, ParallelHeads):
    replaceable(basic, heeds_training=False)
for elementwise in ACT2CLS.values():
    replaceable(elementwise[0] if isinstance(elementwise, tuple) else elementwise, heeds_training=False)


_QUIET: dict[type[nn.Module], list[str]] = {}
"""Names of a module's attributes among which was no method: to find the same again is faster than to look for methods."""


def is_as_written(model: nn.Module) -> bool:
    """Whether `model`, down to its last module, is as its classes were written: no subclass, wrapper, adapter, hook or changed method.

    In evaluation mode, a search replaces such a model by functions; for any other it calls `forward`.
    """
    if _has_any_global_hook():
        return False
    config, parts, known, quiet = getattr(model, "config", None), [model], WRITTEN.get, _QUIET.get
    for part in parts:  # the loop appends to it
        own, kind = vars(part), type(part)
        written = known(kind)
        if written is None or written.forward is not kind.forward or own.get("config", config) is not config:
            return False
        if own["training"] and written.heeds_training:
            return False
        if (own["_forward_hooks"] or own["_forward_pre_hooks"]) and not _hooks_are_idle(own):
            return False
        names = list(own)
        if names != quiet(kind):
            if written.methods.isdisjoint(names):
                _QUIET[kind] = names
            elif not _has_methods_of(written, part):
                return False
        for weight in own["_parameters"].values():
            if weight is not None and type(weight) is not nn.Parameter:
                return False
        if own["_modules"]:
            parts += [child for child in own["_modules"].values() if child is not None]
    return True


def can_run_bare(model: Any) -> bool:
    """Whether a search may run the layers of `model`, an encoder and decoder, as `BareLayer`: it computes the same function."""
    return (
        is_as_written(model)
        and model.config.head_dim == model.config.value_head_dim
        and model.config.attention_score != "additive"
        and model.config.attention_window is None
        and model.config.residual_connections
        and _attends_as_written(model.config._attn_implementation)
    )


def _attends_as_written(implementation: str) -> bool:
    """Whether it is equation 1 or PyTorch's function for it, and no other function is registered under its name."""
    registered = ALL_ATTENTION_FUNCTIONS.get(implementation)
    return (implementation == "eager" and registered is None) or (implementation == "sdpa" and registered is sdpa_attention_forward)


def _hooks_are_idle(own: dict[str, Any]) -> bool:
    """Whether the forward hooks of the module with these attributes do nothing."""
    hooks = (*own["_forward_hooks"].values(), *own["_forward_pre_hooks"].values())
    # transformers leaves its own hooks in place once outputs were recorded; they do nothing unless outputs are recorded again.
    return all(getattr(hook, "__module__", None) == "transformers.utils.output_capturing" for hook in hooks)


def _has_methods_of(written: Written, part: nn.Module) -> bool:
    """Whether all methods that stand in the attributes of `part` are those of its class, and it is not compiled."""
    own, kind = vars(part), type(part)
    # Libraries that wrapped a method restore the original, but as an attribute of the instance.
    return COMPILED not in own and all(
        own[name] == getattr(kind, name).__get__(part) for name in written.methods.intersection(own) if name != COMPILED
    )


__all__ = ["BareLayer", "can_run_bare", "replaceable"]
