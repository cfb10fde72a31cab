"""What each attention head of a model does on real text: nine measures, each beside what even attention would give.

A token that writes, or is written, is a query; what it looks at are keys. Weights are averaged over the queries, each of them counted
once, whatever sentence it is in. A query that sees a single key is left out of everything, since it has no choice. A measure leaves
out the queries that have none of its keys, such as the first one for the previous position, so a head that always looks there has 1.

Shapes: B sentences, H heads, Q queries, K keys.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from tqdm.auto import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..attention_window import Reach, reach_of
from ..configuration_vaswani import VaswaniConfig
from .figures import Kind
from .maps import MEMORY_LIMIT, at_rest, check_size, eager
from .translating import Translating

Side = Literal["source", "target"]
KINDS: tuple[Kind, ...] = ("encoder", "decoder", "cross")
"""Self-attention of the encoder, self-attention of the decoder, attention over the source."""

MEASURES: dict[str, str] = {
    "previous": "on the token before the query's own (self-attention)",
    "same": "on the query's own position (self-attention)",
    "next": "on the token after the query's own (encoder)",
    "token": "on the query's token elsewhere; in cross-attention, on the token that is being written, where the source has it",
    "sink": "on the end of the source, by all other tokens; in the decoder's self-attention, on the token that it starts with",
    "rare": "on the rarest token that the query can see (all of them where several are equally rare); control tokens do not count",
    "diagonal": "within one token of the query's own place, which in cross-attention is scaled to the source's length",
    "entropy": "entropy of the weights in nats: 0 for a single key, the logarithm of their number for even weights",
    "distance": "mean distance in tokens between a query's own place (scaled as for the diagonal) and what it looks at",
}
"""What each measure is. All but the last two are shares of the attention, from 0 to 1."""
SHARES = tuple(name for name in MEASURES if name not in ("entropy", "distance"))

_PAIRS_AT_ONCE = 2**16
"""Queries times keys in a batch, padding included."""

Values = dict[str, float | None]
"""A number for each of `MEASURES`; None where no query has such a key."""


class HeadName(NamedTuple):
    """One head of a model; layer and head are counted from 0."""

    kind: Kind
    layer: int
    head: int


@dataclass(frozen=True)
class MeasuredHeads:
    """The measures of every head of a model over one text."""

    heads: dict[HeadName, Values]
    chance: dict[Kind, Values]
    """What even attention over all visible keys gives on the same text."""
    queries: dict[Kind, dict[str, int]]
    """How many queries each measure is a mean of."""
    sentences: int
    source_tokens: int
    target_tokens: int

    def outstanding(self, name: HeadName) -> str | None:
        """The share by which a head stands out; see `outstanding`."""
        return outstanding(self.heads[name], self.chance[name.kind])


def outstanding(values: Mapping[str, float | None], chance: Mapping[str, float | None]) -> str | None:
    """The share that is the furthest above what even attention gives; None if none is above.

    `"diagonal"` counts in cross-attention only, since in self-attention it holds three other shares.
    """
    names = [name for name in SHARES if name != "diagonal" or values["same"] is None]
    above = {name: value - (chance[name] or 0) for name in names if (value := values[name]) is not None}
    best = max(above, key=lambda name: above[name], default=None)
    return best if best is not None and above[best] > 0 else None


def measure_heads(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    pairs: Sequence[tuple[str, str]],
    *,
    src_lang: str | None = None,
    tgt_lang: str | None = None,
    frequencies: Mapping[Side, Tensor] | None = None,
    progress: bool = False,
) -> MeasuredHeads:
    """Measure every head while the model reads each source and writes its given translation (teacher forcing).

    The translations are given, so that every model is measured on the same text and nothing is searched. To measure a model on its own
    translations, hand these over. Batches hold sentences of similar length, and padding changes nothing.

    Args:
        model: an encoder-decoder of transformers. Its attention implementation and its mode are put back afterwards.
        tokenizer: the model's.
        pairs: sources and their translations.
        src_lang, tgt_lang: as in `attention_maps`.
        frequencies: how often each token id occurs `[V]` on both sides of some larger text, for `"rare"`; by default they are counted in
            `pairs`.
        progress: show a bar.

    Returns:
        The measures of `MEASURES`; see the docstring of this module for what is averaged.

    Raises:
        ValueError: there are no pairs, or one is empty or too long; the model has no encoder and decoder, or tells no attention weights.
    """
    if not pairs:
        raise ValueError("There are no sentence pairs to measure heads on.")
    tokens = _tokens(Translating(model, tokenizer, src_lang, tgt_lang), pairs)
    counts = frequencies or {
        "source": _count([pair.source for pair in tokens], model.config.vocab_size),
        "target": _count([pair.written for pair in tokens], model.config.vocab_size),
    }
    controls = torch.tensor(sorted({*tokenizer.all_special_ids, *tokenizer.added_tokens_decoder}))
    sums, reaches = {kind: _Sums() for kind in KINDS}, _reaches(model)
    bar = tqdm(total=len(pairs), unit="sentence", desc="Measuring", disable=not progress)
    with torch.inference_mode(), at_rest(model), eager(model), bar:
        for batch in _batches(tokens):
            weights, sides = _forward(model, [tokens[index] for index in batch])
            for kind in KINDS:
                sums[kind].add(weights[kind], _scene(kind, sides, counts, controls, tokenizer.eos_token_id, reaches.get(kind)))
            bar.update(len(batch))
    return MeasuredHeads(
        heads={
            HeadName(kind, layer, head): values
            for kind in KINDS
            for layer, heads in enumerate(sums[kind].means())
            for head, values in enumerate(heads)
        },
        chance={kind: sums[kind].chance() for kind in KINDS},
        queries={kind: sums[kind].queries() for kind in KINDS},
        sentences=len(pairs),
        source_tokens=sum(len(pair.source) for pair in tokens),
        target_tokens=sum(len(pair.written) for pair in tokens),
    )


class Scene(NamedTuple):
    """What the queries of one batch see, for one kind of attention."""

    kind: Kind
    visible: Tensor
    """`[B, Q, K]`, true where a query sees a key; false on padding."""
    query_tokens: Tensor
    """`[B, Q]`: a query's own token; in cross-attention, the token that is being written."""
    key_tokens: Tensor
    """`[B, K]`"""
    sink: Tensor
    """`[B, K]`, true on the end of the source, or on the decoder's start."""
    counts: Tensor
    """`[B, K]`: how often the token of a key occurs in the text; infinity for control tokens."""


