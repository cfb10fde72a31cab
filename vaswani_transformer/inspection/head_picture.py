"""What heads do as one picture: a row for each head, a column for each share of its attention, and what BLEU loses without it."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from .figures import KINDS
from .heads import SHARES

_INK, _FAINT, _LINE, _SURE, _UNSURE = "#222222", "#666666", "#d0d4da", "#5b84b1", "#c3d3e4"
_ROW = 0.17
"""Inches a head."""
_TITLES = {
    "previous": "previous\nposition", "same": "same\nposition", "next": "next\nposition",
    "token": "same\ntoken", "sink": "end or\nstart", "rare": "rarest\ntoken", "diagonal": "near the\ndiagonal",
}  # fmt: skip
SURE = 0.01
"""Below this p, a bar is dark."""


def draw_heads(report: Mapping[str, Any]) -> Figure:
    """Draw what `heads.json` holds.

    Args:
        report: see `head_report.report_heads`.

    Returns:
        A figure of matplotlib, which `figures.write_figure` writes: a panel for each kind of attention, the first row of which is even
        attention.
    """
    by_kind = {kind: [head for head in report["heads"] if head["kind"] == kind] for kind in KINDS}
    rows = [len(heads) + 1 for heads in by_kind.values()]
    has_worth = report["bleu"] is not None
    figure = Figure(
        figsize=(7.0, sum(rows) * _ROW + 2.6), dpi=110, layout=ConstrainedLayoutEngine(h_pad=0.08, w_pad=0.04), facecolor="white"
    )  # fmt: skip
    FigureCanvasAgg(figure)
    grid = figure.subplots(3, 2 if has_worth else 1, squeeze=False, height_ratios=rows, width_ratios=[3, 1] if has_worth else [1])
    losses = [-head["worth"]["difference"] for head in report["heads"] if head["worth"]]
    ends = (min(0.0, *losses, -0.05), max(0.5, *losses)) if losses else (0.0, 0.5)
    for (kind, title), axes in zip(KINDS.items(), grid, strict=True):
        heads = by_kind[kind]
        _shares(axes[0], [report["chance"][kind], *(head["measures"] for head in heads)])
        axes[0].set_title(title, loc="left", fontsize=9, color=_INK, pad=26)
        _rows(axes[0], heads)
        if has_worth:
            _bars(axes[1], heads, ends)
            axes[1].set_title("BLEU lost without it", loc="left", fontsize=8, color=_INK)
    return figure


def _shares(axes: Axes, rows: Sequence[Mapping[str, float | None]]) -> None:
    """A heat map whose cells tell their share."""
    names = [name for name in SHARES if rows[0][name] is not None]
    values = np.array([[row[name] or 0.0 for name in names] for row in rows])
    axes.imshow(values, cmap="Blues", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    for (row, column), value in np.ndenumerate(values):
        axes.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=6, color="white" if value > 0.55 else _INK)
    axes.xaxis.tick_top()
    axes.set_xticks(range(len(names)), [_TITLES.get(name, name) for name in names], fontsize=7, color=_INK)


def _rows(axes: Axes, heads: Sequence[Mapping[str, Any]]) -> None:
    """Name the rows, and part the layers by lines."""
    names = ["even attention", *(f"{head['layer'] + 1}.{head['head'] + 1}" for head in heads)]
    axes.set_yticks(range(len(names)), names, fontsize=6.5, color=_INK)
    axes.tick_params(length=0, pad=2)
    axes.spines[:].set_visible(False)
    layers = [None, *(head["layer"] for head in heads)]
    for row in range(1, len(layers)):
        if layers[row] != layers[row - 1]:
            axes.axhline(row - 0.5, color="white", linewidth=2)


def _bars(axes: Axes, heads: Sequence[Mapping[str, Any]], ends: tuple[float, float]) -> None:
    """Points of BLEU, dark where the difference is unlikely to be chance."""
    for row, worth in ((row, head["worth"]) for row, head in enumerate(heads, start=1) if head["worth"]):
        axes.barh(row, -worth["difference"], height=0.7, color=_SURE if worth["p"] < SURE else _UNSURE)
    axes.set_ylim(len(heads) + 0.5, -0.5)
    axes.set_xlim(1.08 * ends[0], 1.08 * ends[1])
    axes.set_yticks([])
    axes.axvline(0, color=_FAINT, linewidth=0.8)
    axes.tick_params(length=0, labelsize=6.5, labelcolor=_FAINT)
    axes.grid(axis="x", color=_LINE, linewidth=0.5)
    axes.set_axisbelow(True)
    axes.spines[:].set_visible(False)
