"""Words of several senses: MuCoW's translation test suite (Raganato, Scherrer and Tiedemann, 2019, "The MuCoW test suite at WMT 2019").

Each sentence holds one ambiguous word. Some translations of it fit the sense that it has there, and others fit another sense. Does the
model's translation hold one of these, or one of those? That is all that is asked, as the suite's authors do it (section 5).
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import regex

from benchmarks.limits.subject import Subject, existing, read_table, words_of
from benchmarks.report import UNKNOWN, Results, Row, markdown_table
from vaswani_transformer.data.sources.text import file_lines
from vaswani_transformer.evaluation.scores import spread_evenly, text_sha256

Verdict = Literal["right", "wrong", "neither"]

_WORD = regex.compile(r"[\p{L}\p{M}\p{N}]+(?:-[\p{L}\p{M}\p{N}]+)*")
_STEMMERS = {"de": "german", "en": "english", "fi": "finnish", "fr": "french", "ru": "russian", "lt": "lithuanian"}
_EXAMPLES = 10


@dataclass(frozen=True)
class Item:
    """A sentence of the suite."""

    corpus: str
    word: str
    """The ambiguous one, in lower case."""
    right: tuple[str, ...]
    """What it can be called in the target language in the sense that it has here."""
    wrong: tuple[str, ...]
    text: str


def read_mucow(folder: Path, languages: tuple[str, str]) -> list[Item]:
    """The sentences of `SOURCE-TARGET.text.txt` with the words of `SOURCE-TARGET.key.txt`; plain, `.gz` or `.xz`.

    Raises:
        FileNotFoundError: there is no such file, so the suite does not have these languages, or is elsewhere.
        ValueError: the two files have not equally many lines, or a line of the second has not five columns.
    """
    pair = folder / "-".join(languages)
    keys = read_table(pair.with_name(f"{pair.name}.key.txt"), 5)
    texts = list(file_lines(existing(pair.with_name(f"{pair.name}.text.txt"))))
    if len(keys) != len(texts):
        raise ValueError(f"{pair}.key.txt has {len(keys)} lines and {pair}.text.txt {len(texts)}; fetch both again.")
    return [
        Item(corpus, word.lower(), tuple(right.lower().split()), tuple(wrong.lower().split()), text)
        for (_, corpus, word, right, wrong), text in zip(keys, texts, strict=True)
    ]


class Stems:
    """Words without their endings, by Snowball's stemmer for the language."""

    def __init__(self, language: str) -> None:
        """Load it.

        Raises:
            ImportError: the package `snowballstemmer` is not installed.
            ValueError: it does not know the language.
        """
        try:
            import snowballstemmer
        except ImportError as error:
            raise ImportError("Word senses need a stemmer; install it with `pip install snowballstemmer`.") from error
        if language not in _STEMMERS:
            raise ValueError(f"There is no stemmer for {language!r} here, only for {', '.join(_STEMMERS)}.")
        self._stemmer = snowballstemmer.stemmer(_STEMMERS[language])

    def of(self, words: Iterable[str]) -> set[str]:
        return set(self._stemmer.stemWords(list(words)))


def verdict(item: Item, translation: str, stems: Stems) -> Verdict:
    """`wrong` if a word of another sense stands there, even beside a right one, as in the suite's own script.

    Words are looked for as they are first, and only if none is there by their stems, where that script has lemmas.
    """
    words = set(_WORD.findall(translation.lower()))
    found = _found(item.right, words), _found(item.wrong, words)
    if not any(found):
        stemmed = stems.of(words)
        found = _found(stems.of(item.right), stemmed), _found(stems.of(item.wrong), stemmed)
    return "wrong" if found[1] else "right" if found[0] else "neither"


def _found(wanted: Iterable[str], words: set[str]) -> bool:
    return not words.isdisjoint(wanted)


def measure_senses(subject: Subject, folder: Path, everything: bool = False) -> Results:
    """Translate the sentences whose ambiguous word the model knows, in both senses, and look what it calls it.

    Args:
        subject: a run; its training text says what it knows.
        folder: of the suite.
        everything: also the words that the model's training text does not have.

    Raises:
        FileNotFoundError: the suite does not have these languages.
        ImportError: there is no stemmer.
        ValueError: the model knows no word of the suite in two senses.
    """
    items = read_mucow(folder, subject.languages)
    stems = Stems(subject.languages[1])
    known = [item for item in items if _is_known(item, *subject.training_words)]
    chosen = items if everything else known
    if not chosen:
        raise ValueError(f"The training text of {subject.name} has no word of the suite in two senses, so there is nothing to judge.")
    texts = subject.text.form.prepare([item.text for item in chosen], subject.languages[0])
    outputs = subject.translate(texts)
    verdicts = [verdict(item, output, stems) for item, output in zip(chosen, outputs, strict=True)]
    coverage = {
        "sentences": len(items),
        "both_senses_known": len(known),
        "judged_with_all_words_known": sum(words_of(item.text) <= subject.training_words[0] for item in chosen),
    }
    return {
        **subject.facts(),
        "everything": everything,
        "mucow_sha256": text_sha256(item.text for item in items),
        "coverage": coverage,
        "all": score_senses(verdicts),
        "words": _by_word(chosen, verdicts),
        "examples": [
            {"word": chosen[n].word, "right": list(chosen[n].right), "wrong": list(chosen[n].wrong), "source": texts[n],
             "translation": outputs[n], "verdict": verdicts[n]}
            for n in spread_evenly(len(chosen), _EXAMPLES)
        ],
    }  # fmt: skip


def _is_known(item: Item, sources: frozenset[str], targets: frozenset[str]) -> bool:
    """Whether the training text has the word, and a translation of it in this sense and in another."""
    both = (any(words_of(word) <= targets for word in sense) for sense in (item.right, item.wrong))
    return words_of(item.word) <= sources and all(both)


def score_senses(verdicts: Sequence[Verdict]) -> Row:
    """Precision: right of right and wrong. Coverage: right and wrong of all. Recall: right of all, as the paper defines it."""
    counts = Counter(verdicts)
    decided = counts["right"] + counts["wrong"]
    return {
        "sentences": len(verdicts),
        **{name: counts[name] for name in ("right", "wrong", "neither")},
        "coverage": decided / len(verdicts),
        "precision": counts["right"] / decided if decided else None,
        "recall": counts["right"] / len(verdicts),
    }


def _by_word(items: Sequence[Item], verdicts: Sequence[Verdict]) -> list[Row]:
    groups: dict[str, list[Verdict]] = {}
    for item, found in zip(items, verdicts, strict=True):
        groups.setdefault(item.word, []).append(found)
    return [{"word": word, **score_senses(found)} for word, found in sorted(groups.items())]


def senses_table(results: Sequence[Results]) -> str:
    """One line a model."""
    header = ("model", "suite", "both senses known", "judged", "right", "wrong", "neither", "precision", "coverage", "recall")
    rows = (
        (result["model"], f"{result['coverage']['sentences']:,}", f"{result['coverage']['both_senses_known']:,}",
         *(f"{result['all'][name]:,}" for name in ("sentences", "right", "wrong", "neither")),
         *(_percent(result["all"][name]) for name in ("precision", "coverage", "recall")))
        for result in results
    )  # fmt: skip
    return markdown_table(header, rows, left=1) + "\n"


def _percent(share: float | None) -> str:
    return UNKNOWN if share is None else f"{100 * share:.1f} %"
