"""Where translations and labels go: a stream, or a file whose job can resume after a kill at any instruction.

While a job runs, its output is `OUT.partial`, and `OUT.progress.json` records how much of it is complete. A window is on the disk before
the record counts it. Anything beyond the recorded size is unfinished, and is cut off. After the last window the file gets its
name, and the record is removed. So `OUT` never exists in part.
"""

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from ..files.atomic_folder import flush_to_disk
from ..files.compression import COMPRESSED, OTHERS
from ..files.json_files import read_json, write_json
from ..files.lines import STANDARD_STREAM, LineReader
from ..files.locks import lock


@dataclass(frozen=True)
class JobProgress:
    """How far a job is.

    Attributes:
        lines: number of lines done, in the input and in the output.
        failed: how many of these have no translation or label.
        digest: SHA-256 of the input up to there.
        size: bytes of output.
        complete: nothing is left to do.
    """

    lines: int = 0
    failed: int = 0
    digest: str = ""
    size: int = 0
    complete: bool = False


class Output(Protocol):
    """What a job writes to."""

    progress: JobProgress

    def append(self, content: bytes, lines: int, failed: int, digest: str) -> None:
        """Write a window; `lines` and `failed` count those of all windows so far."""

    def finish(self) -> None:
        """Complete the output, once everything is written."""

    def advice(self) -> str:
        """What to tell a user who stopped the job."""


@contextmanager
def open_output(name: str, settings: Mapping[str, Any]) -> Iterator[Output]:
    """Open a file for a job, or standard output for "-", or something that is not a file, such as a pipe.

    Args:
        name: the file; if its name says that it is compressed, the caller compresses the content.
        settings: everything that the output depends on, apart from the input; a job resumes only with the same settings.

    Raises:
        FileExistsError: the output exists, or another process writes it.
        FileNotFoundError: its folder does not exist.
        ValueError: another job started it, or its name tells of a compression that is not known.
    """
    if Path(name).suffix in OTHERS:
        raise ValueError(f"{name} cannot be written: an output is plain or ends in {' or '.join(COMPRESSED)}; give it such a name.")
    if name == STANDARD_STREAM:
        yield StreamOutput(sys.stdout.buffer)
    elif Path(name).exists() and not Path(name).is_file():
        with open(name, "wb") as stream:
            yield StreamOutput(stream)
    else:
        output = FileOutput(Path(name), settings)
        with contextlib.closing(output):
            yield output


def skip_finished(progress: JobProgress, reader: LineReader, name: str) -> None:
    """Move `reader` past the lines that are done; it may have read the first one already, but no more.

    Raises:
        ValueError: its first lines are not those that the job has read.
    """
    if not reader.skip(progress.lines - reader.lines_read) or (progress.lines and reader.digest != progress.digest):
        raise ValueError(
            f"The first {progress.lines} lines of {name} are not those that the job has read before; give the input that the job started "
            "with, or remove the .partial and .progress.json files beside the output to start again."
        )


class StreamOutput:
    """A stream: nothing can be resumed."""

    def __init__(self, stream: BinaryIO) -> None:
        self.progress = JobProgress()
        self._stream = stream

    def append(self, content: bytes, lines: int, failed: int, digest: str) -> None:
        """See `Output.append`."""
        self._stream.write(content)
        self._stream.flush()
        self.progress = JobProgress(lines, failed, digest, self.progress.size + len(content))

    def finish(self) -> None:
        """See `Output.finish`."""
        self.progress = replace(self.progress, complete=True)

    def advice(self) -> str:
        """See `Output.advice`."""
        return f"{self.progress.lines} lines have been written; what goes to a stream cannot be resumed, what goes to a file can."


class FileOutput:
    """A file with the record of its progress beside it."""

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        """Start, or find out where to resume."""
        self.progress = JobProgress()
        self._path, self._settings = path, dict(settings)
        self._partial = path.with_name(f"{path.name}.partial")
        self._journal = path.with_name(f"{path.name}.progress.json")
        if not path.parent.is_dir():
            raise FileNotFoundError(f"There is no folder {path.parent} for the output; make it first.")
        if self._journal.exists():
            self._check_settings()
        elif path.exists():
            raise FileExistsError(f"{path} exists already; remove it, or give the output another name.")
        elif self._partial.exists() and self._partial.stat().st_size:
            raise FileExistsError(
                f"{self._partial} has no {self._journal.name} beside it, which knows how much of it is complete; remove it, or give the "
                "output another name."
            )
        self._stream: BinaryIO | None = None
        self._resources = contextlib.ExitStack()
        if self._partial.exists() or not self.progress.complete:
            self._stream = self._open_partial()

    def append(self, content: bytes, lines: int, failed: int, digest: str) -> None:
        """See `Output.append`. Everything appended survives a crash."""
        assert self._stream is not None
        self._stream.write(content)
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self._record(JobProgress(lines, failed, digest, self.progress.size + len(content)))

    def finish(self) -> None:
        """See `Output.finish`. The file gets its name."""
        if self._stream is not None:
            if not self.progress.complete:
                self._record(replace(self.progress, complete=True))
            os.replace(self._partial, self._path)
            flush_to_disk(self._path.parent)
        self._journal.unlink()

    def advice(self) -> str:
        """See `Output.advice`."""
        return f"{self.progress.lines} lines are safe in {self._partial}; the same command resumes there."

    def close(self) -> None:
        """Close and unlock the file; everything appended stays."""
        self._resources.close()

    def _record(self, progress: JobProgress) -> None:
        write_json(self._journal, {"settings": self._settings, "progress": asdict(progress)})
        self.progress = progress

    def _check_settings(self) -> None:
        journal = read_json(self._journal)
        before = journal["settings"]
        different = [
            f"{name} was {before.get(name)!r} and is now {self._settings.get(name)!r}"
            for name in sorted(before.keys() | self._settings.keys())
            if before.get(name) != self._settings.get(name)
        ]
        if different:
            raise ValueError(
                f"{self._path} was started with other settings: {'; '.join(different)}. Use those to resume it, or remove "
                f"{self._partial.name} and {self._journal.name} to start again."
            )
        self.progress = JobProgress(**journal["progress"])

    def _open_partial(self) -> BinaryIO:
        """Open the output so far, cut after its last complete window, and lock it against other processes."""
        with contextlib.ExitStack() as resources:
            resources.enter_context(
                lock(self._partial, FileExistsError(f"Another process writes {self._partial}; wait for it, or stop it."))
            )
            stream = resources.enter_context(open(self._partial, "ab"))
            size = os.fstat(stream.fileno()).st_size
            if size < self.progress.size:
                raise ValueError(
                    f"{self._partial} has {size} bytes, but {self.progress.size} had been written; remove it and {self._journal.name} to "
                    "start again."
                )
            stream.truncate(self.progress.size)
            flush_to_disk(self._path.parent)
            if not self._journal.exists():
                self._record(self.progress)
            self._resources = resources.pop_all()
        return stream
