"""Contestants that do the same work by turns in one process, so that whatever else the machine does slows all of them alike.

The order turns round after every round (A B C, C B A, A B C, ...), so that a machine that grows slower or faster favours nobody. What to
trust are the ratios: each is taken within a round, between runs that stood seconds apart.
"""

import gc
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple

from tqdm.auto import tqdm

Clock = Callable[[], float]


@dataclass(frozen=True)
class Measurement:
    """What one contestant took, a number for each repeat, and what its last run returned."""

    seconds: tuple[float, ...]
    cpu_seconds: tuple[float, ...]
    result: Any

    @property
    def median_seconds(self) -> float:
        return median(self.seconds)

    @property
    def median_cpu_seconds(self) -> float:
        return median(self.cpu_seconds)


class Timed(NamedTuple):
    """What a run returns that times itself, because it does more than what counts, or does it in another process."""

    seconds: float
    cpu_seconds: float
    result: Any = None


class Ratio(NamedTuple):
    """How many times as fast as another contestant: the median over the rounds, and the least and largest of them."""

    median: float
    low: float
    high: float


def interleave(
    runs: Mapping[str, Callable[[], Any]],
    repeats: int = 5,
    *,
    warm_ups: int = 1,
    wall_clock: Clock = time.perf_counter,
    cpu_clock: Clock = time.process_time,
    title: str | None = None,
) -> dict[str, Measurement]:
    """Run everybody by turns, `warm_ups` rounds for nothing and `repeats` that count.

    Args:
        runs: each contestant's whole work; a run that leaves something to a device must wait for it before it returns. One that
            returns `Timed` is believed, and what it took by the clocks here does not count.
        wall_clock, cpu_clock: seconds that pass, and seconds that this process computes on all its threads; the second is steadier where
            others compute beside.
        title: of a progress bar; none by default.

    Raises:
        ValueError: nobody runs, or nothing is measured.
    """
    if not runs or repeats < 1 or warm_ups < 0:
        raise ValueError(
            f"{len(runs)} contestants, {repeats} repeats and {warm_ups} warm-ups measure nothing; "
            "name a contestant or more, and 1 repeat or more."
        )
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    cpu_seconds: dict[str, list[float]] = {name: [] for name in runs}
    results: dict[str, Any] = {}
    with tqdm(total=len(runs) * (warm_ups + repeats), desc=title, unit="run", disable=title is None, leave=False) as bar:
        for number in range(-warm_ups, repeats):
            for name in list(runs) if number % 2 == 0 else reversed(list(runs)):
                gc.collect()  # or one contestant would clear up after another
                wall, cpu = wall_clock(), cpu_clock()
                result = runs[name]()
                cpu, wall = cpu_clock() - cpu, wall_clock() - wall
                timed = result if isinstance(result, Timed) else Timed(wall, cpu, result)
                results[name] = timed.result
                if number >= 0:
                    seconds[name].append(timed.seconds)
                    cpu_seconds[name].append(timed.cpu_seconds)
                bar.update()
    return {name: Measurement(tuple(seconds[name]), tuple(cpu_seconds[name]), results[name]) for name in runs}


def wall_ratios(measurements: Mapping[str, Measurement], reference: str | None = None) -> dict[str, Ratio]:
    """Speed by the clock on the wall, relative to the contestant `reference`, by default the first."""
    return _ratios({name: measured.seconds for name, measured in measurements.items()}, reference)


def cpu_ratios(measurements: Mapping[str, Measurement], reference: str | None = None) -> dict[str, Ratio]:
    """The same by the seconds that were computed."""
    return _ratios({name: measured.cpu_seconds for name, measured in measurements.items()}, reference)


def _ratios(seconds: Mapping[str, tuple[float, ...]], reference: str | None) -> dict[str, Ratio]:
    compared = next(iter(seconds.values())) if reference is None else seconds[reference]
    rounds = {name: [theirs / own for theirs, own in zip(compared, its_own, strict=True)] for name, its_own in seconds.items()}
    return {name: Ratio(median(values), min(values), max(values)) for name, values in rounds.items()}
