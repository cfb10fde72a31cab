"""Which languages a model translates, and how a caller chooses one: by a task's name and by a control token before the source.

This file travels with checkpoints.
"""

import re
from collections.abc import Mapping
from typing import Any

import torch


def languages_of(task: str | None) -> tuple[str | None, str | None]:
    """Source and target language of a task's name: `"translation_en_to_de"` gives `("en", "de")`."""
    words = (task or "").split("_")
    if len(words) == 4 and words[0] == "translation" and words[2] == "to":
        return words[1], words[3]
    return None, None


def language_token(language: str) -> str:
    """The control token before a source that asks a model of several target languages for `language`."""
    return f"<2{language}>"


def target_languages(tokenizer: Any) -> dict[str, int]:
    """The languages that a token before the source selects, and the tokens' ids; none for a model of one language.

    Only tokens that text cannot spell count. Where text can spell them, as with T5's descendants, the caller writes them.
    """
    if not getattr(tokenizer, "split_special_tokens", False):
        return {}
    added = tokenizer.get_added_vocab()
    return {token[2:-1]: number for token, number in added.items() if re.fullmatch(r"<2[\w-]+>", token)}


def language_prefix(tokenizer: Any, language: str | None) -> list[int]:
    """The ids to put before every source to translate it into `language`: none where there is nothing to choose.

    Raises:
        ValueError: the model has no such language, or the caller must name one; the sentence lists the model's languages.
    """
    known = target_languages(tokenizer)
    if language in known:
        return [known[language]]
    if known:
        problem = "needs the target language" if language is None else f"does not translate into {language!r}"
        raise ValueError(f"This model {problem}; choose one of {', '.join(known)} (tgt_lang, or --target-language).")
    if language is not None:
        raise ValueError(f"This model has no choice of target languages, so {language!r} cannot be asked of it; leave it out.")
    return []


def prefixed(encoded: Mapping[str, Any], token_ids: list[int]) -> dict[str, Any]:
    """One encoded source, `[1, S]` tensors, with `token_ids` before it."""
    before = torch.tensor([token_ids])
    return {
        **encoded,
        "input_ids": torch.cat([before, encoded["input_ids"]], dim=1),
        "attention_mask": torch.cat([torch.ones_like(before), encoded["attention_mask"]], dim=1),
    }
