"""The decoder for verifying drafts: several tokens of each sentence in one pass, of which only some may turn out to be right.

Shapes: B sentences still searched, T tokens of each (the newest one and its drafts), P positions of the prompt, V vocabulary, D = d_model,
k tokens that parallel heads propose a step, the decoder's own included.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import nn

from .bare_layers import BareFeedForward, bare, hiding
from .beam_search import likeliest_tokens
from .decoder_step import DecoderStep, Places, source_of
from .layers import check_tokens
from .packing import Function
from .parallel_heads import ChainedHeads, ParallelHeads
from .selected_rows import rows_of


class BlockStep(DecoderStep):
    """A `DecoderStep` for blocks of tokens, each behind a past that ends where the caller says."""

    many_steps = False
    stairs = torch.empty(0, 0)
    """Row t hides what the t-th token of a block must not see; its part for a past of p positions begins p columns before `middle`."""
    middle = 0

    def block(self, tokens: torch.Tensor, lengths: Sequence[int]) -> torch.Tensor:
        """The decoder's states `[B * T, D]` at `tokens` `[B, T]`.

        Sentence b's past are its first `lengths[b]` positions. Whatever stood behind them is forgotten.
        """
        if min(lengths) == max(lengths):
            self.length = lengths[0]
            for layer in self.layers:
                layer.take_back(self.length)
            return self.states(tokens, self._staircase(self.length, tokens.shape[1]), tokens.shape[1])
        starts = torch.tensor(lengths, device=tokens.device).unsqueeze(-1)
        numbers = starts + torch.arange(tokens.shape[1], device=tokens.device)
        end = max(lengths) + tokens.shape[1]
        # A short draft is filled up, and a table of positions may end within what fills it.
        table = self.decoder.config.max_position_embeddings
        is_filling = self.decoder.config.position_embedding_type == "learned" and max(lengths) < table
        self.extend_positions(min(end, table) if is_filling else end)
        x = self.embeddings(tokens) * self.scale + self.positions[numbers.clamp(max=len(self.positions) - 1)]
        visible = torch.arange(end, device=tokens.device) <= numbers.unsqueeze(-1)
        sentences = torch.arange(len(tokens), device=tokens.device).unsqueeze(-1)
        return self.through_layers(x, hiding(visible, x.dtype), Places(sentences, numbers, end))

    def _staircase(self, past: int, positions: int) -> torch.Tensor | None:
        """The mask `[1, T, past + T]` of a block of T = `positions` tokens."""
        if positions == 1:
            return None
        if past > self.middle or positions > len(self.stairs):
            self.middle, rows = 2 * past + 62, max(positions, len(self.stairs))
            visible = torch.ones((rows, self.middle + rows), dtype=torch.bool, device=self.positions.device).tril(self.middle)
            self.stairs = hiding(visible, self.positions.dtype)
        return self.stairs[:positions, self.middle - past : self.middle + positions].unsqueeze(0)


class BlockSteps:
    """What a search with drafts asks of a model."""

    def __init__(
        self,
        model: Any,
        prompts: torch.Tensor,
        model_kwargs: dict[str, Any],
        proposing: "Proposing | None" = None,
    ) -> None:
        """Begin.

        Args:
            model: whose decoder verifies, and whose parallel heads propose.
            prompts: `[B, P]`.
            model_kwargs: what `generate` prepared.
            proposing: what is asked of the heads; nothing, unless given.
        """
        source, mask = model_kwargs["encoder_outputs"][0], model_kwargs.get("attention_mask")
        decoder = model.get_decoder()
        check_tokens(prompts, decoder.embed_tokens.num_embeddings, type(decoder).__name__)
        self.step = BlockStep(decoder, model.get_output_embeddings(), source, mask)
        self.offset = self.step.offset
        """By how much every score is below the model's logit."""
        self.proposals = None if proposing is None else proposals_of(model, proposing, self.step)
        self.prompts = prompts
        self.states = source.new_empty((0, 0))

    def first(self) -> torch.Tensor:
        """Unnormalised scores `[B, 1, V]` of the token after the prompt."""
        states = self.step.block(self.prompts, [0] * len(self.prompts))
        shape = *self.prompts.shape, -1
        self.states = states.view(shape)[:, -1:]
        return self.step.to_vocabulary(states).view(shape)[:, -1:]

    def next(self, tokens: Sequence[Sequence[int]], lengths: Sequence[int]) -> torch.Tensor:
        """Scores `[B, T, V]` after each of `tokens`, of which B sentences have T; those before them are the first `lengths` of each."""
        states = self.step.block(torch.tensor(tokens, device=self.prompts.device), lengths)
        shape = len(tokens), len(tokens[0]), -1
        self.states = states.view(shape)
        return self.step.to_vocabulary(states).view(shape)

    def guesses(self, rows: Sequence[int], newest: Sequence[int]) -> list[list[int]]:
        """What the parallel heads expect behind the `newest` token of each sentence, which row `rows[b]` of its last block has scored."""
        assert self.proposals is not None  # a draft that asks for heads is refused where there are none
        states = self.states[0].narrow(0, rows[0], 1) if len(rows) == 1 else self.states[list(range(len(rows))), list(rows)]
        return self.proposals(states, newest)

    def keep(self, sentences: Sequence[int]) -> None:
        """Keep only these of the B sentences, in an order of `closed_up`."""
        self.step.keep(sentences)
        self.states = self.states[sentences]
        if self.proposals is not None:
            self.proposals.keep(sentences)


