"""The course of a training as a picture: the log's measurements over the updates."""

import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import EngFormatter, LogFormatter, StrMethodFormatter

from ..files.atomic_file import write_bytes
from ..files.json_files import read_json_lines
from ..tasks import score_titles

_TRAINING, _VALIDATION, _FAINT = "#5b84b1", "#c44e52", "#b9cbe0"
_FEW = 25
"""Up to this many points are also marked, because a line alone hides how few there are."""

Points = Sequence[tuple[int, float]]
"""(update, value), in the order of updates."""


def draw_curves(log: Path, picture: Path) -> None:
    """Draw `log` (one JSON object a line, as training writes it) into the PNG file `picture`, atomically.

    Raises:
        FileNotFoundError: there is no log.
        ValueError: the log holds no training interval.
    """
    if not log.is_file():
        raise FileNotFoundError(f"There is no training log {log}; the curves need it: train first.")
    records = list(read_json_lines(log))
    training = _series(records, "train", "nll")
    if not training:
        raise ValueError(f"{log} holds no training interval yet; train longer or lower `training.log_every`.")
    scores = _scores(records)
    panels = [partial(_loss_panel, training=training, validation=_series(records, "validation", "nll"))]
    panels += [partial(_score_panel, scores={title: scores[title]}) for title in list(scores)[:1]]
    write_png(_figure(panels, columns=2), picture)


def draw_course(records: Sequence[dict[str, Any]], title: str = "") -> Figure:
    """A training's curves, a panel each: loss, validation perplexity, BLEU and chrF, learning rate, speed, gradient norm.

    A panel without records is left out.

    Args:
        records: of a training log.
        title: one line above the panels.

    Raises:
        ValueError: there is nothing to draw.
    """
    train = {name: _series(records, "train", name) for name in (
        "loss", "nll", "learning_rate", "tokens_per_second", "gradient_norm"
    )}  # fmt: skip
    valid = {name: _series(records, "validation", name) for name in ("nll", "perplexity")}
    panels: list[_Panel] = []
    if train["nll"]:
        panels.append(partial(_loss_panel, training=train["nll"], validation=valid["nll"], smoothed=train["loss"]))
    if valid["perplexity"]:
        panels.append(partial(_line_panel, points=valid["perplexity"], title="Perplexity on the validation set",
                              unit="exp(loss), log scale", colour=_VALIDATION, is_log=True))  # fmt: skip
    if scores := _scores(records):
        panels.append(partial(_score_panel, scores=scores))
    for name, heading, unit in (
        ("learning_rate", "Learning rate", "step size of the optimiser"),
        ("tokens_per_second", "Speed", "target tokens per second"),
        ("gradient_norm", "Gradient", "norm before clipping"),
    ):
        if train[name]:
            panels.append(partial(_line_panel, points=train[name], title=heading, unit=unit))
    if not panels:
        raise ValueError("The training log holds nothing that could be drawn.")
    figure = _figure(panels, columns=3 if len(panels) > 4 else 2)
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize="medium", parse_math=False)
    return figure


def draw_comparison(curves: Mapping[str, Points], title: str = "BLEU") -> Figure:
    """The score called `title` on the validation set over target tokens seen, a line for each name."""
    figure = Figure(figsize=(6.4, 4.2), dpi=150, layout=ConstrainedLayoutEngine())
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for name, points in curves.items():
        (line,) = axes.plot(*zip(*points, strict=True), marker=".", linewidth=1.6)
        axes.annotate(f" {name}", points[-1], color=line.get_color(), va="center", fontsize="small", parse_math=False)
    axes.set_title(f"{title[0].upper()}{title[1:]} on the validation set", loc="left", fontweight="bold")
    axes.set_ylabel(f"{'sacreBLEU' if title == 'BLEU' else title} (points of 100)")
    axes.margins(x=0.2)
    _finish(axes, "target tokens seen")
    return figure


def write_png(figure: Figure, picture: Path) -> None:
    """Write a picture atomically; the same figure gives the same bytes."""
    write_bytes(picture, png_bytes(figure))


