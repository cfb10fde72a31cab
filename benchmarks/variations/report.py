"""Table 3 as measured here, beside the paper's: which directions agree, as rows, as a table and as a picture."""

from collections.abc import Mapping, Sequence
from math import copysign, exp, inf, isfinite, log
from pathlib import Path
from statistics import fmean
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from benchmarks.report import UNKNOWN, Results, Row, markdown_table
from benchmarks.variations.agreement import agreement, direction, noise_of_a_difference, noise_of_a_run
from benchmarks.variations.rows import BASE, Direction, Variation
from vaswani_transformer.report.curves import write_png

_PRINTED = {"nll": 0.0025, "bleu": 0.1001}
"""Differences that Table 3's digits cannot tell apart: 0.01 of a perplexity of 5, in nats, and 0.1 BLEU."""

_HEADER = (
    *("row", "in the paper", "seeds", "perplexity", "the paper's", "agrees", "BLEU", "the paper's", "agrees"),
    *("parameters", "the paper's", "settings here"),
)
_OURS, _PAPER = "#c44e52", "#5b84b1"
_METRICS = {"nll": "perplexity", "bleu": "BLEU"}


def summary(variations: Sequence[Variation], results: Results) -> list[Row]:
    """A row for each variation that has a run: means over seeds, differences, and the verdicts on both scores.

    Args:
        results: of `benchmarks.levers.compare_levers`.
    """
    runs: dict[str, list[Row]] = {each.name: [] for each in variations}
    for run in results["runs"]:
        runs[run["variant"]].append(run)
    noise = {metric: noise_of_a_run([[run[metric] for run in own] for own in runs.values()]) for metric in _METRICS}
    by_name = {each.name: each for each in variations}
    return [_summarised(each, by_name[each.beside], runs, noise) for each in variations if runs[each.name]]


def _summarised(own: Variation, beside: Variation, runs: Mapping[str, list[Row]], noise: Mapping[str, float | None]) -> Row:
    measured = runs[own.name]
    row: Row = {
        "name": own.name,
        "group": own.group,
        "title": own.title,
        "settings": list(own.settings),
        "beside": beside.name if own is not beside else None,
        "parameters": measured[0]["parameters"],
        "seeds": [run["seed"] for run in measured],
        "nll": fmean(run["nll"] for run in measured),
        "bleu": fmean(run["bleu"] for run in measured),
        "runs": [{key: run[key] for key in ("seed", "nll", "bleu", "chrf")} for run in measured],
        "published": vars(own.published) if own.published else None,
    }
    row["perplexity"] = exp(row["nll"])
    for metric in _METRICS:
        row[f"{metric}_gain"] = row[f"{metric}_gain_published"] = row[f"{metric}_agrees"] = None
        if own is not beside and runs[beside.name]:
            row |= _compared(metric, own, beside, runs, noise[metric])
    return row


def _compared(metric: str, own: Variation, beside: Variation, runs: Mapping[str, list[Row]], noise: float | None) -> Row:
    """A row's gain in one score over the row `beside` it, above 0 where it is better: here, in the paper, and whether both agree."""
    ours, theirs = runs[own.name], runs[beside.name]
    gain = _better(metric, fmean(run[metric] for run in ours), fmean(run[metric] for run in theirs))
    published, expected = _published(metric, own, beside)
    verdict = None
    if noise is not None and expected is not None:
        verdict = agreement(direction(gain, noise_of_a_difference(noise, len(ours), len(theirs))), expected)
    return {f"{metric}_gain": gain, f"{metric}_gain_published": published, f"{metric}_agrees": verdict}


def _better(metric: str, own: float, other: float) -> float:
    return other - own if metric == "nll" else own - other


def _published(metric: str, own: Variation, beside: Variation) -> tuple[float | None, Direction | None]:
    if own.published is None or beside.published is None:
        return None, own.expected
    sides = [log(each.perplexity) if metric == "nll" else each.bleu for each in (own.published, beside.published)]
    gain = _better(metric, *sides)
    return gain, direction(gain, _PRINTED[metric] / 2)


def table(variations: Sequence[Variation], results: Results) -> str:
    """Markdown: how it was measured, the table, and how many directions agree."""
    rows = summary(variations, results)
    shared = f" with {', '.join(f'`{setting}`' for setting in results['overrides'])}" if results["overrides"] else ""
    seeds = sorted({seed for row in rows for seed in row["seeds"]})
    return (
        f"The recipe `{results['recipe']}`{shared}, {results['runs'][0]['updates']:,} updates a row and seed, seeds "
        f"{', '.join(map(str, seeds))}; perplexity per word piece and BLEU on the whole validation set, means over the seeds. In "
        "parentheses the difference to the base, or to the row that is named: of the perplexity in per cent, of BLEU in points. "
        "The paper's figures are Table 3's, on newstest2013.\n\n"
        f"{markdown_table(_HEADER, map(_cells, rows), left=2)}\n\n{_verdicts(rows, results)}\n"
    )


