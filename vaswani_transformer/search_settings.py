"""Refuses, each in one sentence, impossible settings of `generate`, on which a search would fail or which it would silently ignore.

Here are also the limits of a search for an answer that is marked in a context. And what transformers makes of settings is kept until one
of them changes, because making it takes as long as a step of a search.

This file travels with checkpoints.
"""

import math
from collections.abc import Mapping
from numbers import Integral, Real
from types import NoneType
from typing import Any

from transformers import GenerationConfig

WHOLE_NUMBERS = {
    "num_beams": 1,
    "num_return_sequences": 1,
    "max_length": 1,
    "max_new_tokens": 1,
    "min_length": 0,
    "min_new_tokens": 0,
    "no_repeat_ngram_size": 0,
    "encoder_no_repeat_ngram_size": 0,
    "top_k": 0,
}
"""Settings that count something, and their least values."""

NUMBERS = ("length_penalty", "repetition_penalty", "encoder_repetition_penalty", "temperature", "top_p", "max_time")

TOKENS = ("eos_token_id", "pad_token_id", "decoder_start_token_id", "forced_bos_token_id", "forced_eos_token_id",
          "suppress_tokens", "begin_suppress_tokens")  # fmt: skip

LONGEST_WINDOW = 384
LONGEST_OVERLAP = 128
LONGEST_QUESTION = 64
LONGEST_ANSWER = 15
"""Tokens of a window, question included, of what two windows share, of a question and of an answer, unless the caller says otherwise;
transformers 4's."""


def check_numbers(settings: Mapping[str, Any]) -> None:
    """Raise a `ValueError` for a setting that is no number, or is out of its range; `None` means not given."""
    for name, least in WHOLE_NUMBERS.items():
        check_whole_number(name, settings.get(name), least)
    for name in NUMBERS:
        value = _plain(settings.get(name))
        if value is not None and (isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value)):
            raise ValueError(f"`{name}` is {value!r}; it must be a number.")


def check_whole_number(name: str, value: Any, least: int) -> None:
    """Raise a `ValueError` for a setting that is no whole number, or is below its least value; `None` means not given."""
    value = _plain(value)
    if value is not None and (isinstance(value, bool) or not isinstance(value, Integral) or value < least):
        raise ValueError(f"`{name}` is {value!r}; it must be a whole number from {least}.")


def check_token_ids(settings: Mapping[str, Any], entries: int) -> None:
    """Raise a `ValueError` for a token id that a vocabulary of `entries` tokens does not have."""
    for name in TOKENS:
        value = _plain(settings.get(name))
        for token in value if isinstance(value, list | tuple) else [value]:
            if token is not None and (isinstance(token, bool) or not isinstance(token, Integral) or not 0 <= int(token) < entries):
                raise ValueError(f"`{name}` is {value!r}, but the vocabulary has the ids 0 to {entries - 1}.")


class KeptSettings:
    """What transformers made of a model's settings and of a call's, for calls that repeat both."""

    MOST = 64
    """Calls with so many different settings are kept."""

    def __init__(self) -> None:
        self._kept: dict[tuple[Any, ...], tuple[dict[str, Any], list[str]]] = {}

    def find(self, key: tuple[Any, ...] | None, given: Mapping[str, Any]) -> tuple[GenerationConfig, dict[str, Any]] | None:
        """The settings kept under `key`, anew, and those of the `given` arguments that are none; `None` if there are none."""
        kept = None if key is None else self._kept.get(key)
        if kept is None:
            return None
        settings, others = kept
        prepared = GenerationConfig.__new__(GenerationConfig)
        vars(prepared).update(settings)
        return prepared, {name: given[name] for name in others}

    def keep(self, key: tuple[Any, ...] | None, given: Mapping[str, Any], prepared: GenerationConfig, others: Mapping[str, Any]) -> None:
        """Keep the settings `prepared` of the `given` arguments, and the names of the `others`, if that is all there is to know."""
        if key is None or type(prepared) is not GenerationConfig or _state(vars(prepared)) is None:
            return
        if all(name in given and given[name] is value for name, value in others.items()):
            if len(self._kept) >= self.MOST:
                self._kept.clear()
            self._kept[key] = dict(vars(prepared)), list(others)

    def __deepcopy__(self, memo: dict[int, Any]) -> "KeptSettings":
        """A copy of a model begins without any."""
        return KeptSettings()


def key_of(settings: GenerationConfig, config: Any, given: Mapping[str, Any], no_settings: set[str]) -> tuple[Any, ...] | None:
    """All that transformers makes a search's settings of, to be compared; `None` if some of it may change unseen, as a list may.

    Args:
        settings: the model's own.
        config: the model's; transformers refuses settings of a search that stand there.
        given: a call's arguments.
        no_settings: names among them that may have any value.
    """
    own, architecture = vars(settings), vars(config)
    shared = {name: architecture[name] for name in own.keys() & architecture.keys()}
    asked = {name: None if name in no_settings else value for name, value in given.items()}
    parts = [_state(part) for part in (own, shared, asked)]
    return None if None in parts or type(settings) is not GenerationConfig else tuple(parts)


def _state(values: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """Names, types and values, which compare as equal where nothing has changed; `None` if one is not a number, a word or `None`."""
    kinds = tuple(map(type, values.values()))
    return (tuple(values), kinds, tuple(values.values())) if _SIMPLE.issuperset(kinds) else None


_SIMPLE = frozenset((bool, int, float, str, NoneType))


def _plain(value: Any) -> Any:
    """Python's own number, or list of numbers, for an array or a tensor."""
    return value.tolist() if hasattr(value, "tolist") else value
