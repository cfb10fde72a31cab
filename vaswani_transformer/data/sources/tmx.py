"""A translation memory in TMX, as translators' tools export it and OPUS offers it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree

from ...files.compression import damage_explained, open_bytes
from .corpus import Corpus, SentencePair, existing

_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
_CODES = {"bpt", "ept", "it", "ph", "ut"}
"""Elements of a segment that hold the mark-up of the program it came from, and not text."""


@dataclass(frozen=True, kw_only=True)
class TmxCorpus(Corpus):
    """One file `path`, plain, `.gz` or `.xz`: its translation units in both languages. Units in other languages only are no pairs of it.

    A unit's language is the recipe's if the codes are equal, or if the recipe names no region and the first parts are: `en` reads `EN-US`.
    """

    format: Literal["tmx"] = "tmx"
    path: str

    @property
    def title(self) -> str:
        return self.path

    def _content(self, code: Callable[[object], str]) -> str:
        return f"translation memory {code(self.path)}, its units in both languages"

    def files(self, root: Path) -> dict[str, Path]:
        return {self.path: root / self.path}

    def _pairs(self, root: Path, languages: tuple[str, str]) -> Iterator[SentencePair]:
        path, found, pairs = existing(root / self.path), set[str](), 0
        for number, segments in enumerate(_units(path), start=1):
            found |= segments.keys()
            source, target = (_segment(segments, language) for language in languages)
            if source is not None and target is not None:
                pairs += 1
                yield SentencePair(source, target, self.path, number)
        if not pairs:
            raise ValueError(
                f"{path} has no translation unit in both {languages[0]} and {languages[1]}, but units in "
                f"{', '.join(sorted(found)) or 'no language'}; set source_language and target_language."
            )


def _units(path: Path) -> Iterator[dict[str, str]]:
    """The segments of each translation unit, by language as the file writes it; of two in one language the first."""
    try:
        with damage_explained(str(path)), open_bytes(path) as stream:
            body = None
            for event, element in ElementTree.iterparse(stream, events=("start", "end")):
                if event == "start" and _name(element) == "body":
                    body = element
                elif event == "end" and _name(element) == "tu":
                    yield _segments(element)
                    if body is not None:
                        body.clear()  # what was read is not needed any more
    except ElementTree.ParseError as error:
        raise ValueError(f"{path} is not valid TMX ({error}); repair it, or fetch it again.") from error


def _segments(unit: ElementTree.Element) -> dict[str, str]:
    segments: dict[str, str] = {}
    for variant in unit.findall("{*}tuv"):
        segment = variant.find("{*}seg")
        if segment is not None:
            segments.setdefault(variant.get(_LANGUAGE) or variant.get("lang") or "", "".join(_text(segment)))
    return segments


def _text(element: ElementTree.Element) -> Iterator[str]:
    """The text of a segment without foreign mark-up; that inside a highlight is text."""
    yield element.text or ""
    for child in element:
        if _name(child) not in _CODES:
            yield from _text(child)
        yield child.tail or ""


def _name(element: ElementTree.Element) -> str:
    """Its tag without a namespace, which some programs give."""
    return element.tag.rpartition("}")[2]


def _segment(segments: dict[str, str], language: str) -> str | None:
    by_code = {code.lower().replace("_", "-"): text for code, text in segments.items()}
    wanted = language.lower().replace("_", "-")
    regions = (text for code, text in by_code.items() if "-" not in wanted and code.partition("-")[0] == wanted)
    return by_code.get(wanted, next(regions, None))
