"""Refuses, each in one sentence, impossible settings of `generate`, on which a search would fail or which it would silently ignore.

Here are also the question whose search it is, and the limits of a search for an answer that is marked in a context.

This file travels with checkpoints.
"""

import math
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

import torch

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
    "draft_tokens": 1,
}
"""Settings that count something, and their least values."""

NUMBERS = ("length_penalty", "repetition_penalty", "encoder_repetition_penalty", "temperature", "top_p", "max_time")

TOKENS = ("eos_token_id", "pad_token_id", "decoder_start_token_id", "forced_bos_token_id", "forced_eos_token_id",
          "suppress_tokens", "begin_suppress_tokens")  # fmt: skip

OF_HEADS = ("draft_shortlist", "draft_tokens")
"""Settings of drafts by parallel heads alone."""
OF_DRAFTS = ("draft", *OF_HEADS)
"""Settings of drafts, which change no translation."""

LONGEST_WINDOW = 384
LONGEST_OVERLAP = 128
LONGEST_QUESTION = 64
LONGEST_ANSWER = 15
"""Tokens of a window, question included, of what two windows share, of a question and of an answer, unless the caller says otherwise;
transformers 4's."""


def is_own_module(model: Any) -> bool:
    """Whether `model` is one of ours in PyTorch, rather than of another kind, or another engine behind the same interface."""
    return getattr(model.config, "model_type", None) == "vaswani" and isinstance(model, torch.nn.Module)


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


def _plain(value: Any) -> Any:
    """Python's own number, or list of numbers, for an array or a tensor."""
    return value.tolist() if hasattr(value, "tolist") else value
