"""The comparison of architectures as a table and a picture."""

from collections.abc import Iterator, Sequence
from math import exp, isfinite
from pathlib import Path
from statistics import fmean
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from benchmarks.architectures.runs import best_peak
from benchmarks.architectures.systems import TITLES
from benchmarks.report import UNKNOWN, Results, Row, markdown_table
from vaswani_transformer.report.curves import write_png

_COLOURS = {"transformer": "#c44e52", "rnn": "#5b84b1", "cnn": "#55a868"}
_HEADER = (
    *("system", "layers, width", "learning rate", "parameters", "target tokens", "training FLOPs", "CPU hours", "perplexity"),
    *("BLEU", "of each seed", "chrF"),
)


def chosen(results: Results) -> dict[str, list[Row]]:
    """The runs of each system with the learning rate that it chose, seed by seed."""
    runs = results["runs"]
    systems = dict.fromkeys(run["system"] for run in runs)
    return {name: [run for run in runs if run["system"] == name and run["peak"] == best_peak(runs, name)] for name in systems}


def table(results: Results) -> str:
    """Markdown: the systems, how they chose, BLEU by length, and what is to be known about them."""
    systems = chosen(results)
    shared = f" with {', '.join(f'`{setting}`' for setting in results['overrides'])}" if results["overrides"] else ""
    of_length = ("system", *(f"{shortest} to {longest} words" for shortest, longest in results["edges"]))
    return (
        f"The recipe `{results['recipe']}`{shared}: the same pieces, the same number of parameters as far as a width goes, the same target "
        f"tokens, as many as {results['updates']:,} updates of ours read. Each system has the peak of the learning rate that is best on "
        f"the validation set with the first seed, and the mean of its last checkpoints. BLEU and chrF on {results['test_set']}, "
        "perplexity per piece on the validation set without label smoothing; means over the seeds "
        f"{', '.join(map(str, results['seeds']))}, as far as done.\n\n"
        f"{markdown_table(_HEADER, (_cells(name, own) for name, own in systems.items()), left=2)}\n\n"
        f"The validation perplexity with each peak:\n\n{markdown_table(*_peaks(results), left=1)}\n\n"
        f"BLEU by the length of the source:\n\n{markdown_table(of_length, (_lengths(name, own) for name, own in systems.items()), left=1)}"
        f"\n\n{' '.join(_remarks(results, systems))}\n"
    )


def _cells(name: str, own: Sequence[Row]) -> tuple[str, ...]:
    hours = [run["cpu_seconds"] / 3600 for run in own]
    return (
        TITLES[name],
        f"{own[0]['layers']} + {own[0]['layers']}, {own[0]['width']}",
        f"{own[0]['peak']:g}",
        f"{own[0]['parameters']:,}",
        f"{fmean(run['target_tokens'] for run in own):,.0f}",
        f"{fmean(run['flops'] for run in own):.3g}",
        f"{fmean(hours):.3g}",
        f"{exp(fmean(run['nll'] for run in own)):.3f}",
        f"{fmean(run['bleu'] for run in own):.2f}",
        ", ".join(f"{run['bleu']:.2f}" for run in own),
        f"{fmean(run['chrf'] for run in own):.2f}",
    )


def _peaks(results: Results) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    first = {(run["system"], run["peak"]): run for run in results["runs"] if run["seed"] == results["seeds"][0]}
    peaks, rows = sorted({peak for _, peak in first}), []
    for name in dict.fromkeys(system for system, _ in first):
        nats = [first[name, peak]["nll"] if (name, peak) in first else None for peak in peaks]
        cells = [UNKNOWN if nll is None else f"{exp(nll):.3f}" if isfinite(nll) else "diverged" for nll in nats]
        rows.append((TITLES[name], *cells))
    return ("system", *(f"{peak:g}" for peak in peaks)), rows


def _lengths(name: str, own: Sequence[Row]) -> tuple[str, ...]:
    classes = zip(*(run["by_length"] for run in own), strict=True)
    return (TITLES[name], *(f"{fmean(run['bleu'] for run in runs):.2f}" for runs in classes))


def _remarks(results: Results, systems: dict[str, list[Row]]) -> Iterator[str]:
    """What the figures alone do not say: a rate at the edge of the grid, sizes that differ, averages that eole would have used."""
    wanted = {name: own[0]["parameters"] for name, own in systems.items()}.get("transformer")
    for name, own in systems.items():
        title, peaks = TITLES[name], sorted({run["peak"] for run in results["runs"] if run["system"] == name})
        if len(peaks) > 1 and own[0]["peak"] in (peaks[0], peaks[-1]):
            yield f"{title}: the best learning rate is at the edge of those that were tried."
        if wanted and abs(own[0]["parameters"] / wanted - 1) > 0.03:
            yield f"{title}: {100 * (own[0]['parameters'] / wanted - 1):+.1f} % parameters, more than 3 % from ours."
        as_it_comes = [run["nll_as_it_comes"] for run in own if "nll_as_it_comes" in run]
        if as_it_comes and abs(fmean(as_it_comes) - fmean(run["nll"] for run in own)) > 1e-6:
            yield (
                f"{title}: eole validates and translates with moving averages of these weights that start at zero, which gives the "
                f"perplexity {exp(min(fmean(as_it_comes), 700)):.3f}; the figures here are of the weights themselves."
            )


def draw(results: Results, picture: Path) -> None:
    """Validation perplexity over training FLOPs and over CPU time, and BLEU by length; a thin line for each seed."""
    figure = Figure(figsize=(13.2, 3.9), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    flops, cpu, lengths = figure.subplots(1, 3)
    systems = chosen(results)
    for name, own in systems.items():
        for run in own:
            _draw_curve(flops, run, run["flops"], name, labelled=run is own[0])
            _draw_curve(cpu, run, run["cpu_seconds"] / 3600, name, labelled=run is own[0])
        means = [fmean(each["bleu"] for each in runs) for runs in zip(*(run["by_length"] for run in own), strict=True)]
        lengths.plot([f"{shortest}-{longest}" for shortest, longest in results["edges"]], means, marker="o", color=_COLOURS[name])
    for axes, axis, title in (
        (flops, "training FLOPs", "Perplexity, validation set"),
        (cpu, "CPU hours of training", "Perplexity, validation set"),
        (lengths, "words of the source", f"BLEU, {results['test_set']}"),
    ):
        axes.set_title(title, loc="left", fontweight="bold")
        axes.set_xlabel(axis)
        axes.grid(color="0.92")
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    flops.legend(frameon=False, fontsize=8)
    write_png(figure, picture)


def _draw_curve(axes: Axes, run: Row, whole: float, name: str, labelled: bool) -> None:
    """`whole` is the cost of the run, which grows with its target tokens."""
    points: list[Any] = [each for each in run["curve"] if isfinite(each["nll"])]
    places = [whole * each["target_tokens"] / run["target_tokens"] for each in points]
    label = TITLES[name] if labelled else None
    axes.plot(places, [exp(each["nll"]) for each in points], color=_COLOURS[name], linewidth=1.2, alpha=0.8, marker=".", label=label)
    axes.set_yscale("log")
