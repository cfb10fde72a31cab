"""How much CPU time a piece of work took over all processes that worked on it, one after the other; a killed one loses half a minute.

Only the standard library is imported: a program in another environment uses it, too.
"""

import json
import os
import time
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import Self

_SECONDS_BETWEEN_NOTES = 30.0


class CpuClock:
    """A context manager that adds this process's CPU time inside it to the number in a file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._before = cpu_seconds(file)
        self._stop = Event()
        self._thread = Thread(target=self._note_regularly, daemon=True)

    def __enter__(self) -> Self:
        self._start = time.process_time()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()
        self._note()

    def _note_regularly(self) -> None:
        while not self._stop.wait(_SECONDS_BETWEEN_NOTES):
            self._note()

    def _note(self) -> None:
        write_json(self._file, {"cpu_seconds": self._before + time.process_time() - self._start})


def cpu_seconds(file: Path) -> float:
    """What a clock has noted in `file` so far."""
    return float(json.loads(file.read_text(encoding="utf-8"))["cpu_seconds"]) if file.is_file() else 0.0


def write_json(file: Path, content: object) -> None:
    """Write a file whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_name(f"{file.name}.{os.getpid()}.unfinished")
    unfinished.write_text(json.dumps(content, indent=1), encoding="utf-8")
    unfinished.replace(file)
