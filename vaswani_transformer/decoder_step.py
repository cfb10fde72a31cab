"""The decoder for a search: the same function as `VaswaniDecoder`, one position at a time, with nothing done twice.

Nothing is copied for the hypotheses of a sentence. They share what is computed from their source. Every token that was ever in a beam
stays where it was written, and a mask tells which of them belong to a hypothesis. When beams swap, only rows of that small mask move,
and not the past.

Shapes: B sentences, T hypotheses of each (or positions of a prompt), P positions written so far, S of the source, H heads, D = d_model,
K = d_k = d_v.
"""

from collections.abc import Sequence
from typing import NamedTuple, cast

import torch
from torch import nn

from .bare_layers import BareLayer, Unpadded, attend, bare, positions_between
from .layers import EmbeddedTokens, VaswaniAttention, VaswaniCrossAttention, VaswaniDecoderLayer, attention_weights
from .packing import Function, PackedLinear
from .selected_rows import rows_of


class DecoderStep:
    """A model's decoder and its map to the vocabulary, over one batch of encoded sources."""

    AHEAD = 64
    """How many positions get their vectors at a time."""
    many_steps = True
    """Whether a sentence takes so many that products made for it alone pay."""

    def __init__(
        self,
        decoder: EmbeddedTokens,
        to_vocabulary: nn.Module,
        source: torch.Tensor,
        source_mask: torch.Tensor | None,
        chosen: torch.Tensor | None = None,
    ) -> None:
        """Begin.

        Args:
            decoder: a `VaswaniDecoder`.
            to_vocabulary: the map before the softmax.
            source: `[B, S, D]`.
            source_mask: `[B, S]`, 0 on padding, or `None` where there is none.
            chosen: the tokens whose logits are wanted, in place of the whole vocabulary.
        """
        self.decoder = decoder
        self.embeddings = bare(self.decoder.embed_tokens)
        self.scale = self.decoder.config.d_model**0.5 if self.decoder.config.scale_embedding else 1.0
        self.encoded = Unpadded(source, source_mask)
        self.layers = [LayerStep(cast(VaswaniDecoderLayer, layer), self.encoded, self.many_steps) for layer in self.decoder.layers]
        self.to_vocabulary, self.offset = less_offset(to_vocabulary)
        if chosen is not None:
            self.to_vocabulary = rows_of(to_vocabulary, chosen)
        self.positions = source.new_empty((0, source.shape[-1]))
        self.length = 0

    def __call__(self, tokens: torch.Tensor, mask: torch.Tensor | None, positions: int) -> torch.Tensor:
        """Logits of the token after each of `tokens`, minus `offset`.

        Args:
            tokens: `[B, T]`, appended to the past.
            mask: `[B, T, P + T]`, added to self-attention's scores over the past and these tokens, or `None`.
            positions: how many positions the tokens cover: 1 for the next tokens of T hypotheses, T for a prompt.

        Returns:
            `[B, T, vocabulary]`.
        """
        return self.to_vocabulary(self.states(tokens, mask, positions)).view(*tokens.shape, -1)

    def states(self, tokens: torch.Tensor, mask: torch.Tensor | None, positions: int) -> torch.Tensor:
        """The decoder's states `[B * T, D]` at `tokens`; the arguments are those of a call."""
        start, end = self.length, self.length + positions
        if end > self.positions.shape[0]:
            self.extend_positions(end)
        x = self.embeddings(tokens).mul_(self.scale) + self.positions.narrow(0, start, positions)
        self.length = end
        return self.through_layers(x, mask, None)

    def through_layers(self, x: torch.Tensor, mask: torch.Tensor | None, places: "Places | None") -> torch.Tensor:
        """`x` `[B, T, D]` through all layers, `[B * T, D]`; `mask` is `[B or 1, T, P + T]`."""
        sentences = x.shape[0]
        x = x.flatten(0, 1)
        if mask is not None:
            mask = mask.unsqueeze(1)
        for layer in self.layers:
            x = layer(x, sentences, mask, places)
        return x

    def extend_positions(self, end: int) -> None:
        """Have the vectors of the first `end` positions."""
        while end > len(self.positions):
            self.positions = torch.cat((self.positions, self._more_positions(len(self.positions))))

    def keep(self, sentences: Sequence[int]) -> None:
        """Keep only these of the B sentences, in an order of `closed_up`."""
        for layer in self.layers:
            layer.keep(sentences)

    def forget(self, kept: torch.Tensor) -> None:
        """Move the positions `kept` `[B, n]` of the past to its front and drop the others."""
        for layer in self.layers:
            layer.forget(kept)

    def _more_positions(self, start: int) -> torch.Tensor:
        config, end = self.decoder.config, start + self.AHEAD
        if config.position_embedding_type == "learned":
            end = max(start + 1, min(end, config.max_position_embeddings))
        return positions_between(self.decoder, start, end, self.positions)


