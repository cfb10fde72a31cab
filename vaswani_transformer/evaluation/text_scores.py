"""Scores of texts that are no translations: ROUGE for summaries, by Google's package `rouge-score`, and exact match for answers."""

import unicodedata
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import regex

from ..tasks import TASKS, TaskName
from .bleu import MetricResult
from .label_scores import require_scorers
from .outcomes import Outcomes

_UNSPACED = r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]"
_WORD = regex.compile(rf"(?V1){_UNSPACED}\p{{M}}*|[[\p{{L}}\p{{M}}\p{{N}}]--{_UNSPACED}]+")


def score_texts(task: TaskName, hypotheses: Sequence[str], references: Sequence[Sequence[str]], language: str) -> dict[str, MetricResult]:
    """Compare texts with the right ones.

    - `rouge1`, `rouge2`, `rougeL` (Lin, 2004): F1 of words, pairs of words, and the longest common subsequence; the mean over texts. Of
      several references, the one with the highest F1 counts. In English, words are those of `rouge-score`, after Porter's stemmer. In any
      other language they are runs of letters, marks and digits in lower case, or single characters of a script that puts no spaces between
      words.
    - `exact_match`: the share of texts that are one of their references, without white space at the ends.

    Args:
        task: summarization or question answering.
        hypotheses: what the model wrote.
        references: one or more for each.
        language: code of the texts' language.

    Returns:
        Scores in points of 100, each with what computed it.

    Raises:
        ImportError: the package is not installed.
        ValueError: there is nothing to score, or the two sides differ in length.
    """
    found = outcomes_of_texts(task, hypotheses, references, language)
    words = "stemmed" if _is_english(language) else "words of letters, marks and digits, not stemmed"
    signature = f"rouge-score {version('rouge-score')}, F1, {words}" if task == "summarization" else "equal but for white space at the ends"
    return {name: MetricResult(found.score(name), signature) for name in found.points}


def outcomes_of_texts(task: TaskName, hypotheses: Sequence[str], references: Sequence[Sequence[str]], language: str) -> Outcomes:
    """What each text gives to the scores; arguments and errors are those of `score_texts`."""
    require_scorers(task)
    if len(hypotheses) != len(references) or not hypotheses:
        raise ValueError(f"There are {len(hypotheses)} texts for {len(references)} references; each needs its own, and one at least.")
    points = _rouge(hypotheses, references, language) if task == "summarization" else _exact_match(hypotheses, references)
    return Outcomes([1] * len(hypotheses), points)


class _Words:
    """Splits texts that are not English, as `rouge-score` asks its tokenizers to; its own knows no letter beyond a to z."""

    def tokenize(self, text: str) -> list[str]:
        return [str(word) for word in _WORD.findall(unicodedata.normalize("NFKC", text).lower())]


def _is_english(language: str) -> bool:
    return regex.split("[-_]", language)[0].lower() in ("en", "eng")


def _rouge(hypotheses: Sequence[str], references: Sequence[Sequence[str]], language: str) -> dict[str, list[float]]:
    from rouge_score.rouge_scorer import RougeScorer

    names = tuple(TASKS["summarization"].metrics)
    words: dict[str, Any] = {"use_stemmer": True} if _is_english(language) else {"tokenizer": _Words()}
    scorer = RougeScorer(list(names), **words)
    found = [scorer.score_multi(list(right), text) for right, text in zip(references, hypotheses, strict=True)]
    return {name: [float(each[name].fmeasure) for each in found] for name in names}


def _exact_match(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, list[float]]:
    pairs = zip(hypotheses, references, strict=True)
    return {"exact_match": [float(text.strip() in {reference.strip() for reference in known}) for text, known in pairs]}
