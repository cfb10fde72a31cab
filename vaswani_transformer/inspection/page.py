"""Attention as one page of HTML: it needs no server, no network and no other file, and displays itself in a notebook."""

import base64
import hashlib
import html
import json
import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from torch import Tensor

from ..files.atomic_file import write_text
from .maps import AttentionMaps, Level

MOST_BYTES = 3_000_000
"""Of a page, unless told otherwise."""
MOST_UNITS = 1024
"""Of a source or a translation: with more, a browser needs seconds for each picture."""

_PARTS = Path(__file__).parent / "page_parts"
_LEAST_KEPT = 3
"""Of 255: smaller weights are dropped where a page would be too large otherwise."""


@dataclass(frozen=True)
class AttentionPage:
    """A whole document, which a notebook shows by itself."""

    html: str
    """The document; it holds its script, its style and all weights, and may load nothing else."""
    title: str
    left_out: tuple[str, ...] = ()
    """One sentence for each thing that was left out so that the page stays small; the page shows them, too."""

    def write(self, path: Path | str) -> None:
        """Write the page atomically, whatever was there before.

        Raises:
            ValueError: the path does not end in `.html`.
            OSError: the file cannot be written; an existing one is as it was.
        """
        path = Path(path)
        if path.suffix.lower() not in (".html", ".htm"):
            raise ValueError(f"An attention page is written as .html; {path} has another ending.")
        write_text(path, self.html)

    def _repr_html_(self) -> str:
        """For a notebook: the page in a frame that may run its script and nothing else."""
        return (
            f'<iframe srcdoc="{html.escape(self.html)}" sandbox="allow-scripts" title="{html.escape(self.title)}" '
            'style="width: 100%; height: 46rem; border: 0"></iframe>'
        )


def attention_page(
    candidates: Sequence[AttentionMaps] | AttentionMaps,
    title: str = "What attention sees",
    *,
    level: Level = "word",
    most_bytes: int = MOST_BYTES,
) -> AttentionPage:
    """Put the attention of one source's translations into a page: lines, texts, matrix, all heads, step by step.

    Maps by subwords are shown by words, too, and the page switches between both. Weights are rounded to 1/255.

    Args:
        candidates: translations of one source, best first.
        title: of the document.
        level: what is shown first, where a map has both.
        most_bytes: the page stays below this. Where all weights do not fit, small weights, translations, the level that is not shown
            first, and self-attention are left out, in this order and only as far as needed; `left_out` and the page say so.

    Raises:
        ValueError: there is no candidate, a weight is not a number, or a source or translation is too long for a page.
    """
    candidates = [candidates] if isinstance(candidates, AttentionMaps) else list(candidates)
    _check(candidates)
    by_both = [(maps, maps.words() if maps.source_words else None) for maps in candidates]
    packing = _Packing(most_bytes)
    for least, count, both, kinds, left_out in _ever_smaller(candidates, level):
        try:
            data = _data(by_both[:count], level, both, kinds, packing.at_least(least))
        except _TooLargeError:
            continue
        text = _document(title, data | {"remarks": list(left_out)})
        if len(text.encode()) < most_bytes:
            return AttentionPage(text, title, tuple(left_out))
    raise ValueError(
        f"The attention of {len(candidates[0].source)} source and {len(candidates[0].target)} written units does not fit into a page of "
        f"{most_bytes:,} bytes; give a shorter text, or draw a picture of one layer with `small_multiples`."
    )


def attention_data(candidates: Sequence[AttentionMaps], *, level: Level = "word") -> dict[str, Any]:
    """What `showAttention(element, data)` of `script()` draws, ready for JSON: for a page of another making.

    Args:
        candidates: translations of one source, best first.
        level: what is shown first, where a map has both.

    Raises:
        ValueError: as for `attention_page`.
    """
    _check(candidates)
    return _data([(maps, maps.words() if maps.source_words else None) for maps in candidates], level, True, _KINDS, _Packing())


@cache
def script() -> str:
    """The plain script that defines `showAttention`."""
    return (_PARTS / "attention.js").read_text(encoding="utf-8")


@cache
def style() -> str:
    """The style sheet that belongs to `script()`; its rules touch nothing but the view."""
    return (_PARTS / "attention.css").read_text(encoding="utf-8")


_KINDS = ("encoder", "decoder", "cross")


def _check(candidates: Sequence[AttentionMaps]) -> None:
    if not candidates:
        raise ValueError("There is no translation to show; give the maps of one or more.")
    for maps in candidates:
        for what, units in (("source", maps.source), ("translation", maps.target)):
            if len(units) > MOST_UNITS:
                raise ValueError(f"The {what} has {len(units)} units, and a page shows at most {MOST_UNITS}; give a shorter text.")