def _cells(row: Row) -> tuple[str, ...]:
    published: Row = row["published"] or {}
    millions = published.get("millions")
    settings = ", ".join(f"`{setting.removeprefix('model.').removeprefix('training.')}`" for setting in row["settings"])
    return (
        row["group"] or UNKNOWN,
        row["title"] + _beside(row),
        str(len(row["seeds"])),
        f"{row['perplexity']:.3f}{_per_cent(row['nll_gain'])}",
        f"{published['perplexity']:.2f}{_per_cent(row['nll_gain_published'])}" if published else UNKNOWN,
        row["nll_agrees"] or UNKNOWN,
        f"{row['bleu']:.2f}{_points(row['bleu_gain'])}",
        f"{published['bleu']:.1f}{_points(row['bleu_gain_published'])}" if published else UNKNOWN,
        row["bleu_agrees"] or UNKNOWN,
        f"{row['parameters']:,}",
        UNKNOWN if millions is None else f"{millions}M",
        settings or UNKNOWN,
    )


def _beside(row: Row) -> str:
    return f" (beside {row['beside']})" if row["beside"] not in (None, BASE) else ""


def _per_cent(gain: float | None) -> str:
    """The change of the perplexity, whose logarithm fell by `gain`."""
    return "" if gain is None else f" ({100 * (exp(-gain) - 1):+.1f} %)"


def _points(gain: float | None) -> str:
    return "" if gain is None else f" ({gain:+.2f})"


def _verdicts(rows: Sequence[Row], results: Results) -> str:
    noise = {metric: noise_of_a_run([[run[metric] for run in row["runs"]] for row in rows]) for metric in _METRICS}
    if noise["nll"] is None:
        return "With one seed the noise is unknown, and no direction is judged."
    sentences = [
        f"One run varies over seeds by {100 * (exp(noise['nll']) - 1):.2f} % of its perplexity and by {noise['bleu']:.2f} BLEU "
        "(standard deviation, robust, over all rows); a difference of less than two standard errors is within noise."
    ]
    for metric, name in _METRICS.items():
        judged = [row[f"{metric}_agrees"] for row in rows if row[f"{metric}_agrees"]]
        counts = [judged.count(verdict) for verdict in ("yes", "no", "within noise")]
        sentences.append(
            f"In {name}, {counts[0]} of {len(judged)} directions agree with the paper, {counts[1]} do not, {counts[2]} are within noise."
        )
    missing = len(results["variants"]) - len(rows)
    if missing:
        sentences.append(f"{missing} rows have no run yet.")
    return " ".join(sentences)


def draw(variations: Sequence[Variation], results: Results, picture: Path) -> None:
    """Each row's gain over the base in both scores, with every seed, beside the paper's.

    The axes reach as far as the rows for which the paper has numbers; what lies beyond stands at their end as a number.
    """
    rows = [row for row in summary(variations, results) if row["nll_gain"] is not None]
    if not rows:
        return
    figure = Figure(figsize=(10.5, 1.4 + 0.27 * len(rows)), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    panels: Sequence[Axes] = figure.subplots(1, 2, sharey=True)
    for axes, metric, axis in zip(
        panels,
        _METRICS,
        ("fall of the perplexity's logarithm", "gain in BLEU"),
        strict=True,
    ):
        _draw(axes, rows, metric, results)
        axes.set_xlabel(axis)
    figure.legend(*panels[0].get_legend_handles_labels(), frameon=False, fontsize=8, loc="outside upper center", ncols=3)
    write_png(figure, picture)


def _draw(axes: Axes, rows: Sequence[Row], metric: str, results: Results) -> None:
    means = {name: fmean(run[metric] for run in results["runs"] if run["variant"] == name) for name in {row["beside"] for row in rows}}
    gains = [(row[f"{metric}_gain"], row[f"{metric}_gain_published"]) for row in rows]
    reach = 1.3 * max((abs(value) for own, published in gains if published is not None for value in (own, published)), default=inf)
    for place, row in enumerate(rows):
        each: list[Any] = [_better(metric, run[metric], means[row["beside"]]) for run in row["runs"]]
        axes.plot(each, [place] * len(each), ".", color=_OURS, alpha=0.45, markersize=5, label="here, each seed" if not place else None)
        gain = row[f"{metric}_gain"]
        axes.plot(gain, place, "o", color=_OURS, markersize=6, label="here, mean" if not place else None)
        if abs(gain) > reach:
            end, side = copysign(0.98 * reach, gain), "right" if gain > 0 else "left"
            axes.text(end, place, f"{gain:+.1f} →" if gain > 0 else f"← {gain:+.1f}", color=_OURS, fontsize=8, ha=side, va="center")
        if row[f"{metric}_gain_published"] is not None:
            label = "the paper" if not place else None
            axes.plot(row[f"{metric}_gain_published"], place, "D", color=_PAPER, fillstyle="none", markersize=6, label=label)
    if isfinite(reach):
        axes.set_xlim(-reach, reach)
    axes.axvline(0, color="0.35", linewidth=0.8, linestyle=":")
    axes.set_yticks(range(len(rows)), [f"{row['group']}  {row['title']}{_beside(row)}" for row in rows], fontsize=8)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.grid(color="0.92")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
