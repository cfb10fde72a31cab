"""Pictures of attention for papers and cards: small multiples of many heads, and the heat map of one."""

import io
import math
import re
import textwrap
import warnings
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import matplotlib
import torch
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize, PowerNorm
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager, get_font
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import PercentFormatter
from torch import Tensor

from ..files.atomic_file import write_bytes
from .maps import AttentionMaps

Kind = Literal["encoder", "decoder", "cross"]
"""Self-attention of the encoder, self-attention of the decoder, or the decoder's attention over the source."""

KINDS: dict[Kind, str] = {"encoder": "Encoder self-attention", "decoder": "Decoder self-attention", "cross": "Cross-attention"}
"""What a picture calls each kind."""

FORMATS = (".png", ".svg")

_COLOURS = "Blues"  # one hue, whose lightness falls evenly: it also reads in grey and without colour vision
_SIGNED_COLOURS = "RdBu"
_INK, _FAINT, _LINE = "#222222", "#666666", "#d0d4da"
_CELL = 0.21
"""Inches a unit, while there is room."""
_LONG_LABEL = 18
_MANY = 60
"""Keys from which weights are coloured by their square roots: most of them would be white otherwise."""
_SMALLEST_LABEL = 4.5
"""Points. Where a unit's name would be smaller, the axis tells the number of units instead."""


class _Side(NamedTuple):
    """What one edge of every panel tells."""

    title: str
    units: Sequence[str]


class _PanelSize(NamedTuple):
    """Inches, and the size of the labels in points: 0 where they could not be read."""

    width: float
    height: float
    points: float


def small_multiples(maps: AttentionMaps, kind: Kind = "cross", layer: int | None = None) -> Figure:
    """Draw every head as a heat map of its own, all in one colour scale: rows are queries, columns are keys.

    Args:
        maps: of one translation, by subwords or by words.
        kind: which attention.
        layer: all heads of this layer, counted from 0, or from the last with -1. None draws all layers: a row each.

    Returns:
        A figure of matplotlib, which `write_figure` writes. It belongs to no window and to no `pyplot`.

    Raises:
        ValueError: there is no such kind or layer.
    """
    weights, queries, keys = _sides(maps, kind)
    layers, heads = weights.shape[:2]
    first = 0 if layer is None else _place(layer, layers, "layer")
    shown = weights if layer is None else weights[first : first + 1]
    columns = heads if layer is None else min(heads, 4)
    rows = math.ceil(shown.shape[0] * heads / columns)
    size = _panel_size(queries.units, keys.units, 7.5 / columns, 7.5 / max(rows, columns / 2))
    figure, every = _new_figure(rows, columns, size, _margin(queries.units, size) + 1.0, _margin(keys.units, size) + 0.4 + 0.2 * rows)
    scale = _scale(shown)
    used = list(every.flat)[: shown.shape[0] * heads]
    for axes in every.flat[len(used) :]:
        axes.set_axis_off()
    for number, (axes, panel) in enumerate(zip(used, shown.flatten(0, 1), strict=True)):
        _heat(axes, panel, scale)
        if layer is not None or number < heads:
            axes.set_title(f"Head {number + 1}", fontsize=8, color=_INK, pad=3, loc="left" if layer is not None else "center")
        if layer is None and number % columns == 0:
            axes.set_ylabel(f"Layer {number // columns + 1}", fontsize=8, color=_INK)
        if size.points and number % columns == 0:
            _name_units(axes.yaxis, queries, size.points)
        if size.points and number + columns >= len(used):
            _name_units(axes.xaxis, keys, size.points, rotation=90, rotation_mode="anchor", ha="right", va="center")
    _bar(figure, scale, list(every.flat))
    place = f"all {layers} layers" if layer is None else f"layer {first + 1} of {layers}"
    _caption(figure, f"{KINDS[kind]}, {place}", queries, keys, with_counts=not size.points)
    return figure


def single_map(maps: AttentionMaps, kind: Kind = "cross", layer: int = -1, head: int | None = None) -> Figure:
    """Draw one heat map with the larger weights in figures: the source from left to right, the translation from top to bottom.

    Args:
        maps: of one translation, by subwords or by words.
        kind: which attention.
        layer: counted from 0, or from the last with -1.
        head: counted from 0; None draws the mean of all heads.

    Raises:
        ValueError: there is no such kind, layer or head.
    """
    weights, queries, keys = _sides(maps, kind)
    layers, heads = weights.shape[:2]
    of_layer = weights[_place(layer, layers, "layer")]
    shown = of_layer.mean(0) if head is None else of_layer[_place(head, heads, "head")]
    return _one_map(shown, queries, keys, KINDS[kind], titled=False)


