"""Attention as lines between two columns of words, as in Figures 3 to 5 of "Attention Is All You Need"."""

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from torch import Tensor

from .figures import KINDS, Kind
from .maps import AttentionMaps

_INK, _FAINT, _MARK = "#222222", "#666666", "#e6e6e6"
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a5195", "#6b6b6b")
"""Of heads, told apart without colour vision, too (Okabe and Ito); a ninth head begins again."""
_FAINTEST = 0.02
"""A weight below this draws no line."""
_ROW = 0.24
"""Inches a word."""


class Lines(NamedTuple):
    """What one panel shows."""

    heads: Sequence[int]
    """Counted from 0; each has a colour."""
    query: int | None = None
    """The place of the only word whose lines are drawn; None draws those of all words."""


def draw_lines(maps: AttentionMaps, kind: Kind, layer: int, heads: Sequence[int], query: int | None = None) -> Figure:
    """Draw where words look: queries on the left, keys on the right, a line for each weight, the thicker and darker the larger.

    Args:
        maps: of one translation, by words or by subwords.
        kind: which attention.
        layer: counted from 0.
        heads: counted from 0; each has a colour.
        query: the place of the only query to draw; None draws all.

    Returns:
        A figure of matplotlib, which `figures.write_figure` writes.

    Raises:
        ValueError: there is no such layer, head or query.
    """
    return draw_panels(maps, kind, layer, [Lines(heads, query)])


def draw_panels(maps: AttentionMaps, kind: Kind, layer: int, panels: Sequence[Lines]) -> Figure:
    """Several such drawings of one layer side by side; the arguments are those of `draw_lines`."""
    weights: Tensor = getattr(maps, kind)
    queries = maps.source if kind == "encoder" else maps.target
    keys = maps.read if kind == "decoder" else maps.source
    for panel in panels:
        _check(weights, layer, panel)
    rows, longest = max(len(queries), len(keys)), max(map(len, (*queries, *keys)))
    width = 1.6 + 0.17 * min(longest, 18)
    figure = Figure(
        figsize=(width * len(panels), rows * _ROW + 0.7), dpi=110, layout=ConstrainedLayoutEngine(h_pad=0.05, w_pad=0.05), facecolor="white"
    )  # fmt: skip
    FigureCanvasAgg(figure)
    for panel, axes in zip(panels, figure.subplots(1, len(panels), squeeze=False)[0], strict=True):
        _panel(axes, weights[layer], queries, keys, panel)
    figure.suptitle(f"{KINDS[kind]}, layer {layer + 1} of {len(weights)}", x=0.01, ha="left", fontsize=9, color=_INK)
    return figure


def _check(weights: Tensor, layer: int, panel: Lines) -> None:
    layers, heads, queries = weights.shape[:3]
    asked = [("layer", layer, layers), *(("head", head, heads) for head in panel.heads)]
    asked += [] if panel.query is None else [("query", panel.query, queries)]
    for what, number, count in asked:
        if not 0 <= number < count:
            raise ValueError(f"There is no {what} {number}; these maps have {count}, counted from 0.")


def _panel(axes: Axes, weights: Tensor, queries: Sequence[str], keys: Sequence[str], panel: Lines) -> None:
    """One drawing; `weights` is `[heads, queries, keys]`."""
    rows = max(len(queries), len(keys))
    drawn = range(len(queries)) if panel.query is None else [panel.query]
    step = 0.16 / max(1, len(panel.heads) - 1)
    for number, head in enumerate(panel.heads):
        colour, shift = _COLOURS[number % len(_COLOURS)], (number * step - 0.08) if len(panel.heads) > 1 else 0.0
        for query in drawn:
            for key, weight in enumerate(weights[head, query].tolist()):
                if weight >= _FAINTEST:
                    axes.plot([0.03, 0.97], [query, key + shift], color=colour, alpha=min(1.0, 0.1 + weight), linewidth=0.4 + 2.6 * weight,
                              solid_capstyle="round")  # fmt: skip
    for place, word in enumerate(queries):
        marked = {"facecolor": _MARK, "edgecolor": "none", "pad": 1.5} if place == panel.query else None
        ink = _INK if place in drawn else _FAINT
        axes.text(0, place, word, ha="right", va="center", fontsize=8.5, color=ink, bbox=marked, parse_math=False)
    for place, word in enumerate(keys):
        axes.text(1, place, word, ha="left", va="center", fontsize=8.5, color=_INK, parse_math=False)
    for number, head in enumerate(panel.heads):
        middle = 0.5 + 0.6 * (number - (len(panel.heads) - 1) / 2)
        axes.text(middle, -1.0, f"head {head + 1}", ha="center", va="center", fontsize=7.5, color=_COLOURS[number % len(_COLOURS)])
    axes.set_xlim(-0.75, 1.75)
    axes.set_ylim(rows - 0.4, -1.5)
    axes.set_axis_off()
