"""Search as the paper does it (section 6.1): beam search under GNMT's length penalty, at most source + 50 tokens,
stopped once nothing open can win.

A finished hypothesis Y is worth log P(Y | X) / ((5 + |Y|) / 6)^alpha (Wu et al., 2016, equation 14, without
coverage). |Y| counts the tokens that the search added, `</s>` among them, and not a prefix the caller forced.
`generate` comes here where `generation_config.length_penalty_type` is `"gnmt"`; where it is absent, Hugging Face's
own search and its len^alpha run unchanged.

Shapes: B sentences still searched, K open hypotheses a sentence (`num_beams`), N wanted ones
(`num_return_sequences`), W candidates, V vocabulary.
"""

from itertools import count
from typing import Any

import torch
from transformers import GenerationConfig, LogitsProcessorList, StoppingCriteria, StoppingCriteriaList
from transformers.cache_utils import DynamicCache
from transformers.generation import GenerationMixin, logits_process
from transformers.generation.stopping_criteria import EosTokenCriteria, MaxLengthCriteria
from transformers.generation.utils import GenerateBeamEncoderDecoderOutput
from transformers.utils import ModelOutput

PAPER_SEARCH: dict[str, Any] = {
    "num_beams": 4,
    "length_penalty": 0.6,
    "length_penalty_type": "gnmt",
    "extra_length": 50,
}
"""What the paper searched with, as entries of a `GenerationConfig`."""

PREDICTABLE_PROCESSORS = (
    logits_process.ForcedBOSTokenLogitsProcessor,
    logits_process.ForcedEOSTokenLogitsProcessor,
    logits_process.InfNanRemoveLogitsProcessor,
    logits_process.LogitNormalization,
    logits_process.MinLengthLogitsProcessor,
    logits_process.MinNewTokensLengthLogitsProcessor,
    logits_process.NoBadWordsLogitsProcessor,
    logits_process.NoRepeatNGramLogitsProcessor,
    logits_process.RepetitionPenaltyLogitsProcessor,
    logits_process.SuppressTokensAtBeginLogitsProcessor,
    logits_process.SuppressTokensLogitsProcessor,
)
"""Processors that keep every step's score at or below 0, which the early stop needs, and do not look at a row's
number, which changes when finished sentences leave the batch. With any other processor the search is as right, but
goes on to the length limit."""


class PaperSearch(GenerationMixin):
    """Gives a sequence-to-sequence model `length_penalty_type="gnmt"` and `extra_length` as settings of `generate`."""

    def save_pretrained(self, *args: Any, **kwargs: Any) -> None:
        """Save the model with its search settings."""
        # Under this mark, which the settings of every freshly built model carry, reading the file would silently drop our two.
        self.generation_config._from_model_config = False
        super().save_pretrained(*args, **kwargs)

    def _prepare_generation_config(
        self, generation_config: GenerationConfig | None, **kwargs: Any
    ) -> tuple[GenerationConfig, dict[str, Any]]:
        """Take in the two settings that a `GenerationConfig` knows only where a checkpoint has them."""
        prepared, model_kwargs = super()._prepare_generation_config(generation_config, **kwargs)
        for name in ("length_penalty_type", "extra_length"):
            setattr(prepared, name, model_kwargs.pop(name, getattr(prepared, name, None)))
        check_search_settings(prepared)
        return prepared, model_kwargs

    def _prepare_generated_length(
        self,
        generation_config: GenerationConfig,
        has_default_max_length: bool,
        inputs_tensor: torch.Tensor,
        input_ids_length: int,
        **kwargs: Any,
    ) -> GenerationConfig:
        """Where the caller gave no limit, set the longest source's; `token_limits` then gives each sentence its own."""
        extra = generation_config.extra_length
        generation_config._limited_by_source = (
            extra is not None and has_default_max_length and generation_config.max_new_tokens is None
        )
        if generation_config._limited_by_source:
            generation_config.max_new_tokens = inputs_tensor.shape[1] + extra
            if getattr(self.config, "position_embedding_type", None) == "learned":
                room = self.config.max_position_embeddings - input_ids_length
                generation_config.max_new_tokens = min(generation_config.max_new_tokens, room)
        return super()._prepare_generated_length(
            generation_config=generation_config,
            has_default_max_length=has_default_max_length,
            inputs_tensor=inputs_tensor,
            input_ids_length=input_ids_length,
            **kwargs,
        )

    def _sample(
        self,
        input_ids: torch.LongTensor,
        logits_processor: LogitsProcessorList,
        stopping_criteria: StoppingCriteriaList,
        generation_config: GenerationConfig,
        **kwargs: Any,
    ) -> Any:
        """Hugging Face's greedy search and sampling, each sentence within its own limit."""
        limits = token_limits(generation_config, input_ids, kwargs)
        criteria = StoppingCriteriaList([*stopping_criteria, TokenLimits(limits, input_ids.shape[1])])
        return super()._sample(input_ids, logits_processor, criteria, generation_config, **kwargs)

    def _beam_search(
        self,
        input_ids: torch.LongTensor,
        logits_processor: LogitsProcessorList,
        stopping_criteria: StoppingCriteriaList,
        generation_config: GenerationConfig,
        synced_gpus: bool = False,
        **kwargs: Any,
    ) -> Any:
        """GNMT's search where the settings ask for it, Hugging Face's otherwise; each sentence within its own limit."""
        limits = token_limits(generation_config, input_ids, kwargs)
        if generation_config.length_penalty_type == "gnmt":
            if synced_gpus:
                raise ValueError(
                    'length_penalty_type="gnmt" cannot search with `synced_gpus`: its ranks finish at different steps; gather the '
                    "parameters on each rank first, or pass length_penalty_type=None."
                )
            search = GnmtBeamSearch(self, logits_processor, stopping_criteria, generation_config, limits)
            return search.run(input_ids, kwargs)
        criteria = StoppingCriteriaList([*stopping_criteria, TokenLimits(limits, input_ids.shape[1])])
        return super()._beam_search(
            input_ids, logits_processor, criteria, generation_config, synced_gpus, **kwargs
        )


