"""Files that are plain, or compressed by gzip or xz, as their names say."""

import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

_MODULES: dict[str, Any] = {".gz": gzip, ".xz": lzma}
OTHERS = (".bz2", ".zip", ".zst", ".7z", ".Z")
"""How the names of files end that are compressed in other ways."""

_DAMAGE = (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError)

COMPRESSED = tuple(_MODULES)
"""How the names of compressed files end."""


def open_bytes(path: Path) -> BinaryIO:
    """The bytes of a file, decompressed if its name ends in `.gz` or `.xz`.

    Raises:
        ValueError: the name tells of another compression.
    """
    module = _module(path)
    if module is None:
        return path.open("rb")
    return cast(BinaryIO, io.BufferedReader(module.open(path, "rb")))


def compress(content: bytes, name: str) -> bytes:
    """`content` as it is appended to the file `name`; a compressed file is a row of complete members, one for each call.

    Raises:
        ValueError: the name tells of a compression that is not known.
    """
    module = _module(Path(name))
    if module is gzip:
        return gzip.compress(content, mtime=0)  # without the time, the same content is the same file
    return module.compress(content) if module else content


@contextmanager
def damage_explained(name: str, lines_read: Callable[[], int] | None = None) -> Iterator[None]:
    """Turn what a damaged compressed file raises in the block into a sentence.

    Args:
        name: of the file.
        lines_read: how many lines were read when it failed.

    Raises:
        ValueError: the file `name` is damaged.
    """
    try:
        yield
    except _DAMAGE as error:
        beyond = "" if lines_read is None else f" beyond line {lines_read()}"
        raise ValueError(f"{name} cannot be decompressed{beyond} ({error}); it is damaged or incomplete: fetch it again.") from error


def _module(path: Path) -> Any:
    if path.suffix in OTHERS:
        raise ValueError(f"{path}: only {', '.join(COMPRESSED)} and plain files are read and written; unpack it, or choose another name.")
    return _MODULES.get(path.suffix)
