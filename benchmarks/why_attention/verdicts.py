"""The rules by which a claim gets its verdict. Every number of a rule stands here, and the report prints it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, get_args

from benchmarks.report import Results
from benchmarks.variations.agreement import ENOUGH, STANDARD_ERRORS, Agreement, Direction, agreement, direction

Verdict = Literal["agrees", "in part", "disagrees", "undecided", "not measured"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

EXPONENT = 0.25
"""A fitted exponent may be so far from the paper's."""

SIMILAR = 0.25
"""Two costs of which one is this share above or below the other are similar."""

ROUNDING = 0.05
"""A number that the paper prints with two digits may be off by this share."""

GRADIENT = 0.1
"""A gradient is extremely small if it is below this share of the one that it is compared with."""

EXACT = 1e-6
"""An identity holds if it is off by less than this share."""

OUTSTANDING = 0.2
"""A head has a task if so much more of its attention than of even attention lies on one kind of position."""

TASKS = 3
"""Heads of so many kinds of task are heads with different tasks."""

RULES = f"""\
- **Exponents** agree within {EXPONENT} of the paper's: those of times, and those of counts, beside the exponent of the paper's function at
  the same sizes. A neighbourhood of r positions reaches r / 2 to each side, so O(n / r) is the larger of 1 and 2 n / r.
- **Differences** in BLEU and in the logarithm of the perplexity count from {STANDARD_ERRORS:g} standard errors on. The standard error comes
  from the spread over seeds, pooled over all rows of a table; with fewer than {ENOUGH} degrees of freedom behind it, a difference needs as
  many standard errors as Student's t at 5 %. A smaller difference is none: it agrees with "identical", and leaves "better" undecided. With
  one seed, all is undecided.
- **Costs** are compared cell by cell, or run by run. "Less" needs every one of them. "Similar" is within {SIMILAR:.0%}, and "by a factor of
  k" a median within {SIMILAR:.0%} of k.
- **Numbers that the paper prints** agree within {ROUNDING:.0%}.
- **A softmax's gradient** is extremely small below {GRADIENT:g} of what the scaled scores have.
- **An identity** holds if what is left unexplained is below {EXACT:.0e} of the whole.
- **A head has a task** if {OUTSTANDING:g} more of its attention than of even attention lies on one kind of position, or
  the attention of pronouns on nouns before them, in the mean, is so much more than position explains. Heads with different tasks are
  {TASKS} kinds or more.
- **In part**: some of what a claim says agrees, and some does not or is undecided."""


class Finding(NamedTuple):
    """What was found of a claim.

    Attributes:
        figure: in words and numbers, Markdown.
        verdict: by the rules.
    """

    figure: str
    verdict: Verdict


Judge = Callable[[Results], Finding | None]
"""From the results of a benchmark to what they say of a claim; None if they lack what it speaks of."""


def by_all(held: Iterable[bool]) -> Verdict:
    """Of a claim that consists of several: all hold, none does, or some do."""
    found = list(held)
    return "agrees" if all(found) else "in part" if any(found) else "disagrees"


def by_agreements(found: Sequence[Agreement | None]) -> Verdict:
    """Of a claim about several differences, each beside its noise; None where the noise is unknown."""
    if all(each == "yes" for each in found):
        return "agrees"
    if "yes" in found:
        return "in part"
    return "disagrees" if "no" in found else "undecided"


def of_difference(gain: float, noise: float | None, freedom: int, claimed: Direction) -> Agreement | None:
    """Whether a difference has the direction that the paper claims.

    Args:
        gain: above 0 where it is better.
        noise: its standard error, or None if it is unknown.
        freedom: degrees of freedom behind the noise.
    """
    return None if noise is None else agreement(direction(gain, noise, freedom), claimed)


def is_near(found: float, claimed: float) -> bool:
    """Whether an exponent agrees."""
    return abs(found - claimed) <= EXPONENT


def is_similar(ratio: float, claimed: float = 1.0) -> bool:
    """Whether a ratio of costs is what is claimed, or 1."""
    return 1 / (1 + SIMILAR) <= ratio / claimed <= 1 + SIMILAR


def tasks(heads: Iterable[Mapping[str, float]]) -> list[str]:
    """The kinds of position that heads have for a task, in the order of the first head that has it.

    Args:
        heads: of each head, the share of its attention on each kind of position beyond that of even attention.
    """
    best = [max(excess, key=lambda kind: excess[kind]) for excess in heads if max(excess.values()) >= OUTSTANDING]
    return list(dict.fromkeys(best))
