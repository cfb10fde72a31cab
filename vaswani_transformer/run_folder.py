"""The name of every file a run writes, once.

Stages hand over folders: each stage reads what the one before it wrote, so any of them can be rerun or replaced alone.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .atomic_folder import explained, flush_to_disk, make_folder

TRANSFER = "transfer.json"
"""In `RunFolder.initial`: what that model was made from, and what became of each vocabulary entry."""


@dataclass(frozen=True)
class RunFolder:
    """The files of one experiment below `path`, in the order in which they come to be."""

    path: Path

    @property
    def recipe(self) -> Path:
        """The resolved recipe: every setting, defaults and overrides included."""
        return self.path / "recipe.yaml"

    @property
    def lock(self) -> Path:
        """Empty; locked by the training at work."""
        return self.path / "training.lock"

    @property
    def cleaning(self) -> Path:
        """What cleaning kept and dropped, and the hash of every file that was read."""
        return self.path / "cleaning.json"

    @property
    def tokenizer(self) -> Path:
        return self.path / "tokenizer"

    @property
    def encoded(self) -> Path:
        """Memory-mapped token ids, one folder for each split."""
        return self.path / "encoded"

    @property
    def initial(self) -> Path:
        """The model a fine-tuning starts from, with the vocabulary of this run."""
        return self.path / "initial"

    @property
    def log(self) -> Path:
        """One JSON object a line: training intervals and validations."""
        return self.path / "log.jsonl"

    @property
    def training(self) -> Path:
        """What the training cost: updates, tokens, seconds, FLOPs, hardware, versions."""
        return self.path / "training.json"

    @property
    def state(self) -> Path:
        """What resuming needs: weights, optimizer, update number."""
        return self.path / "state"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    def checkpoint(self, update: int) -> Path:
        return self.checkpoints / f"step-{update}"

    @property
    def averaged(self) -> Path:
        return self.path / "averaged"

    @property
    def evaluation(self) -> Path:
        return self.path / "evaluation.json"

    @property
    def card(self) -> Path:
        return self.path / "README.md"

    @property
    def curves(self) -> Path:
        """Loss and BLEU over updates, as a picture."""
        return self.path / "curves.png"

    @property
    def report(self) -> Path:
        """The whole course of the training as one page."""
        return self.path / "report.html"

    @property
    def published(self) -> Path:
        """The folder that goes to the Hub as it is."""
        return self.path / "published"


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
            with open(unfinished, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(unfinished, path)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
        flush_to_disk(path.parent)


def write_json(path: Path, content: Any) -> None:
    """Write `content` as indented JSON, atomically."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def read_json(path: Path) -> Any:
    """Read a JSON file.

    Raises:
        FileNotFoundError: `path` does not exist.
        ValueError: the file is not JSON; the sentence names the file and the line.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}:{error.lineno} is not valid JSON ({error.msg}); delete it and run the stage again.") from error


def read_json_lines(path: Path, growing: bool = False) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file that holds one JSON object a line.

    Args:
        path: the file.
        growing: leave out a last line without its end: somebody may be writing it right now, or was killed while writing it.

    Raises:
        ValueError: a line is not JSON; the sentence names it.
    """
    with open(path, "rb") as stream:
        for number, line in enumerate(stream, start=1):
            if growing and not line.endswith(b"\n"):
                return
            try:
                yield json.loads(line)
            except ValueError as error:
                raise ValueError(f"{path}:{number} is not valid JSON ({error}); remove that line.") from error


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
