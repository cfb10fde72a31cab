"""Folders that know when one of their files was damaged: `SHA256SUMS`, which `sha256sum -c SHA256SUMS` reads too."""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from .atomic_file import write_text

CHECKSUMS = "SHA256SUMS"


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def write_checksums(folder: Path) -> None:
    """Write the hash of every file in `folder`, and above them, as a comment, how many there are."""
    files = sorted(file for file in folder.iterdir() if file.is_file() and file.name != CHECKSUMS)
    lines = [_heading(len(files)), *(f"{file_sha256(file)}  {file.name}" for file in files)]
    write_text(folder / CHECKSUMS, "".join(f"{line}\n" for line in lines))


def find_damage(folder: Path, needed: Sequence[str] = ()) -> str | None:
    """Look whether the files of `folder` are what `write_checksums` saw; the time is that of reading them.

    Args:
        folder: where the files and their `SHA256SUMS` lie; files that came later do not matter.
        needed: names that must be among those with a hash.

    Returns:
        The beginning of a sentence that names the first file with a fault, or None if there is none.
    """
    sums = folder / CHECKSUMS
    if not sums.is_file():
        return f"{sums} is missing"
    heading, *lines = sums.read_text(encoding="utf-8", errors="replace").split("\n")
    if not lines or lines.pop() or heading != _heading(len(lines)):
        return f"{sums} is damaged: lines are missing or changed"
    hashes = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    for name in dict.fromkeys((*needed, *hashes)):
        if not (folder / name).is_file():
            return f"{folder / name} is missing"
        if name not in hashes:
            return f"{sums} is damaged: {name} is not in it"
        if file_sha256(folder / name) != hashes[name]:
            return f"{folder / name} is damaged: its SHA-256 is not the one it was saved with"
    return None


def verify(folder: Path, remedy: str = "") -> None:
    """Make sure, before a model in `folder` is used, that no file changed since it was saved; the time is that of reading the folder.

    A folder without `SHA256SUMS`, as other programs write it, passes.

    Args:
        folder: see `find_damage`.
        remedy: the end of the sentence; by default what to do about a file that the user changed on purpose.

    Raises:
        ValueError: a file was changed, is missing, or holds weights that are not in the list; the sentence names the file and the remedy.
    """
    if not os.path.lexists(folder / CHECKSUMS):
        return
    weights = sorted(file.name for file in folder.glob("*.safetensors"))
    if damage := find_damage(folder, weights):
        remedy = remedy or f"if you changed it yourself, delete {folder / CHECKSUMS}"
        raise ValueError(f"{damage}; put back a good copy, or, {remedy}.")


def _heading(files: int) -> str:
    return f"# {files} files"