def marks_of(scene: Scene) -> tuple[dict[str, Tensor], Tensor, Tensor]:
    """Where the keys of each share lie.

    Returns:
        For each of `SHARES` a mask `[B, Q, K]`; the distances `[B, Q, K]` of keys from a query's own place; and which queries have a
        choice, `[B, Q]`.
    """
    visible = scene.visible
    choice = visible.sum(-1) >= 2
    query, key = (torch.arange(size, device=visible.device) for size in visible.shape[1:])
    nowhere = torch.zeros_like(visible)
    own = scene.kind != "cross"
    same = (key == query[:, None]).expand_as(visible) if own else nowhere
    centres = query[None].double()
    if not own:
        written, read = visible.any(-1).sum(-1), visible.any(1).sum(-1)
        centres = query * ((read - 1) / (written - 1).clamp(min=1))[:, None].double()
    distances = (key - centres[..., None]).abs()
    counts = scene.counts[:, None, :].expand(visible.shape).masked_fill(~visible, torch.inf)
    least = counts.amin(-1, keepdim=True)
    marks = {
        "previous": (key == query[:, None] - 1).expand_as(visible) if own else nowhere,
        "same": same,
        "next": (key == query[:, None] + 1).expand_as(visible) if own else nowhere,
        "token": (scene.query_tokens[..., None] == scene.key_tokens[:, None, :]) & ~same,
        "sink": scene.sink[:, None, :] & ~(scene.sink[..., None] if own else nowhere),
        "rare": (counts == least) & least.isfinite(),
        "diagonal": distances <= 1,
    }
    seen = visible & choice[..., None]
    return {name: mask & seen for name, mask in marks.items()}, distances, choice


