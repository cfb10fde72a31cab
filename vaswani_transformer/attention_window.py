"""Self-attention restricted to a neighbourhood of each position (section 4), at a cost that grows linearly with the length.

Shapes: B sentences, T queries, S keys, of which the last T stand where the queries do, H heads, K = d_k, V = d_v.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch.utils.checkpoint import checkpoint
from transformers.cache_utils import Cache, DynamicCache, DynamicSlidingWindowLayer

from .configuration_vaswani import VaswaniConfig

SMALLEST_BLOCK = 64
"""The least number of queries that attend at a time; for fewer, a product takes less time than its call."""


class Reach(NamedTuple):
    """How many positions before and after its own a position sees."""

    before: int
    after: int


def reach_of(window: int, is_causal: bool) -> Reach:
    """The neighbourhood of `window` positions: "of size r, centered around the respective output position" (section 4).

    The position itself is one of them. An odd window has as many on either side; an even one has one more before it. In the decoder, which
    sees no later position, they are the last ones.
    """
    return Reach(window - 1, 0) if is_causal else Reach(window // 2, (window - 1) // 2)


def attend_nearby(
    attend: Callable[..., Any],
    reach: Reach,
    module: Any,
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    real: torch.Tensor | None,
    overwrite: bool = False,
    with_weights: bool = False,
    **settings: Any,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Attend block by block, each block of queries to the keys that one of them may see.

    Of several blocks, nothing is kept for the backward pass, which computes each one again.

    Args:
        attend: an attention function of transformers, called with a boolean mask.
        reach: what a query sees.
        module: the attention.
        queries: `[B, H, T, K]`.
        keys: `[B, H, S, K]`.
        values: `[B, H, S, V]`.
        real: False on padding; its last S columns are those of the keys.
        overwrite: where no gradient is wanted and K is V, each block's output takes the place of its queries, which nobody else needs.
        with_weights: return the weights, too, as a copy that no gradient reaches; `attend` knows them.
        **settings: further arguments of `attend`.

    Returns:
        `[B, T, H, V]`, and the weights `[B, H, T, S]`, if they are asked for.
    """
    length, positions, size = queries.shape[2], keys.shape[2], max(sum(reach) + 1, SMALLEST_BLOCK)
    lengths = [min(size, length - start) for start in range(0, length, size)]
    past = min(positions - length, reach.before)
    # Split once: a slice's gradient is as long as what it was taken from, so one for each block would cost the square of the length.
    asking = queries.split(lengths, dim=2)
    asked = [part[:, :, -(past + length) :].split([past, *lengths], dim=2) for part in (keys, values)]
    real = None if real is None else real[:, -(past + length) :]
    has_gradient = torch.is_grad_enabled()
    run = partial(checkpoint, use_reentrant=False) if has_gradient and len(lengths) > 1 else _call
    whole = queries.new_zeros(*queries.shape[:3], positions) if with_weights else None
    # In place where no gradient is wanted, so that the output is not in memory twice
    heads = None if has_gradient else _room_for_heads(queries, values, overwrite)
    found = []
    for number, block in enumerate(asking):
        start = past + number * size
        near = [around(parts, number, reach) for parts in asked]
        first = start - near[0][0].shape[2]
        seen = range(first, first + sum(part.shape[2] for part in near[0]))
        mask = visible(range(start, start + block.shape[2]), seen, reach, real, queries.device)
        part, weights = run(_attend_to_parts, attend, module, block, *near, mask, settings)
        if heads is None:
            found.append(part)
        else:
            heads[:, start - past : start - past + block.shape[2]] = part
        if whole is not None:
            columns = slice(positions - length - past + seen.start, positions - length - past + seen.stop)
            whole[:, :, start - past : start - past + block.shape[2], columns] = weights
    return torch.cat(found, dim=1) if heads is None else heads, whole


def _room_for_heads(queries: torch.Tensor, values: torch.Tensor, overwrite: bool) -> torch.Tensor:
    """`[B, T, H, V]` to be written: the queries' own memory, if it is theirs alone, or new memory."""
    own = queries.transpose(1, 2)
    if overwrite and own.is_contiguous() and queries.shape[-1] == values.shape[-1] and queries.dtype == values.dtype:
        return own
    return values.new_empty(len(queries), queries.shape[2], *values.shape[1::2])


