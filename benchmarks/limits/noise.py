"""Noise as people make it, seeded: misspellings, swapped letters, capitals, missing punctuation, in a given share of all words.

A word is what stands between white space and holds a letter or a digit. Of each kind, the words that can be changed are put into one random
order, and the share that is asked for is taken from its beginning: so 10 % of the words are the 5 % and as many more. A word is changed
the same way at every share.
"""

import html
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import regex

from benchmarks.limits.subject import existing
from vaswani_transformer.data.sources.text import file_lines

Misspellings = Mapping[str, Sequence[str]]
"""What people write instead of a word."""

Change = Callable[[str, random.Random], str | None]
"""The word that stands for another; None if this kind of noise leaves that word as it is. An empty word goes."""

KINDS = {
    "misspelling": "a misspelling that people have made of this very word",
    "swap": "two neighbouring letters inside the word, of four or more, change places",
    "case": "the word in capitals (a word in capitals: without)",
    "punctuation": "the punctuation marks beside the word are missing",
}

_PARTS = regex.compile(r"(\P{L}*)([\p{L}\p{M}'’-]*[\p{L}\p{M}])(\P{L}*)")
"""What is before the word, the word, and what is after it."""

_MARKS = regex.compile(r"^\p{P}+|\p{P}+$")


@dataclass(frozen=True)
class Noised:
    """Sentences with noise."""

    sentences: list[str]
    changed_words: int
    words: int
    """All words of the clean sentences."""

    @property
    def share(self) -> float:
        """Of the words, those that were changed; below what was asked for where too few words can be."""
        return self.changed_words / self.words


def add_noise(sentences: Sequence[str], kind: str, share: float, *, seed: int = 1, misspellings: Misspellings | None = None) -> Noised:
    """Change a share of all words.

    Swaps are those of Belinkov and Bisk (2018), "Synthetic and Natural Noise Both Break Neural Machine Translation", section 4: the first
    and the last letter stay. Misspellings are drawn from lists such as theirs (section 4, natural noise).

    Args:
        sentences: clean text, plain or split into tokens (then a punctuation mark of its own goes as a whole).
        kind: of `KINDS`.
        share: of all words, from 0 to 1.
        seed: the same seed gives the same noise.
        misspellings: for the kind of that name.

    Raises:
        ValueError: there is no such kind, the share is impossible, there is no list of misspellings, or there are no words.
    """
    if kind not in KINDS:
        raise ValueError(f"There is no noise called {kind!r}; choose of {', '.join(KINDS)}.")
    if not 0 <= share <= 1:
        raise ValueError(f"The share of words is {share}; it is from 0 to 1, such as 0.05.")
    if kind == "misspelling" and not misspellings:
        raise ValueError("Misspellings need a list of them; give --misspellings FILE.")
    change = _changes(misspellings or {})[kind]
    split = [sentence.split() for sentence in sentences]
    words = sum(map(_is_word, (word for sentence in split for word in sentence)))
    if not words:
        raise ValueError("There is no word in the text that noise could change.")
    changed = {
        (row, column): new
        for row, sentence in enumerate(split)
        for column, word in enumerate(sentence)
        if (new := change(word, random.Random(f"{seed} {kind} {row} {column}"))) not in (None, word) and (new or len(sentence) > 1)
    }
    places = sorted(changed)
    random.Random(f"{seed} {kind}").shuffle(places)
    chosen = set(places[: round(share * words)])
    noised = [
        " ".join(filter(None, (changed[row, column] if (row, column) in chosen else word for column, word in enumerate(sentence))))
        if any((row, column) in chosen for column in range(len(sentence)))
        else sentences[row]
        for row, sentence in enumerate(split)
    ]
    return Noised(noised, len(chosen), words)


def read_misspellings(file: Path) -> dict[str, list[str]]:
    """A list such as that of Belinkov and Bisk: a word, then what people wrote instead, between white space; plain, `.gz` or `.xz`.

    Raises:
        FileNotFoundError: it is not there.
        ValueError: no line has two words.
    """
    lines = [line.split() for line in file_lines(existing(file))]
    found = {word: wrong for word, *others in filter(None, lines) if (wrong := [other for other in others if other != word])}
    if not found:
        raise ValueError(f"{file} holds no misspelling; each line needs a word and, after white space, what people write instead.")
    return found


def _is_word(unit: str) -> bool:
    return any(map(str.isalnum, html.unescape(unit)))


def _changes(misspellings: Misspellings) -> dict[str, Change]:
    return {
        "misspelling": lambda word, rng: _inside(word, lambda core: _misspelt(core, misspellings, rng)),
        "swap": lambda word, rng: _inside(word, lambda core: _swapped(core, rng)),
        "case": lambda word, _: _inside(word, lambda core: core.lower() if core.isupper() and len(core) > 1 else core.upper()),
        "punctuation": lambda word, _: _without_marks(word),
    }


def _inside(unit: str, change: Callable[[str], str | None]) -> str | None:
    """Change the word in `unit`, which may have marks round it; an entity of XML, as Moses writes them, is left alone."""
    parts = None if html.unescape(unit) != unit else _PARTS.fullmatch(unit)
    new = change(parts[2]) if parts else None
    return f"{parts[1]}{new}{parts[3]}" if parts and new is not None else None


def _misspelt(core: str, misspellings: Misspellings, rng: random.Random) -> str | None:
    wrong = misspellings.get(core) or misspellings.get(core.lower())
    if not wrong:
        return None
    found = rng.choice(wrong)
    return found.lower() if core.islower() else found.capitalize() if core.istitle() else found


def _swapped(core: str, rng: random.Random) -> str | None:
    places = [place for place in range(1, len(core) - 2) if core[place] != core[place + 1] and core[place : place + 2].isalpha()]
    if not places:
        return None
    place = rng.choice(places)
    return core[:place] + core[place + 1] + core[place] + core[place + 2 :]


def _without_marks(unit: str) -> str:
    plain = html.unescape(unit)
    return unit if (bare := _MARKS.sub("", plain)) == plain else html.escape(bare) if plain != unit else bare
