"""Ratios as a picture: panels of bars, contestants side by side under each setting."""

from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from benchmarks.interleaved import Ratio
from vaswani_transformer.report.curves import write_png

_COLOURS = ("#9db7d5", "#c44e52", "#8c8c8c", "#55a868")
_COLUMNS = 2
_GROUP_HEIGHT = 0.8


class Panel(NamedTuple):
    """One setting for all contestants: `series` has the bars of each colour, one bar a contestant, from top to bottom as `names`."""

    title: str
    names: Sequence[str]
    series: dict[str, Sequence[Ratio]]


def draw_bars(panels: Sequence[Panel], picture: Path, axis: str) -> None:
    """Draw `panels`, two beside each other, into the PNG file `picture`, atomically; `axis` says what the bars measure.

    Raises:
        ValueError: there is no panel.
    """
    if not panels:
        raise ValueError("There is nothing to draw: no setting has been measured.")
    columns = min(_COLUMNS, len(panels))
    rows = ceil(len(panels) / columns)
    bars = max(len(panel.names) * len(panel.series) for panel in panels)
    size = (6.2 * columns, (1.3 + 0.22 * bars) * rows)
    figure = Figure(figsize=size, dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    every: list[Axes] = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes, panel in zip(every, panels, strict=False):
        _draw(axes, panel, axis)
    for axes in every[len(panels) :]:
        axes.set_axis_off()
    write_png(figure, picture)


def _draw(axes: Axes, panel: Panel, axis: str) -> None:
    thickness = _GROUP_HEIGHT / len(panel.series)
    for position, (label, ratios) in enumerate(panel.series.items()):
        centre = (position + 0.5) * thickness - _GROUP_HEIGHT / 2
        places = [row + centre for row in range(len(panel.names))]
        drawn: Any = axes.barh(
            places,
            [ratio.median for ratio in ratios],
            thickness * 0.92,
            xerr=[[r.median - r.low for r in ratios], [r.high - r.median for r in ratios]],
            color=_COLOURS[position % len(_COLOURS)],
            ecolor="0.35",
            error_kw={"linewidth": 0.8},
            label=label,
        )
        axes.bar_label(drawn, [f"{ratio.median:.2f}" for ratio in ratios], padding=3, fontsize=8)
    axes.axvline(1, color="0.35", linewidth=0.8, linestyle=":")
    axes.set_yticks(range(len(panel.names)), panel.names)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.set_xlabel(axis)
    axes.set_title(panel.title, loc="left", fontweight="bold")
    axes.grid(axis="x", color="0.9")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
