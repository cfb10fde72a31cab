"""Where the words of a tagged text stand among its tokens."""

from collections.abc import Sequence


def first_tokens(words: Sequence[str], offsets: Sequence[tuple[int, int]]) -> list[int]:
    """The place of each word's first token in a text of `words` with one space between them.

    Args:
        words: at least one.
        offsets: of each token, where it begins and ends in the text; the space before a word may be in its token, or a token of its own.

    Raises:
        ValueError: two words share a token, which cannot have two labels.
    """
    places, start, token = [], 0, 0
    for word in words:
        while token + 1 < len(offsets) and offsets[token][1] <= start:
            token += 1
        places.append(token)
        start += len(word) + 1
    if len(set(places)) < len(places):
        raise ValueError(f"The tokenizer puts two of the words {' '.join(words)!r} into one token; use one that splits text at spaces.")
    return places
