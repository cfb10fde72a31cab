"""The results of `benchmark_length` as tables in Markdown and as a picture."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from benchmarks.length.measurement import GIB, MEASURED, WORK, error_of
from benchmarks.report import UNKNOWN, Results, Row, markdown_table, on_what

_COLOURS = {"tiny": "#55a868", "base": "#4c72b0", "big": "#c44e52"}


def table(results: Results) -> str:
    """Markdown: a row for each length, and where training ends."""
    times = {(row["preset"], row["work"], row["length"]): row for row in results["times"]}
    rows = (_cells(row, times) for row in results["rows"])
    header = ("model", "work", "tokens a side", "seconds", "predicted", "peak GiB", "predicted", "off by")
    plan = results["plan"]
    last = "\n".join(f"- {preset}: {length:,} tokens a side" for preset, length in results["ends"].items())
    return (
        f"One pair of random tokens, float32, {plan['threads']} thread(s), {plan['beams']} beams. {on_what(results)} Seconds of the "
        "processor for one update or one translation; predicted as c + a n + b n^2, fitted to the lengths in italics. Peak memory of a "
        f"process of its own, libraries included.\n\n{markdown_table(header, rows, left=2)}\n\n"
        f"By the formula, the longest pair that {plan['gib']:g} GiB train on:\n\n{last}\n"
    )


def _cells(row: Row, times: Mapping[tuple[str, str, int], Row]) -> tuple[str, ...]:
    time, error = times.get((row["preset"], row["work"], row["length"])), error_of(row)
    guess = UNKNOWN if time is None else f"*{time['seconds']:.3g}*" if time["fitted"] else f"{time['seconds']:.3g}"
    return (
        row["preset"],
        row["work"],
        f"{row['length']:,}",
        f"{row['cpu_seconds']:.3g}" if row["outcome"] == MEASURED else f"out of {row['outcome']}",
        guess,
        UNKNOWN if row["peak_bytes"] is None else f"{row['peak_bytes'] / GIB:.2f}",
        f"{(row['predicted_bytes'] + (row['imports_bytes'] or 0)) / GIB:.2f}",
        UNKNOWN if error is None else f"{error:+.0%}",
    )


def picture(results: Results) -> Figure:
    """Time and memory against length, a row for each work: points measured, lines predicted."""
    work = [name for name in WORK if any(row["work"] == name for row in results["rows"])]
    figure = Figure(figsize=(9.6, 3.4 * len(work)), dpi=140, layout="constrained")
    FigureCanvasAgg(figure)
    every = figure.subplots(len(work), 2, squeeze=False)
    for pair, name in zip(every, work, strict=True):
        rows = [row for row in results["rows"] if row["work"] == name and row["outcome"] == MEASURED]
        for preset in dict.fromkeys(row["preset"] for row in rows):
            own = [row for row in rows if row["preset"] == preset]
            times = [row for row in results["times"] if (row["preset"], row["work"]) == (preset, name)]
            _curve(pair[0], preset, [(r["length"], r["cpu_seconds"]) for r in own], [(r["length"], r["seconds"]) for r in times])
            known = [row for row in own if row["peak_bytes"] is not None]
            peaks = [(row["length"], row["peak_bytes"] / GIB) for row in known]
            _curve(pair[1], preset, peaks, [(row["length"], (row["predicted_bytes"] + row["imports_bytes"]) / GIB) for row in known])
        for axes, unit in zip(pair, ("seconds", "peak GiB"), strict=True):
            axes.set_title(f"{name}: {unit}", loc="left", fontweight="bold")
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
            axes.set_xlabel("tokens a side (points: measured; lines: predicted)")
            axes.grid(color="0.92")
            axes.spines[["top", "right"]].set_visible(False)
            if axes.get_legend_handles_labels()[0]:
                axes.legend(frameon=False)
    return figure


def _curve(axes: Axes, preset: str, points: Sequence[tuple[int, float]], line: Sequence[tuple[int, float]]) -> None:
    colour = _COLOURS[preset]
    if line:
        axes.plot(*zip(*sorted(line), strict=True), color=colour, linewidth=1.3)
    if points:
        axes.plot(*zip(*points, strict=True), "o", color=colour, markersize=4, label=preset)
