"""Files that a reader, a crash or a power failure finds old or new, and never in part."""

import os
from pathlib import Path

from .atomic_folder import discard, explained, flush_to_disk, make_folder


def write_text(path: Path, text: str) -> None:
    """Write `text` in UTF-8; see `write_bytes`."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write `content` so that a reader, a crash or a power failure finds the old file or the new one and never a part of it.

    Raises:
        OSError: the disk is full, or may not be written; the old file is as it was.
    """
    unfinished = path.with_name(f".{path.name}.unfinished")
    with explained(path):
        make_folder(path.parent)
        try:
            discard(unfinished)
            with open(unfinished, "xb") as stream:  # a new file, never the one that a link of this name points to
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(unfinished, path)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
        flush_to_disk(path.parent)