class _Sums:
    """Sums over queries, of every head and of even attention."""

    def __init__(self) -> None:
        self.sums: dict[str, Tensor] = {}
        """`[layers, heads]` of each measure."""
        self.evenly: dict[str, float] = dict.fromkeys(MEASURES, 0.0)
        self.number: Counter[str] = Counter()

    def add(self, weights: Sequence[Tensor], scene: Scene) -> None:
        """Add a batch: for each layer its weights, `[B, H, Q, K]`."""
        marks, distances, choice = marks_of(scene)
        visible = scene.visible
        keys = visible.sum(-1).clamp(min=1).double()
        for name, mark in marks.items():
            self._count(name, mark.any(-1), mark.sum(-1) / keys)
        self._count("entropy", choice, keys.log())
        self._count("distance", choice, (distances * visible).sum(-1) / keys)
        tables = torch.stack([*marks.values(), distances * (visible & choice[..., None])]).double()
        shares = torch.stack([torch.einsum("bhqk,mbqk->mh", layer.double(), tables) for layer in weights], dim=1)
        entropies = torch.stack([self._entropies(layer.double(), choice) for layer in weights])
        for name, found in zip([*marks, "distance", "entropy"], [*shares, entropies], strict=True):
            self.sums[name] = self.sums[name] + found.cpu() if name in self.sums else found.cpu()

    @staticmethod
    def _entropies(weights: Tensor, choice: Tensor) -> Tensor:
        """The sum of the entropies of each head's queries that have a choice, `[H]`."""
        return -(torch.xlogy(weights, weights).sum(-1) * choice[:, None]).sum((0, 2))

    def _count(self, name: str, queries: Tensor, evenly: Tensor) -> None:
        self.number[name] += int(queries.sum())
        self.evenly[name] += float((evenly * queries).sum())

    def means(self) -> list[list[Values]]:
        """By layer and head."""
        layers, heads = self.sums["entropy"].shape
        return [[{name: self._mean(name, float(self.sums[name][layer, head])) for name in MEASURES} for head in range(heads)]
                for layer in range(layers)]  # fmt: skip

    def chance(self) -> Values:
        return {name: self._mean(name, self.evenly[name]) for name in MEASURES}

    def queries(self) -> dict[str, int]:
        return {name: self.number[name] for name in MEASURES}

    def _mean(self, name: str, total: float) -> float | None:
        return total / self.number[name] if self.number[name] else None


class _Pair(NamedTuple):
    """The token ids of one sentence and its translation."""

    source: list[int]
    read: list[int]
    """What the decoder reads: its start, then all that is written but the last."""
    written: list[int]


class _Sides(NamedTuple):
    """The token ids of a batch, `[B, L]`, padded, and which of them are real."""

    source: Tensor
    read: Tensor
    written: Tensor
    in_source: Tensor
    in_target: Tensor


def _reaches(model: PreTrainedModel) -> dict[Kind, Reach]:
    """How far the queries of our restricted self-attention see; empty where they see everything."""
    window = model.config.attention_window if model.config.model_type == VaswaniConfig.model_type else None
    return {} if window is None else {"encoder": reach_of(window, is_causal=False), "decoder": reach_of(window, is_causal=True)}


