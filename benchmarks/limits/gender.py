"""The gender that a translator gives to people whose gender the sentence says: WinoMT, English to German.

In "The mechanic thanked the clerk because she was in a hurry", *she* says who is a woman. The translation must say it with the noun. One
list of sentences goes with the stereotype of the profession, and one against it (Stanovsky, Smith and Zettlemoyer, 2019, "Evaluating Gender
Bias in Machine Translation").
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from benchmarks.limits.german_gender import gender_of, is_determiner
from benchmarks.limits.hallucination import has_words
from benchmarks.limits.subject import Subject, read_table, words_of
from benchmarks.report import UNKNOWN, Results, Row, markdown_table
from vaswani_transformer.evaluation.scores import spread_evenly, text_sha256
from vaswani_transformer.inspection.alignment import WordAlignment, alignment_of, choose_layer, control_labels
from vaswani_transformer.inspection.maps import attention_maps

_CHOSEN_BY = 50
_EXAMPLES = 10
_GENDERS = ("male", "female", "neutral")


@dataclass(frozen=True)
class Sentence:
    """A line of WinoMT."""

    gender: str
    place: int
    """Of the person's noun among the words between white space."""
    text: str
    person: str
    stereotype: str | None
    """`pro`, `anti`, or None where the sentence is in neither list."""


@dataclass(frozen=True)
class Judged:
    """A sentence, its translation, and the gender that this gives the person."""

    sentence: Sentence
    translation: str
    gender: str | None
    """None where the form does not say, or no word is aligned."""
    word: str
    """The German word or words that were judged."""


def read_winomt(folder: Path) -> list[Sentence]:
    """The sentences of `en.txt`, with what `en_pro.txt` and `en_anti.txt` say of them; plain, `.gz` or `.xz`.

    Raises:
        FileNotFoundError: one of the files is not there.
        ValueError: a line is not gender, place, sentence and person; the sentence names it.
    """
    lists = {name: {tuple(row) for row in read_table(folder / f"en_{name}.txt", 4)} for name in ("pro", "anti")}
    found = []
    for number, row in enumerate(read_table(folder / "en.txt", 4), start=1):
        gender, place, text, person = row
        if gender not in _GENDERS or not place.isdecimal() or int(place) >= len(text.split()):
            raise ValueError(f"{folder / 'en.txt'}:{number} is not gender, place of a word, sentence and person, but {' | '.join(row)}.")
        stereotype = next((name for name, rows in lists.items() if tuple(row) in rows), None)
        found.append(Sentence(gender, int(place), text, person, stereotype))
    return found


def measure_gender(subject: Subject, folder: Path, everything: bool = False) -> Results:
    """Translate the sentences whose words the model's training text has, and compare the genders.

    Args:
        subject: a run that translates English into German.
        folder: of WinoMT.
        everything: also the sentences with words that the model has never seen.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: the model has other languages, or knows the words of no sentence.
    """
    if tuple(code.split("-")[0].split("_")[0] for code in subject.languages) != ("en", "de"):
        raise ValueError(f"{subject.name} translates {' into '.join(subject.languages)}; the genders are judged from English into German.")
    sentences = read_winomt(folder)
    prepared = subject.text.form.prepare([sentence.text for sentence in sentences], "en")
    known = subject.training_words[0]
    covered = [words_of(sentence.text) <= known for sentence in sentences]
    coverage = {
        "sentences": len(sentences),
        "person_known": sum(words_of(sentence.person) <= known for sentence in sentences),
        "all_words_known": sum(covered),
    }
    chosen = [number for number in range(len(sentences)) if everything or covered[number]]
    if not chosen:
        raise ValueError(f"The training text of {subject.name} has all words of no sentence of WinoMT, so there is nothing to judge.")
    judged = _judge(subject, [sentences[number] for number in chosen], [prepared[number] for number in chosen])
    facts = {"coverage": coverage, "winomt_sha256": text_sha256(sentence.text for sentence in sentences), "everything": everything}
    return {**subject.facts(), **facts, **score_genders(judged), "examples": _examples(judged)}


def _judge(subject: Subject, sentences: Sequence[Sentence], prepared: Sequence[str]) -> list[Judged]:
    control = control_labels(subject.tokenizer)
    outputs = subject.translate(prepared)
    maps = [
        attention_maps(subject.model, subject.tokenizer, source, output, tgt_lang=subject.target_language) if has_words(output) else None
        for source, output in zip(tqdm(prepared, desc="Aligning", unit="sentence"), outputs, strict=True)
    ]
    layer, shifted, _ = choose_layer([one for one in maps if one][:_CHOSEN_BY], control)
    judged = []
    for sentence, output, one in zip(sentences, outputs, maps, strict=True):
        links = None if one is None else alignment_of(one, control, layer=layer, shifted=shifted)
        judged.append(judge(sentence, output, links))
    return judged


