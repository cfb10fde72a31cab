"""Text in, text out: `pipeline("translation", model=...)` as in transformers 4, for every sequence-to-sequence model.

This file travels with checkpoints, so that a folder translates without the package, too (`trust_remote_code=True`).
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sized
from typing import Any

import torch
from transformers.utils import logging

from .languages import language_prefix, languages_of, prefixed, target_languages
from .pipeline_text_to_text import TextToTextPipeline, check_collection, check_text, checked_texts, given, task_settings
from .sentence_splitting import check_language, join_sentences, split_sentences
from .shortlist import check_shortlist_languages

logger = logging.get_logger(__name__)


class TranslationPipeline(TextToTextPipeline):
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

    result = "translation"
    deed = "translate"

    def __init__(self, *args: Any, split_sentences: bool | str = False, **kwargs: Any) -> None:
        """Takes the arguments of every pipeline, and any setting of a call as the default for all calls."""
        super().__init__(*args, **kwargs)
        self._split_sentences = split_sentences
        self._task_settings = settings_of_pair(self.model.config, self.task)
        self._prefix = self._task_settings.pop("prefix", None) or self._prefix

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
        if not split:
            return super().__call__(inputs, *args, **kwargs)
        if isinstance(inputs, str):
            return next(self._translate_in_sentences([inputs], split, kwargs))
        if isinstance(inputs, torch.utils.data.Dataset):
            rows: Any = inputs
            if isinstance(inputs, Sized):
                rows = (inputs[row] for row in range(len(inputs)))
            return self._translate_in_sentences(rows, split, kwargs)
        check_collection(inputs)
        if not isinstance(inputs, Sized):
            return self._translate_in_sentences(inputs, split, kwargs)
        return [record for (record,) in self._translate_in_sentences(checked_texts(inputs), split, kwargs)]

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

    def _check_task(self) -> None:
        """Any model from text to text may be a translator."""

    def _sanitize_parameters(
        self, *, src_lang: str | None = None, tgt_lang: str | None = None, **settings: Any
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        """Sort the caller's settings by the step that needs them."""
        before, search, after = super()._sanitize_parameters(**settings)
        if tgt_lang is not None and self._is_ours():
            language_prefix(self.tokenizer, tgt_lang)  # raises at once if the model does not have it
        if src_lang is None and tgt_lang is None:
            src_lang, tgt_lang = languages_of(self.task)
        if self._is_ours():
            check_shortlist_languages(self.model, search, src_lang, tgt_lang)
        return {**before, **given({"src_lang": src_lang, "tgt_lang": tgt_lang})}, search, after

    def _encode(self, text: str, truncation: Any = False, src_lang: str | None = None, tgt_lang: str | None = None) -> Any:
        """The ids of one source, and what the tokenizer says of its languages."""
        if hasattr(self.tokenizer, "_build_translation_inputs"):
            return self.tokenizer._build_translation_inputs(
                text, return_tensors="pt", truncation=truncation, src_lang=src_lang, tgt_lang=tgt_lang
            )
        encoded = super()._encode(text, truncation)
        if target_languages(self.tokenizer):
            return prefixed(encoded, language_prefix(self.tokenizer, tgt_lang))
        return encoded

    def _is_ours(self) -> bool:
        """Whether the model is ours, and its tokenizer has no way of its own to be told the languages."""
        return getattr(self.model.config, "model_type", None) == "vaswani" and not hasattr(self.tokenizer, "_build_translation_inputs")


def settings_of_pair(config: Any, task: str | None) -> dict[str, Any]:
    """What a checkpoint stores for a translation task; for plain "translation", for its first language pair, as in transformers 4."""
    if task == "translation":
        pairs = [name for name in getattr(config, "task_specific_params", None) or {} if name.startswith("translation")]
        if pairs and "translation" not in pairs:
            task = pairs[0]
            logger.warning(f'This model translates several languages; "translation" means "{task}" to it.')
    return task_settings(config, task)


__all__ = ["TranslationPipeline"]
