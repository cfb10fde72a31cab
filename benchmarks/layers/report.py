"""The results of `benchmark_layers` as JSON, as tables in Markdown and as a picture, all from the one object."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from benchmarks.layers.cells import FORWARD, MEASURED, MODES, TRAINING
from benchmarks.layers.kinds import KINDS, REFERENCE
from benchmarks.layers.measurement import SKIPPED, seconds_of
from benchmarks.report import UNKNOWN, Results, Row, markdown_table, on_what
from vaswani_transformer.files.atomic_file import write_text
from vaswani_transformer.files.json_files import write_json
from vaswani_transformer.report.curves import write_png

_MODES = {FORWARD: "forward", TRAINING: "forward and backward"}
_COLUMNS = 3
_STYLES = {
    "attention": ("#c44e52", "-"), "eager": ("#c44e52", "--"), "bare": ("#c44e52", ":"), "restricted": ("#dd8452", "-"),
    "lstm": ("#4c72b0", "-"), "gru": ("#4c72b0", "--"), "convolution_3": ("#55a868", "-"), "convolution_7": ("#2f6b3c", "-"),
    "dilated_3": ("#55a868", "--"), "dilated_7": ("#2f6b3c", "--"), "separable_7": ("#2f6b3c", ":"), "additive": ("#8172b3", "-"),
}  # fmt: skip
"""Colour and line of each contestant."""


def write_tables(results: Results, folder: Path) -> None:
    """Write `results.json` and `table.md`, each of them whole or not at all."""
    write_json(folder / "results.json", results)
    write_text(folder / "table.md", table(results))


def write_picture(results: Results, folder: Path) -> None:
    """Write `results.png`, whole or not at all."""
    write_png(picture(results), folder / "results.png")


def table(results: Results) -> str:
    """Markdown: the exponents beside the paper's, what was counted, the crossovers, and the time and memory of one width."""
    parts = [_caption(results), "**Complexity of a layer: exponents fitted, beside the paper's**", _exponents(results)]
    parts += ["**Sequential operations and maximum path length, counted**", _counts(results)]
    if results["crossovers"]:
        parts += [
            f"**The length at which {KINDS[REFERENCE].title} stops being faster**",
            _crossovers(results),
            _sentence(results["crossovers"]),
        ]
    for threads in sorted({row["threads"] for row in results["cells"]}):
        parts += _sizes(results, threads)
    return "\n\n".join(parts) + "\n"


def _caption(results: Results) -> str:
    limits, cells = results["limits"], results["cells"]
    outcomes = {outcome: sum(row["outcome"] == outcome for row in cells) for outcome in ("time", "memory", SKIPPED)}
    lost = f"{outcomes['time']} reached the limit of time and {outcomes['memory']} that of memory"
    first = (
        f"after {limits['warm_ups']} that are not counted"
        if "warm_ups" in limits
        else "after one that is not counted, unless it took all of these seconds alone"
    )
    return (
        f"One layer, one sequence, float32. {on_what(results)} Medians of up to {limits['repeats']} runs, as many as begin within "
        f"{limits['seconds']} seconds, {first}; on one thread the processor's time, on several the clock's. A cell has a "
        f"process of its own with at most {limits['cell_seconds']:g} seconds of each thread and {limits['cell_gib']:g} GiB. Of "
        f"{len(cells)} cells, {lost}; {outcomes[SKIPPED]} longer ones were skipped for that."
    )


def _exponents(results: Results) -> str:
    header = ("layer", "paper", "threads", "", "n in time", "paper's", "d in time", "paper's", "at n", "n in memory")
    rows = []
    for row in results["exponents"]:
        kind = KINDS[row["contestant"]]
        rows.append(
            (
                kind.title,
                f"O({kind.claims.operations})",
                str(row["threads"]),
                _MODES[row["mode"]],
                _decimal(row["length"]),
                str(kind.claims.length),
                _decimal(row["width"]),
                str(kind.claims.width),
                UNKNOWN if row["width_at_length"] is None else f"{row['width_at_length']:,}",
                _decimal(row["memory"]),
            )
        )
    return markdown_table(header, rows, left=4)


def _decimal(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.2f}"


def _counts(results: Results) -> str:
    lengths = next(iter(results["counts"].values()))["lengths"]
    header = (
        *("layer", "operations, paper"), *(f"n = {length}" for length in lengths),
        *("path, paper",), *(f"n = {length}" for length in lengths),
    )  # fmt: skip
    rows = []
    for name, found in results["counts"].items():
        claims = KINDS[name].claims
        operations, paths = (map(str, found[key]) for key in ("sequential_operations", "path_length"))
        rows.append((KINDS[name].title, f"O({claims.sequential})", *operations, f"O({claims.path})", *paths))
    return markdown_table(header, rows, left=2)


def _crossovers(results: Results) -> str:
    widths = sorted({row["d_model"] for row in results["crossovers"]})
    groups = dict.fromkeys((row["contestant"], row["threads"], row["mode"]) for row in results["crossovers"])
    rows = []
    for name, threads, mode in groups:
        of_group = (row for row in results["crossovers"] if (row["contestant"], row["threads"], row["mode"]) == (name, threads, mode))
        own = {row["d_model"]: row for row in of_group}
        rows.append((KINDS[name].title, str(threads), _MODES[mode], *(_crossover(own.get(width)) for width in widths)))
    return markdown_table(("than", "threads", "", *(f"d = {width}" for width in widths)), rows, left=3)