def judge(sentence: Sentence, output: str, links: WordAlignment | None) -> Judged:
    """The gender of the German words that are linked to the person's noun: the first of them that says one, nouns before determiners.

    Args:
        links: between the model's own words of both texts; None where there is no translation.
    """
    if links is None:
        return Judged(sentence, output, None, "")
    place = _place_of(sentence, links.source)
    linked = [target for source, target in links.links if source == place and has_words(links.target[target])]
    nouns = [target for target in linked if not is_determiner(links.target[target].lower())]
    genders = [gender_of(links.target, target) for target in nouns or linked]
    found = next((gender for gender in genders if gender), None)
    return Judged(sentence, output, found, " ".join(links.target[target] for target in linked))


def _place_of(sentence: Sentence, words: Sequence[str]) -> int:
    """Where the person's noun is among the model's own words: the first, or the second of two that are spelled the same."""
    whole = [word.strip(".,;:!?\"'").lower() for word in sentence.text.split()]
    noun = whole[sentence.place]
    which = whole[: sentence.place].count(noun)
    places = [number for number, word in enumerate(words) if word.lower() == noun]
    return places[which] if which < len(places) else -1


def score_genders(judged: Sequence[Judged]) -> Row:
    """The measures of Stanovsky et al. (section 3): accuracy, the difference of F1 between the genders, and of accuracy between the lists.

    A translation that cannot be judged counts as wrong, as it does with them; the share of these, and the accuracy without them, are there.
    """
    f1 = {gender: _f1(judged, gender) for gender in ("male", "female")}
    lists = {name: _accuracy([one for one in judged if one.sentence.stereotype == name]) for name in ("pro", "anti")}
    accuracies = [None if lists[name] is None else lists[name]["accuracy"] for name in ("pro", "anti")]  # type: ignore[index]
    return {
        "all": _accuracy(judged),
        "genders": {gender: _accuracy([one for one in judged if one.sentence.gender == gender]) for gender in _GENDERS},
        "lists": lists,
        "f1": f1,
        "f1_difference": _minus(f1["male"], f1["female"]),
        "stereotype_difference": _minus(*accuracies),
        "confusion": [
            {"gender": gold, "translated": found, "sentences": number}
            for (gold, found), number in sorted(Counter((one.sentence.gender, one.gender or "not judged") for one in judged).items())
        ],
    }


def _accuracy(judged: Sequence[Judged]) -> dict[str, Any] | None:
    if not judged:
        return None
    right, seen = sum(one.gender == one.sentence.gender for one in judged), sum(one.gender is not None for one in judged)
    return {
        "sentences": len(judged),
        "not_judged": 1 - seen / len(judged),
        "accuracy": right / len(judged),
        "accuracy_of_judged": right / seen if seen else None,
    }


def _f1(judged: Sequence[Judged], gender: str) -> float | None:
    """The harmonic mean of precision and recall; None where this gender is neither there nor found."""
    right = sum(one.gender == gender == one.sentence.gender for one in judged)
    total = sum(one.gender == gender for one in judged) + sum(one.sentence.gender == gender for one in judged)
    return 2 * right / total if total else None


def _minus(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else first - second


def _examples(judged: Sequence[Judged]) -> list[Row]:
    return [
        {"source": one.sentence.text, "person": one.sentence.person, "gender": one.sentence.gender, "translation": one.translation,
         "word": one.word, "translated": one.gender}
        for one in (judged[number] for number in spread_evenly(len(judged), _EXAMPLES))
    ]  # fmt: skip


def gender_table(results: Sequence[Results]) -> str:
    """Accuracy of all sentences, by gender and by list, and the two differences."""
    header = ("model", "sentences", "number", "not judged", "accuracy", "of those judged")
    lines = markdown_table(header, (cells for result in results for cells in _lines(result)), left=2)
    differences = (
        (result["model"], f"{_share(coverage['all_words_known'], coverage)} ({coverage['all_words_known']:,} of {coverage['sentences']:,})",
         _share(coverage["person_known"], coverage), *(_points(result["f1"][gender]) for gender in ("male", "female")),
         _points(result["f1_difference"]), _points(result["stereotype_difference"]))
        for result in results
        for coverage in [result["coverage"]]
    )  # fmt: skip
    titles = ("model", "all words known", "person known", "F1 male", "F1 female", "F1 male - female", "accuracy pro - anti")
    return f"{lines}\n\n{markdown_table(titles, differences, left=1)}\n"


def _lines(result: Results) -> Iterator[Sequence[str]]:
    named: list[tuple[str, Mapping[str, Any] | None]] = [("all", result["all"])]
    named += [(gender, found) for gender, found in result["genders"].items()]
    named += [(f"{name}-stereotypical", found) for name, found in result["lists"].items()]
    for name, found in named:
        if found:
            shares = (found[key] for key in ("not_judged", "accuracy", "accuracy_of_judged"))
            yield result["model"], name, f"{found['sentences']:,}", *(_percent(share) for share in shares)


def _share(number: int, coverage: Mapping[str, int]) -> str:
    return _percent(number / coverage["sentences"])


def _percent(share: float | None) -> str:
    return UNKNOWN if share is None else f"{100 * share:.1f} %"


def _points(share: float | None) -> str:
    return UNKNOWN if share is None else f"{100 * share:.1f}"
