"""A text cut into sentences, and translated sentences put together to a text.

This file travels with checkpoints.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence

LONGEST_SPLIT = 10_000
"""Characters that are split into sentences at once: over unbalanced quotation marks, sentencex takes quadratic time."""


def split_sentences(text: str, language: str) -> tuple[list[str], list[str]]:
    """Cut a text into its sentences and the white space around them.

    A sentence ends where sentencex finds its end, and at every line break. One of more than `LONGEST_SPLIT` characters
    is cut at white space.

    Args:
        text: anything.
        language: code of its language; of "de-CH" or "de_DE" the first part counts. Languages that sentencex has no
            rules for are split as English.

    Returns:
        n sentences, without white space at their ends, and n + 1 gaps: `gaps[0] + sentences[0] + gaps[1] + ...` is the text.

    Raises:
        ImportError: sentencex is not installed.
        ValueError: it fails on the text.
    """
    sentences: list[str] = []
    gaps = [""]
    for piece in _pieces(text, re.split("[-_]", language.lower())[0]):
        sentence = piece.strip()
        before, _, after = piece.partition(sentence) if sentence else (piece, "", "")
        gaps[-1] += before
        if sentence:
            sentences.append(sentence)
            gaps.append(after)
    return sentences, gaps


def check_language(code: str) -> None:
    """Raise a `ValueError` for what is no language's code, such as "english": sentencex would split by its rules for English."""
    if not re.fullmatch(r"[A-Za-z]{2,3}([-_]\w+)*", code):
        raise ValueError(
            f'split_sentences is {code!r}, which is no language\'s code; give one of two or three letters, such as "en", "de-CH" or "yue". '
            "sentencex has rules for about 300 of them, and splits others as English."
        )


def _pieces(text: str, language: str) -> Iterator[str]:
    """The text in pieces of at most one sentence and the white space beside it."""
    try:
        from sentencex import segment
    except ImportError as error:
        raise ImportError(
            "Splitting into sentences needs the package sentencex; install it (pip install sentencex), or leave out split_sentences."
        ) from error
    for line in text.splitlines(keepends=True):
        # White space of several bytes beside an initial ("A\u00a0.") brings sentencex 1.0.32 down; a space is as long.
        plain, start = re.sub(r"\s", " ", line), 0
        while start < len(line):
            part = plain[start : start + LONGEST_SPLIT]
            try:
                lengths = [len(piece) for piece in segment(language, part)]
            except BaseException as error:
                if type(error).__name__ != "PanicException":  # of a library in Rust, and no `Exception`
                    raise
                raise ValueError(f"sentencex cannot split {part[:60]!r}: {error}") from error
            if start + len(part) < len(line):
                # The line continues after this part, and so may the last sentence.
                lengths = lengths[:-1] or [part.rfind(" ") + 1 or len(part)]
            for length in lengths:
                yield line[start : start + length]
                start += length


def join_sentences(sentences: Sequence[str], gaps: Sequence[str]) -> str:
    """Put translated sentences into the gaps that `split_sentences` found; a text without sentences gives an empty one.

    Where the source has nothing between two sentences, as Chinese has not, a space comes behind the first, unless its
    last character brings its own width ("。").
    """
    if not sentences:
        return ""
    parts = [gaps[0]]
    for position, (sentence, gap) in enumerate(zip(sentences, gaps[1:], strict=True), start=1):
        runs_on = not gap and sentence and position < len(sentences)
        parts += [
            sentence,
            " " if runs_on and unicodedata.east_asian_width(sentence[-1]) not in "WF" else gap,
        ]
    return "".join(parts)
