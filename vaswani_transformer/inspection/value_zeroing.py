"""Value zeroing (Mohebbi et al. 2023): how much each token's value vector changes what a layer makes of every other token."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from transformers.modeling_outputs import BaseModelOutput

Run = Callable[[int], Any]
"""Runs a stack over so many copies of the same text."""

_VALUES: dict[Literal["self", "cross"], re.Pattern[str]] = {
    "self": re.compile(r"(^|\.)(self_attn|SelfAttention)\.(v_proj|v)$"),
    "cross": re.compile(r"(^|\.)(encoder_attn|EncDecAttention|cross_attention)\.(v_proj|v)$"),
}
"""What models of transformers call the product that gives the values, within a layer."""

_TOKENS_AT_ONCE = 8192


class ZeroedValues(NamedTuple):
    """Distances of each layer's output, each row divided by its sum; a row that nothing changes is 0."""

    encoder: Tensor
    """`[encoder layers, S, S]`: the row's token without the column's value, in the encoder's self-attention."""
    decoder: Tensor
    """`[decoder layers, T, T]`: the same in the decoder's self-attention."""
    cross: Tensor
    """`[decoder layers, T, S]`: the same in the attention over the source."""


def value_zeroing(model: Any, input_ids: Tensor, attention_mask: Tensor, decoder_input_ids: Tensor) -> ZeroedValues:
    """Zero the value vector of one token in one layer and measure how far the layer's output moves, for every token and layer.

    The measure is 1 - cosine(output, output without the value), section 3 of Mohebbi et al. 2023, "Quantifying Context Mixing in
    Transformers". All heads lose the value, and the layer's input stays what it was, so that each layer is measured by itself.

    Args:
        model: an encoder-decoder of transformers at rest, whose attention has a product `v_proj` or `v`: ours, Marian, BART, mBART,
            M2M-100 and NLLB, Pegasus, T5 and mT5.
        input_ids: `[1, S]`.
        attention_mask: `[1, S]`.
        decoder_input_ids: `[1, T]`.

    Raises:
        ValueError: the model's values or layers are not found, or it joins their product with others, as packed weights do.
    """
    encoder, decoder = _layers(model.get_encoder()), _layers(model.get_decoder())
    with torch.no_grad():
        encoded = model.get_encoder()(input_ids=input_ids, attention_mask=attention_mask, return_dict=True)[0]

        def read(copies: int) -> Any:
            model.get_encoder()(input_ids=input_ids.expand(copies, -1), attention_mask=attention_mask.expand(copies, -1))

        def write(copies: int) -> Any:
            model(
                attention_mask=attention_mask.expand(copies, -1),
                encoder_outputs=BaseModelOutput(last_hidden_state=encoded.expand(copies, -1, -1)),
                decoder_input_ids=decoder_input_ids.expand(copies, -1),
                use_cache=False,
            )

        source, target = input_ids.shape[1], decoder_input_ids.shape[1]
        return ZeroedValues(
            _distances(read, encoder, _projections(encoder, "self"), source, source),
            _distances(write, decoder, _projections(decoder, "self"), target, target),
            _distances(write, decoder, _projections(decoder, "cross"), target, source),
        )


def _distances(run: Run, layers: Sequence[nn.Module], projections: Sequence[nn.Module], queries: int, keys: int) -> Tensor:
    """`[layers, queries, keys]`; several keys at once, each in a copy of the text of its own."""
    clean = _outputs(run, layers)
    for layer, output in zip(layers, clean, strict=True):
        if output.shape[:2] != (1, queries):
            raise ValueError(
                f"{type(layer).__name__} gives states of the shape {tuple(output.shape)}, and value zeroing reads (1, {queries}, width)."
            )
    found = clean[0].new_zeros(len(layers), queries, keys)
    at_once = max(1, _TOKENS_AT_ONCE // max(queries, keys))
    for first in range(0, keys, at_once):
        zeroed = torch.arange(first, min(first + at_once, keys), device=found.device)
        with _changed(layers, projections, clean, zeroed, found) as fired:
            run(len(zeroed))
        if not all(fired):
            raise ValueError("The model computes its values in another way here, as packed weights do; load it without packing.")
    found = found.clamp(min=0)  # equal vectors may have a cosine of 1 + 1e-16
    sums = found.sum(-1, keepdim=True)
    return (found / sums.where(sums > 0, 1)).cpu()


def _outputs(run: Run, layers: Sequence[nn.Module]) -> list[Tensor]:
    """What each layer gives for one copy, `[1, L, D]`."""
    found: list[Tensor] = []
    handles = [layer.register_forward_hook(lambda module, inputs, output: found.append(_states(output))) for layer in layers]
    try:
        run(1)
    finally:
        for handle in handles:
            handle.remove()
    return found


@contextmanager
def _changed(
    layers: Sequence[nn.Module], projections: Sequence[nn.Module], clean: Sequence[Tensor], zeroed: Tensor, found: Tensor
) -> Iterator[list[bool]]:
    """Zero in copy i the value of token `zeroed[i]`, write distances to `found`, and hand what was clean to the next layer."""
    fired = [False] * len(projections)

    def zero(number: int) -> Callable[..., Tensor]:
        def hook(module: nn.Module, inputs: Any, values: Tensor) -> Tensor:
            fired[number] = True
            values = values.clone()
            values[torch.arange(len(zeroed), device=values.device), zeroed] = 0
            return values

        return hook

    def measure(number: int) -> Callable[..., Any]:
        def hook(module: nn.Module, inputs: Any, output: Any) -> Any:
            kept = clean[number].expand_as(_states(output))
            found[number][:, zeroed] = (1 - nn.functional.cosine_similarity(_states(output), kept, dim=-1)).T
            return kept if isinstance(output, Tensor) else (kept, *output[1:])

        return hook

    handles = [projection.register_forward_hook(zero(number)) for number, projection in enumerate(projections)]
    handles += [layer.register_forward_hook(measure(number)) for number, layer in enumerate(layers)]
    try:
        yield fired
    finally:
        for handle in handles:
            handle.remove()


def _states(output: Any) -> Tensor:
    """Layers of transformers give their states alone, or before others."""
    return output if isinstance(output, Tensor) else output[0]


def _layers(stack: nn.Module) -> Sequence[nn.Module]:
    for name in ("layers", "block"):
        layers = getattr(stack, name, None)
        if isinstance(layers, nn.ModuleList) and len(layers):
            return list(layers)
    raise ValueError(f"{type(stack).__name__} has no list of layers that value zeroing knows (`layers` or `block`).")


def _projections(layers: Sequence[nn.Module], kind: Literal["self", "cross"]) -> list[nn.Module]:
    """The product that gives the values of each layer's attention of this kind."""
    found = [[module for name, module in layer.named_modules() if _VALUES[kind].search(name)] for layer in layers]
    if any(len(modules) != 1 for modules in found):
        raise ValueError(f"{type(layers[0]).__name__} does not compute its values by a product that value zeroing knows (`v_proj` or `v`).")
    return [modules[0] for modules in found]