def _scene(kind: Kind, sides: _Sides, counts: Mapping[Side, Tensor], controls: Tensor, end: int | None, reach: Reach | None) -> Scene:
    """What one kind of attention sees in a batch, with a `reach` only so far."""
    keys = sides.read if kind == "decoder" else sides.source
    queries = {"encoder": sides.source, "decoder": sides.read, "cross": sides.written}[kind]
    real_queries = sides.in_source if kind == "encoder" else sides.in_target
    real_keys = sides.in_target if kind == "decoder" else sides.in_source
    visible = real_queries[:, :, None] & real_keys[:, None, :]
    if kind == "decoder":
        visible = visible.tril()
        sink = torch.zeros_like(real_keys)
        sink[:, 0] = True
    else:
        sink = keys == (-1 if end is None else end)
    if reach is not None:
        places = torch.arange(keys.shape[1], device=keys.device)
        ahead = places - places[:, None]
        visible = visible & (ahead >= -reach.before) & (ahead <= reach.after)
    of_side = counts["target" if kind == "decoder" else "source"].to(keys.device)
    frequency = of_side[keys].double().masked_fill(torch.isin(keys, controls.to(keys.device)), torch.inf)
    return Scene(kind, visible, queries, keys, sink, frequency)


def _tokens(translating: Translating, pairs: Sequence[tuple[str, str]]) -> list[_Pair]:
    """Ids as the model's own search reads and writes them."""
    return [_encoded(translating, number, *pair) for number, pair in enumerate(pairs, start=1)]


def _encoded(translating: Translating, number: int, source: str, target: str) -> _Pair:
    try:
        inputs = translating.read(source)
        ids = translating.given(target, inputs, {}).ids.tolist()
        read = inputs["input_ids"][0].tolist()
        check_size(translating.model, "source", len(read), 0, MEMORY_LIMIT)
        check_size(translating.model, "target", len(read), len(ids) - 1, MEMORY_LIMIT)
    except ValueError as error:
        raise ValueError(f"Sentence pair {number} cannot be measured: {error}") from error
    return _Pair(read, ids[:-1], ids[1:])


def _count(sequences: Sequence[Sequence[int]], entries: int) -> Tensor:
    """How often each id occurs, `[V]`."""
    flat = torch.tensor([token for sequence in sequences for token in sequence], dtype=torch.long)
    return torch.bincount(flat, minlength=entries)


def _batches(tokens: Sequence[_Pair]) -> Iterator[list[int]]:
    """Sentence numbers, longest first, in groups whose maps are of bounded size; a longer sentence goes alone."""
    lengths = [max(map(len, pair)) for pair in tokens]
    batch: list[int] = []
    for index in sorted(range(len(tokens)), key=lambda index: -lengths[index]):
        if batch and (len(batch) + 1) * lengths[batch[0]] ** 2 > _PAIRS_AT_ONCE:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def _forward(model: PreTrainedModel, tokens: Sequence[_Pair]) -> tuple[dict[Kind, Sequence[Tensor]], _Sides]:
    """The weights of a batch by kind, `[B, H, Q, K]` for each layer, and what was read and written."""
    fills = (model.config.pad_token_id or 0, model.config.pad_token_id or 0, -1)
    source, read, written = (
        pad_sequence([torch.tensor(ids) for ids in side], batch_first=True, padding_value=fill).to(model.device)
        for side, fill in zip(zip(*tokens, strict=True), fills, strict=True)
    )
    lengths = torch.tensor([[len(pair.source)] for pair in tokens], device=model.device)
    real = torch.arange(source.shape[1], device=model.device) < lengths
    outputs = model(input_ids=source, attention_mask=real.long(), decoder_input_ids=read, output_attentions=True, use_cache=False)
    weights: dict[Kind, Sequence[Tensor]] = {
        "encoder": outputs.encoder_attentions, "decoder": outputs.decoder_attentions, "cross": outputs.cross_attentions
    }  # fmt: skip
    if not all(weights.values()):
        raise ValueError(f"{type(model).__name__} tells no attention weights, so there is nothing to measure.")
    return weights, _Sides(source, read, written, real, written != -1)