def _ever_smaller(candidates: Sequence[AttentionMaps], level: Level) -> Iterator[tuple[int, int, bool, Sequence[str], Sequence[str]]]:
    """What to put into a page, from everything to the least: (least weight, candidates, both levels, kinds, sentences)."""
    told: list[str] = []
    has_both = any(maps.source_words for maps in candidates)
    yield 0, len(candidates), True, _KINDS, told
    told = [f"To keep this page small, weights below {_LEAST_KEPT / 255:.1%} are left out (they count as 0)."]
    yield _LEAST_KEPT, len(candidates), True, _KINDS, told
    if len(candidates) > 3:
        half = len(candidates) // 2
        some = f"To keep this page small, only the best {half} of {len(candidates)} translations are here."
        yield _LEAST_KEPT, half, True, _KINDS, [*told, some]
    if len(candidates) > 1:
        told = [*told, f"To keep this page small, only the best of {len(candidates)} translations is here."]
        yield _LEAST_KEPT, 1, True, _KINDS, told
    if has_both:
        told = [*told, f"To keep this page small, weights are here by {level}s only."]
        yield _LEAST_KEPT, 1, False, _KINDS, told
    told = [*told, "To keep this page small, self-attention of the encoder is left out."]
    yield _LEAST_KEPT, 1, False, ("decoder", "cross"), told
    yield _LEAST_KEPT, 1, False, ("cross",), [*told[:-1], "To keep this page small, self-attention is left out."]


def _data(
    candidates: Sequence[tuple[AttentionMaps, AttentionMaps | None]], level: Level, both: bool, kinds: Sequence[str], packing: "_Packing"
) -> dict[str, Any]:
    """`candidates` by subwords and by words; None where a map has one level only."""
    found = []
    for maps, by_words in candidates:
        shown = maps if both or by_words is None or level == "subword" else by_words
        entry = _units(shown, kinds, packing) | {"score": maps.score, "source_text": maps.source_text, "target_text": maps.target_text}
        if both and by_words is not None:
            entry["words"] = _units(by_words, kinds, packing)
        found.append(entry)
    return {"candidates": found, "level": level}


def _units(maps: AttentionMaps, kinds: Sequence[str], packing: "_Packing") -> dict[str, Any]:
    return {
        "source": list(maps.source),
        "target": list(maps.target),
        "read": list(maps.read),
        "probabilities": [round(float(probability), 4) for probability in maps.log_probabilities.exp()],
        "maps": {kind: packing(weights) for kind in kinds if (weights := getattr(maps, kind)).shape[0]},
    }


class _TooLargeError(Exception):
    """The weights alone are larger than the page may be."""


class _Packing:
    """Makes weights small, each map once, and gives up as soon as they cannot fit any more."""

    def __init__(self, most_bytes: float = math.inf) -> None:
        self._most_bytes = most_bytes
        self._least, self._used = 0, 0
        self._packed: dict[tuple[int, int], dict[str, Any]] = {}

    def at_least(self, least: int) -> "_Packing":
        """Begin a new page, in which weights below `least` / 255 count as 0."""
        self._least, self._used = least, 0
        return self

    def __call__(self, weights: Tensor) -> dict[str, Any]:
        """`[layers, heads, queries, keys]` as bytes round(255 w), deflated, in base64."""
        key = (id(weights), self._least)
        if key not in self._packed:
            layers, heads, queries, keys = weights.shape
            facts = {"layers": layers, "heads": heads, "queries": queries, "keys": keys, "encoding": "deflate"}
            self._packed[key] = facts | {"weights": base64.b64encode(self._deflated(weights)).decode()}
        self._spend(len(self._packed[key]["weights"]))
        return self._packed[key]

    def _deflated(self, weights: Tensor) -> bytes:
        compressor, parts = zlib.compressobj(), []
        for layer in weights.detach():
            if not torch.isfinite(layer).all():
                raise ValueError("The attention weights are not all numbers; run the model in float32.")
            rounded = (layer.double() * 255).round().clamp(0, 255).to(torch.uint8).cpu()
            rounded[rounded < self._least] = 0
            parts.append(compressor.compress(rounded.contiguous().numpy().tobytes()))
            self._spend(sum(map(len, parts)), kept=False)
        return b"".join([*parts, compressor.flush()])

    def _spend(self, size: int, kept: bool = True) -> None:
        if self._used + size > self._most_bytes:
            raise _TooLargeError
        self._used += size if kept else 0


def _document(title: str, data: dict[str, Any]) -> str:
    environment = Environment(loader=FileSystemLoader(_PARTS), undefined=StrictUndefined, autoescape=True)
    whole_script = script() + (_PARTS / "page.js").read_text(encoding="utf-8")
    whole_style = style() + (_PARTS / "page.css").read_text(encoding="utf-8")
    return environment.get_template("page.html").render(
        title=title,
        script=whole_script,
        style=whole_style,
        script_hashes=_hash(whole_script),
        style_hashes=_hash(whole_style),
        data=_json(data),
    )


def _hash(text: str) -> str:
    """What the content security policy knows a script or style by."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _json(data: Any) -> str:
    """JSON that can stand in an element `script`: no character of it begins a tag, a comment or an entity, or ends a line."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
