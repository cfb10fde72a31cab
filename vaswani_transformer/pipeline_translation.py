"""Text in, text out: `pipeline("translation", model=...)` as in transformers 4, for every sequence-to-sequence model.

This file travels with checkpoints, so that a folder translates without the package, too (`trust_remote_code=True`).
"""

import copy
from collections import deque
from collections.abc import Iterable, Iterator, Sized
from typing import Any

import torch
from transformers import Pipeline
from transformers.utils import logging

from .copying import generate_copying
from .languages import language_prefix, languages_of, prefixed, target_languages
from .search_settings import check_numbers
from .sentence_splitting import check_language, join_sentences, split_sentences
from .shortlist import shortlist_of

logger = logging.get_logger(__name__)

DEFAULT_SETTINGS: dict[str, Any] = {"num_beams": 4, "max_new_tokens": 256}
"""The search settings of transformers 4 that apply if neither the caller nor the checkpoint sets any."""


class TranslationPipeline(Pipeline):
    """Translates strings.

    ```python
    translator = pipeline("translation", model="path/or/repository")
    translator("A sentence.")                        # [{"translation_text": "Ein Satz."}]
    translator(["One.", "Two."], batch_size=2)       # [{"translation_text": ...}, {"translation_text": ...}]
    translator("A text. Of any length.", split_sentences="en", batch_size=8)
    ```

    Settings of `generate` (`num_beams`, `max_new_tokens`, `length_penalty_type` ...) may be given here or at the call.
    All others come from the checkpoint's `generation_config.json`, and then from `DEFAULT_SETTINGS`.
    """

    # The base class' own handling of search settings differs between 5.17 and 5.23; `_search_settings` does it here.
    _pipeline_calls_generate = False
    _load_processor = False
    _load_image_processor = False
    _load_feature_extractor = False
    _load_tokenizer = True

    def __init__(self, *args: Any, split_sentences: bool | str = False, **kwargs: Any) -> None:
        """Takes the arguments of every pipeline, and any setting of a call as the default for all calls."""
        super().__init__(*args, **kwargs)
        self._split_sentences = split_sentences
        name = type(self.model).__name__
        if not getattr(self.model.config, "is_encoder_decoder", False):
            raise ValueError(f"{name} has no encoder and decoder, so it cannot translate here; use a sequence-to-sequence model.")
        if self.tokenizer is None:
            raise ValueError(f"Translating with {name} needs its tokenizer; pass `tokenizer=`, or save it into the model's folder.")
        self._task_settings = task_settings(self.model.config, self.task)
        self._prefix = self._task_settings.pop("prefix", None) or getattr(self.model.config, "prefix", None) or ""

    def __call__(self, inputs: Any, *args: Any, split_sentences: bool | str | None = None, **kwargs: Any) -> Any:
        """Translate a string, or each string of a collection.

        Args:
            inputs: a string; a list, tuple, column or other finite collection of strings; or a generator, iterator or
                torch data set of strings, which is read as its translations are asked for.
            split_sentences: cut each input into sentences, translate those of all inputs in batches of `batch_size`,
                and join them again with the input's own white space and line breaks. Either the source language's
                code, such as "en", or True if `src_lang` or a task such as "translation_en_to_de" names it. Needs the
                package sentencex.
            kwargs: `batch_size` and `num_workers`; `return_tensors` for token ids (`translation_token_ids`) instead of
                text, or beside it with `return_text=True`; `clean_up_tokenization_spaces`; `truncation`, without which
                nothing is cut; `src_lang` and `tgt_lang` for multilingual models; `stop_sequence`; any setting of
                `generate`, by name or in a dictionary `generate_kwargs`.

        Returns:
            For a string, a list of one dictionary with `translation_text` (or of `num_return_sequences` dictionaries,
            best first). For a collection, a list with one such dictionary for each input (or one such list, with
            `num_return_sequences` above 1). For a generator or data set, an iterator over such lists.

        Raises:
            TypeError: something is not a string.
            ValueError: a text has half a surrogate pair; a setting is impossible; a model of several target languages gets no
                `tgt_lang`, or one that it does not have; `split_sentences` has no language's code, or comes with several
                translations of each input or their token ids.
        """
        split = self._split_sentences if split_sentences is None else split_sentences
        if isinstance(inputs, str):
            if split:
                return next(self._translate_in_sentences([inputs], split, kwargs))
            return super().__call__(inputs, *args, **kwargs)
        if isinstance(inputs, (dict, bytes)) or not isinstance(inputs, (Iterable, torch.utils.data.Dataset)):
            raise TypeError(f"The input is {described(inputs)}; translate a string, or a list or generator of strings.")
        if isinstance(inputs, torch.utils.data.Dataset):
            if split:
                rows: Any = inputs
                if isinstance(inputs, Sized):
                    rows = (inputs[row] for row in range(len(inputs)))
                return self._translate_in_sentences(rows, split, kwargs)
            return super().__call__(inputs, *args, **kwargs)
        if not isinstance(inputs, Sized):
            if split:
                return self._translate_in_sentences(inputs, split, kwargs)
            return super().__call__((text for text in inputs), *args, **kwargs)
        texts = list(inputs)
        for position, text in enumerate(texts):
            check_text(text, f"Item {position} of the input")
        if split:
            return [record for (record,) in self._translate_in_sentences(texts, split, kwargs)]
        results = super().__call__(texts, *args, **kwargs) if texts else []
        return [result[0] for result in results] if all(len(result) == 1 for result in results) else results

    def _translate_in_sentences(self, texts: Iterable[Any], split: bool | str, settings: dict[str, Any]) -> Iterator[list[dict[str, str]]]:
        """The results of `__call__` for each of `texts`, which are read only as far as the next batch of sentences needs."""
        language = self._language_to_split(split, settings)
        self._check_that_sentences_join(settings)
        gaps_ahead: deque[list[str]] = deque()

        def sentences() -> Iterator[str]:
            for text in texts:
                check_text(text, "An input")
                found, gaps = split_sentences(text, language)
                gaps_ahead.append(gaps)
                yield from found

        # This process must read the sentences, because it remembers the gaps between them.
        results = super().__call__(sentences(), **{**settings, "num_workers": 0})
        return self._joined(results, gaps_ahead)

    def _joined(self, results: Iterable[list[dict[str, str]]], gaps_ahead: deque[list[str]]) -> Iterator[list[dict[str, str]]]:
        """Join translated sentences; yield each text as soon as it is complete."""
        translations: list[str] = []
        for (record,) in results:
            translations.append(record["translation_text"])
            while gaps_ahead and len(gaps_ahead[0]) <= len(translations) + 1:
                gaps = gaps_ahead.popleft()
                count = len(gaps) - 1
                yield [{"translation_text": join_sentences(translations[:count], gaps)}]
                del translations[:count]
        for gaps in gaps_ahead:  # blank texts at the end
            yield [{"translation_text": join_sentences([], gaps)}]

    def _language_to_split(self, split: bool | str, settings: dict[str, Any]) -> str:
        named = settings.get("src_lang") or self._preprocess_params.get("src_lang")
        language = split if isinstance(split, str) else named
        if not language:
            raise ValueError(
                "Where sentences end depends on the language, which is not known here; pass its code, such as "
                'split_sentences="en", or name it in the task, such as pipeline("translation_en_to_de", ...).'
            )
        check_language(language)
        return language

    def _check_that_sentences_join(self, settings: dict[str, Any]) -> None:
        known = {
            **self.model.generation_config.to_diff_dict(),
            **self._forward_params,
            **self._postprocess_params,
            **(settings.get("generate_kwargs") or {}),
            **settings,
        }
        own = known.get("generation_config")
        wanted = known.get("num_return_sequences") or getattr(own, "num_return_sequences", None) or 1
        if wanted > 1 or known.get("return_tensors"):
            raise ValueError(
                "split_sentences puts the best translations of the sentences together as text; leave out "
                "num_return_sequences and return_tensors, or split_sentences."
            )

    def _sanitize_parameters(
        self,
        return_tensors: bool | None = None,
        return_text: bool | None = None,
        clean_up_tokenization_spaces: bool | None = None,
        truncation: Any = None,
        stop_sequence: str | None = None,
        src_lang: str | None = None,
        tgt_lang: str | None = None,
        generate_kwargs: dict[str, Any] | None = None,
        **search: Any,
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        """Sort the caller's settings by the step that needs them."""
        check_numbers({**(generate_kwargs or {}), **search})
        if tgt_lang is not None and self._is_ours():
            language_prefix(self.tokenizer, tgt_lang)  # raises at once if the model does not have it
        if src_lang is None and tgt_lang is None:
            src_lang, tgt_lang = languages_of(self.task)
        self._check_shortlist({**(generate_kwargs or {}), **search}, src_lang, tgt_lang)
        before = {"truncation": truncation, "src_lang": src_lang, "tgt_lang": tgt_lang}
        after = {
            "return_tensors": return_tensors,
            "return_text": return_text,
            "clean_up_tokenization_spaces": clean_up_tokenization_spaces,
        }
        if stop_sequence is not None:
            search |= {"stop_strings": stop_sequence, "tokenizer": self.tokenizer}
        return given(before), {**(generate_kwargs or {}), **search}, given(after)

    def preprocess(self, text: Any, truncation: Any = False, src_lang: str | None = None, tgt_lang: str | None = None) -> dict[str, Any]:
        """Tokenise one string; a blank one is marked, and a stand-in takes its row in the batch."""
        check_text(text, "An input")
        is_blank = not text.strip()
        text = "." if is_blank else text
        if hasattr(self.tokenizer, "_build_translation_inputs"):
            encoded = self.tokenizer._build_translation_inputs(
                text, return_tensors="pt", truncation=truncation, src_lang=src_lang, tgt_lang=tgt_lang
            )
        else:
            encoded = self.tokenizer(self._prefix + text, return_tensors="pt", truncation=truncation)
            if target_languages(self.tokenizer):
                encoded = prefixed(encoded, language_prefix(self.tokenizer, tgt_lang))
        inputs = {name: value for name, value in encoded.items() if name != "token_type_ids"}
        return {**inputs, "is_blank": torch.tensor([is_blank])}

    def _is_ours(self) -> bool:
        """Whether the model is ours, and its tokenizer has no way of its own to be told the languages."""
        return getattr(self.model.config, "model_type", None) == "vaswani" and not hasattr(self.tokenizer, "_build_translation_inputs")

    def _check_shortlist(self, search: dict[str, Any], src_lang: str | None, tgt_lang: str | None) -> None:
        """Refuse a shortlist that was learned from other languages than those that are asked for."""
        settings = search.get("generation_config") or self.model.generation_config
        asked = search.get("shortlist", getattr(settings, "shortlist", None))
        if asked and self._is_ours() and isinstance(self.model, torch.nn.Module):
            shortlist_of(self.model).check_languages(src_lang, tgt_lang)

    def _forward(self, model_inputs: dict[str, Any], **search: Any) -> dict[str, torch.Tensor]:
        """Token ids `[B, num_return_sequences, T]`; a blank string's are all padding, and the model never sees its row."""
        is_blank = model_inputs.pop("is_blank")
        settings = self._search_settings(search)
        rows = (~is_blank).nonzero().squeeze(-1)
        output_ids = torch.empty((0, 0), dtype=torch.long, device=is_blank.device)
        if len(rows):
            output_ids = self._generate({name: taken(value, rows) for name, value in model_inputs.items()}, settings)
        wanted = len(output_ids) // len(rows) if len(rows) else settings.get("num_return_sequences") or 1
        all_ids = output_ids.new_full((len(is_blank), wanted, output_ids.shape[-1]), self.tokenizer.pad_token_id or 0)
        all_ids[rows] = output_ids.view(len(rows), wanted, output_ids.shape[-1])
        return {"output_ids": all_ids, "is_blank": is_blank}

    def _generate(self, inputs: dict[str, Any], settings: dict[str, Any]) -> torch.Tensor:
        """`generate` without dropout, also for a model that is still in training."""
        was_training = self.model.training
        self.model.eval()
        try:
            output = generate_copying(self.model, self.tokenizer, inputs, settings)
        finally:
            self.model.train(was_training)
        return output if isinstance(output, torch.Tensor) else output.sequences

    def postprocess(
        self,
        model_outputs: dict[str, torch.Tensor],
        return_tensors: bool = False,
        return_text: bool | None = None,
        clean_up_tokenization_spaces: bool = False,
    ) -> list[dict[str, Any]]:
        """The translations of one input."""
        is_blank = bool(model_outputs["is_blank"])
        records = []
        for token_ids in model_outputs["output_ids"][0]:
            record: dict[str, Any] = {}
            if return_tensors:
                record["translation_token_ids"] = token_ids
            if return_text or (return_text is None and not return_tensors):
                record["translation_text"] = (
                    ""
                    if is_blank
                    else self.tokenizer.decode(
                        token_ids,
                        skip_special_tokens=True,
                        clean_up_tokenization_spaces=clean_up_tokenization_spaces,
                    )
                )
            records.append(record)
        return records

    def _search_settings(self, search: dict[str, Any]) -> dict[str, Any]:
        """The caller's settings for `generate`, with defaults for those that neither the caller nor the checkpoint sets."""
        own = search.get("generation_config")
        known = {
            **self.model.generation_config.to_diff_dict(),
            **({} if own is None else own.to_diff_dict()),
            **search,
        }
        defaults = {**DEFAULT_SETTINGS, **self._task_settings, "pad_token_id": self.tokenizer.pad_token_id}
        if known.get("max_length") is not None or known.get("extra_length") is not None:
            defaults.pop("max_new_tokens")
        missing = {name: value for name, value in defaults.items() if known.get(name) is None and value is not None}
        if own is None:
            return {**missing, **search}
        # `generate` accepts either a whole configuration or single settings.
        own = copy.deepcopy(own)
        own.update(**missing)
        return {**search, "generation_config": own}


def task_settings(config: Any, task: str | None) -> dict[str, Any]:
    """The `prefix` and settings of `generate` that an older checkpoint such as T5 stores for one task.

    For plain "translation", those of its first language pair, as in transformers 4.
    """
    by_task = getattr(config, "task_specific_params", None) or {}
    if task == "translation":
        pairs = [name for name in by_task if name.startswith("translation")]
        if pairs and "translation" not in pairs:
            task = pairs[0]
            logger.warning(f'This model translates several languages; "translation" means "{task}" to it.')
    settings = dict(by_task.get(task, {}))
    if settings.get("max_length") is not None:
        settings["max_new_tokens"] = settings.pop("max_length")
    return settings


def check_text(text: Any, what: str) -> None:
    """Raise a `TypeError` unless `text` is a string, and a `ValueError` where it holds half a surrogate pair."""
    if not isinstance(text, str):
        hint = "; of a data set's rows, pass one column: KeyDataset(dataset, column)" if isinstance(text, dict) else ""
        raise TypeError(f"{what} is {described(text)} and not a string{hint}.")
    if (position := half_pair(text)) is not None:
        raise ValueError(f"{what} holds half a surrogate pair at character {position}, which is not text: {described(text)}; repair it.")


def half_pair(text: str) -> int | None:
    """The number, from 1, of the first character that is half of a surrogate pair. No encoding has it, and no tokenizer takes it."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return error.start + 1
    return None


def described(value: Any) -> str:
    """A value for an error message, shortened if it is long."""
    shown = repr(value)
    return f"{shown if len(shown) <= 60 else shown[:57] + '...'} ({type(value).__name__})"


def given(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings that are not `None`."""
    return {name: value for name, value in settings.items() if value is not None}


def taken(value: Any, rows: torch.Tensor) -> Any:
    """The given rows of a batched input. Batching turns a number for all rows, such as `forced_bos_token_id`, into a list."""
    if isinstance(value, torch.Tensor):
        return value[rows]
    return value[0] if isinstance(value, list) else value


__all__ = ["TranslationPipeline"]