class Places(NamedTuple):
    """Where T tokens of each of B sentences stand, if the sentences differ in length."""

    sentences: torch.Tensor
    """0 to B - 1, `[B, 1]`."""
    positions: torch.Tensor
    """`[B, T]`."""
    end: int
    """One more than the largest position."""


class LayerStep(BareLayer):
    """One `VaswaniDecoderLayer` with the keys and values of its past, `[2, B, H, positions, K]`, in a buffer with room for more."""

    def __init__(self, layer: VaswaniDecoderLayer, encoded: Unpadded, many_steps: bool) -> None:
        super().__init__(layer)
        self.source = source_of(layer.encoder_attn, encoded, many_steps)
        self.cross_norm = bare(layer.encoder_attn_layer_norm)
        self.room = self.past = encoded.rows.new_empty((2, encoded.shape[0], self.heads, 0, self.width))
        self.written = 0

    def __call__(self, x: torch.Tensor, sentences: int, mask: torch.Tensor | None, places: Places | None = None) -> torch.Tensor:
        """`x` `[B * T, D]` through the layer; `mask` is `[B or 1, 1, T, P + T]`, and `places` is for sentences of different lengths."""
        projected = self.split_heads(self.project(x), sentences)
        keys, values = self._write(projected.narrow(0, 1, 2), places).unbind(0)
        x = self.add_attended(x, attend(projected.select(0, 0), keys, values, mask, self.scaling))
        return self.feed_forward(self.cross_norm(self.source(x, sentences)))

    def forget(self, kept: torch.Tensor) -> None:
        """Move the positions `kept` `[B, n]` of the past to its front and drop the others."""
        rows = self.room.view(-1, self.width)
        firsts = torch.arange(0, len(rows), self.room.shape[3], device=kept.device)
        firsts = firsts.view(self.room.shape[:3])[:, : len(kept)]
        chosen = rows.index_select(0, (firsts.unsqueeze(-1) + kept.unsqueeze(1)).flatten())
        self.written = kept.shape[1]
        self.past.narrow(3, 0, self.written).copy_(chosen.view(*firsts.shape, self.written, self.width))

    def keep(self, sentences: Sequence[int]) -> None:
        """Keep only these of the B sentences, in an order of `closed_up`."""
        self.source.keep(sentences)
        move(self.past.narrow(3, 0, self.written), sentences, dim=1)
        self.past = self.past.narrow(1, 0, len(sentences))

    def take_back(self, length: int) -> None:
        """Forget all positions of the past from `length` on."""
        self.written = length

    def _write(self, memory: torch.Tensor, places: Places | None) -> torch.Tensor:
        """Write `[2, B, H, T, K]` behind the past, or in their `places`, and return all of it; the buffer doubles when it is full."""
        positions, start = memory.shape[3], self.written
        self.written = start + positions if places is None else places.end
        if self.written > self.past.shape[3]:
            # Zeros, because behind a shorter sentence's past there are positions that were never written, and NaN shines through masks.
            self.room = memory.new_zeros((*memory.shape[:3], 2 * self.written + 62, self.width))
            self.room.narrow(3, 0, start).copy_(self.past.narrow(3, 0, start))
            self.past = self.room
        if places is None:
            self.past.narrow(3, start, positions).copy_(memory)
        else:
            self.past[:, places.sentences, :, places.positions] = memory.permute(1, 3, 0, 2, 4)
        return self.past.narrow(3, 0, self.written)


class Source:
    """A `VaswaniCrossAttention` over one batch of sources, their keys and values computed once."""

    def __init__(self, attention: VaswaniCrossAttention, encoded: Unpadded) -> None:
        self.heads, self.width, self.scaling = attention.num_heads, attention.head_dim, attention.scaling
        self.query, self.out = bare(attention.q_proj), bare(attention.out_proj)
        self.keys, self.values = (part.contiguous() for part in keys_and_values(attention, encoded))
        self.hidden = encoded.hidden

    def __call__(self, x: torch.Tensor, sentences: int) -> torch.Tensor:
        """`x` `[B * T, D]` plus its attention to its source, `[B * T, D]`."""
        queries = self.query(x).view(sentences, -1, self.heads, self.width).transpose(1, 2)
        return x + self.out(attend(queries, self.keys, self.values, self.hidden, self.scaling))

    def keep(self, sentences: Sequence[int]) -> None:
        """Keep only these of the B sentences, in an order of `closed_up`."""
        for part in (self.keys, self.values):
            move(part, sentences, dim=0)
        self.keys, self.values = (part.narrow(0, 0, len(sentences)) for part in (self.keys, self.values))
        self.hidden = None if self.hidden is None else self.hidden[sentences]