def heat_map(weights: Tensor, rows: Sequence[str], columns: Sequence[str], title: str) -> Figure:
    """Draw any weights as `single_map` draws attention, with a title. Weights below 0 are red, above 0 blue.

    Args:
        weights: `[rows, columns]`.
        rows: what each row is, from top to bottom.
        columns: what each column is, from left to right.
        title: of the picture.
    """
    return _one_map(weights.detach().float().cpu(), _Side("written", rows), _Side("read", columns), title, titled=True)


def _one_map(shown: Tensor, queries: _Side, keys: _Side, title: str, titled: bool) -> Figure:
    size = _panel_size(queries.units, keys.units, 6.5, 8.0, wide=0.6, tall=0.4)
    crowded = max(map(len, map(_short, keys.units))) * 0.6 * size.points > 72 * size.width / len(keys.units)
    figure, every = _new_figure(1, 1, size, _margin(queries.units, size) + 1.0, _margin(keys.units, size) * crowded + 0.5)
    axes, scale = every[0, 0], _scale(shown)
    _heat(axes, shown, scale)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    if size.points:
        _name_units(axes.yaxis, queries, size.points)
        _name_units(axes.xaxis, keys, size.points, **({"rotation": 45, "rotation_mode": "anchor", "ha": "left"} if crowded else {}))
        for column in range(1, shown.shape[1]):
            axes.axvline(column - 0.5, color="#eef0f3", linewidth=0.6)
        for row in range(1, shown.shape[0]):
            axes.axhline(row - 0.5, color="#eef0f3", linewidth=0.6)
    if min(size.width / shown.shape[1], 1.4 * size.height / shown.shape[0]) > 0.4:
        for row, column in torch.nonzero(shown.abs() >= 0.1).tolist():
            colour = "white" if scale(abs(float(shown[row, column]))) > (0.55 if _is_signless(scale) else 0.8) else _INK
            axes.text(column, row, f"{shown[row, column]:.0%}", ha="center", va="center", color=colour, fontsize=8.5)
    _bar(figure, scale, [axes])
    if titled or not size.points:
        _caption(figure, title, queries, keys, with_counts=not size.points)
    return figure


def write_figure(figure: Figure, path: Path | str) -> None:
    """Write a figure as PNG or SVG, atomically. The same figure gives the same bytes; text stays text in an SVG.

    Args:
        figure: of matplotlib.
        path: ends in `.png` or `.svg`.

    Raises:
        ValueError: the path has another ending.
        OSError: the file cannot be written; an existing one is as it was.
    """
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise ValueError(f"A picture is written as {' or '.join(FORMATS)}; {path} has another ending.")
    write_bytes(path, picture_bytes(figure, path.suffix.lower()))


def picture_bytes(figure: Figure, ending: str = ".png") -> bytes:
    """The content of a picture's file, `.png` or `.svg`."""
    stream = io.BytesIO()
    settings: Any = {"svg.fonttype": "none", "svg.hashsalt": "vaswani_transformer", "path.simplify": False}
    facts = {"Software": None} if ending == ".png" else {"Date": None, "Creator": None}
    with matplotlib.rc_context(settings), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        figure.savefig(stream, format=ending[1:], metadata=facts)
    missing = {chr(int(found[1])) for warning in told if (found := re.match(r"Glyph (\d+) ", str(warning.message)))}
    if missing and ending == ".png":
        remedy = "install one, or write an SVG, in which whoever looks at it chooses the font"
        warnings.warn(f"No font of this machine has {''.join(sorted(missing))}; the picture shows boxes there: {remedy}.", stacklevel=3)
    return stream.getvalue()


def _sides(maps: AttentionMaps, kind: Kind) -> tuple[Tensor, _Side, _Side]:
    """Weights `[layers, heads, queries, keys]` with what their rows and columns are."""
    if kind not in KINDS:
        raise ValueError(f"There is no attention {kind!r}; choose {', '.join(map(repr, KINDS))}.")
    weights: Tensor = getattr(maps, kind)
    if weights.shape[0] == 0:
        raise ValueError(f"This model has no attention of the kind {kind!r}.")
    source = _Side("source", maps.source)
    queries = source if kind == "encoder" else _Side("written", maps.target)
    return weights.detach().float().cpu(), queries, _Side("read so far", maps.read) if kind == "decoder" else source


def _place(number: int, count: int, what: str) -> int:
    if not -count <= number < count:
        raise ValueError(f"There is no {what} {number}: this model has {count}, counted from 0.")
    return number % count


def _scale(weights: Tensor) -> Normalize:
    """From 0 to the largest weight, rounded up to a tenth; by square roots where a row shares its weight among many.

    Weights below 0 are as dark as those above.
    """
    brightest = max(0.1, math.ceil(float(weights.abs().max()) * 10 - 1e-6) / 10)
    if weights.min() < 0:
        return Normalize(-brightest, brightest)
    return PowerNorm(0.5, 0, brightest) if weights.shape[-1] > _MANY else Normalize(0, brightest)


