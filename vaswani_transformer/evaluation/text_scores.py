"""Scores of texts that are no translations: ROUGE for summaries, by Google's package `rouge-score`, and exact match for answers."""

from collections.abc import Sequence
from importlib.metadata import version

from ..tasks import TASKS, TaskName
from .bleu import MetricResult
from .label_scores import require_scorers
from .outcomes import Outcomes


def score_texts(task: TaskName, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, MetricResult]:
    """Compare texts with the right ones.

    - `rouge1`, `rouge2`, `rougeL` (Lin, 2004): F1 of words, pairs of words, and the longest common subsequence, after Porter's stemmer; the
      mean over texts. Of several references, the one with the highest F1 counts.
    - `exact_match`: the share of texts that are one of their references, without white space at the ends.

    Args:
        task: summarization or question answering.
        hypotheses: what the model wrote.
        references: one or more for each.

    Returns:
        Scores in points of 100, each with what computed it.

    Raises:
        ImportError: the package is not installed.
        ValueError: there is nothing to score, or the two sides differ in length.
    """
    found = outcomes_of_texts(task, hypotheses, references)
    signature = f"rouge-score {version('rouge-score')}, F1, stemmed" if task == "summarization" else "equal but for white space at the ends"
    return {name: MetricResult(found.score(name), signature) for name in found.points}


def outcomes_of_texts(task: TaskName, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Outcomes:
    """What each text gives to the scores; arguments and errors are those of `score_texts`."""
    require_scorers(task)
    if len(hypotheses) != len(references) or not hypotheses:
        raise ValueError(f"There are {len(hypotheses)} texts for {len(references)} references; each needs its own, and one at least.")
    points = _rouge(hypotheses, references) if task == "summarization" else _exact_match(hypotheses, references)
    return Outcomes([1] * len(hypotheses), points)


def _rouge(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, list[float]]:
    from rouge_score.rouge_scorer import RougeScorer

    names = tuple(TASKS["summarization"].metrics)
    scorer = RougeScorer(list(names), use_stemmer=True)
    found = [scorer.score_multi(list(right), text) for right, text in zip(references, hypotheses, strict=True)]
    return {name: [float(each[name].fmeasure) for each in found] for name in names}


def _exact_match(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, list[float]]:
    pairs = zip(hypotheses, references, strict=True)
    return {"exact_match": [float(text.strip() in {reference.strip() for reference in known}) for text, known in pairs]}
