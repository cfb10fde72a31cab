"""How a model reads the text that is looked at and how it translates it: exactly as `pipeline("translation")` does."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import FSMTTokenizer, PreTrainedConfig, PreTrainedTokenizerBase

from ..copying import generate_copying
from ..languages import language_prefix, target_languages
from ..pipeline_text_to_text import check_text
from ..pipeline_translation import TranslationPipeline
from ..search_settings import check_numbers
from ..translation.loading import check_tokenizer


class Translation(NamedTuple):
    """What the decoder begins with and what it then writes."""

    ids: Tensor
    """`[P + T]`: P tokens that it is given, T that it writes, the end included where it came to one."""
    given: int
    """P."""
    score: float | None
    """What the search ranked it by."""


class Translating:
    """A model and its tokenizer, for two languages."""

    def __init__(self, model: Any, tokenizer: PreTrainedTokenizerBase, src_lang: str | None, tgt_lang: str | None) -> None:
        """Check that they belong together.

        Raises:
            ValueError: the model has no encoder and decoder, the tokenizer is another model's, or there is no such language.
        """
        if not isinstance(model, nn.Module):
            raise ValueError(f"{type(model).__name__} is no model of PyTorch, and no other engine tells its weights; load the checkpoint.")
        config: Any = model.config
        if not getattr(config, "is_encoder_decoder", False):
            raise ValueError(
                f"{type(model).__name__} has no encoder and decoder, so there is no attention over a source; use a sequence-to-sequence "
                "model."
            )
        if config.model_type == "led":
            raise ValueError("LED's encoder attends within windows, so it has no weight for every pair of tokens; use another model.")
        own = getattr(config, "encoder", None)  # of a model put together from two
        check_tokenizer(tokenizer.name_or_path or "memory", tokenizer, own if isinstance(own, PreTrainedConfig) else config)
        self.model: Any = model
        self.tokenizer = tokenizer
        self.is_multilingual = hasattr(tokenizer, "_build_translation_inputs")
        if self.is_multilingual:
            src_lang = src_lang or tokenizer.src_lang
            tgt_lang = tgt_lang or tokenizer.tgt_lang
        self.src_lang, self.tgt_lang = src_lang, tgt_lang
        by_task = getattr(config, "task_specific_params", None) or {}
        task = f"translation_{src_lang}_to_{tgt_lang}"
        self.pipeline = TranslationPipeline(
            model=model,
            tokenizer=tokenizer,
            task=task if task in by_task else "translation",
            device=None if hasattr(model, "hf_device_map") else self.model.device,  # which Accelerate has chosen there
        )
        self._check_languages(task in by_task)

    def _check_languages(self, is_task: bool) -> None:
        if not self.is_multilingual:
            if not is_task and (self.tgt_lang is not None or target_languages(self.tokenizer)):
                language_prefix(self.tokenizer, self.tgt_lang)
            return
        for name, language in (("src_lang", self.src_lang), ("tgt_lang", self.tgt_lang)):
            if language is not None and language_id(self.tokenizer, language) is None:
                raise ValueError(f"The tokenizer has no language {language!r}; give one of its codes as {name}.")
        controls = (*self._ends(), self.tokenizer.bos_token_id, self.tokenizer.pad_token_id, None)
        if self.tgt_lang is None and self._setting("forced_bos_token_id") is None and self._start({}) in controls:
            raise ValueError("This model translates into many languages; name one (tgt_lang), as the tokenizer spells it.")

    def read(self, source: str) -> dict[str, Any]:
        """What `generate` is given for `source`: `input_ids` and `attention_mask` `[1, S]`, and the target language where it is chosen so.

        Raises:
            TypeError: `source` is no string.
            ValueError: it is empty, or holds half a surrogate pair.
        """
        check_filled(source, "source")
        with languages_kept(self.tokenizer):
            if self.is_multilingual and self.tgt_lang is None:
                if self.src_lang is not None:
                    self.tokenizer.src_lang = self.src_lang
                inputs = dict(self.tokenizer(source, return_tensors="pt"))
            else:
                inputs = self.pipeline.preprocess(source, src_lang=self.src_lang, tgt_lang=self.tgt_lang)
        names = ("input_ids", "attention_mask", "forced_bos_token_id")
        return {
            name: value.to(self.model.device) if isinstance(value, Tensor) else value for name, value in inputs.items() if name in names
        }

    def found(self, inputs: dict[str, Any], count: int, search: dict[str, Any]) -> list[Translation]:
        """The `count` best translations that the model's own search finds, best first; fewer if it finds fewer.

        Raises:
            ValueError: a setting is impossible.
        """
        settings = self._search(count, search)
        found = generate_copying(self.model, self.tokenizer, inputs, settings)
        sequences, scores = found, None
        if not isinstance(found, Tensor):
            sequences, scores = found.sequences, getattr(found, "sequences_scores", None)
        prompt = settings.get("decoder_input_ids")
        given = 1 if prompt is None else prompt.shape[-1]
        ends = self._ends(search)
        translations = []
        for row, ids in enumerate(sequences):
            score = None if scores is None else float(scores[row])
            if score != -math.inf and len(ids) > given:
                kept = length(ids.tolist(), given, ends, self._setting("pad_token_id", search))
                translations.append(Translation(ids[:kept], given, score))
        if not translations:
            raise ValueError("The search found no translation; leave out the settings that forbid every token.")
        return translations

    def given(self, target: str, inputs: dict[str, Any], search: dict[str, Any]) -> Translation:
        """`target` as the search would have written it: after the decoder's start and a forced language, up to the end.

        Raises:
            TypeError: `target` is no string.
            ValueError: it is empty, or holds half a surrogate pair.
        """
        check_filled(target, "target")
        ids = self._encoded_target(target)
        ends = self._ends(search)
        ids = ids[: length(ids, 0, ends, None)]
        forced = inputs.get("forced_bos_token_id", self._setting("forced_bos_token_id", search))
        if forced is not None and ids[0] != forced:
            ids = [forced, *ids[1 if ids[0] in set(self.tokenizer.all_special_ids) else 0 :]]
        start = self._start(search)
        if start is None:
            raise ValueError("The model's settings name no token that the decoder begins with; set decoder_start_token_id.")
        return Translation(torch.tensor([start, *ids], device=self.model.device), 1, None)

    def _encoded_target(self, target: str) -> list[int]:
        tokenizer = self.tokenizer
        if isinstance(tokenizer, FSMTTokenizer):
            return _encoded_by_fsmt(tokenizer, target)
        with languages_kept(tokenizer):
            if self.is_multilingual:
                tokenizer.tgt_lang = self.tgt_lang or self.src_lang  # in whose place a language that the checkpoint forces comes
            return list(tokenizer(text_target=target)["input_ids"])

    def _search(self, count: int, search: dict[str, Any]) -> dict[str, Any]:
        """The settings of `generate`, as the pipeline completes them, and what tells the scores."""
        check_numbers(search)
        if "num_return_sequences" in search:
            raise ValueError("num_return_sequences is for `generate`; ask `candidate_maps` for several translations.")
        settings = self.pipeline._search_settings(search) | {"num_return_sequences": count}
        beams = self._setting("num_beams", settings) or 1
        if beams < count and not self._setting("do_sample", settings):
            if "num_beams" in search:
                raise ValueError(f"A search with num_beams={beams} has no {count} best translations; ask for as many beams.")
            beams = settings["num_beams"] = count
        settings |= {"return_dict_in_generate": beams > 1, "output_attentions": False, "output_hidden_states": False}
        # Hugging Face's search tells its scores only with those of all tokens; ours tells them without.
        is_gnmt = settings.get("length_penalty_type", self._setting("length_penalty_type", search)) == "gnmt"
        settings["output_scores"] = beams > 1 and not is_gnmt
        return settings

    def _setting(self, name: str, search: dict[str, Any] | None = None) -> Any:
        """A setting of the search: the caller's, or else the checkpoint's."""
        search = search or {}
        for settings in (search, vars(search.get("generation_config") or self.model.generation_config), vars(self.model.generation_config)):
            if settings.get(name) is not None:
                return settings[name]
        return None

    def _ends(self, search: dict[str, Any] | None = None) -> set[int]:
        ends = self._setting("eos_token_id", search)
        return set(ends) if isinstance(ends, Sequence) else {ends} - {None}

    def _start(self, search: dict[str, Any]) -> int | None:
        start = self._setting("decoder_start_token_id", search)
        return self._setting("bos_token_id", search) if start is None else start


def length(ids: Sequence[int], given: int, ends: set[int], padding: int | None) -> int:
    """How many of `ids` are up to the first of `ends` behind the `given` ones, that one included; without one, up to the padding.

    Where there is only padding, the model wrote it: no translation is padded from its beginning.
    """
    for place in range(given, len(ids)):
        if ids[place] in ends:
            return place + 1
    whole = len(ids)
    while whole > given and ids[whole - 1] == padding:
        whole -= 1
    return whole if whole > given else len(ids)


def check_filled(text: Any, what: str) -> None:
    """Refuse what is not text, and text in which there is nothing to see."""
    check_text(text, f"The {what}")
    if not text.strip():
        raise ValueError(f"The {what} is {'only white space' if text else 'empty'}; give a sentence.")


def language_id(tokenizer: Any, language: str) -> int | None:
    """The id of a language's token, `None` where the tokenizer has none."""
    names = getattr(tokenizer, "lang_code_to_token", None)
    token = language if names is None else names.get(language)
    number = None if token is None else tokenizer.convert_tokens_to_ids(token)
    return None if number == tokenizer.unk_token_id else number


@contextmanager
def languages_kept(tokenizer: Any) -> Iterator[None]:
    """Put back the languages that encoding sets on a multilingual tokenizer."""
    before = {name: getattr(tokenizer, name) for name in ("src_lang", "tgt_lang") if hasattr(tokenizer, "_build_translation_inputs")}
    try:
        yield
    finally:
        for name, language in before.items():
            setattr(tokenizer, name, language)


def _encoded_by_fsmt(tokenizer: FSMTTokenizer, target: str) -> list[int]:
    """FSMT's tokenizer encodes sources only; for a target, its pieces are looked up in the target's vocabulary."""
    source_language = tokenizer.src_lang
    tokenizer.src_lang = tokenizer.tgt_lang  # whose Moses rules `tokenize` then uses
    try:
        pieces = tokenizer.tokenize(target)
    finally:
        tokenizer.src_lang = source_language
    entries = {name: number for number, name in tokenizer.decoder.items()}
    unknown = entries[str(tokenizer.unk_token)]
    return [*(entries.get(piece, unknown) for piece in pieces), tokenizer.sep_token_id]
