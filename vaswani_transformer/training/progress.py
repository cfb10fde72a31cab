"""The output of a training: a progress bar, a line for every interval, and the same as JSON in the log."""

import json
import math
import sys
import time
from collections import deque
from pathlib import Path
from statistics import fmean
from typing import Any

from tqdm.auto import tqdm

from ..files.atomic_file import write_text
from ..files.atomic_folder import explained, flush_to_disk
from ..recipe import TrainingSettings
from .state import TrainState

_TRAINING = "Training"
_LATEST_UPDATES = 200
"""The number of latest updates that predict the time of the next ones."""


class TrainingLog:
    """`log.jsonl`: one record a line, without gaps or duplicates; only the first rank writes it."""

    def __init__(self, path: Path, records: int, silent: bool) -> None:
        """Continue a log after its first `records`. Later ones are cut off, because their updates will be repeated."""
        self._path, self._silent = path, silent
        self.records = records
        if not silent:
            _cut(path, records)

    def write(self, record: dict[str, Any]) -> None:
        """Add a record, which has a `kind` and an `update`; it is in the file when this returns."""
        self.records += 1
        if not self._silent:
            with explained(self._path), open(self._path, "a", encoding="utf-8") as stream:
                stream.write(json.dumps(record, ensure_ascii=False) + "\n")

    def flush_to_disk(self) -> None:
        """Call this before saving a state: a state must never count more records than the log holds."""
        if not self._silent:
            flush_to_disk(self._path)


class Forecast:
    """How long the rest of a run will take, if updates, validations and saving take as long as they have so far."""

    def __init__(self, settings: TrainingSettings, state: TrainState) -> None:
        """A resumed run starts with the mean time of its earlier updates."""
        self._settings, self._state = settings, state
        known = [state.total.seconds / state.update] * min(state.update, _LATEST_UPDATES) if state.update else []
        self._updates = deque(known, maxlen=_LATEST_UPDATES)

    def count(self, seconds: float) -> None:
        """Take note of an update."""
        self._updates.append(seconds)

    def seconds_left(self) -> float:
        """Seconds from the end of an update to the end of the run, including the validation and saving that this update makes due.

        Validation and saving count as 0 until they were done once, so the early forecasts are too short.
        """
        state, settings = self._state, self._settings
        validating, saving = state.seconds - state.total.seconds, state.saving_seconds
        return (
            (settings.total_updates - state.update) * fmean(self._updates)
            + self._times(settings.validate_every) * _mean(validating, len(state.validations))
            + self._times(settings.checkpoint_every) * _mean(saving, len(state.checkpoints))
        )

    def _times(self, every: int) -> int:
        """How often something due every `every` updates and after the last one is still due, including after this update."""
        return math.ceil(self._settings.total_updates / every) - (self._state.update - 1) // every


class ProgressDisplay:
    """A bar where a terminal can show one, and lines that read as well in a file; silent on every rank but the first."""

    def __init__(self, settings: TrainingSettings, state: TrainState, silent: bool) -> None:
        """
        Args:
            settings: decide how much there is to do.
            state: the run's own, which is only read.
            silent: show nothing.
        """
        self._state, self._total, self._silent = state, settings.total_updates, silent
        self._forecast = Forecast(settings, state)
        self._bar = tqdm(
            initial=state.update,
            total=settings.total_updates,
            desc=_TRAINING,
            # A file cannot be overwritten in place, so there the lines alone show the progress
            disable=silent or not sys.stderr.isatty(),
            dynamic_ncols=True,
            bar_format="{desc} {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt}{postfix}",
        )

    def advance(self, seconds: float, record: dict[str, Any]) -> None:
        """Show that another update is done.

        Args:
            seconds: the time it took.
            record: the interval so far, as the log will hold it.
        """
        self._forecast.count(seconds)
        self._bar.set_description_str(_TRAINING, refresh=False)
        self._bar.set_postfix_str(
            f"loss {record['loss']:.3f}, lr {record['learning_rate']:.2e}, {record['tokens_per_second']:,.0f} tokens/s, "
            f"{tqdm.format_interval(self._forecast.seconds_left())} left",
            refresh=False,
        )
        self._bar.update()

    def doing(self, what: str) -> None:
        """Say on the bar why it stands still."""
        self._bar.set_description_str(what)

    def tell(self, record: dict[str, Any]) -> None:
        """Print the line of an interval."""
        elapsed = self._state.seconds + self._state.saving_seconds
        self.say(describe_interval(record, self._total, elapsed, self._forecast.seconds_left()))

    def say(self, text: str) -> None:
        """Print above the bar and flush: people read a batch system's log while it grows."""
        if not self._silent:
            with tqdm.external_write_mode():
                print(text, flush=True)

    def close(self) -> None:
        """End the bar, so that the next output starts on its own line."""
        self._bar.close()


def describe_interval(record: dict[str, Any], updates: int, elapsed: float, left: float) -> str:
    """One line, in aligned columns.

    Args:
        record: a record of the log.
        updates: the number of updates of the whole run.
        elapsed: seconds since the run's first update.
        left: seconds it will still take.
    """
    seen = record["source_tokens"] + record["target_tokens"]
    end = time.strftime("%d %b %H:%M", time.localtime(time.time() + left))
    perplexity = math.exp(min(record["nll"], 700.0))
    return "  ".join([
        f"{record['update']:>{len(str(updates))}}/{updates}",
        f"epoch {record['epoch']:6.2f}",
        f"loss {record['loss']:6.3f}",
        f"ppl {perplexity:8.2f}" if perplexity < 1e5 else f"ppl {perplexity:8.1e}",
        f"lr {record['learning_rate']:.2e}",
        f"grad {record['gradient_norm']:6.2f}",
        f"{record['tokens_per_second']:>7,.0f} tokens/s",
        f"padding {record['padding_share']:5.1%}",
        f"seen {tqdm.format_sizeof(seen):>5}",
        f"{tqdm.format_interval(elapsed)} + {tqdm.format_interval(left)} left (until {end})",
    ])  # fmt: skip


def _mean(total: float, count: int) -> float:
    return total / count if count else 0.0


def _cut(path: Path, records: int) -> None:
    """Keep the first `records` lines. A partial line that a kill left comes after those that a state counts, so it is cut, too."""
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    lines = text.split("\n")[:-1][:records]  # not `splitlines`: a sample may hold other line separators
    write_text(path, "".join(f"{line}\n" for line in lines))
