"""The two ways in which a search gets the scores of next tokens: a model's `forward`, or a faster step that repeats no work.

Shapes: B sentences still searched, K hypotheses a sentence, P positions of the prompt, S of the source, V vocabulary.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Any, Protocol

import torch
from torch import nn
from transformers import GenerationConfig
from transformers.cache_utils import DynamicCache, EncoderDecoderCache
from transformers.utils import ModelOutput

from .bare_layers import can_run_bare, hiding
from .decoder_step import DecoderStep
from .layers import check_tokens
from .shortlist import Choice

UNDERSTOOD = {"attention_mask", "encoder_outputs", "past_key_values", "use_cache"}
"""The model arguments that `DecoderSteps` handles."""


class Steps(Protocol):
    """What a search asks of a model."""

    @property
    def can_shrink(self) -> bool:
        """Whether sentences may leave the batch; only then may hypotheses leave their sentence."""

    @property
    def is_closed(self) -> bool:
        """Whether nobody else sees their tensors, who may keep them and want gradients of what he makes of them."""

    @property
    def offset(self) -> float:
        """By how much every score is below the model's logit."""

    @property
    def outputs(self) -> ModelOutput:
        """The model's complete output of the last step, if `forward` computed it."""

    @property
    def columns(self) -> torch.Tensor | None:
        """The tokens whose scores are given, `[V]`, if they are not the whole vocabulary."""

    def first(self) -> torch.Tensor:
        """Unnormalised scores of the token after the prompt, `[B, K or 1, V]`; a sentence's hypotheses share a single row."""

    def next(self, tokens: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """Scores `[B, K, V]` after `tokens` `[B, K]`, each appended to its sentence's hypothesis `rows` `[B, K]` of the last step."""

    def keep(self, sentences: Sequence[int]) -> None:
        """Keep only these of the B sentences, in this order, which is one of `closed_up`."""


def closed(is_so: bool) -> AbstractContextManager:
    """Inference mode, which saves a tenth of a small model's search, if `is_so`: if nobody else sees the tensors made in it."""
    return torch.inference_mode() if is_so else nullcontext()


def closed_up(staying: Sequence[int]) -> list[int]:
    """The n sentences `staying`, reordered: those in the first n places stay there, and the others fill the gaps between them."""
    places = range(len(staying))
    those_in_place = {sentence for sentence in staying if sentence in places}
    others = iter([sentence for sentence in staying if sentence not in places])
    return [place if place in those_in_place else next(others) for place in places]


def steps_of(
    model: Any,
    input_ids: torch.Tensor,
    config: GenerationConfig,
    model_kwargs: dict[str, Any],
    beams: int = 1,
    choice: Choice | None = None,
    whole: bool = True,
) -> Steps:
    """The fastest way to step `model` that these settings allow.

    Args:
        input_ids: the decoder's prompts, `[B * beams, P]`.
        model_kwargs: what `generate` prepared, its tensors with B * beams rows.
        beams: how often `generate` repeated each sentence.
        choice: the tokens that a shortlist leaves; all others get minus infinity.
        whole: give the scores of the whole vocabulary nevertheless.
    """
    if can_step(model, config, model_kwargs):
        return DecoderSteps(model, input_ids[::beams], model_kwargs, beams, choice, whole)
    return ModelSteps(model, input_ids, config, model_kwargs, beams, choice)


def runs_bare(model: Any, config: GenerationConfig) -> bool:
    """Whether a search has functions for all that `model` computes; found out once and noted on the search's own settings."""
    if "_runs_bare" not in vars(config):
        config._runs_bare = can_run_bare(model)
    return config._runs_bare


def can_step(model: Any, config: GenerationConfig, model_kwargs: dict[str, Any]) -> bool:
    """Whether `DecoderSteps` does all that these settings ask for; it uses no cache."""
    cache, mask = model_kwargs.get("past_key_values"), model_kwargs.get("attention_mask")
    given = {name for name, value in model_kwargs.items() if value is not None}
    records = (
        config.output_attentions,
        config.output_hidden_states,
        config.output_scores,
        config.output_logits,
    )
    return (
        runs_bare(model, config)
        and not (config.return_dict_in_generate and any(records))
        and config.use_cache
        and given <= UNDERSTOOD
        and (mask is None or mask.ndim == 2)
        and (cache is None or (is_dynamic(cache) and cache.get_seq_length() == 0))
    )


def is_dynamic(cache: Any) -> bool:
    """Whether rows may be taken out of `cache` and reordered."""
    return isinstance(cache, EncoderDecoderCache) and type(cache.self_attention_cache) is DynamicCache


class ModelSteps:
    """Steps by calling `forward`, as Hugging Face's searches do: any model, any cache, any setting, B * K rows."""

    is_closed = False
    offset = 0.0
    columns = None

    def __init__(
        self,
        model: Any,
        input_ids: torch.Tensor,
        config: GenerationConfig,
        model_kwargs: dict[str, Any],
        beams: int,
        choice: Choice | None = None,
    ) -> None:
        self.model, self.config, self.beams = model, config, beams
        self.input_ids = input_ids
        self.model_kwargs = model_kwargs
        self.outputs = ModelOutput()
        self.forbidden = None if choice is None else choice.of_vocabulary(model.config.decoder_entries).unsqueeze(1)

    @property
    def can_shrink(self) -> bool:
        # A changed model may depend on the rows of its batch, such as one with an adapter for each.
        cache = self.model_kwargs.get("past_key_values")
        return runs_bare(self.model, self.config) and (cache is None or is_dynamic(cache))

    def first(self) -> torch.Tensor:
        """See `Steps.first`."""
        self.outputs = self.model._prefill(self.input_ids, self.config, self.model_kwargs)
        return self._logits()

    def next(self, tokens: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """See `Steps.next`."""
        width = rows.shape[1]
        rows, tokens = (nn.functional.pad(part, (0, self.beams - width)) for part in (rows, tokens))
        firsts = torch.arange(0, rows.numel(), self.beams, device=rows.device).unsqueeze(-1)
        chosen = (rows + firsts).flatten()
        self.input_ids = torch.cat((self.input_ids[chosen], tokens.view(-1, 1)), dim=-1)
        if self.model_kwargs.get("past_key_values") is not None:
            # The cross-attention's keys and values are the same for all hypotheses of a sentence.
            cache = self.model_kwargs["past_key_values"]
            getattr(cache, "self_attention_cache", cache).reorder_cache(chosen)
        newest = 1 if self.model_kwargs["use_cache"] else None
        inputs = self.model.prepare_inputs_for_generation(self.input_ids, next_sequence_length=newest, **self.model_kwargs)
        self.outputs = self.model(**inputs, return_dict=True)
        return self._logits()[:, :width]

    def keep(self, sentences: Sequence[int]) -> None:
        """See `Steps.keep`."""
        firsts = torch.tensor(sentences, device=self.input_ids.device).unsqueeze(-1) * self.beams
        rows = (firsts + torch.arange(self.beams, device=firsts.device)).flatten()
        cache = self.model_kwargs.get("past_key_values")
        if cache is not None:
            cache.batch_select_indices(rows)
        self.input_ids = self.input_ids[rows]
        self.model_kwargs = {name: select_rows(value, rows) for name, value in self.model_kwargs.items()}
        self.forbidden = None if self.forbidden is None else self.forbidden[sentences]

    def _logits(self) -> torch.Tensor:
        self.model_kwargs = self.model._update_model_kwargs_for_generation(self.outputs, self.model_kwargs, is_encoder_decoder=True)
        logits = self.outputs.logits[:, -1].unflatten(0, (-1, self.beams))
        return logits if self.forbidden is None else logits.masked_fill(self.forbidden, -torch.inf)


class DecoderSteps:
    """Steps by calling `DecoderStep`: one row for a sentence's prompt, then K hypotheses that share it."""

    can_shrink = is_closed = True
    outputs = ModelOutput()
    FORGET_EVERY = 8
    """The number of steps after which tokens without a living hypothesis are dropped from the past."""

    def __init__(
        self,
        model: Any,
        prompts: torch.Tensor,
        model_kwargs: dict[str, Any],
        beams: int,
        choice: Choice | None = None,
        whole: bool = True,
    ) -> None:
        """`prompts` is `[B, P]`, and the tensors of `model_kwargs` have B * beams rows; for the others, see `steps_of`."""
        source, mask = model_kwargs["encoder_outputs"][0], model_kwargs.get("attention_mask")
        decoder, chosen = model.get_decoder(), None if choice is None else choice.columns
        check_tokens(prompts, decoder.embed_tokens.num_embeddings, type(decoder).__name__)
        self.step = DecoderStep(decoder, model.get_output_embeddings(), source[::beams], None if mask is None else mask[::beams], chosen)
        self.shortlist = None if choice is None else WithinShortlist(choice, source.dtype, model.config.decoder_entries if whole else None)
        self.columns = None if whole else chosen
        self.offset = self.step.offset
        self.prompts, self.beams, self.dtype = prompts, beams, source.dtype
        self.past = source.new_zeros((len(prompts), beams, prompts.shape[1]))
        """0 where a position of the past belongs to a hypothesis, `[B, K, positions]`."""
        self.newest = _only_itself(beams, source.dtype, source.device)
        self.crowded = prompts.shape[1] + self.FORGET_EVERY * beams

    def first(self) -> torch.Tensor:
        """See `Steps.first`."""
        length, mask = self.prompts.shape[1], None
        if length > 1:
            seen = torch.ones((length, length), dtype=torch.bool, device=self.prompts.device).tril()
            mask = hiding(seen, self.dtype).expand(len(self.prompts), -1, -1)
        scores = self.step(self.prompts, mask, length)[:, -1:]
        return scores if self.shortlist is None else self.shortlist(scores)

    def next(self, tokens: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """See `Steps.next`."""
        mask = None
        if self.beams > 1:
            if self.past.shape[-1] >= self.crowded:
                self._forget(rows)
            sentences, width = rows.shape
            if sentences == 1:
                past = self.past.index_select(1, rows[0])
            else:
                past = self.past.gather(1, rows.unsqueeze(-1).expand(-1, -1, self.past.shape[-1]))
            newest = self.newest if width == self.beams else self.newest[:, :width, :width]
            mask = self.past = torch.cat((past, newest if sentences == 1 else newest.expand(sentences, -1, -1)), dim=-1)
        scores = self.step(tokens, mask, 1)
        return scores if self.shortlist is None else self.shortlist(scores)

    def keep(self, sentences: Sequence[int]) -> None:
        """See `Steps.keep`."""
        self.step.keep(sentences)
        self.past = self.past[sentences]
        if self.shortlist is not None:
            self.shortlist.keep(sentences)

    def _forget(self, rows: torch.Tensor) -> None:
        """Drop from the past all tokens that belong to none of the open hypotheses."""
        chosen = torch.zeros(self.past.shape[:2], dtype=torch.bool, device=rows.device).scatter_(1, rows, True)
        is_alive = ((self.past == 0) & chosen.unsqueeze(-1)).any(1)
        most = int(is_alive.sum(-1).max())
        if len(is_alive) == 1:
            kept = is_alive[0].nonzero().view(1, -1)
        else:
            kept = is_alive.to(torch.int8).argsort(dim=-1, descending=True, stable=True)[:, :most]
        self.past = self.past.gather(2, kept.unsqueeze(1).expand(-1, self.past.shape[1], -1))
        self.step.forget(kept)
        self.crowded = most + self.FORGET_EVERY * self.beams


@lru_cache(maxsize=16)
def _only_itself(beams: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """The mask `[1, K, K]` of hypotheses that each see their own token; kept, because making one takes as long as four products."""
    with torch.inference_mode(False):
        return hiding(torch.eye(beams, dtype=torch.bool, device=device), dtype).unsqueeze(0)


class WithinShortlist:
    """Puts minus infinity in place of the scores of the tokens that are not in a sentence's own list."""

    def __init__(self, choice: Choice, dtype: torch.dtype, entries: int | None) -> None:
        """`entries`: of the whole vocabulary, if all scores are wanted."""
        self.hidden = choice.forbidden.to(dtype).masked_fill_(choice.forbidden, -torch.inf).unsqueeze(1)
        self.entries, self.columns = entries, choice.columns
        if entries is not None:
            self.columns = choice.columns[~choice.forbidden.all(0)]

    def __call__(self, scores: torch.Tensor) -> torch.Tensor:
        """`[B, K, n]` scores of the chosen columns; the same, or `[B, K, entries]`."""
        scores = scores.add_(self.hidden)
        if self.entries is None:
            return scores
        whole = scores.new_full((*scores.shape[:2], self.entries), -torch.inf)
        return whole.index_copy_(2, self.columns, scores[..., : len(self.columns)])

    def keep(self, sentences: Sequence[int]) -> None:
        """See `Steps.keep`."""
        self.hidden = self.hidden[sentences]


def select_rows(value: Any, rows: torch.Tensor) -> Any:
    """The given rows of a model argument `[B * K, ...]` or of an encoder's output; anything else unchanged."""
    if isinstance(value, torch.Tensor) and value.ndim:
        return value[rows]
    if isinstance(value, ModelOutput):
        return type(value)(last_hidden_state=value[0][rows])
    return value


__all__ = ["DecoderSteps", "ModelSteps", "Steps", "steps_of"]