def _sentence(rows: Sequence[Row]) -> str:
    """Where "self-attention is faster when n < d" is true: it is so far as the crossover, or else the longest length of both, reaches."""
    lengths = [(row, row["length"] or (row["longest"] if row["faster"] == "attention" else 0)) for row in rows]
    true = [row for row, length in lengths if round(length) >= row["d_model"]]
    false = [
        row for row, length in lengths if round(length) < row["d_model"] and (row["length"] is not None or row["faster"] == "recurrent")
    ]
    crossed = [row["length"] / row["d_model"] for row in rows if row["length"] is not None]
    between = f" Where they cross, n is {min(crossed):.1f} to {max(crossed):.1f} times d." if crossed else ""
    others = len(rows) - len(true) - len(false)
    further = f"; in the other {others} it is true as far as both were measured" if others else ""
    return f'"Faster when n < d" is true in {len(true)} of these {len(rows)} comparisons and false in {len(false)}{further}.{between}'


def _crossover(row: Row | None) -> str:
    if row is None:
        return UNKNOWN
    if row["length"] is not None:
        return f"{row['length']:,.0f}"
    return f"beyond {row['longest']:,}" if row["faster"] == "attention" else "never faster"


def _sizes(results: Results, threads: int) -> list[str]:
    """Milliseconds, and MiB, of all lengths at the width in the middle."""
    cells = [row for row in results["cells"] if row["threads"] == threads]
    widths = sorted({row["d_model"] for row in cells})
    width = 512 if 512 in widths else widths[len(widths) // 2]
    parts = []
    for mode in MODES:
        of_mode = [row for row in cells if (row["d_model"], row["mode"]) == (width, mode)]
        title = f"d = {width}, {threads} thread{'s' if threads > 1 else ''}, {_MODES[mode]}"
        parts += [f"**Milliseconds: {title}**", _grid(of_mode, lambda row: f"{_milliseconds(row):,.3g}")]
        if mode == TRAINING:
            parts += [f"**Peak memory in MiB: {title}**", _grid(of_mode, _mebibytes)]
    return parts


def _milliseconds(row: Row) -> float:
    return 1000 * (seconds_of(row) or 0)


def _mebibytes(row: Row) -> str:
    return UNKNOWN if row["peak_bytes"] is None else f"{row['peak_bytes'] / 2**20:,.0f}"


def _grid(rows: Sequence[Row], cell: Any) -> str:
    lengths = sorted({row["length"] for row in rows})
    names = dict.fromkeys(row["contestant"] for row in rows)
    own = {(row["contestant"], row["length"]): row for row in rows}
    lines = []
    for name in names:
        found = [own.get((name, length)) for length in lengths]
        cells = (UNKNOWN if row is None else cell(row) if row["outcome"] == MEASURED else row["outcome"] for row in found)
        lines.append((KINDS[name].title, *cells))
    return markdown_table(("layer", *(f"n = {length:,}" for length in lengths)), lines, left=1)


def picture(results: Results) -> Figure:
    """Time against length, a panel for each width, and memory for the last; forward and backward, the fewest threads."""
    threads = min(row["threads"] for row in results["cells"])
    rows = [row for row in results["cells"] if (row["threads"], row["mode"], row["outcome"]) == (threads, TRAINING, MEASURED)]
    widths = sorted({row["d_model"] for row in results["cells"]})
    height = -(-(len(widths) + 1) // _COLUMNS)
    figure = Figure(figsize=(4.4 * _COLUMNS, 3.5 * height + 0.7), dpi=115, layout="constrained")
    FigureCanvasAgg(figure)
    every: list[Axes] = list(figure.subplots(height, _COLUMNS, squeeze=False).flat)
    for axes, width in zip(every, widths, strict=False):
        _panel(axes, [row for row in rows if row["d_model"] == width], f"d = {width}: milliseconds", _milliseconds)
        axes.axvline(width, color="0.6", linewidth=0.8, linestyle=":")
        axes.annotate(" n = d", (width, 1), xycoords=("data", "axes fraction"), va="top", fontsize="x-small", color="0.4")
    widest = [row for row in rows if row["d_model"] == widths[-1] and row["peak_bytes"] is not None]
    _panel(every[len(widths)], widest, f"d = {widths[-1]}: peak MiB", lambda row: row["peak_bytes"] / 2**20)
    for axes in every[len(widths) + 1 :]:
        axes.set_axis_off()
    lines = (line for axes in every for line in axes.get_lines())
    labels: dict[Any, Any] = {label: line for line in lines if not (label := str(line.get_label())).startswith("_")}
    figure.legend(labels.values(), labels.keys(), loc="outside lower center", ncols=4, frameon=False, fontsize="small")
    return figure


def _panel(axes: Axes, rows: Sequence[Row], title: str, value: Any) -> None:
    for name, (colour, line) in _STYLES.items():
        points = sorted((row["length"], value(row)) for row in rows if row["contestant"] == name)
        if points:
            axes.plot(*zip(*points, strict=True), color=colour, linestyle=line, linewidth=1.4, label=KINDS[name].title)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_title(title, loc="left", fontweight="bold", fontsize="medium")
    axes.set_xlabel("n, positions")
    axes.grid(color="0.92")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
