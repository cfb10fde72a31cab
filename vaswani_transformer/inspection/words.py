"""Which subwords are one word."""

from collections.abc import Sequence

from transformers import PreTrainedTokenizerBase

Places = tuple[tuple[int, ...], ...]
"""For each word, the places of its subwords."""


def words_of(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int]) -> Places:
    """The places in `ids` of each word's subwords; a special token is a word of its own."""
    special = set(tokenizer.all_special_ids)
    found: list[list[int]] = []
    open_word = False
    for place, (token, piece) in enumerate(zip(ids, tokenizer.convert_ids_to_tokens(list(ids)), strict=True)):
        begins = token in special or not open_word or piece[:1] in ("Ġ", "▁") or not piece[:1].isalnum()
        if begins:
            found.append([place])
        else:
            found[-1].append(place)
        open_word = token not in special
    return tuple(map(tuple, found))


def labels(units: Sequence[str], words: Places) -> tuple[str, ...]:
    """One label a word."""
    return tuple("".join(units[place] for place in places).strip("Ġ▁") for places in words)