def _is_signless(scale: Normalize) -> bool:
    return not scale.vmin


def _colours(scale: Normalize) -> str:
    return _COLOURS if _is_signless(scale) else _SIGNED_COLOURS


def _panel_size(
    queries: Sequence[str], keys: Sequence[str], widest: float, tallest: float, *, wide: float = _CELL, tall: float = _CELL
) -> _PanelSize:
    """Cells keep their shape, whatever the room."""
    shrunk = min(1.0, widest / (wide * len(keys)), tallest / (tall * len(queries)))
    points = min(11.0 if wide > _CELL else 8.0, 66 * tall * shrunk)
    return _PanelSize(wide * shrunk * len(keys), tall * shrunk * len(queries), points if points >= _SMALLEST_LABEL else 0)


def _margin(units: Sequence[str], size: _PanelSize) -> float:
    """Inches that the longest label takes."""
    return 0.0085 * size.points * max(map(len, map(_short, units))) if size.points else 0.2


def _new_figure(rows: int, columns: int, panel: _PanelSize, beside: float, above: float) -> tuple[Figure, Any]:
    size = (max(3.6, columns * panel.width + beside), max(1.8, rows * panel.height + above))
    figure = Figure(figsize=size, dpi=200, layout=ConstrainedLayoutEngine(w_pad=0.03, h_pad=0.03), facecolor="white")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False)


def _heat(axes: Axes, weights: Tensor, scale: Normalize) -> None:
    axes.imshow(weights.numpy(), cmap=_colours(scale), norm=scale, aspect="auto", interpolation="nearest")
    axes.spines[:].set(color=_LINE, linewidth=0.6)
    axes.tick_params(length=0, pad=2)
    axes.set_xticks([])
    axes.set_yticks([])


def _name_units(axis: Axis, side: _Side, points: float, **manner: Any) -> None:
    axis.set_ticks(
        range(len(side.units)), list(map(_short, side.units)), parse_math=False, fontsize=points, color=_INK,
        family=_families("".join(side.units)), **manner,
    )  # fmt: skip


def _short(unit: str) -> str:
    """A unit's name on one line, cut where it is long; a blank one can be seen."""
    plain = " ".join(unit.split()) or "␣"
    return plain if len(plain) <= _LONG_LABEL else plain[: _LONG_LABEL - 1] + "…"


def _bar(figure: Figure, scale: Normalize, axes: list[Axes]) -> None:
    drawn = ScalarMappable(scale, _colours(scale))
    bar = figure.colorbar(drawn, ax=axes, fraction=0.03, pad=0.02, shrink=0.9, aspect=30, format=PercentFormatter(1, decimals=0))
    end = scale.vmax or 1.0
    bar.set_ticks([0, end / (2 if type(scale) is Normalize else 4), end] if _is_signless(scale) else [-end, 0, end])
    bar.outline.set(color=_LINE, linewidth=0.6)
    bar.ax.tick_params(length=0, labelsize=7, labelcolor=_FAINT, pad=3)
    bar.ax.minorticks_off()
    bar.set_label("weight" if type(scale) is Normalize else "weight, by its square root", fontsize=7, color=_FAINT, labelpad=2)


def _caption(figure: Figure, title: str, queries: _Side, keys: _Side, with_counts: bool) -> None:
    rows, columns = (f"{side.title} ({len(side.units)})" if with_counts else side.title for side in (queries, keys))
    text = textwrap.fill(f"{title}.  Rows: {rows}; columns: {columns}.", int(figure.get_figwidth() * 72 / 5.0))
    figure.suptitle(text, x=0.01, ha="left", fontsize=9, color=_INK, parse_math=False)


@cache
def _installed() -> tuple[tuple[str, str], ...]:
    fonts = {(entry.name, entry.fname) for entry in fontManager.ttflist}
    return tuple(sorted(font for font in fonts if not font[0].startswith("Last Resort")))  # which draws a box for every character


def _families(text: str) -> list[str]:
    """DejaVu Sans, then the first fonts of this machine that have the characters it lacks."""
    families = ["DejaVu Sans"]
    missing = {ord(character) for character in text if not character.isspace()} - _characters(fontManager.findfont("DejaVu Sans"))
    for name, path in _installed() if missing else ():
        if has := missing & _characters(path):
            families.append(name)
            missing -= has
    return [*families, "sans-serif"]


@cache
def _characters(path: str) -> frozenset[int]:
    """The code points that a font draws."""
    try:
        return frozenset(get_font(path).get_charmap())
    except (OSError, RuntimeError):  # a font that matplotlib cannot read
        return frozenset()
