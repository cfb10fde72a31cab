"""Transfer as a table and a picture: the scores of every start beside those from scratch, over the share of training examples."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from benchmarks.report import UNKNOWN, Results, Row, grouped, markdown_table
from benchmarks.transfer.linear import LINEAR
from benchmarks.transfer.starts import SCRATCH
from vaswani_transformer.report.curves import write_png
from vaswani_transformer.tasks import score_titles

_TITLES: dict[str, str] = {**score_titles(), "sacrebleu": "BLEU"}
_LEFT_OUT = ("paper_bleu",)
_COLOURS = ("#8c8c8c", "#c44e52", "#5b84b1", "#55a868", "#dd8452", "#8172b3")
_COLUMNS = 3


def chosen(results: Results) -> list[Row]:
    """The scored runs; of those that differ in the learning rate alone, the one that the validation set prefers."""
    scored = [run for run in results["runs"] if "failed" not in run]
    return [max(own, key=lambda run: float(run["validation"])) for _, own in grouped(scored, "task", "start", "share", "seed")]


def summary(results: Results) -> list[Row]:
    """A row for each task, score and share that has a run: of every start the mean over the seeds, the standard deviation, and the mean
    difference to `scratch` with the same seed; None where it is not known."""
    rows = []
    for (task, share), runs in grouped(chosen(results), "task", "share"):
        by_start: dict[str, dict[int, Row]] = {}
        for run in runs:
            by_start.setdefault(run["start"], {})[run["seed"]] = run
        for metric in runs[0]["scores"]:
            if metric not in _LEFT_OUT:
                cells = {start: _cell(metric, own, by_start.get(SCRATCH, {})) for start, own in by_start.items()}
                rows.append({"task": task, "metric": metric, "share": share, "examples": runs[0]["examples"], "starts": cells})
    order = list(results["tasks"])
    return sorted(rows, key=lambda row: (order.index(row["task"]), -row["share"]))


def _cell(metric: str, own: dict[int, Row], scratch: dict[int, Row]) -> Row:
    points = {seed: run["scores"][metric] for seed, run in own.items()}
    gains = [value - scratch[seed]["scores"][metric] for seed, value in points.items() if seed in scratch]
    return {
        "seeds": list(points),
        "mean": fmean(points.values()),
        "deviation": stdev(points.values()) if len(points) > 1 else None,
        "gain": fmean(gains) if gains and own is not scratch else None,
    }


def table(results: Results) -> str:
    """Markdown: how it was measured, what the starts are, the scores, and what is missing."""
    names = _names(results)
    rows = (_cells(row, names, results["tasks"][row["task"]]["seeds"][f"{row['share']:g}"]) for row in summary(results))
    header = ("task", "score", "examples", "share", "seeds", *names)
    return "\n\n".join([
        _how(results),
        markdown_table(header, rows, left=2),
        markdown_table(_START_HEADER, map(_start_cells, results["starts"]), left=1),
        *_remarks(results),
    ]) + "\n"  # fmt: skip


def _names(results: Results) -> list[str]:
    """Of the columns: what was trained, from scratch first."""
    linear = [LINEAR] if any(run["start"] == LINEAR for run in results["runs"]) else []
    return [*linear, SCRATCH, *(start["name"] for start in results["starts"])]


def _how(results: Results) -> str:
    seeds = ", ".join(map(str, results["seeds"]))
    spread = (
        f"mean and standard deviation over the seeds, which draw the examples, too (the first of {seeds}), and in parentheses the mean "
        "difference"
        if len(results["seeds"]) > 1
        else f"one training each, with seed {seeds}, which draws the examples, too, and in parentheses the difference"
    )
    rates = [f"{rate:g}" for rate in results["rates"]]
    choice = f" The validation set chooses each run's learning rate among {', '.join(rates)} times the recipe's." if len(rates) > 1 else ""
    linear = (
        f" `{LINEAR}` is no Transformer: a logistic regression of words and pairs of words, of which the validation set chooses the "
        "regularisation."
        if LINEAR in _names(results)
        else ""
    )
    return (
        f"Test sets, in points of 100: {spread} to `scratch` with the same seed and examples. "
        "A share has the recipe's updates times its root. "
        f"Scored is the checkpoint that was best on the validation set.{choice} `scratch` has the recipe's shape, or that of the first "
        "model where the recipe fine-tunes, and a vocabulary learned from these examples alone; the others have those of the model that "
        f"they begin with, and for translation a vocabulary learned from the examples.{linear} {len(results['runs'])} of "
        f"{results['planned']} trainings are done."
    )


def _cells(row: Row, names: Sequence[str], seeds: int) -> tuple[str, ...]:
    starts = (row["starts"].get(name) for name in names)
    return (
        f"`{row['task']}`",
        _title(row),
        f"{row['examples']:,}",
        f"{100 * row['share']:g} %",
        str(seeds),
        *(UNKNOWN if cell is None else _score(cell, seeds) for cell in starts),
    )


def _title(row: Row) -> str:
    name: str = row["metric"]
    return _TITLES.get(name, name)


def _score(cell: Row, seeds: int) -> str:
    deviation = "" if cell["deviation"] is None else f" ± {cell['deviation']:.1f}"
    gain = "" if cell["gain"] is None else f" ({cell['gain']:+.1f})"
    done = "" if len(cell["seeds"]) >= seeds else f", {len(cell['seeds'])} of {seeds} seeds"
    return f"{cell['mean']:.1f}{deviation}{gain}{done}"


_START_HEADER = ("start", "d_model", "layers", "vocabulary", "updates before", "target tokens before", "FLOPs before", "hours before")


def _start_cells(start: Row) -> tuple[str, ...]:
    cost = {} if start["is_fresh"] else start["training"]
    layers = f"{start['encoder_layers']} + {start['decoder_layers']}" if start["has_decoder"] else f"{start['encoder_layers']}"
    return (
        f"{start['name']}{', random weights' if start['is_fresh'] else ''}",
        f"{start['d_model']:,}",
        layers,
        f"{start['vocab_size']:,}",
        f"{cost['updates']:,}" if "updates" in cost else UNKNOWN,
        f"{cost['target_tokens']:,}" if "target_tokens" in cost else UNKNOWN,
        f"{cost['flops']:.2g}" if "flops" in cost else UNKNOWN,
        f"{cost['seconds'] / 3600:.1f}" if "seconds" in cost else UNKNOWN,
    )


def _remarks(results: Results) -> Iterator[str]:
    done = [run for run in results["runs"] if "failed" not in run]
    counted = [run for run in done if run["start"] != LINEAR]
    if counted:
        yield (
            f"All trainings of Transformers together took {sum(run['seconds'] for run in counted) / 3600:.1f} hours and "
            f"{sum(run['flops'] for run in counted):.2g} FLOPs."
        )
    lines = [
        f"- {_name(run)}: no example is labelled {', '.join(run['missing_labels'])}."
        for run in done
        if run["start"] == SCRATCH and run["rate"] == results["rates"][0] and run["missing_labels"]
    ]
    if lines:
        yield "Labels that a share lacks count as wrong wherever the test set has them:\n\n" + "\n".join(lines)
    failed = [f"- {_name(run)}, {run['start']}: {run['failed']}" for run in results["runs"] if "failed" in run]
    if failed:
        yield "These runs failed, and are no part of the means:\n\n" + "\n".join(failed)


def _name(run: Row) -> str:
    return f"`{run['task']}`, {100 * run['share']:g} %, seed {run['seed']}"


def draw(results: Results, picture: Path) -> None:
    """A panel for each task: the score that chooses its checkpoints over the share of the examples, a line for each start."""
    rows = [row for row in summary(results) if row["metric"] == results["tasks"][row["task"]]["metric"]]
    tasks = grouped(rows, "task")
    if not tasks:
        return
    lines = -(-len(tasks) // _COLUMNS)
    columns = -(-len(tasks) // lines)  # four panels stand two by two
    figure = Figure(figsize=(4.2 * columns, 0.7 + 3.1 * lines), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    panels: list[Axes] = list(figure.subplots(lines, columns, squeeze=False).flat)
    names = _names(results)
    handles: dict[str, Any] = {}
    for axes, ((task,), own) in zip(panels, tasks, strict=False):
        handles |= _draw(axes, own, names)
        axes.set_title(task, loc="left", fontweight="bold", fontsize=10)
        axes.set_ylabel(_title(own[0]))
    for axes in panels[len(tasks) :]:
        axes.set_axis_off()
    width = min(len(handles), 2 * columns + 1)
    figure.legend(handles.values(), handles.keys(), frameon=False, fontsize=9, loc="outside upper center", ncols=width)
    write_png(figure, picture)


def _draw(axes: Axes, rows: Sequence[Row], names: Sequence[str]) -> dict[str, Any]:
    """One task; returns what stands for each start in the legend."""
    handles = {}
    for number, name in enumerate(names):
        own = [(row["share"], row["starts"][name]) for row in rows if name in row["starts"]]
        if own:
            handles[name] = axes.errorbar(
                [share * (1 + 0.04 * (number - len(names) / 2)) for share, _ in own],  # side by side, so that no bar hides another
                [cell["mean"] for _, cell in own],
                yerr=[cell["deviation"] or 0.0 for _, cell in own],
                fmt={SCRATCH: "o--", LINEAR: "o:"}.get(name, "o-"),
                color=_COLOURS[number % len(_COLOURS)],
                markersize=4,
                linewidth=1.2,
                capsize=2,
            )
    shares = sorted({row["share"] for row in rows})
    axes.set_xscale("log")
    axes.set_xticks(shares, [f"{100 * share:g} %" for share in shares])
    axes.minorticks_off()
    axes.set_xlabel("share of the examples")
    axes.grid(color="0.92")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    return handles
