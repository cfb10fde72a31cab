"""What a training tells: a bar for the one who watches, a JSON line for every interval for the one who asks later."""

import json
import os
import sys
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from ..run_folder import write_text

_SECONDS_BETWEEN_LINES = 10.0
"""How often the bar is written where nobody can overwrite it: into a file, or a log of a batch system."""


class TrainingLog:
    """`log.jsonl`: a record a line, without gaps and without doubles; silent on every rank but the first."""

    def __init__(self, path: Path, resumed_update: int, silent: bool) -> None:
        """Open the log; records of updates after `resumed_update`, which will be done again, are cut off."""
        if not silent:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists():
                _cut(path, resumed_update)
        self._stream = open(os.devnull if silent else path, "a", encoding="utf-8", buffering=1)  # noqa: SIM115

    def write(self, record: dict[str, Any]) -> None:
        """Add a record, which has a `kind` and an `update`; it is in the file when this returns."""
        self._stream.write(json.dumps(record, ensure_ascii=False) + "\n")

    def flush_to_disk(self) -> None:
        """To be called before a state is saved: a state must never know more than the log."""
        self._stream.flush()
        os.fsync(self._stream.fileno())

    def close(self) -> None:
        self._stream.close()


class ProgressBar:
    """Updates done, with loss, learning rate, target tokens a second and time left; silent on every rank but the first."""

    def __init__(self, done: int, total: int, silent: bool) -> None:
        self._bar = tqdm(
            initial=done,
            total=total,
            unit="update",
            desc="Training",
            disable=silent,
            dynamic_ncols=True,
            mininterval=0.1 if sys.stderr.isatty() else _SECONDS_BETWEEN_LINES,
        )

    def advance(self, loss: float, learning_rate: float, tokens_per_second: float) -> None:
        self._bar.set_postfix_str(
            f"loss {loss:.3f}, lr {learning_rate:.2e}, {tokens_per_second:,.0f} tokens/s", refresh=False
        )
        self._bar.update()

    def say(self, text: str) -> None:
        """Print above the bar."""
        if not self._bar.disable:
            self._bar.write(text)

    def close(self) -> None:
        self._bar.close()


def _cut(path: Path, resumed_update: int) -> None:
    kept = []
    with open(path, encoding="utf-8") as stream:
        for line in stream:
            # A kill in the middle of a write leaves a last line without its end
            if line.endswith("\n") and json.loads(line)["update"] <= resumed_update:
                kept.append(line)
    write_text(path, "".join(kept))