def around(parts: Sequence[torch.Tensor], number: int, reach: Reach) -> list[torch.Tensor]:
    """What block `number` sees of keys or values: the end of the part before it, its own part, and the beginning of the next.

    Part 0 is what is before the first block, so part `number` is what is before this one.
    """
    before, own, *after = parts[number : number + 3]
    return [before[:, :, max(before.shape[2] - reach.before, 0) :], own, *(part[:, :, : reach.after] for part in after)]


def _attend_to_parts(
    attend: Callable[..., Any],
    module: Any,
    queries: torch.Tensor,
    keys: list[torch.Tensor],
    values: list[torch.Tensor],
    mask: torch.Tensor | None,
    settings: dict[str, Any],
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Call `attend`; the parts are joined in here, so that the joined ones are not kept for the backward pass."""
    return attend(module, queries, torch.cat(keys, dim=2), torch.cat(values, dim=2), mask, **settings)


def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


def visible(queries: range, keys: range, reach: Reach, real: torch.Tensor | None, device: torch.device) -> torch.Tensor | None:
    """Which of `keys` each of `queries` sees, `[B or 1, 1, queries, keys]`, or `None` where each sees all of them.

    Both are places among all keys, whose last `real` columns are the keys'. Padding sees padding, since a softmax over nothing is NaN.
    """
    if real is None and keys.stop - 1 <= queries.start + reach.after and keys.start >= queries.stop - 1 - reach.before:
        return None
    distances = torch.arange(keys.start, keys.stop, device=device) - torch.arange(queries.start, queries.stop, device=device).unsqueeze(-1)
    near = ((distances >= -reach.before) & (distances <= reach.after)).view(1, 1, *distances.shape)
    if real is None:
        return near
    return near & (real[:, None, None, keys.start : keys.stop] | ~real[:, None, queries.start : queries.stop, None])


def is_near(reach: Reach) -> Callable[..., Any]:
    """The same as one of transformers' mask functions, for flex attention."""

    def near(batch: Any, head: Any, query: Any, key: Any) -> Any:
        return (key - query >= -reach.before) & (key - query <= reach.after)

    return near


def real_tokens(mask: torch.Tensor | None) -> torch.Tensor | None:
    """The attention mask `[B, L]` as booleans.

    Raises:
        ValueError: it is of another form, or there is padding between tokens, which would count as neighbours.
    """
    if mask is None:
        return None
    if mask.ndim != 2:
        raise ValueError(
            f"`attention_window` makes the mask of self-attention itself and got one of the shape {tuple(mask.shape)}; pass the "
            "`attention_mask` [sentences, positions], 0 on padding."
        )
    real = mask.bool()
    if not (torch.compiler.is_compiling() or torch.jit.is_tracing()):
        beginnings = real[:, :1].sum(1) + (real[:, 1:] & ~real[:, :-1]).sum(1)
        if bool((beginnings > 1).any()):
            raise ValueError(
                "There is padding between the tokens of a sentence, and `attention_window` would count it as neighbours; put the "
                "padding at one end."
            )
    return real


def self_attention_cache(config: VaswaniConfig) -> Cache:
    """An empty cache for a decoder's self-attention; of a window of r positions, it keeps the r - 1 before the next (1 at least)."""
    if config.attention_window is None:
        return DynamicCache()
    return Cache(layers=[DynamicSlidingWindowLayer(max(config.attention_window, 2)) for _ in range(config.decoder_layers)])


def check_cache(cache: Cache | None) -> None:
    """Raise a `ValueError` for a cache with room for positions that are still to come: places in it are no distances."""
    if cache is not None and cache.is_compileable:
        raise ValueError(
            "`attention_window` needs a cache that grows, and this one is static; leave `cache_implementation` out, or pass the cache "
            "that the model makes."
        )


__all__ = ["Reach", "attend_nearby", "reach_of"]
