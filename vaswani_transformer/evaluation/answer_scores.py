"""Scores of marked answers as SQuAD's own scripts compute them: exact match and F1 (Rajpurkar et al., 2016, section 6.1; 2018).

No package that is well kept computes them without a network, so this is the definition in its few lines.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence

from .bleu import MetricResult
from .outcomes import Outcomes

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_SIGNATURE = "as SQuAD's script: no case, no punctuation, no English articles; the best of several references"


def plain_answer(text: str) -> str:
    """An answer as it is compared: lower case, without ASCII punctuation and the articles a, an and the, with single spaces."""
    bare = text.lower().translate(dict.fromkeys(map(ord, string.punctuation)))
    return " ".join(_ARTICLES.sub(" ", bare).split())


def exact_match(answer: str, reference: str) -> float:
    """1 where both are the same when compared as `plain_answer`, otherwise 0."""
    return float(plain_answer(answer) == plain_answer(reference))


def f1(answer: str, reference: str) -> float:
    """The harmonic mean of precision and recall of the words of both, as `plain_answer`; where one has no word, 1 if both have none."""
    found, right = (plain_answer(text).split() for text in (answer, reference))
    if not found or not right:
        return float(found == right)
    shared = sum((Counter(found) & Counter(right)).values())
    return 2 * shared / (len(found) + len(right))


def score_answers(answers: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, MetricResult]:
    """Compare answers with the right ones.

    Args:
        answers: one for each question; an empty one says that there is none.
        references: the right answers to each, none where there is no answer. The one that is most alike counts.

    Returns:
        `f1` and `exact_match`, means over the questions in points of 100.

    Raises:
        ValueError: there is nothing to score, or the two sides differ in length.
    """
    if len(answers) != len(references) or not answers:
        raise ValueError(f"There are {len(answers)} answers to {len(references)} questions; each needs its own, and one at least.")
    found = outcomes_of_answers(answers, references)
    return {name: MetricResult(found.score(name), _SIGNATURE) for name in found.points}


def outcomes_of_answers(answers: Sequence[str], references: Sequence[Sequence[str]]) -> Outcomes:
    """What each question gives to the scores; the arguments are those of `score_answers`."""
    points = {
        name: [max(alike(answer, one) for one in right or [""]) for answer, right in zip(answers, references, strict=True)]
        for name, alike in (("f1", f1), ("exact_match", exact_match))
    }
    return Outcomes([1] * len(answers), points)
