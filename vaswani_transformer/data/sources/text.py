"""The lines of text files, plain or compressed.

Lines end at "\\n" and nowhere else. `str.splitlines` also breaks at characters such as U+2028: one of those inside a sentence would shift
all later lines against the other side.
"""

import codecs
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...files.compression import damage_explained, open_bytes

_BYTE_ORDER_MARK = "\ufeff"
_WIDE = {
    codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16",
}  # fmt: skip
"""Encodings that a mark at the beginning gives away; UTF-32's little-endian mark begins with UTF-16's, so it comes first."""


def file_lines(path: Path) -> Iterator[str]:
    """The lines of a file, plain, `.gz` or `.xz`; see `decoded_lines`."""
    with open_bytes(path) as stream:
        yield from decoded_lines(stream, str(path))


def decoded_lines(stream: Any, name: str) -> Iterator[str]:
    """The lines of a text without their ends, "\\n" or "\\r\\n". It is in UTF-8, or in UTF-16 or UTF-32 with a byte order mark.

    Args:
        stream: a buffered binary stream.
        name: for messages.

    Raises:
        ValueError: the text cannot be decoded, or a compressed file is damaged; the sentence names the line.
    """
    number = 0
    with damage_explained(name, lambda: number):
        for text in _text_lines(stream, name):
            number += 1
            yield text.removesuffix("\n").removesuffix("\r")


def _text_lines(stream: Any, name: str) -> Iterator[str]:
    start = stream.peek(4)[:4]
    wide = next((encoding for mark, encoding in _WIDE.items() if start.startswith(mark)), None)
    return _utf8_lines(stream, name) if wide is None else _wide_lines(stream, name, wide)


def _utf8_lines(stream: Any, name: str) -> Iterator[str]:
    for number, line in enumerate(stream, start=1):
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{name}:{number} is not valid UTF-8 (byte 0x{line[error.start]:02x} at position {error.start + 1}); convert the file, "
                "for instance with `iconv -f LATIN1 -t UTF-8`, or remove the line from both sides."
            ) from error
        yield text.removeprefix(_BYTE_ORDER_MARK) if number == 1 else text


def _wide_lines(stream: Any, name: str, encoding: str) -> Iterator[str]:
    number = 0
    try:
        for line in io.TextIOWrapper(stream, encoding, newline="\n"):
            number += 1
            yield line
    except UnicodeError as error:
        raise ValueError(
            f"{name} begins with the mark of {encoding.upper()}, but is not valid {encoding.upper()} somewhere behind line {number}; "
            "convert it to UTF-8, or fetch it again."
        ) from error
