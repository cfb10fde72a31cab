"""How `generate` reaches the paper's search: beam search under GNMT's length penalty, at most source + 50 tokens (section 6.1).

It runs where `generation_config.length_penalty_type` is `"gnmt"`. Without that setting, Hugging Face's own beam search and its
len^alpha run unchanged. Greedy search gives the same result as Hugging Face's, faster.

Shapes: B sentences, K hypotheses a sentence (`num_beams`).
"""

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import torch
from transformers import (
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    StoppingCriteria,
    StoppingCriteriaList,
)
from transformers.generation import GenerationMixin, GenerationMode, logits_process
from transformers.generation.stopping_criteria import EosTokenCriteria, MaxLengthCriteria
from transformers.modeling_outputs import BaseModelOutput
from transformers.utils import logging

from .attention_window import self_attention_cache
from .bare_layers import WRITTEN
from .beam_search import GnmtBeamSearch, end_tokens_of, greedy_search, padding_of, refuse_nan
from .block_steps import BlockSteps, Proposing
from .blockwise_search import BlockwiseSearch
from .configuration_vaswani import PAPER_SEARCH
from .copied_items import wanted_classes
from .drafts import Drafter, HeadDrafts, SourceDrafts
from .encoder_pass import encode
from .kept_settings import KeptSettings, key_of
from .search_settings import OF_DRAFTS, OF_HEADS, check_numbers, check_token_ids
from .shortlist import SHORTLIST_FILE, SHORTLIST_USES, Choice, Shortlist, shortlist_of
from .stepping import UNDERSTOOD, DecoderSteps, can_step, closed, runs_bare, steps_of

logger = logging.get_logger(__name__)

DRAFTS = ("none", "heads", "source", "source+heads")
"""Who drafts the next tokens of a greedy search."""

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
"""Processors that keep every step's score at or below 0, which the early stop needs, and ignore a row's
number, which changes when finished sentences leave the batch. With any other processor the search is just as
correct, but runs to the length limit."""


PREPARE = GenerationMixin._prepare_generation_config
"""What a search's settings are kept of; another class's method in its place is always called."""

Method = TypeVar("Method", bound=Callable[..., Any])


def with_known_signature(method: Method) -> Method:
    """Keep the signature of `method`: transformers asks for it several times a search, and Python would put it together each time."""
    method.__signature__ = inspect.signature(method)  # type: ignore[attr-defined]
    return method


@cache
def arguments_of(method: Callable[..., Any]) -> frozenset[str]:
    """The names of its arguments."""
    return frozenset(inspect.signature(method).parameters)


