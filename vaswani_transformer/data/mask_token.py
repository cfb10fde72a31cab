"""A tokenizer with `<mask>`, for masked language models (Devlin et al. 2019, section 3.1).

`<mask>` is one token of a user's text, as fill-mask needs it; text that spells `</s>` and its kind stays plain. That takes care:
transformers makes a control token of whatever is called `mask_token` when it loads a tokenizer, and this tokenizer never sees control
tokens in text. So here the byte-pair encoding itself joins "<mask>".
"""

import json
from itertools import accumulate, pairwise
from typing import Any

from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from .bpe import is_byte_level

MASK_TOKEN = "<mask>"

ENTRIES_OF_THE_MASK = 5
"""By how many entries a vocabulary grows: the mask, and the beginnings of its spelling that are no entries yet."""

# The expression of `pre_tokenizers.ByteLevel`, which the library names nowhere else (Radford et al. 2019), after the mask
_PIECES = MASK_TOKEN + r"|'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def add_mask_token(tokenizer: PreTrainedTokenizerBase) -> PreTrainedTokenizerFast:
    """A tokenizer that knows `<mask>` besides all that `tokenizer` knows; text without "<mask>" keeps its ids.

    The mask stands for a word with the space before it, or for a part of one: "a<mask>" and "a <mask>" have the same ids. The model needs
    room for the new entries: `model.resize_token_embeddings(len(tokenizer))`.

    Args:
        tokenizer: made by `train_tokenizer`.

    Returns:
        A new one, with five entries more: the mask, and the four beginnings that lead the encoding there. The same one if it has a mask.

    Raises:
        ValueError: `tokenizer` was not made by `train_tokenizer`.
    """
    if not is_byte_level(tokenizer) or not isinstance(tokenizer, PreTrainedTokenizerFast):
        raise ValueError("Only a tokenizer of `train_tokenizer` gets a mask here; give another one its `mask_token` by its own means.")
    if tokenizer.mask_token is not None:
        return tokenizer
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    _join_mask(state["model"])
    state["normalizer"] = {"type": "Sequence", "normalizers": [state["normalizer"], _without_space_before_mask()]}
    state["pre_tokenizer"] = _mask_apart(state["pre_tokenizer"])
    settings = {name: getattr(tokenizer, name) for name in ("pad_token", "bos_token", "eos_token", "padding_side", "model_max_length")}
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(state)),
        mask_token=MASK_TOKEN,
        split_special_tokens=tokenizer.split_special_tokens,
        clean_up_tokenization_spaces=False,
        **settings,
    )


def _join_mask(model: dict[str, Any]) -> None:
    """Entries and merges that spell the mask. They come first, so that no merge of the language breaks it.

    They change no other text: the first joins "<" with a letter, which the pre-tokenizer sets apart everywhere else.
    """
    vocabulary = model["vocab"]
    beginnings = list(accumulate(MASK_TOKEN))
    for entry in (MASK_TOKEN, *beginnings[1:-1]):
        vocabulary.setdefault(entry, len(vocabulary))
    model["merges"] = [[before, after[-1]] for before, after in pairwise(beginnings)] + model["merges"]


def _without_space_before_mask() -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"String": f" {MASK_TOKEN}"}, "content": MASK_TOKEN}


def _mask_apart(byte_level: dict[str, Any]) -> dict[str, Any]:
    """The pre-tokenizer's own expression, with the mask as a piece of its own before all others."""
    first = {"type": "Split", "pattern": {"String": MASK_TOKEN}, "behavior": "Isolated", "invert": False}
    pieces = {"type": "Split", "pattern": {"Regex": _PIECES}, "behavior": "Isolated", "invert": False}
    return {"type": "Sequence", "pretokenizers": [first, pieces, {**byte_level, "use_regex": False}]}


__all__ = ["MASK_TOKEN", "add_mask_token"]
