"""The course of a training as a picture: loss, and BLEU where validation measured it, over the updates."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import EngFormatter

from ..run_folder import read_json_lines

_TRAINING, _VALIDATION = "#9db7d5", "#c44e52"


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
    bleu = _series(records, "validation", "bleu")
    figure = Figure(figsize=(10 if bleu else 5.5, 3.8), dpi=150, layout=ConstrainedLayoutEngine(wspace=0.06))
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, 2 if bleu else 1, squeeze=False)[0]
    _loss_panel(axes[0], training, _series(records, "validation", "nll"))
    if bleu:
        _bleu_panel(axes[1], bleu)
    write_png(figure, picture)


def write_png(figure: Figure, picture: Path) -> None:
    """Write a picture atomically; the same figure gives the same bytes."""
    picture.parent.mkdir(parents=True, exist_ok=True)
    unfinished = picture.with_name(f".{picture.name}.unfinished")
    figure.savefig(unfinished, format="png", metadata={"Software": None})
    os.replace(unfinished, picture)


def _series(records: Iterable[dict[str, Any]], kind: str, quantity: str) -> list[tuple[int, float]]:
    """(update, value) in the order of updates. A resumed run logs some updates twice; the later line counts."""
    values = {r["update"]: r[quantity] for r in records if r["kind"] == kind and r.get(quantity) is not None}
    return sorted(values.items())


def _loss_panel(
    axes: Axes, training: Sequence[tuple[int, float]], validation: Sequence[tuple[int, float]]
) -> None:
    axes.plot(*zip(*training, strict=True), color=_TRAINING, linewidth=1.4, label="training")
    if validation:
        axes.plot(
            *zip(*validation, strict=True), color=_VALIDATION, linewidth=1.8, marker=".", label="validation"
        )
    axes.set_title("Loss", loc="left", fontweight="bold")
    axes.set_ylabel("cross entropy (nats per target token)")
    axes.legend(frameon=False)
    _finish(axes)


def _bleu_panel(axes: Axes, bleu: Sequence[tuple[int, float]]) -> None:
    axes.plot(*zip(*bleu, strict=True), color=_VALIDATION, linewidth=1.8, marker=".")
    best_update, best = max(bleu, key=lambda point: point[1])
    axes.annotate(
        f"{best:.1f}",
        (best_update, best),
        xytext=(0, 6),
        textcoords="offset points",
        ha="center",
        fontweight="bold",
    )
    axes.set_title("BLEU on the validation set", loc="left", fontweight="bold")
    axes.set_ylabel("sacreBLEU (points of 100)")
    axes.margins(y=0.12)
    _finish(axes)


def _finish(axes: Axes) -> None:
    axes.set_xlabel("optimisation updates")
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.grid(color="0.9")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