class Proposing(NamedTuple):
    """What is asked of parallel heads."""

    tokens: int
    """How many tokens they propose in a step; heads that propose all at once have k - 1 at most."""
    among: torch.Tensor | None = None
    """`[n]`, the only tokens that they propose; all, unless given."""


class Likeliest:
    """The likeliest token after each of some states."""

    def __init__(self, scores: Function, columns: torch.Tensor | None = None) -> None:
        """`scores` makes `[R, n]` of states `[R, D]`, for the tokens `columns` `[n]`, or for the whole vocabulary."""
        self.scores, self.columns = scores, columns

    def __call__(self, states: torch.Tensor) -> torch.Tensor:
        """One token `[R]` after each of `states` `[R, D]`."""
        tokens = likeliest_tokens(self.scores(states))
        return tokens if self.columns is None else self.columns.index_select(0, tokens)


class Proposals(Protocol):
    """Heads of either kind, for one batch."""

    def __call__(self, states: torch.Tensor, newest: Sequence[int]) -> list[list[int]]:
        """`Proposing.tokens` tokens of each sentence, behind the `newest` one of each, whose scores came from `states` `[B, D]`."""

    def keep(self, sentences: Sequence[int]) -> None:
        """See `BlockSteps.keep`."""


class AllAtOnce:
    """`ParallelHeads`, which propose from the state alone."""

    def __init__(self, heads: nn.Module, likeliest: Likeliest, tokens: int) -> None:
        self.heads: Function = bare_heads(heads) if type(heads) is ParallelHeads else heads
        self.likeliest, self.tokens = likeliest, tokens

    def __call__(self, states: torch.Tensor, newest: Sequence[int]) -> list[list[int]]:
        """See `Proposals`."""
        ahead = self.heads(states)[:, : self.tokens]
        drafts: list[list[int]] = self.likeliest(ahead.flatten(0, 1)).view(ahead.shape[:2]).tolist()
        return drafts

    def keep(self, sentences: Sequence[int]) -> None:
        """Nothing here belongs to a sentence."""


class OneByOne(BareFeedForward):
    """`ChainedHeads` without the cost of a module's calls; they must be as they were written."""

    def __init__(self, heads: ChainedHeads, likeliest: Likeliest, tokens: int, step: DecoderStep) -> None:
        """`step` has the embeddings and the encoded sources."""
        super().__init__(heads)
        self.likeliest, self.tokens = likeliest, tokens
        self.join, self.join_norm = join_of(heads, step), bare(heads.token_layer_norm)
        self.source = source_of(heads.encoder_attn, step.encoded, many_steps=True)
        self.cross_norm = bare(heads.encoder_attn_layer_norm)

    def __call__(self, states: torch.Tensor, newest: Sequence[int]) -> list[list[int]]:
        """See `Proposals`."""
        tokens = torch.tensor(newest, device=states.device)
        proposed = []
        for _ in range(self.tokens):
            states = self.next(states, tokens)
            tokens = self.likeliest(states)
            proposed.append(tokens)
        drafts: list[list[int]] = torch.stack(proposed, dim=1).tolist()
        return drafts

    def next(self, states: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """The state after `states` `[B, D]`, which `tokens` `[B]` follow."""
        x = self.join_norm(states + self.join(states, tokens))
        return self.feed_forward(self.cross_norm(self.source(x, len(x))))

    def keep(self, sentences: Sequence[int]) -> None:
        """See `BlockSteps.keep`."""
        self.source.keep(sentences)


def proposals_of(model: Any, asked: Proposing, step: DecoderStep) -> Proposals:
    """What the parallel heads of `model` propose in a search with this `step`."""
    heads = model.parallel_heads
    if asked.among is not None:
        likeliest = Likeliest(rows_of(model.get_output_embeddings(), asked.among), asked.among)
    else:
        # Packed heads have a cheaper map of their own.
        cheaper = getattr(heads, "to_vocabulary", None)
        likeliest = Likeliest(step.to_vocabulary if cheaper is None else bare(cheaper))
    return OneByOne(heads, likeliest, asked.tokens, step) if type(heads) is ChainedHeads else AllAtOnce(heads, likeliest, asked.tokens)


def join_of(heads: ChainedHeads, step: DecoderStep) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """What `heads` add to states `[B, D]` that tokens `[B]` follow, `[B, D]`."""
    vectors: torch.Tensor | None = getattr(heads, "token_vectors", None)
    if vectors is not None:  # packed heads have that part of their projection which depends on the token alone, for every token
        of_states = bare(heads.get_submodule("state_proj"))
        return lambda states, tokens: of_states(states) + vectors.index_select(0, tokens)
    joined, embeddings, scale = bare(heads.token_proj), step.embeddings, step.scale
    return lambda states, tokens: joined(torch.cat((states, embeddings(tokens) * scale), dim=-1))


def bare_heads(heads: ParallelHeads) -> Function:
    """`heads` without the cost of a module's calls; they must be as they were written."""
    inner, activation, outer = bare(heads.fc1), bare(heads.activation_fn), bare(heads.fc2)
    return lambda states: states.unsqueeze(1) + outer(activation(inner(states))).view(len(states), heads.heads, -1)


__all__ = ["BlockSteps", "Proposing"]
