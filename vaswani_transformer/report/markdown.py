"""Escapes foreign text in a Markdown document: names, sentences, paths and settings are shown literally, never as markup.

Everything that a template prints passes through `slot`, so the template itself need not escape anything.
"""

import json
import re
import unicodedata
from typing import Any
from urllib.parse import quote

import yaml
from huggingface_hub import ModelCardData

_JOINERS = "\u200c\u200d"
"""Invisible, but Persian, Hindi and emoji need them; they reorder and hide nothing."""

_MARKUP = re.compile(r"([\\|*`~\[\]<>#&$]|(?<![^\W_])_|_(?![^\W_]))")
"""Characters that are markup; an underscore inside a word is not."""

_BEGINS_A_BLOCK = re.compile(r"^(\d{1,9}(?=[.)](?:\s|$))|(?=([-+=])(?:\s|\2|$)))")
"""The beginning of a list, a rule, or the underline of a heading."""

_LINK = re.compile(r"//|@\S+\.|\b(?:www\.|mailto:|xmpp:)|\w\.[^\W\d_]{2}", re.IGNORECASE)
"""Text that some renderer turns into a link by itself: addresses, e-mail addresses, `example.com`."""


class Markdown(str):
    """Text that a template prints unchanged."""

    def __html__(self) -> str:
        """jinja2 calls this for text that needs no escaping."""
        return self


def text(value: object) -> Markdown:
    """`value` as one line of running text, in a paragraph or in a cell of a table.

    A backslash does not stop every renderer from turning an address into a link, so whatever looks like one becomes a code span.
    """
    words = re.split(r"([|`\s]+)", visible(value))
    escaped = "".join(code(word) if _LINK.search(word) else _MARKUP.sub(r"\\\1", word) for word in words)
    return Markdown(_BEGINS_A_BLOCK.sub(r"\1\\", escaped))


def code(value: object, in_table: bool = False) -> Markdown:
    """`value` as a code span. In a table, a bar ends the cell even inside a code span, so a value with a bar becomes running text."""
    shown = visible(value)
    if not shown.strip() or (in_table and "|" in shown):
        return text(shown)
    fence = "`" * (max(map(len, re.findall("`+", shown)), default=0) + 1)
    padding = " " if shown[0] in "` " or shown[-1] in "` " else ""
    return Markdown(f"{fence}{padding}{shown}{padding}{fence}")


def address(value: object) -> Markdown:
    """`value` as part of a link's address."""
    return Markdown(quote(str(value), errors="replace"))


def python(value: str) -> Markdown:
    """`value` as a Python literal on one line."""
    return Markdown("".join(_python_escape(c) if _is_invisible(c) else c for c in json.dumps(value, ensure_ascii=False)))


def front_matter(metadata: ModelCardData) -> Markdown:
    """The YAML at the top of a card, in ASCII, so that nothing in it is invisible."""
    return Markdown(yaml.safe_dump(metadata.to_dict(), sort_keys=False).strip())


def slot(value: Any) -> Any:
    """What a template prints: our own Markdown unchanged, everything else as text."""
    return value if hasattr(value, "__html__") or type(value) in (int, float) else text(value)


def visible(value: object) -> str:
    """`value` on one line; an invisible character that may hide, reorder or end text is written such as `<U+202E>`."""
    line = re.sub(r"\s+", " ", str(value))
    return "".join(f"<U+{ord(c):04X}>" if _is_invisible(c) else c for c in line)


def _is_invisible(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") and character not in _JOINERS


def _python_escape(character: str) -> str:
    return f"\\u{ord(character):04x}" if ord(character) < 0x10000 else f"\\U{ord(character):08x}"