def check_search_settings(config: GenerationConfig) -> None:
    """Refuse what the search cannot do.

    Raises:
        ValueError: an unknown penalty, a limit that is no length, or a setting that contradicts the search.
    """
    penalty, extra = config.length_penalty_type, config.extra_length
    if penalty not in (None, "gnmt"):
        raise ValueError(
            f'length_penalty_type is {penalty!r}; choose "gnmt" for ((5 + length) / 6)^length_penalty or None for length^length_penalty.'
        )
    if extra is not None and (isinstance(extra, bool) or not isinstance(extra, int) or extra < 0):
        raise ValueError(
            f"extra_length is {extra!r}; it is the number of tokens that a translation may have beyond its source, 0 or more."
        )
    if penalty == "gnmt" and (config.num_beams or 1) > 1:
        if config.do_sample:
            raise ValueError(
                'length_penalty_type="gnmt" ranks hypotheses and does not sample; set num_beams=1 to sample, or length_penalty_type=None.'
            )
        if config.early_stopping is True:
            raise ValueError(
                'early_stopping=True may lose the best hypothesis, and length_penalty_type="gnmt" stops by itself once nothing better can '
                "come; leave early_stopping out, or pass length_penalty_type=None."
            )


def token_limits(
    config: GenerationConfig, input_ids: torch.Tensor, model_kwargs: dict[str, Any]
) -> torch.Tensor:
    """How many tokens each sentence may get, `[B]`: its own source's plus `extra_length`, or the caller's one limit."""
    beams = max(config.num_beams or 1, config.num_return_sequences or 1)
    room = config.max_length - input_ids.shape[1]
    limits = torch.full((len(input_ids) // beams,), room, device=input_ids.device)
    if not config._limited_by_source:
        return limits
    mask = model_kwargs.get("attention_mask")
    if mask is None:
        mask = torch.ones(model_kwargs["encoder_outputs"][0].shape[:2], device=input_ids.device)
    source_lengths = mask[::beams].sum(-1).to(limits)
    return torch.minimum(limits, source_lengths + config.extra_length).clamp(min=1)


class TokenLimits(StoppingCriteria):
    """Ends each sentence at its own limit, for Hugging Face's searches."""

    def __init__(self, limits: torch.Tensor, prompt_length: int) -> None:
        """`limits` `[B]` counts tokens after the `prompt_length` ones the search began with."""
        self.limits = limits
        self.prompt_length = prompt_length

    def __call__(self, input_ids: torch.Tensor, scores: Any, **kwargs: Any) -> torch.Tensor:
        ended = self.limits <= input_ids.shape[1] - self.prompt_length
        return ended.repeat_interleave(len(input_ids) // len(ended))


class GnmtBeamSearch:
    """One search over one batch.

    Each step scores K * V continuations a sentence and takes the best W = K * (1 + number of end tokens), so that K
    of them are open. Ended ones compete for the sentence's N places; they never fill a beam. A sentence is done at
    its limit, or once its best open hypothesis, with log-probability s, cannot take a place any more: later scores
    only lower s, so it will never be worth more than s divided by the largest penalty ahead. Only where fewer than N
    hypotheses ended within the limit are the best open ones returned behind them.
    """

    def __init__(
        self,
        model: Any,
        processors: LogitsProcessorList,
        criteria: StoppingCriteriaList,
        config: GenerationConfig,
        limits: torch.Tensor,
    ) -> None:
        """`limits` `[B]`: how many tokens each sentence may get."""
        self.model = model
        self.processors = processors
        self.criteria = StoppingCriteriaList(
            [rule for rule in criteria if not isinstance(rule, (MaxLengthCriteria, EosTokenCriteria))]
        )
        self.config = config
        self.limits = limits
        self.beams = config.num_beams
        end = config._eos_token_tensor
        self.end_tokens = limits.new_empty(0) if end is None else end.to(limits)
        self.recorder = StepRecorder(config)
        self.is_predictable = all(type(rule) in PREDICTABLE_PROCESSORS for rule in processors)

    def run(self, input_ids: torch.LongTensor, model_kwargs: dict[str, Any]) -> Any:
        """Search from `input_ids` `[B * K, prompt]`; returns what `generate` returns."""
        encoder_outputs = model_kwargs["encoder_outputs"]
        outputs = self.model._prefill(input_ids, self.config, model_kwargs)
        self._start(input_ids, outputs.logits)
        for length in count(1):
            model_kwargs = self.model._update_model_kwargs_for_generation(
                outputs, model_kwargs, is_encoder_decoder=True
            )
            rows = self._extend(self._score(outputs), length)
            self._let_go(length)
            if bool(self.is_done.all()):
                return self._results(input_ids, encoder_outputs)
            model_kwargs, rows = self._shrink(model_kwargs, rows)
            if model_kwargs.get("past_key_values") is not None:
                # The cross-attention's keys and values are the same for all hypotheses of a sentence.
                model_kwargs["past_key_values"].self_attention_cache.reorder_cache(rows)
            newest = 1 if model_kwargs["use_cache"] else None
            inputs = self.model.prepare_inputs_for_generation(
                self.ids, next_sequence_length=newest, **model_kwargs
            )
            outputs = self.model(**inputs, return_dict=True)
        raise AssertionError("every sentence ends at its limit")

    def _start(self, input_ids: torch.LongTensor, logits: torch.Tensor) -> None:
        """One empty hypothesis a sentence; the other beams cannot be chosen before they differ from it."""
        sentences, wanted, device = len(self.limits), self.config.num_return_sequences, input_ids.device
        longest = self.config.max_length - input_ids.shape[1]
        dtype = torch.promote_types(logits.dtype, torch.float32)
        # One table for scores and bounds: rounded alike, a bound is never below a score that it bounds.
        lengths = torch.arange(longest + 2, device=device, dtype=torch.float64)
        self.penalties = (((5 + lengths) / 6) ** self.config.length_penalty).to(dtype)
        self.largest_penalty = self.penalties[self.limits]
        pad = self.config._pad_token_tensor
        unused = torch.tensor([0 if pad is None else int(pad), -1], device=device)

        self.sentences = torch.arange(sentences, device=device)
        self.is_done = torch.zeros(sentences, dtype=torch.bool, device=device)
        self.ids: torch.Tensor = input_ids
        # A trail is a hypothesis' generated tokens and, for `compute_transition_scores`, the row each of them was scored in.
        self.trails = input_ids.new_empty((len(input_ids), 0, 2))
        self.scores = torch.full((sentences, self.beams), -torch.inf, dtype=dtype, device=device)
        self.scores[:, 0] = 0
        self.ended_scores = torch.full((sentences, wanted), -torch.inf, dtype=dtype, device=device)
        self.ended_trails = unused.expand(sentences, wanted, longest, 2).clone()
        self.final_scores, self.final_trails = self.ended_scores.clone(), self.ended_trails.clone()

    def _score(self, outputs: ModelOutput) -> torch.Tensor:
        """Log-probability of every next token after the logits processors, `[B * K, V]`."""
        logits = outputs.logits[:, -1].to(self.scores)
        log_probs = self.processors(self.ids, logits.log_softmax(-1))
        self.recorder.add(outputs, logits, log_probs)
        return log_probs

    def _extend(self, log_probs: torch.Tensor, length: int) -> torch.Tensor:
        """Make every hypothesis `length` tokens long; returns the row that each open one comes from, `[B * K]`."""
        vocabulary = log_probs.shape[-1]
        totals = (self.scores.unsqueeze(-1) + log_probs.view(-1, self.beams, vocabulary)).flatten(1)
        candidates = min(self.beams * (1 + len(self.end_tokens)), totals.shape[1])
        scores, picks = totals.topk(candidates)
        beams, tokens = picks // vocabulary, picks % vocabulary
        rows = beams + torch.arange(len(picks), device=picks.device).unsqueeze(-1) * self.beams
        steps = torch.stack((tokens, beams + self.sentences.unsqueeze(-1) * self.beams), dim=-1)
        ended = torch.isin(tokens, self.end_tokens)
        if self.criteria:
            candidate_ids = torch.cat((self.ids[rows.flatten()], tokens.view(-1, 1)), dim=-1)
            ended |= self.criteria(candidate_ids, None).view_as(ended)

        self._keep_ended(scores.masked_fill(~ended, -torch.inf) / self.penalties[length], rows, steps)
        self.scores, order = scores.masked_fill(ended, -torch.inf).topk(self.beams)
        rows = rows.gather(1, order).flatten()
        steps = steps.gather(1, order.unsqueeze(-1).expand(-1, -1, 2)).flatten(0, 1)
        self.ids = torch.cat((self.ids[rows], steps[:, :1]), dim=-1)
        self.trails = torch.cat((self.trails[rows], steps.unsqueeze(1)), dim=1)
        return rows

    def _keep_ended(self, scores: torch.Tensor, rows: torch.Tensor, steps: torch.Tensor) -> None:
        """Give the N places to the best of those who hold them and of the W newly ended candidates (`scores` -inf for the others)."""
        wanted = self.ended_scores.shape[1]
        # Stable, so that who came first wins a tie.
        ranked, places = torch.cat((self.ended_scores, scores), dim=1).sort(
            dim=1, descending=True, stable=True
        )
        places = places[:, :wanted]
        held = places.clamp(max=wanted - 1).view(-1, wanted, 1, 1).expand_as(self.ended_trails)
        new = (places - wanted).clamp(min=0)
        last = steps.gather(1, new.unsqueeze(-1).expand(-1, -1, 2)).unsqueeze(2)
        new_trails = torch.cat((self.trails[rows.gather(1, new)], last), dim=2)
        length = new_trails.shape[2]
        self.ended_scores, self.ended_trails = ranked[:, :wanted], self.ended_trails.gather(1, held)
        is_new = (places >= wanted).view(-1, wanted, 1, 1)
        self.ended_trails[:, :, :length] = torch.where(is_new, new_trails, self.ended_trails[:, :, :length])

    def _let_go(self, length: int) -> None:
        """Note the results of the sentences that are done with this step."""
        best_ahead = self.scores[:, 0] / torch.maximum(self.penalties[length + 1], self.largest_penalty)
        is_done = self.limits <= length
        if self.is_predictable:
            is_done = is_done | (best_ahead <= self.ended_scores[:, -1])
        leaving = is_done & ~self.is_done
        self.is_done = self.is_done | is_done
        if not bool(leaving.any()):
            return
        is_free = self.ended_scores == -torch.inf
        stand_ins = (is_free.cumsum(1) - 1).clamp(min=0)
        open_scores = self.scores.gather(1, stand_ins) / self.penalties[length]
        open_trails = self.trails.unflatten(0, (-1, self.beams))
        open_trails = open_trails.gather(1, stand_ins.view(*stand_ins.shape, 1, 1).expand(-1, -1, length, 2))
        trails = self.ended_trails[leaving]
        trails[:, :, :length] = torch.where(
            is_free[leaving][..., None, None], open_trails[leaving], trails[:, :, :length]
        )
        self.final_scores[self.sentences[leaving]] = torch.where(is_free, open_scores, self.ended_scores)[
            leaving
        ]
        self.final_trails[self.sentences[leaving]] = trails

    def _shrink(
        self, model_kwargs: dict[str, Any], rows: torch.Tensor
    ) -> tuple[dict[str, Any], torch.Tensor]:
        """Let done sentences leave the batch once they are a quarter of it, unless something else counts its rows."""
        cache = model_kwargs.get("past_key_values")
        is_static = cache is not None and type(cache.self_attention_cache) is not DynamicCache
        if self.criteria or self.recorder.is_on or is_static or not self.is_predictable:
            return model_kwargs, rows
        staying = (~self.is_done).nonzero().squeeze(-1)
        if 4 * len(staying) > 3 * len(self.is_done):
            return model_kwargs, rows
        for name in (
            "sentences",
            "is_done",
            "limits",
            "largest_penalty",
            "scores",
            "ended_scores",
            "ended_trails",
        ):
            setattr(self, name, getattr(self, name)[staying])
        beams = torch.arange(self.beams, device=rows.device)
        staying_rows = (staying.unsqueeze(-1) * self.beams + beams).flatten()
        if cache is not None:
            cache.cross_attention_cache.batch_select_indices(staying_rows)
        self.ids, self.trails = self.ids[staying_rows], self.trails[staying_rows]
        selected = {name: select_rows(value, staying_rows) for name, value in model_kwargs.items()}
        return selected, rows[staying_rows]

    def _results(self, input_ids: torch.Tensor, encoder_outputs: ModelOutput) -> Any:
        """Every sentence's N hypotheses, best first."""
        trails = self.final_trails.flatten(0, 1)
        longest = int((trails[..., 1] >= 0).sum(-1).max())
        prompts = input_ids[:: self.beams].repeat_interleave(self.final_scores.shape[1], dim=0)
        sequences = torch.cat((prompts, trails[:, :longest, 0]), dim=-1)
        if not self.config.return_dict_in_generate:
            return sequences
        return GenerateBeamEncoderDecoderOutput(
            sequences=sequences,
            sequences_scores=self.final_scores.flatten(),
            beam_indices=trails[:, :longest, 1],
            encoder_attentions=encoder_outputs.get("attentions") if self.config.output_attentions else None,
            encoder_hidden_states=encoder_outputs.get("hidden_states")
            if self.config.output_hidden_states
            else None,
            **self.recorder.steps(),
        )


def select_rows(value: Any, rows: torch.Tensor) -> Any:
    """The given rows of a model argument `[B * K, ...]` or of an encoder's output; anything else as it is."""
    if isinstance(value, torch.Tensor) and value.ndim:
        return value[rows]
    if isinstance(value, ModelOutput):
        return type(value)(last_hidden_state=value[0][rows])
    return value


class StepRecorder:
    """What `generate` was asked to return of every step, under the names of its output."""

    def __init__(self, config: GenerationConfig) -> None:
        wanted = {
            "scores": config.output_scores,
            "logits": config.output_logits,
            "decoder_attentions": config.output_attentions,
            "cross_attentions": config.output_attentions,
            "decoder_hidden_states": config.output_hidden_states,
        }
        self._steps: dict[str, list[Any]] = {
            name: [] for name, on in wanted.items() if on and config.return_dict_in_generate
        }
        self.is_on = bool(self._steps)

    def add(self, outputs: ModelOutput, logits: torch.Tensor, log_probs: torch.Tensor) -> None:
        """Note one step."""
        given = {**outputs, "scores": log_probs, "logits": logits}
        for name, steps in self._steps.items():
            steps.append(given.get(name))

    def steps(self) -> dict[str, tuple[Any, ...]]:
        """All steps so far."""
        return {name: tuple(steps) for name, steps in self._steps.items()}


__all__ = ["PAPER_SEARCH", "GnmtBeamSearch", "PaperSearch"]