class FoldedSource:
    """The same function of one short source, with both projections moved to its side.

    A head's scores are (x W_q + b_q) K^T = x (W_q K^T) + b_q K^T. The output projection of softmax(scores) V is
    softmax(scores) (V W_o) + b_o. The products W_q K^T and V W_o are the same in every step and have S columns a head, where a projection
    has d_k. A step reads only these, and neither weights nor keys and values. For several sources they would be too much to read. The
    weights of a head sum to 1, so each row of its V W_o holds its share of b_o, too.
    """

    def __init__(self, attention: VaswaniCrossAttention, encoded: Unpadded) -> None:
        query, out, self.heads = attention.q_proj, attention.out_proj, attention.num_heads
        keys, values = keys_and_values(attention, encoded)
        keys, values = keys[0] * attention.scaling, values[0]
        shift = keys.new_zeros(keys.shape[:2])
        if query.bias is not None:
            shift = (keys @ query.bias.view(self.heads, -1, 1)).squeeze(-1)
        if encoded.hidden is not None:
            shift = shift + encoded.hidden.view(1, -1)
        self.keys = torch.bmm(keys, query.weight.view(self.heads, -1, query.weight.shape[1])).flatten(0, 1).t()
        bias: torch.Tensor | None = out.bias
        share = keys.new_zeros(1) if bias is None else bias / self.heads
        self.values = torch.baddbmm(share, values, out.weight.t().unflatten(0, (self.heads, -1))).flatten(0, 1)
        self.shift = shift.flatten()

    def __call__(self, x: torch.Tensor, sentences: int) -> torch.Tensor:
        """`x` `[T, D]` plus its attention to the source, `[T, D]`."""
        scores = torch.addmm(self.shift, x, self.keys)  # [T, H * S]
        weights = attention_weights(scores.view(x.shape[0], self.heads, -1)).view(scores.shape)
        return torch.addmm(x, weights, self.values)

    def keep(self, sentences: Sequence[int]) -> None:
        """There is one sentence, and nothing to search without it."""


def source_of(attention: VaswaniCrossAttention, encoded: Unpadded, many_steps: bool) -> Source | FoldedSource:
    """Attention over a batch of sources, in the form that is cheapest for them.

    A folded one has the projections' weights as they were before packing. Where that rounded them, few steps must fold if many do: drafts
    are for few, and must find what a search without them finds.
    """
    is_rounded = packed_type(attention.q_proj) not in (None, "float32")
    kind = FoldedSource if (many_steps or is_rounded) and can_fold(attention, encoded) else Source
    return kind(attention, encoded)


def move(part: torch.Tensor, sentences: Sequence[int], dim: int) -> None:
    """Move the parts of `sentences` along `dim` to their new places; most sentences stay where they are, and are not copied."""
    for place, sentence in enumerate(sentences):
        if place != sentence:
            part.select(dim, place).copy_(part.select(dim, sentence))


def keys_and_values(attention: VaswaniAttention, encoded: Unpadded) -> list[torch.Tensor]:
    """Keys and values of the sources, `[B, H, S, K]` each, 0 on padding."""
    return [
        attention.split_heads(encoded.spread(bare(projection)(encoded.rows)).view(*encoded.shape, -1))
        for projection in (attention.k_proj, attention.v_proj)
    ]


def less_offset(module: nn.Module) -> tuple[Function, float]:
    """`module` as a function whose results lack an offset, and that offset: packed weights round such smaller results less."""
    if type(module) is PackedLinear:
        return module.without_offset(), module.offset
    return bare(module), 0.0


def packed_type(module: nn.Module) -> str | None:
    """The type in which the weights of `module` are packed, if they are."""
    return module.kind if isinstance(module, PackedLinear) else None


def can_fold(attention: VaswaniAttention, encoded: Unpadded) -> bool:
    """Whether `FoldedSource` suits: plain weights, one short source, and a precision that tolerates one more product.

    Weights packed in bfloat16 are multiplied as fast as folded ones, which would take time to make.
    """
    projections: tuple[nn.Module, ...] = (attention.q_proj, attention.out_proj)
    are_plain = all(type(part) in (nn.Linear, PackedLinear) and packed_type(part) != "bfloat16" for part in projections)
    sentences, positions = encoded.shape
    is_short = sentences == 1 and positions <= attention.head_dim
    return are_plain and is_short and torch.finfo(encoded.rows.dtype).bits >= 32


__all__ = ["DecoderStep"]
