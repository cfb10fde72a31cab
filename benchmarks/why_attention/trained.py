"""Claims about models that were trained: Table 3, other architectures, longer texts."""

from collections.abc import Mapping, Sequence
from math import exp
from statistics import fmean
from typing import Literal, NamedTuple

from benchmarks.architectures.report import chosen
from benchmarks.architectures.systems import TITLES
from benchmarks.report import Results, Row
from benchmarks.variations.agreement import Direction, noise_of_a_difference, noise_of_a_run
from benchmarks.variations.rows import BASE
from benchmarks.why_attention.verdicts import Finding, Judge, by_agreements, by_all, of_difference

Metric = Literal["bleu", "nll"]
BOTH: tuple[Metric, ...] = ("bleu", "nll")


class Claimed(NamedTuple):
    """A row of Table 3, and whether the paper says that it is better or worse than the one beside it."""

    name: str
    direction: Direction
    beside: str = BASE
    metrics: tuple[Metric, ...] = BOTH


class Compared(NamedTuple):
    """A difference with its standard error and the degrees of freedom behind it, above 0 where it is better."""

    gain: float
    noise: float | None
    freedom: int


def rows_of_table_3(*claimed: Claimed) -> Judge:
    """Whether rows of `benchmarks.variations` have the directions that the paper claims; those that are not trained yet are left out."""

    def judge(results: Results) -> Finding | None:
        titles = {row["name"]: row["title"] for row in results["rows"]}
        runs = {row["name"]: row["runs"] for row in results["rows"]}
        found, figures = [], []
        for each in claimed:
            if each.name not in runs or each.beside not in runs:
                continue
            differences = {metric: difference(runs, each.name, each.beside, metric) for metric in each.metrics}
            found += [of_difference(*differences[metric], each.direction) for metric in each.metrics]
            figures.append(f"{titles[each.name]} beside {titles[each.beside]}: {', '.join(_shown(*item) for item in differences.items())}")
        return Finding("; ".join(figures), by_agreements(found)) if found else None

    return judge


def difference(runs: Mapping[str, Sequence[Row]], name: str, beside: str, metric: Metric) -> Compared:
    """Of two rows' means over seeds, with the noise pooled over all rows."""
    noise = noise_of_a_run([[run[metric] for run in own] for own in runs.values()])
    own, other = (fmean(run[metric] for run in runs[each]) for each in (name, beside))
    gain = own - other if metric == "bleu" else other - own
    error = None if noise is None else noise_of_a_difference(noise, len(runs[name]), len(runs[beside]))
    return Compared(gain, error, sum(len(each) - 1 for each in runs.values()))


def _shown(metric: Metric, compared: Compared) -> str:
    gain, noise, _ = compared
    if metric == "bleu":
        return f"{gain:+.2f} BLEU" + (" (one seed)" if noise is None else f" (standard error {noise:.2f})")
    change = f"{100 * (exp(-gain) - 1):+.1f} % perplexity"
    return change + (" (one seed)" if noise is None else f" (standard error {100 * (exp(noise) - 1):.1f} %)")


def better_translations(results: Results) -> Finding | None:
    """Whether the Transformer's BLEU is above that of the recurrent and the convolutional system."""
    systems = chosen(results)
    others = [name for name in systems if name != "transformer"]
    if "transformer" not in systems or not others:
        return None
    found = {name: difference(systems, "transformer", name, "bleu") for name in others}
    figures = (f"{_shown('bleu', each)} beside {TITLES[name]}" for name, each in found.items())
    return Finding("; ".join(figures), by_agreements([of_difference(*each, "better") for each in found.values()]))


def cheaper_training(key: Literal["cpu_seconds", "flops"], unit: str) -> Judge:
    """Whether every run of ours took less than every run of each other system, for the same target tokens."""

    def judge(results: Results) -> Finding | None:
        systems = chosen(results)
        others = [name for name in systems if name != "transformer"]
        if "transformer" not in systems or not others:
            return None
        ours = [run[key] for run in systems["transformer"]]
        held, figures = [], []
        for name in others:
            theirs = [run[key] for run in systems[name]]
            held += [own < other for own in ours for other in theirs]
            figures.append(f"{fmean(ours) / fmean(theirs):.2f} of the {unit} of {TITLES[name]}")
        return Finding("; ".join(figures), by_all(held))

    return judge


def longer_than_in_training(results: Results) -> Finding | None:
    """Whether sinusoids translate longer texts than those of the training better than learned positions do."""
    longest = results["lengths"]["train_words"]
    scores: dict[str, list[Row]] = {}
    for run in results["runs"]:
        longer = [row["bleu"] for row in run["classes"] if row["longest"] > longest]
        if longer:
            known = [row["bleu"] for row in run["classes"] if row["longest"] <= longest]
            scores.setdefault(run["variant"], []).append({"bleu": fmean(longer), "known": fmean(known) if known else None})
    if set(scores) != {"sinusoids", "learned"}:
        return None
    gain = difference(scores, "sinusoids", "learned", "bleu")
    means = {name: fmean(row["bleu"] for row in own) for name, own in scores.items()}
    shown = ", ".join(f"{name} {mean:.2f}{_before(scores[name])}" for name, mean in means.items())
    figure = f"BLEU on texts of more than {longest} words: {shown}; {_shown('bleu', gain)}"
    return Finding(figure, by_agreements([of_difference(*gain, "better")]))


def _before(own: Sequence[Row]) -> str:
    known = [row["known"] for row in own if row["known"] is not None]
    return f" (up to that length {fmean(known):.2f})" if known else ""
