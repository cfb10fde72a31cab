"""Folders that appear whole or not at all."""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield an empty folder beside `path`, which takes the place of `path` when the block ends well and is removed when it does not.

    Everything is on the disk before the name appears, so that neither a kill nor a power failure can leave a part of it behind. A crash
    may leave `.NAME.unfinished`, which the next call removes.

    Raises:
        OSError: the disk is full; the sentence says where and that what was there is untouched.
    """
    unfinished = path.with_name(f".{path.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    try:
        yield unfinished
        for file in sorted(unfinished.rglob("*")):
            flush_to_disk(file)
        flush_to_disk(unfinished)
        _take_place(unfinished, path)
    except BaseException as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        if _disk_is_full(error):
            raise OSError(
                errno.ENOSPC,
                f"The disk is full: {path} could not be written, nothing else changed; free some space and run the same again",
            ) from error
        raise


def _take_place(unfinished: Path, path: Path) -> None:
    replaced = path.with_name(f".{path.name}.replaced")
    shutil.rmtree(replaced, ignore_errors=True)
    if path.exists():
        os.replace(path, replaced)
    os.replace(unfinished, path)
    flush_to_disk(path.parent)
    shutil.rmtree(replaced, ignore_errors=True)


def flush_to_disk(path: Path) -> None:
    """Return when a file's content, or a folder's list of names, would survive a power failure."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _disk_is_full(error: BaseException) -> bool:
    """safetensors reports the system's error as text only."""
    return getattr(error, "errno", None) == errno.ENOSPC or f"os error {errno.ENOSPC}" in str(error)
