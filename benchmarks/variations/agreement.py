"""Whether a difference that was measured here has the direction that the paper reports, and when it is too small to say."""

from collections.abc import Iterable, Sequence
from math import sqrt
from statistics import NormalDist, fmean, median
from typing import Literal

from benchmarks.variations.rows import Direction

Agreement = Literal["yes", "no", "within noise"]

_MEDIAN_OF_ABSOLUTE_NORMAL = NormalDist().inv_cdf(0.75)
STANDARD_ERRORS = 2.0
"""A difference of so many counts; a smaller one is within noise."""

_STUDENT = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093),
)
"""Student's t for 1, 2 and more degrees of freedom: 5 % of the differences lie beyond so many standard errors, on both sides together."""

ENOUGH = len(_STUDENT) + 1
"""With fewer degrees of freedom behind the noise, a difference needs more standard errors, those of `_STUDENT`."""


def noise_of_a_run(groups: Iterable[Sequence[float]]) -> float | None:
    """The standard deviation of one run over seeds, from rows that were each trained with several.

    It is the median of the absolute deviations from the rows' means, corrected for the size of each row and divided by the median of
    an absolute standard normal variable. A row that diverges with one seed does not change it.

    Args:
        groups: a score of each seed, row by row.

    Returns:
        None if no row has two seeds.
    """
    deviations = [abs(value - fmean(group)) * sqrt(len(group) / (len(group) - 1)) for group in groups if len(group) > 1 for value in group]
    return median(deviations) / _MEDIAN_OF_ABSOLUTE_NORMAL if deviations else None


def needed_errors(freedom: int) -> float:
    """How many standard errors a difference needs to count: two, or with few degrees of freedom those of Student's t at 5 %."""
    return STANDARD_ERRORS if freedom >= ENOUGH else _STUDENT[freedom - 1]


def direction(gain: float, noise: float, freedom: int = ENOUGH) -> Direction:
    """Of a difference whose standard error is `noise`: it counts as the same up to `needed_errors` of them.

    Args:
        gain: above 0 where the row is better.
        freedom: degrees of freedom behind the noise.
    """
    if abs(gain) <= needed_errors(freedom) * noise:
        return "same"
    return "better" if gain > 0 else "worse"


def noise_of_a_difference(noise: float, seeds: int, seeds_beside: int) -> float:
    """The standard error of the difference of two means over so many seeds, where one run has the standard deviation `noise`."""
    return noise * sqrt(1 / seeds + 1 / seeds_beside)


def agreement(found: Direction, published: Direction) -> Agreement:
    """Whether a direction found here is the paper's.

    A difference of the paper that is lost in the noise here says neither yes nor no. One that is clear here, where the paper
    has none, says no.
    """
    if found == published:
        return "yes"
    return "within noise" if found == "same" else "no"