def png_bytes(figure: Figure) -> bytes:
    """The content of a PNG file."""
    stream = io.BytesIO()
    figure.savefig(stream, format="png", metadata={"Software": None})
    return stream.getvalue()


_Panel = Callable[[Axes], None]


def _figure(panels: Sequence[_Panel], columns: int) -> Figure:
    """Small multiples of one size."""
    columns = min(columns, len(panels))
    rows = math.ceil(len(panels) / columns)
    size = (5.5 if columns == 1 else 5.0 * columns, 3.8 if rows == 1 else 3.4 * rows)
    figure = Figure(figsize=size, dpi=150, layout=ConstrainedLayoutEngine(wspace=0.06, hspace=0.06))
    FigureCanvasAgg(figure)
    every: list[Axes] = list(figure.subplots(rows, columns, squeeze=False, sharex=True).flat)
    for axes, panel in zip(every, panels, strict=False):
        panel(axes)
        _finish(axes)
    for axes in every[len(panels) :]:
        axes.set_axis_off()
    return figure


def _series(records: Iterable[dict[str, Any]], kind: str, quantity: str) -> list[tuple[int, float]]:
    """(update, value) in the order of updates. A resumed run logs some updates twice; the later line counts."""
    values = {r["update"]: r[quantity] for r in records if r["kind"] == kind and r.get(quantity) is not None}
    return [(update, value) for update, value in sorted(values.items()) if math.isfinite(value)]


def _plot(axes: Axes, points: Points, colour: str, label: str = "", width: float = 1.4) -> None:
    marker = "." if len(points) <= _FEW else ""
    axes.plot(*zip(*points, strict=True), color=colour, linewidth=width, marker=marker, label=label)


def _line_panel(axes: Axes, points: Points, title: str, unit: str, colour: str = _TRAINING, is_log: bool = False) -> None:
    _plot(axes, points, colour)
    axes.set_title(title, loc="left", fontweight="bold")
    axes.set_ylabel(unit)
    if is_log:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(LogFormatter())
        axes.yaxis.set_minor_formatter(LogFormatter(minor_thresholds=(2, 0.5)))
    else:
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.6g}"))


def _loss_panel(axes: Axes, training: Points, validation: Points, smoothed: Points = ()) -> None:
    if smoothed:
        _plot(axes, smoothed, _FAINT, "training, smoothed labels")
    _plot(axes, training, _TRAINING, "training")
    if validation:
        _plot(axes, validation, _VALIDATION, "validation", width=1.8)
    axes.set_title("Loss", loc="left", fontweight="bold")
    axes.set_ylabel("nats per target token")
    axes.legend(frameon=False)


def _scores(records: Sequence[dict[str, Any]]) -> dict[str, Points]:
    """The scores of a task, by their titles, the one that ranks checkpoints first."""
    found = {title: _series(records, "validation", name) for name, title in score_titles().items()}
    return {title: points for title, points in found.items() if points}


def _score_panel(axes: Axes, scores: dict[str, Points]) -> None:
    title, *others = scores
    for other in others:
        _plot(axes, scores[other], _FAINT, other)
    _plot(axes, scores[title], _VALIDATION, title, width=1.8)
    best_update, best = max(scores[title], key=lambda point: point[1])
    axes.annotate(
        f"{best:.1f}",
        (best_update, best),
        xytext=(0, 6),
        textcoords="offset points",
        ha="center",
        fontweight="bold",
    )
    axes.set_title(
        f"{' and '.join(name[0].upper() + name[1:] if name == title else name for name in scores)} on the validation set",
        loc="left",
        fontweight="bold",
    )
    axes.set_ylabel(f"{'sacreBLEU' if title == 'BLEU' else title} (points of 100)")
    axes.margins(y=0.12)
    if others:
        axes.legend(frameon=False)


def _finish(axes: Axes, unit: str = "optimisation updates") -> None:
    axes.set_xlabel(unit)
    axes.tick_params(labelbottom=True)
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.grid(color="0.9")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
