"""Folders that appear whole or not at all, and go in the same way."""

import errno
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_CAUSES = {
    errno.ENOSPC: ("The disk is full", "free some space"),
    errno.EDQUOT: ("The quota is used up", "free some space"),
    errno.EFBIG: ("The file is larger than this system lets it be", "raise the limit (`ulimit -f`)"),
    errno.EROFS: ("The file system is read-only", "make it writable, or choose another folder"),
}
_FORBIDDEN = ("The folder may not be written to", "give yourself the right, or choose another folder")


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield an empty folder beside `path`, which takes the place of `path` when the block ends well and is removed when it does not.

    Everything is on the disk before the name appears, so that neither a kill nor a power failure can leave a part of it behind. A crash
    may leave `.NAME.unfinished`, which the next call removes; see `sweep`. Files get the mode that the umask asks for, also from libraries
    that write private ones. Where `path` is a symbolic link, the folder takes the place of the link, and what it pointed to is untouched.

    Raises:
        OSError: the disk is full, or may not be written; the sentence says where and that what was there is untouched.
    """
    unfinished = path.with_name(f".{path.name}.unfinished")
    with explained(path):
        make_folder(path.parent)
        discard(unfinished)
        unfinished.mkdir()
        mode = unfinished.stat().st_mode & 0o666  # what the umask leaves of it
        try:
            yield unfinished
            for path_inside in sorted(unfinished.rglob("*")):
                if path_inside.is_file() and not path_inside.is_symlink():
                    path_inside.chmod(mode)
                flush_to_disk(path_inside)
            flush_to_disk(unfinished)
            _take_place(unfinished, path)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise


@contextmanager
def changed_folder(path: Path) -> Iterator[Path]:
    """`atomic_folder` that begins as a copy of what is at `path`."""
    with atomic_folder(path.absolute()) as unfinished:
        shutil.copytree(path, unfinished, symlinks=True, dirs_exist_ok=True)
        yield unfinished


@contextmanager
def new_folder(out: str | Path) -> Iterator[Path]:
    """`atomic_folder`, where nothing is to be replaced.

    Raises:
        FileExistsError: something is at `out` already.
    """
    out = Path(out)
    if out.is_file() or (out.is_dir() and any(out.iterdir())):
        raise FileExistsError(f"{out} exists and is not empty; give a new folder, or remove that one first.")
    with atomic_folder(out.absolute()) as unfinished:
        yield unfinished


def remove_folder(path: Path) -> None:
    """Remove a folder at once: a kill in the middle leaves nothing under its name. See `discard` for links."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    discard(unfinished)
    os.replace(path, unfinished)
    discard(unfinished)


def discard(path: Path) -> None:
    """Remove what is at `path`, if anything is: a folder with all in it, a file, or a symbolic link and never what it points to."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def sweep(folder: Path) -> None:
    """Clear away what crashes left in `folder` and below it; a folder that was about to be replaced is there again."""
    for left in sorted(folder.rglob(".*.unfinished"), reverse=True):  # what lies deeper goes first
        discard(left)
    for left in sorted(folder.rglob(".*.replaced")):
        original = left.with_name(left.name.removeprefix(".").removesuffix(".replaced"))
        if original.exists():
            discard(left)
        else:
            discard(original)  # a link that leads nowhere
            os.replace(left, original)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn the system's refusal to write `path` into a sentence that says why, where and what to do."""
    try:
        yield
    except BaseException as error:
        number, where = _system_error(error)
        cause = _CAUSES.get(number)
        # A file that may not be read does not keep `path` from being written
        if number in (errno.EACCES, errno.EPERM) and (where.startswith(str(path.parent)) or where in map(str, path.parents)):
            cause = _FORBIDDEN
        if cause is None:
            raise
        raise OSError(
            number,
            f"{cause[0]}: {path} could not be written, nothing else changed; {cause[1]} and run the same again",
        ) from error


def make_folder(path: Path) -> None:
    """Make `path` and the folders above it, so that their names, too, survive a power failure."""
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(exist_ok=True)
        flush_to_disk(path.parent)


def flush_to_disk(path: Path) -> None:
    """Return when a file's content, or a folder's list of names, would survive a power failure."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _take_place(unfinished: Path, path: Path) -> None:
    replaced = path.with_name(f".{path.name}.replaced")
    discard(replaced)
    if os.path.lexists(path):
        os.replace(path, replaced)
    os.replace(unfinished, path)
    flush_to_disk(path.parent)
    with suppress(OSError):  # the new folder is there; what is left of the old one goes with the next sweep
        discard(replaced)


def _system_error(error: BaseException) -> tuple[int, str]:
    """Number and file of a system's error; safetensors reports the number as text only."""
    if isinstance(error, OSError):
        return error.errno or 0, str(error.filename or "")
    found = re.search(r"os error (\d+)", str(error))
    return int(found[1]) if found else 0, ""
