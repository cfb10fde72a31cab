"""Which words of a pair say the same: while marks are asked for, each word carries the names of what it says, in both languages alike.

A mark stands behind its word and travels with it through every step of the grammar, whatever order German needs. Two words are linked
where they carry the same name. A name is *sure* where the word says just that, and *possible* (`?` before it) where the word only helps
to say it. Nobody sees the marks: `read` takes them out of the finished sentences. Where they are not asked for, none is written.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

Links = frozenset[tuple[int, int]]
"""Pairs of word indices: English, then German."""

_BEGIN, _SURE, _POSSIBLE = "\ue000", "\ue001", "\ue002"
_MARK = re.compile(f"{_BEGIN}([^{_SURE}{_POSSIBLE}]*)([{_SURE}{_POSSIBLE}])")
_WORD = re.compile(r"\w+(?:['-]\w+)*|[^\w\s]")
_is_asked: ContextVar[bool] = ContextVar("marks are asked for", default=False)


class AlignedPair(NamedTuple):
    """A sentence pair with its true word alignment (Och and Ney 2003: sure and possible links).

    A word is a run of letters and digits, with the apostrophes and hyphens inside it (`isn't`, `twenty-one`); a punctuation mark is a
    word of its own. `possible` contains `sure`.
    """

    english: str
    german: str
    english_words: tuple[str, ...]
    german_words: tuple[str, ...]
    sure: Links
    possible: Links


@contextmanager
def marking() -> Iterator[None]:
    """Write marks here."""
    token = _is_asked.set(True)
    try:
        yield
    finally:
        _is_asked.reset(token)


def is_marking() -> bool:
    """Whether marks are asked for."""
    return _is_asked.get()


def mark(word: str, *names: str) -> str:
    """`word`, which says the things of these `names`; an empty word says nothing."""
    if not word or not _is_asked.get():
        return word
    marks = (_BEGIN + (name[1:] + _POSSIBLE if name.startswith("?") else name + _SURE) for name in names)
    return word + "".join(marks)


def mark_each(text: str, name: str) -> str:
    """The first word of `text` says the first thing of that name, the second the second, and so on: how many, wie viele."""
    if not text or not _is_asked.get():
        return text
    return " ".join(mark(word, f"{name}.{place}") for place, word in enumerate(text.split(" ")))


def mark_first(text: str, name: str) -> str:
    """The first word of `text` says what one German word says, the others only help: `next` to."""
    if not _is_asked.get():
        return text
    first, *others = text.split(" ")
    return " ".join((mark(first, name), *(mark(word, f"?{name}") for word in others)))


def mark_linked(english: str, german: str, links: str) -> tuple[str, str]:
    """Both texts with the `links` between their words: `0-1` is sure, `0p1` possible."""
    if not _is_asked.get():
        return english, german
    sides = english.split(" "), german.split(" ")
    for link in links.split():
        separator = "p" if "p" in link else "-"
        places = map(int, link.split(separator))
        for words, place, doubt in zip(sides, places, ("", "?" if separator == "p" else ""), strict=True):
            words[place] = mark(words[place], doubt + link)
    return " ".join(sides[0]), " ".join(sides[1])


def inside(text: str, name: str) -> str:
    """What `text` says as a part of something larger: the names of its marks come under `name`."""
    return text.replace(_BEGIN, f"{_BEGIN}{name}.")


def is_marked(text: str) -> bool:
    """Whether a word of `text` carries a mark."""
    return _BEGIN in text


def word_and_marks(word: str) -> tuple[str, str]:
    """A word without its marks, and the marks."""
    bare, begin, marks = word.partition(_BEGIN)
    return bare, begin + marks


def read(english: str, german: str) -> AlignedPair:
    """The pair without marks, and the links that they tell."""
    (english_text, english_words, english_names), (german_text, german_words, german_names) = map(_read_side, (english, german))
    sure, possible = set(), set()
    for name, places in english_names.items():
        for source, source_is_sure in places:
            for target, target_is_sure in german_names.get(name, ()):
                if source_is_sure or target_is_sure:
                    possible.add((source, target))
                if source_is_sure and target_is_sure:
                    sure.add((source, target))
    return AlignedPair(english_text, german_text, english_words, german_words, frozenset(sure), frozenset(possible))


def _read_side(text: str) -> tuple[str, tuple[str, ...], dict[str, list[tuple[int, bool]]]]:
    """The plain text, its words, and for each name the words that carry it, with whether it is sure."""
    pieces: list[str] = []
    marks: list[tuple[int, str, bool]] = []
    length = start = 0
    for found in _MARK.finditer(text):
        pieces.append(text[start : found.start()])
        length += found.start() - start
        start = found.end()
        marks.append((length - 1, found[1], found[2] == _SURE))
    plain = "".join((*pieces, text[start:]))
    spans = list(_WORD.finditer(plain))
    word_at = dict(_places(spans))
    names: dict[str, list[tuple[int, bool]]] = {}
    for place, name, is_sure in marks:
        names.setdefault(name, []).append((word_at[place], is_sure))
    return plain, tuple(span[0] for span in spans), names


def _places(spans: Iterable[re.Match[str]]) -> Iterator[tuple[int, int]]:
    return ((place, number) for number, span in enumerate(spans) for place in range(*span.span()))
