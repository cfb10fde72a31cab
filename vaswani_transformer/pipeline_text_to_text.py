"""Text in, text out, by every sequence-to-sequence model: what translation shares with summaries and all other such tasks.

`pipeline("summarization")` and `pipeline("text2text-generation")` are those of transformers 4. This file travels with checkpoints, so that
a folder works without the package, too (`trust_remote_code=True`).
"""

import copy
from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import Any

import torch
from transformers import Pipeline

from .copying import generate_copying
from .languages import target_languages
from .search_settings import check_numbers

DEFAULT_SETTINGS: dict[str, Any] = {"num_beams": 4, "max_new_tokens": 256}
"""The search settings of transformers 4 that apply if neither the caller nor the checkpoint sets any."""


class TextToTextPipeline(Pipeline):
    """What the pipelines from text to text share.

    Settings of `generate` (`num_beams`, `max_new_tokens`, `length_penalty_type` ...) may be given to the pipeline or at the call.
    All others come from the checkpoint's `generation_config.json`, then from what its configuration stores for the task, and then from
    `DEFAULT_SETTINGS`.
    """

    # The base class' own handling of search settings differs between 5.17 and 5.23; `_search_settings` does it here.
    _pipeline_calls_generate = False
    _load_processor = False
    _load_image_processor = False
    _load_feature_extractor = False
    _load_tokenizer = True

    result = "generated"
    """What the keys of a result begin with."""
    deed = "write text"
    """What the pipeline does, for sentences about errors."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Takes the arguments of every pipeline, and any setting of a call as the default for all calls."""
        super().__init__(*args, **kwargs)
        name = type(self.model).__name__
        if not getattr(self.model.config, "is_encoder_decoder", False):
            raise ValueError(f"{name} has no encoder and decoder, so it cannot {self.deed} here; use a sequence-to-sequence model.")
        if self.tokenizer is None:
            raise ValueError(f"To {self.deed}, {name} needs its tokenizer; pass `tokenizer=`, or save it into the model's folder.")
        self._check_task()
        self._task_settings = task_settings(self.model.config, self.task)
        self._prefix = self._task_settings.pop("prefix", None) or getattr(self.model.config, "prefix", None) or ""

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """What the model writes for a string, or for each string of a collection.

        Args:
            inputs: a string; a list, tuple, column or other finite collection of strings; or a generator, iterator or
                torch data set of strings, which is read as its results are asked for.
            kwargs: `batch_size` and `num_workers`; `return_tensors` for token ids (`..._token_ids`) instead of text, or beside it with
                `return_text=True`; `clean_up_tokenization_spaces`; `truncation`, without which nothing is cut; `stop_sequence`; any setting
                of `generate`, by name or in a dictionary `generate_kwargs`.

        Returns:
            For a string, a list of one dictionary with the text (or of `num_return_sequences` dictionaries, best first), empty for a blank
            string. For a collection, a list with one such dictionary for each input (or one such list, with `num_return_sequences` above
            1). For a generator or data set, an iterator over such lists.

        Raises:
            TypeError: something is not a string.
            ValueError: a text has half a surrogate pair; a setting is impossible.
        """
        if isinstance(inputs, str | torch.utils.data.Dataset):
            return super().__call__(inputs, *args, **kwargs)
        check_collection(inputs)
        if not isinstance(inputs, Sized):
            return super().__call__((text for text in inputs), *args, **kwargs)
        texts = checked_texts(inputs)
        results = super().__call__(texts, *args, **kwargs) if texts else []
        return [result[0] for result in results] if all(len(result) == 1 for result in results) else results

    def _check_task(self) -> None:
        """Refuse a model of several target languages: only translation knows how to choose one."""
        if getattr(self.model.config, "model_type", None) == "vaswani" and target_languages(self.tokenizer):
            raise ValueError(f'This model translates into several languages, so {self.task} is not for it; use pipeline("translation").')

    def _sanitize_parameters(
        self,
        *,
        return_tensors: bool | None = None,
        return_text: bool | None = None,
        clean_up_tokenization_spaces: bool | None = None,
        truncation: Any = None,
        stop_sequence: str | None = None,
        generate_kwargs: dict[str, Any] | None = None,
        **search: Any,
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        """Sort the caller's settings by the step that needs them."""
        search = {**(generate_kwargs or {}), **search}
        check_numbers(search)
        after = {
            "return_tensors": return_tensors,
            "return_text": return_text,
            "clean_up_tokenization_spaces": clean_up_tokenization_spaces,
        }
        if stop_sequence is not None:
            search |= {"stop_strings": stop_sequence, "tokenizer": self.tokenizer}
        return given({"truncation": truncation}), search, given(after)

    def preprocess(self, text: Any, **settings: Any) -> dict[str, Any]:
        """Tokenise one string; a blank one is marked, and a stand-in takes its row in the batch."""
        check_text(text, "An input")
        is_blank = not text.strip()
        encoded = self._encode("." if is_blank else text, **settings)
        inputs = {name: value for name, value in encoded.items() if name != "token_type_ids"}
        return {**inputs, "is_blank": torch.tensor([is_blank])}

    def _encode(self, text: str, truncation: Any = False) -> Any:
        """The ids `[1, S]` of one string, with the prefix that asks the model for the task."""
        return self.tokenizer(self._prefix + text, return_tensors="pt", truncation=truncation)

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
        with evaluating(self.model):
            output = generate_copying(self.model, self.tokenizer, inputs, settings)
        return output if isinstance(output, torch.Tensor) else output.sequences

    def postprocess(
        self,
        model_outputs: dict[str, torch.Tensor],
        return_tensors: bool = False,
        return_text: bool | None = None,
        clean_up_tokenization_spaces: bool = False,
    ) -> list[dict[str, Any]]:
        """What the model wrote for one input, best first."""
        is_blank = bool(model_outputs["is_blank"])
        records = []
        for token_ids in model_outputs["output_ids"][0]:
            record: dict[str, Any] = {}
            if return_tensors:
                record[f"{self.result}_token_ids"] = token_ids
            if return_text or (return_text is None and not return_tensors):
                record[f"{self.result}_text"] = (
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


class Text2TextGenerationPipeline(TextToTextPipeline):
    """Writes a text for each text, for whatever a sequence-to-sequence model was trained to do.

    ```python
    generator = pipeline("text2text-generation", model="path/or/repository")
    generator("A text.")                             # [{"generated_text": "Another text."}]
    generator(["One.", "Two."], batch_size=2)        # [{"generated_text": ...}, {"generated_text": ...}]
    ```
    """


class SummarizationPipeline(TextToTextPipeline):
    """Summarises texts.

    ```python
    summarizer = pipeline("summarization", model="path/or/repository")
    summarizer("A long text.")                       # [{"summary_text": "A text."}]
    summarizer(["One.", "Two."], max_new_tokens=30)  # [{"summary_text": ...}, {"summary_text": ...}]
    ```
    """

    result = "summary"
    deed = "summarise"


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """Without dropout; a model in training is in training again afterwards."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)


def task_settings(config: Any, task: str | None) -> dict[str, Any]:
    """The `prefix` and settings of `generate` that an older checkpoint such as T5 stores for one task."""
    settings = dict((getattr(config, "task_specific_params", None) or {}).get(task) or {})
    if settings.get("max_length") is not None:
        settings["max_new_tokens"] = settings.pop("max_length")
    return settings


def check_collection(inputs: Any) -> None:
    """Raise a `TypeError` unless `inputs` can be a collection of texts."""
    if isinstance(inputs, dict | bytes) or not isinstance(inputs, Iterable):
        raise TypeError(f"The input is {described(inputs)}; pass a string, or a list or generator of strings.")


def checked_texts(texts: Any) -> list[str]:
    """The texts of a finite collection; a `TypeError` or `ValueError` names the first that is none. See `check_text`."""
    found = list(texts)
    for position, text in enumerate(found):
        check_text(text, f"Item {position} of the input")
    return found


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


__all__ = ["SummarizationPipeline", "Text2TextGenerationPipeline", "TextToTextPipeline"]