class PaperSearch(GenerationMixin):
    """Gives `generate` `length_penalty_type="gnmt"`, `extra_length`, `shortlist`, `draft`, and the other settings of drafts."""

    shortlist: Shortlist | None = None
    """What `shortlist` and `draft_shortlist` ask for; read from the model's folder when it is first needed."""

    _kept_settings: KeptSettings | None = None

    def generate(self, *args: Any, **kwargs: Any) -> Any:
        """What transformers' `generate` takes and gives, with the settings of this package."""
        forget_filled_length(self.generation_config)
        return super().generate(*args, **kwargs)

    def save_pretrained(self, *args: Any, **kwargs: Any) -> None:
        """Save the model with its search settings, and the shortlist that they ask for."""
        forget_filled_length(self.generation_config)
        asking = [name for name in SHORTLIST_USES if getattr(self.generation_config, name, None)]
        if asking and kwargs.get("is_main_process", True):
            folder = Path(args[0] if args else kwargs["save_directory"])
            listed = shortlist_of(self, asking[0]).to_bytes()
            folder.mkdir(parents=True, exist_ok=True)
            (folder / SHORTLIST_FILE).write_bytes(listed)
        # The settings of every new model carry this mark. With it in the file, loading would silently drop our two settings.
        self.generation_config._from_model_config = False
        super().save_pretrained(*args, **kwargs)

    def _prepare_generation_config(
        self, generation_config: GenerationConfig | None, **kwargs: Any
    ) -> tuple[GenerationConfig, dict[str, Any]]:
        """Accept our own settings, which a `GenerationConfig` has only if the checkpoint has them."""
        prepared, model_kwargs = self._prepared(generation_config, kwargs)
        asked = {name: model_kwargs.get(name) or getattr(generation_config, name, None) for name in OF_DRAFTS}
        for name in ("length_penalty_type", "extra_length", *OF_DRAFTS, "shortlist", "copy_items"):
            setattr(prepared, name, model_kwargs.pop(name, getattr(prepared, name, None)))
        check_numbers(vars(prepared))
        check_token_ids(vars(prepared), self.config.decoder_entries)
        check_search_settings(prepared)
        if self.config._attn_implementation == "flex_attention" and self.device.type == "cpu" and (prepared.num_beams or 1) > 1:
            raise ValueError(
                "PyTorch's flex attention fails on a CPU in a search of several hypotheses; load the model with "
                'attn_implementation="sdpa", or pass num_beams=1.'
            )
        check_draft(prepared, self, asked)
        if wanted_classes(prepared.copy_items):
            logger.warning_once(
                "`generate` sees tokens and not text, so `copy_items` is without effect here; translate with the pipeline or `vaswani "
                "translate`, or pass copy_items=None."
            )
        vars(prepared).pop("_runs_bare", None)  # left by an earlier search with these settings
        return prepared, model_kwargs

    def _prepared(self, generation_config: GenerationConfig | None, given: dict[str, Any]) -> tuple[GenerationConfig, dict[str, Any]]:
        """What transformers makes of these settings, or made of the same before."""
        prepare, key = super()._prepare_generation_config, None
        if generation_config is None and prepare.__func__ is PREPARE:
            key = key_of(self.generation_config, self.config, given, UNDERSTOOD | {"input_ids"})
        if self._kept_settings is None:
            self._kept_settings = KeptSettings()
        found = self._kept_settings.find(key, given)
        if found is None:
            found = prepare(generation_config, **given)
            self._kept_settings.keep(key, given, *found)
        return found

    def _validate_model_kwargs(self, model_kwargs: dict[str, Any]) -> None:
        """Refuse misspelt names as transformers does, whose check takes as long as a step; a search that it cannot refuse passes."""
        written = WRITTEN.get(type(self))
        is_ours = written is not None and type(self).forward is written.forward
        if not (is_ours and model_kwargs.keys() <= UNDERSTOOD | {"input_ids"}):
            super()._validate_model_kwargs(model_kwargs)

    def _supports_logits_to_keep(self) -> bool:
        """What transformers reads from the signature of `forward`, for each class once."""
        return super()._supports_logits_to_keep() if "forward" in vars(self) else "logits_to_keep" in arguments_of(type(self).forward)

    def _validate_generation_mode(
        self, generation_mode: GenerationMode, generation_config: GenerationConfig, given: dict[str, Any]
    ) -> None:
        """Refuse transformers' assisted decoding where it silently drops the beam search, or where this model has nothing to draft with."""
        names = ("prompt_lookup_num_tokens", "assistant_early_exit", "use_mtp")
        assistant = given.get("assistant_model")
        drafts = {"assistant_model": assistant, **{name: getattr(generation_config, name, None) for name in names}}
        for name, draft in drafts.items():
            if draft and (generation_config.num_beams or 1) > 1:
                raise ValueError(
                    f"`{name}` speeds up greedy search and sampling, and here num_beams is {generation_config.num_beams}; "
                    f"leave it out for a beam search, or pass num_beams=1."
                )
        if isinstance(assistant, str):
            raise ValueError(f"`assistant_model` is the name {assistant!r}; load that model and pass it itself.")
        if drafts["assistant_early_exit"]:
            raise ValueError(
                "`assistant_early_exit` drafts with a model's first layers, and this model's decoder always runs all of them; leave it out."
            )
        own = (GenerationMode.GREEDY_SEARCH, GenerationMode.SAMPLE, GenerationMode.BEAM_SEARCH, GenerationMode.BEAM_SAMPLE)
        if getattr(generation_config, "shortlist", None) and generation_mode not in own:
            raise ValueError(f"{generation_mode.value} does not know vocabulary shortlists; pass shortlist=False.")
        super()._validate_generation_mode(generation_mode, generation_config, given)

    def _prepare_generated_length(
        self,
        generation_config: GenerationConfig,
        has_default_max_length: bool,
        inputs_tensor: torch.Tensor,
        input_ids_length: int,
        **kwargs: Any,
    ) -> GenerationConfig:
        """If the caller gave no limit, set the longest source's; `token_limits` then gives each sentence its own."""
        if "source" in (generation_config.draft or ""):
            generation_config._sources = source_tokens(inputs_tensor)
        extra = generation_config.extra_length
        if generation_config.shortlist or generation_config.draft_shortlist:
            generation_config._source_ids = inputs_tensor
        generation_config._limited_by_source = extra is not None and has_default_max_length and generation_config.max_new_tokens is None
        if generation_config._limited_by_source:
            generation_config.max_new_tokens = inputs_tensor.shape[1] + extra
            if (most := getattr(self.config, "most_positions", None)) is not None:
                generation_config.max_new_tokens = min(generation_config.max_new_tokens, most - input_ids_length)
        return super()._prepare_generated_length(
            generation_config=generation_config,
            has_default_max_length=has_default_max_length,
            inputs_tensor=inputs_tensor,
            input_ids_length=input_ids_length,
            **kwargs,
        )

    def _prepare_text_encoder_decoder_kwargs_for_generation(
        self,
        inputs_tensor: torch.Tensor,
        model_kwargs: dict[str, Any],
        model_input_name: str | None,
        generation_config: GenerationConfig,
    ) -> dict[str, Any]:
        """Encode the sources (transformers 5.17 has another name for this method, so there padding is encoded, too)."""
        mask = model_kwargs.get("attention_mask")
        for_encoder = {name for name, value in model_kwargs.items() if value is not None and not name.startswith("decoder_")}
        is_recorded = generation_config.output_attentions or generation_config.output_hidden_states
        is_plain = model_input_name in (None, "input_ids") and (mask is None or mask.ndim == 2) and for_encoder <= UNDERSTOOD
        if not is_recorded and is_plain and runs_bare(self, generation_config):
            with closed(True):
                encoded = encode(self.get_encoder(), inputs_tensor, mask)
            # Who searches by a function of his own, which `generate` takes, may want gradients
            encoded = encoded if torch.is_inference_mode_enabled() else encoded.clone()
            return {**model_kwargs, "encoder_outputs": BaseModelOutput(last_hidden_state=encoded)}
        return super()._prepare_text_encoder_decoder_kwargs_for_generation(inputs_tensor, model_kwargs, model_input_name, generation_config)

    def _prepare_cache_for_generation(
        self,
        generation_config: GenerationConfig,
        model_kwargs: dict[str, Any],
        generation_mode: GenerationMode,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """Make a cache, unless the search would not use it: making one takes as long as a step."""
        is_ours = generation_mode is GenerationMode.GREEDY_SEARCH or (
            generation_mode is GenerationMode.BEAM_SEARCH and generation_config.length_penalty_type == "gnmt"
        )
        is_plain = generation_config.cache_implementation is None and "past_key_values" not in model_kwargs
        if not (is_ours and is_plain and can_step(self, generation_config, model_kwargs)):
            super()._prepare_cache_for_generation(generation_config, model_kwargs, generation_mode, *args, **kwargs)
            # Assisted decoding takes tokens back, which a bounded cache has lost
            takes_back = generation_mode is GenerationMode.ASSISTED_GENERATION or generation_config.is_assistant
            cache = model_kwargs.get("past_key_values")
            if is_plain and cache is not None and getattr(self.config, "attention_window", None) is not None and not takes_back:
                cache.self_attention_cache = self_attention_cache(self.config)

    @with_known_signature
    def _sample(
        self,
        input_ids: torch.LongTensor,
        logits_processor: LogitsProcessorList,
        stopping_criteria: StoppingCriteriaList,
        generation_config: GenerationConfig,
        synced_gpus: bool = False,
        streamer: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Greedy search and sampling, each sentence within its own limit."""
        limits = token_limits(generation_config, input_ids, kwargs)
        choice = choice_of(self, generation_config, input_ids, kwargs)
        is_plain = (
            not (generation_config.do_sample or generation_config.return_dict_in_generate or synced_gpus)
            and are_predictable(logits_processor)
            and not callers_rules(stopping_criteria)
        )
        if is_plain and can_step(self, generation_config, kwargs):
            processors, forced_end = without_forced_end(logits_processor, generation_config)
            drafter = drafter_of(generation_config)
            found_by = limits.tolist(), generation_config, streamer, forced_end
            if drafter is not None:
                block_steps = BlockSteps(self, input_ids, kwargs, proposing_of(self, generation_config, kwargs.get("attention_mask")))
                return BlockwiseSearch(block_steps, drafter, input_ids, in_place(processors), *found_by).run()
            processors, earliest = without_shortest_lengths(processors, input_ids.shape[1])
            steps = DecoderSteps(self, input_ids, kwargs, 1, choice, whole=choice is None or bool(processors))
            return greedy_search(steps, input_ids, processors, *found_by, earliest)
        if generation_config.draft not in (None, "none"):
            logger.warning_once(
                f"draft={generation_config.draft!r} is not used: it needs this model's own fast search, which hooks, adapters, other "
                "subclasses, additive or restricted attention, recorded outputs and rules it does not know rule out. The translation is "
                "the same."
            )
        criteria = StoppingCriteriaList([*stopping_criteria, TokenLimits(limits, input_ids.shape[1])])
        processors = for_hugging_face(logits_processor, generation_config, limits, input_ids.shape[1], choice)
        return super()._sample(input_ids, processors, criteria, generation_config, synced_gpus, streamer, **kwargs)

    def _assisted_decoding(self, input_ids: torch.LongTensor, *args: Any, **kwargs: Any) -> Any:
        """transformers' assisted decoding, of one sentence."""
        if len(input_ids) > 1:
            raise ValueError(
                f"transformers' assisted decoding (`assistant_model`, `prompt_lookup_num_tokens`) takes one sentence at a time and got "
                f"{len(input_ids)}; leave it out, or translate them one by one (in a pipeline, with batch_size=1)."
            )
        return super()._assisted_decoding(input_ids, *args, **kwargs)

    @with_known_signature
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
        choice = choice_of(self, generation_config, input_ids, kwargs)
        if generation_config.length_penalty_type == "gnmt":
            if synced_gpus:
                raise ValueError(
                    'length_penalty_type="gnmt" cannot search with `synced_gpus`: its ranks finish at different steps; gather the '
                    "parameters on each rank first, or pass length_penalty_type=None."
                )
            others, forced_end = without_forced_end(logits_processor, generation_config)
            processors, earliest = without_shortest_lengths(others, input_ids.shape[1])
            whole = choice is None or bool(processors or forced_end)
            search = GnmtBeamSearch(
                steps_of(self, input_ids, generation_config, kwargs, generation_config.num_beams, choice, whole),
                input_ids[:: generation_config.num_beams],
                processors,
                callers_rules(stopping_criteria),
                generation_config,
                limits.tolist(),
                are_predictable(others),
                forced_end,
                earliest,
            )
            return search.run(kwargs["encoder_outputs"])
        criteria = StoppingCriteriaList([*stopping_criteria, TokenLimits(limits, input_ids.shape[1])])
        processors = for_hugging_face(logits_processor, generation_config, limits, input_ids.shape[1], choice)
        return super()._beam_search(input_ids, processors, criteria, generation_config, synced_gpus, **kwargs)


def forget_filled_length(config: GenerationConfig) -> None:
    """Take the library's default limit of 20 tokens out of a model's settings where `Seq2SeqTrainer` filled in all defaults.

    It does that after the first batch that it translates, and means no limit of the model's. With one, `extra_length` would no longer
    limit anything. Settings in which somebody has written a limit lack other defaults, and keep it.
    """
    if config.max_length is None or getattr(config, "extra_length", None) is None or not hasattr(config, "_get_default_generation_params"):
        return
    defaults = config._get_default_generation_params()
    is_filled = all(value is None or getattr(config, name, None) is not None for name, value in defaults.items())
    if is_filled and config.max_length == defaults["max_length"]:
        config.max_length = None


def check_search_settings(config: GenerationConfig) -> None:
    """Refuse what the search cannot do.

    Raises:
        ValueError: an unknown penalty, a limit that is no length, or a setting that contradicts the search.
    """
    penalty, extra = config.length_penalty_type, config.extra_length
    if config.shortlist not in (None, False, True):
        raise ValueError(f"shortlist is {config.shortlist!r}; it is True to search within the checkpoint's shortlist, or False.")
    if config.draft_shortlist not in (None, False, True):
        raise ValueError(
            f"draft_shortlist is {config.draft_shortlist!r}; it is True for parallel heads that propose tokens of the checkpoint's "
            "shortlist, or False."
        )
    if penalty not in (None, "gnmt"):
        raise ValueError(
            f'length_penalty_type is {penalty!r}; choose "gnmt" for ((5 + length) / 6)^length_penalty or None for length^length_penalty.'
        )
    if extra is not None and (isinstance(extra, bool) or not isinstance(extra, int) or extra < 0):
        raise ValueError(f"extra_length is {extra!r}; it is the number of tokens that a translation may have beyond its source, 0 or more.")
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


def check_draft(config: GenerationConfig, model: Any, asked: Mapping[str, Any]) -> None:
    """Refuse drafts that this search, or this model, cannot make; of those that the checkpoint stores, leave out what it cannot.

    Args:
        config: the settings of a search.
        model: whose.
        asked: the settings `OF_DRAFTS` that the caller names, rather than the checkpoint, whose own are for greedy search only.

    Raises:
        ValueError: the setting is unknown, or the caller asks for what cannot be.
    """
    draft = config.draft
    if draft not in (None, *DRAFTS):
        raise ValueError(f"draft is {draft!r}; choose one of {', '.join(DRAFTS)}.")
    for name in OF_HEADS:
        if asked[name] and "heads" not in (draft or ""):
            raise ValueError(f'{name}={asked[name]} is for what parallel heads propose; pass draft="heads" with it, or leave it out.')
    if draft in (None, "none"):
        return
    has_heads, can_copy = getattr(model, "parallel_heads", None) is not None, model.config.target_vocab_size is None
    if not any(asked.values()):
        possible = {"source": can_copy, "heads": has_heads}
        config.draft = "+".join(name for name in draft.split("+") if possible[name]) or "none"
        return
    if config.shortlist:
        raise ValueError(f"draft={draft!r} proposes tokens of the whole vocabulary; leave it out, or pass shortlist=False.")
    if config.do_sample or (config.num_beams or 1) > 1:
        instead = "do_sample is True" if config.do_sample else f"num_beams is {config.num_beams}"
        raise ValueError(
            f"draft={draft!r} speeds up greedy search, and here {instead}; pass num_beams=1 and do_sample=False, or leave `draft` out."
        )
    if "heads" in draft and not has_heads:
        raise ValueError(
            f"draft={draft!r} needs parallel heads, and this model has none; train them (`parallel_heads` in a recipe), or pass "
            'draft="source".'
        )
    if "heads" in draft and not model.config.chained_heads and (config.draft_tokens or 1) >= model.config.parallel_heads:
        raise ValueError(
            f"draft_tokens is {config.draft_tokens}, and this model's heads propose {model.config.parallel_heads - 1} at once; ask for at "
            "most as many. Only chained heads go on."
        )
    if "source" in draft and not can_copy:
        raise ValueError(
            f"draft={draft!r} copies tokens of the source, and here source and target have vocabularies of their own; leave it out."
        )


def drafter_of(config: GenerationConfig) -> Drafter | None:
    """Who drafts under these settings.

    By default it is nobody: whether a model's parallel heads save time depends on how often they are right. Nobody drafts within a
    shortlist.
    """
    draft = config.draft or "none"
    if config.shortlist or draft == "none":
        return None
    heads = HeadDrafts() if "heads" in draft else None
    if "source" not in draft:
        return heads
    sources = vars(config).pop("_sources", None)
    if sources is None:
        logger.warning_once(
            f"draft={draft!r} copies nothing, because this search was given no tokens of the source; pass `input_ids`. The translation is "
            "the same."
        )
        return heads
    return SourceDrafts(sources, heads, (padding_of(config), *end_tokens_of(config)))


def proposing_of(model: Any, config: GenerationConfig, mask: torch.Tensor | None) -> Proposing | None:
    """What is asked of the parallel heads of `model` for a batch with the `mask` `[B, S]`, if they draft."""
    if "heads" not in (config.draft or ""):
        return None
    among = proposable(model, config, mask) if config.draft_shortlist else None
    return Proposing(config.draft_tokens or model.config.parallel_heads - 1, among)


def proposable(model: Any, config: GenerationConfig, mask: torch.Tensor | None) -> torch.Tensor | None:
    """The tokens `[n]` of the shortlist for a batch with the `mask` `[B, S]`; all may be proposed if the search knows no source."""
    listed = shortlist_of(model, "draft_shortlist")
    if not listed.knows(config._source_ids):
        logger.warning_once(
            "draft_shortlist=True is not used, because this search was given no tokens of the source; pass `input_ids`. The translation is "
            "the same."
        )
        return None
    return listed.choose(config._source_ids, mask).columns


def source_tokens(inputs: torch.Tensor) -> list[list[int]] | None:
    """The tokens of the sources `[B, S]`; `None` where a search was given vectors or states in their place."""
    # In the place of tokens that it was not given, transformers puts -100
    if inputs.ndim != 2 or inputs.is_floating_point() or bool((inputs < 0).any()):
        return None
    return inputs.tolist()


def token_limits(config: GenerationConfig, input_ids: torch.Tensor, model_kwargs: dict[str, Any]) -> torch.Tensor:
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


def choice_of(model: Any, config: GenerationConfig, input_ids: torch.Tensor, model_kwargs: dict[str, Any]) -> Choice | None:
    """The tokens that the setting `shortlist` leaves for each sentence; all rules but the end's are for other tokens to keep."""
    if not config.shortlist:
        return None
    sources, mask = config._source_ids, model_kwargs.get("attention_mask")
    repeats = len(input_ids) // len(sources)
    ends = [token for token in (config._eos_token_tensor, config.forced_eos_token_id, config.forced_bos_token_id) if token is not None]
    further = [int(token) for part in ends for token in torch.as_tensor(part).flatten().tolist()]
    return shortlist_of(model).choose(sources, None if mask is None else mask[::repeats], further)


def are_predictable(processors: LogitsProcessorList) -> bool:
    """Whether all of them are of the kind that `PREDICTABLE_PROCESSORS` describes."""
    return all(type(rule) in PREDICTABLE_PROCESSORS for rule in processors)


def forces_the_end(rule: LogitsProcessor, config: GenerationConfig) -> bool:
    """Whether `rule` is the settings' `forced_eos_token_id`, which applies the longest sentence's limit to all sentences."""
    return type(rule) is logits_process.ForcedEOSTokenLogitsProcessor and rule.max_length == config.max_length


def without_forced_end(processors: LogitsProcessorList, config: GenerationConfig) -> tuple[LogitsProcessorList, list[int]]:
    """The rules without `forced_eos_token_id`, and its tokens, for a search that knows each sentence's limit."""
    forced = [token for rule in processors if forces_the_end(rule, config) for token in rule.eos_token_id.tolist()]
    return LogitsProcessorList([rule for rule in processors if not forces_the_end(rule, config)]), forced


def for_hugging_face(
    processors: LogitsProcessorList, config: GenerationConfig, limits: torch.Tensor, prompt_length: int, choice: Choice | None
) -> LogitsProcessorList:
    """The rules for one of Hugging Face's searches: the end is forced at each sentence's own limit `[B]`, and NaN is refused.

    What a shortlist leaves comes first.
    """
    rules: list[Any] = [ForcedEnd(rule, limits, prompt_length) if forces_the_end(rule, config) else rule for rule in processors]
    if choice is not None:
        rules = [ShortlistOnly(choice), *rules]
    return LogitsProcessorList(rules if config.remove_invalid_values else [RefusedNaN(), *rules])


class ShortlistOnly(LogitsProcessor):
    """Log-probabilities of the tokens in each sentence's shortlist, and minus infinity for all others."""

    def __init__(self, choice: Choice) -> None:
        self.choice = choice
        self.forbidden: torch.Tensor | None = None

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        if self.forbidden is None:
            self.forbidden = self.choice.of_vocabulary(scores.shape[1])
        forbidden = self.forbidden.repeat_interleave(len(scores) // len(self.forbidden), dim=0)
        return scores.masked_fill(forbidden, -torch.inf).log_softmax(-1)


class RefusedNaN(LogitsProcessor):
    """Refuses scores that are NaN, the first of which a search would take for the largest."""

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        refuse_nan([float(scores.sum())] if scores.isnan().any() else [])
        return scores


class ForcedEnd(LogitsProcessor):
    """`forced_eos_token_id`, at each sentence's own limit."""

    def __init__(self, rule: logits_process.ForcedEOSTokenLogitsProcessor, limits: torch.Tensor, prompt_length: int) -> None:
        """`limits` `[B]` counts tokens after the first `prompt_length` ones."""
        self.end_tokens, self.lengths = rule.eos_token_id, limits + prompt_length

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        is_last = (self.lengths == input_ids.shape[1] + 1).repeat_interleave(len(scores) // len(self.lengths))
        forced = torch.full_like(scores, float("-inf"))
        forced[:, self.end_tokens] = 0
        return torch.where(is_last.unsqueeze(-1), forced, scores)


def without_shortest_lengths(processors: LogitsProcessorList, prompt_length: int) -> tuple[LogitsProcessorList, dict[int, int]]:
    """The rules without the shortest lengths, and how many tokens must stand before each end token, if there are no rules but these.

    Beside other rules, shortest lengths must come in their turn, and stay as `in_place` makes them.
    """
    rules = in_place(processors)
    earliest: dict[int, int] = {}
    for rule in rules:
        if not isinstance(rule, EarliestEnd):
            return rules, {}
        for token in rule.end_tokens.tolist():
            earliest[token] = max(rule.length - prompt_length, earliest.get(token, 0))
    return LogitsProcessorList(), earliest


def in_place(processors: LogitsProcessorList) -> LogitsProcessorList:
    """The same rules, with `EarliestEnd` in place of those that it replaces."""
    lengths = (logits_process.MinLengthLogitsProcessor, logits_process.MinNewTokensLengthLogitsProcessor)
    return LogitsProcessorList([EarliestEnd(rule) if type(rule) in lengths else rule for rule in processors])


class EarliestEnd(LogitsProcessor):
    """`min_length` or `min_new_tokens`, written into the given scores; Hugging Face's version copies all scores twice a step."""

    def __init__(self, rule: logits_process.MinLengthLogitsProcessor | logits_process.MinNewTokensLengthLogitsProcessor) -> None:
        self.end_tokens: torch.Tensor = rule.eos_token_id
        if isinstance(rule, logits_process.MinLengthLogitsProcessor):
            self.length = rule.min_length
        else:
            self.length = rule.prompt_length_to_skip + rule.min_new_tokens

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        if input_ids.shape[1] < self.length:
            scores[:, self.end_tokens] = float("-inf")
        return scores


def callers_rules(criteria: StoppingCriteriaList) -> StoppingCriteriaList:
    """The stopping rules other than the end token and the maximum length, which a search applies itself."""
    own = (MaxLengthCriteria, EosTokenCriteria)
    return StoppingCriteriaList([rule for rule in criteria if not isinstance(rule, own)])


class TokenLimits(StoppingCriteria):
    """Ends each sentence at its own limit, for Hugging Face's searches."""

    def __init__(self, limits: torch.Tensor, prompt_length: int) -> None:
        """`limits` `[B]` counts tokens after the first `prompt_length` ones."""
        self.limits = limits
        self.prompt_length = prompt_length

    def __call__(self, input_ids: torch.Tensor, scores: Any, **kwargs: Any) -> torch.Tensor:
        ended = self.limits <= input_ids.shape[1] - self.prompt_length
        return ended.repeat_interleave(len(input_ids) // len(ended))


__all__ = ["PAPER_SEARCH", "PaperSearch"]
