"""The whole measurement: which cells, in which order, and what follows from them: exponents, crossovers, counts."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from benchmarks.layers.cells import FORWARD, MEASURED, MODES, TRAINING, Cell, Limits, measure, missing
from benchmarks.layers.counting import path_length, sequential_operations
from benchmarks.layers.kinds import KINDS, REFERENCE
from benchmarks.machine import circumstances
from benchmarks.report import Results, Row
from benchmarks.settings import Rounds
from vaswani_transformer.files.json_files import read_json

WIDTHS = (64, 128, 256, 512, 1024)
LENGTHS = tuple(2**power for power in range(5, 15))
COUNTED = (32, 64, 128, 256)
"""Lengths at which operations and paths are counted; the width does not matter there."""

SKIPPED = "skipped"
"""The outcome of a cell that was not tried, because a shorter one of its row had reached a limit."""

_FITTED = 3
"""The number of largest sizes through which an exponent is fitted; at small ones the calls themselves take most of the time."""


@dataclass(frozen=True, kw_only=True)
class Settings(Rounds):
    """What to measure.

    Attributes:
        widths: values of d, multiples of 64.
        lengths: values of n, at least 2.
        threads: of PyTorch.
        seconds: a cell is not timed again after so many.
        cell_seconds: the time a cell may take, by the processor's clock of each thread.
        cell_gib: the memory it may take.
    """

    widths: tuple[int, ...] = WIDTHS
    lengths: tuple[int, ...] = LENGTHS
    threads: tuple[int, ...] = (1,)
    repeats: int = 10
    seconds: float = 0.05
    cell_seconds: float = 18.0
    cell_gib: float = 6.0

    def __post_init__(self) -> None:
        self.check_names("contestants", KINDS)
        self.check_numbers("widths", "lengths", "threads", "repeats", "cell_gib", "cell_seconds")
        if wrong := [width for width in self.widths if width % 64]:
            raise ValueError(f"`widths` holds {wrong[0]}; a head is 64 wide, so take multiples of 64.")
        if min(self.lengths) < 2:
            raise ValueError("`lengths` must be 2 or more: a path leads from one position to another.")
        object.__setattr__(self, "contestants", self.contestants or tuple(KINDS))
        for name in ("widths", "lengths", "threads"):
            object.__setattr__(self, name, tuple(sorted(getattr(self, name))))

    @property
    def limits(self) -> Limits:
        """What each cell may take."""
        return Limits(self.repeats, self.seconds, self.cell_seconds, self.cell_gib)


def benchmark_layers(settings: Settings, file: Path) -> Iterator[Results]:
    """Measure what `file` does not hold yet.

    Yields:
        All results so far, after each row of lengths.

    Raises:
        ValueError: `file` holds a measurement of another machine, or under other limits than lower ones of time and memory.
        RuntimeError: a cell failed.
    """
    results = _begun(settings, file)
    known = {_key(row): row for row in results["cells"]}
    for threads, name, width in product(settings.threads, settings.contestants, settings.widths):
        ended = False
        for length in settings.lengths:
            cell = Cell(name, width, length, threads)
            rows = [known.get((name, width, length, threads, mode)) for mode in MODES]
            if ended:
                found = [missing(cell, mode, SKIPPED) for mode in MODES]
            elif all(row is not None and row["outcome"] != SKIPPED for row in rows):
                found = [row for row in rows if row is not None]
            else:
                found = measure(cell, settings.limits)
            known.update({_key(row): row for row in found})
            ended = ended or any(row["outcome"] != MEASURED for row in found)
        results["cells"] = list(known.values())
        yield {**results, **conclusions(results["cells"])}


def _begun(settings: Settings, file: Path) -> Results:
    """The results in `file`, or none, with the counts of all contestants."""
    limits = asdict(settings.limits)
    results = {**circumstances(torch.device("cpu")), "limits": limits, "cells": [], "counts": {}}
    if file.is_file():
        before = read_json(file)
        if not before.keys() >= {"machine", "cells", "counts"}:
            raise ValueError(f"{file} holds no results of this measurement; choose another --output.")
        here, there = results["machine"], before["machine"]
        if any(here[fact] != there[fact] for fact in ("cpu", "cores", "instructions")):
            raise ValueError(f"{file} holds a measurement of another machine; choose another --output.")
        results = {**before, "command": results["command"], "limits": limits, "cells": _still_valid(before, limits, file)}
    for name in settings.contestants:
        results["counts"].setdefault(name, counts(name))
    return results


def _still_valid(before: Results, limits: dict[str, float], file: Path) -> list[Row]:
    """The rows measured before; where a cell may take more now, without those that reached a limit, which are tried again."""
    old = before["limits"]
    rows: list[Row] = before["cells"]
    if old == limits:
        return rows
    decisive = ("repeats", "seconds", "warm_ups")
    if any(limits[name] != old.get(name) for name in decisive) or any(limits[name] < old[name] for name in limits):
        raise ValueError(
            f"{file} was measured under other limits, {old}; a cell may only be given more seconds and GiB. Choose another --output."
        )
    ended = {_key(row)[:-1] for row in rows if row["outcome"] != MEASURED}
    return [row for row in rows if _key(row)[:-1] not in ended]


def counts(name: str) -> dict[str, Any]:
    """Sequential operations and path lengths of a type of layer, at the lengths `COUNTED`."""
    kind = KINDS[name]
    return {
        "lengths": list(COUNTED),
        "sequential_operations": [sequential_operations(kind, length) for length in COUNTED],
        "path_length": [path_length(kind, length) for length in COUNTED],
    }


def _key(row: Row) -> tuple[Any, ...]:
    return row["contestant"], row["d_model"], row["length"], row["threads"], row["mode"]


def seconds_of(row: Row) -> float | None:
    """The processor's time on one thread, since a busy machine does not change it; on several, the clock's."""
    value: float | None = row["cpu_seconds"] if row["threads"] == 1 else row["seconds"]
    return value


def conclusions(cells: Sequence[Row]) -> Results:
    """Exponents of each type of layer and the lengths at which self-attention stops being faster, for each number of threads and mode."""
    groups = sorted({(row["threads"], row["mode"]) for row in cells})
    exponents, crossovers = [], []
    for threads, mode in groups:
        of_group = [row for row in cells if (row["threads"], row["mode"]) == (threads, mode)]
        for name in dict.fromkeys(row["contestant"] for row in of_group):
            own = [row for row in of_group if row["contestant"] == name]
            exponents.append({"contestant": name, "threads": threads, "mode": mode, **exponents_of(own)})
            if KINDS[name].is_recurrent:
                others = [row for row in of_group if row["contestant"] == REFERENCE]
                crossovers += [{"contestant": name, "threads": threads, "mode": mode, **found} for found in crossings(others, own)]
    return {"exponents": exponents, "crossovers": crossovers}


def exponents_of(rows: Iterable[Row]) -> Row:
    """The exponents of n and d in time, and of n in memory, through the largest sizes measured.

    `length`: for each width through its three largest lengths; the median over the widths. `width`: through the three largest widths, at
    the largest length that all three have. `memory`: as `length`. None where there are too few cells.
    """
    measured = [row for row in rows if row["outcome"] == MEASURED]
    widths = sorted({row["d_model"] for row in measured})
    by_length, by_memory = [], []
    for width in widths:
        own = sorted((row for row in measured if row["d_model"] == width), key=lambda row: row["length"])[-_FITTED:]
        if len(own) == _FITTED:
            by_length.append(slope([row["length"] for row in own], [seconds_of(row) for row in own]))
            by_memory.append(slope([row["length"] for row in own], [row["peak_bytes"] for row in own]))
    largest = [{row["length"]: row for row in measured if row["d_model"] == width} for width in widths[-_FITTED:]]
    shared = set.intersection(*map(set, largest)) if len(largest) == _FITTED else set()
    length = max(shared, default=None)
    chosen = [] if length is None else [own[length] for own in largest]
    return {
        "length": _median(by_length),
        "memory": _median(by_memory),
        "width": slope(widths[-_FITTED:], [seconds_of(row) for row in chosen]) if chosen else None,
        "width_at_length": length,
    }


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def slope(sizes: Sequence[float], values: Sequence[float | None]) -> float | None:
    """The exponent of a power law through points, by least squares of the logarithms; None where a value is missing or not positive."""
    if any(value is None or value <= 0 for value in values):
        return None
    return float(np.polyfit(np.log(sizes), np.log(np.array(values, dtype=float)), 1)[0])


def crossings(attention: Iterable[Row], recurrent: Iterable[Row]) -> list[Row]:
    """For each width, the length from which on self-attention is slower than a recurrent layer.

    `length` is None where one of them is faster at all lengths that both have; `faster` says which one is at the longest of these,
    `longest`.
    """
    measured = [[row for row in rows if row["outcome"] == MEASURED] for rows in (attention, recurrent)]
    times = [{(row["d_model"], row["length"]): seconds_of(row) for row in rows} for rows in measured]
    shared = sorted(times[0].keys() & times[1].keys())
    found = []
    for width in sorted({width for width, _ in shared}):
        lengths = [length for own, length in shared if own == width]
        ratios = [_ratio(times[0][width, length], times[1][width, length]) for length in lengths]
        found.append(
            {
                "d_model": width,
                "length": crossing(lengths, ratios),
                "faster": "attention" if ratios[-1] < 1 else "recurrent",
                "longest": lengths[-1],
                "ratio_at_longest": ratios[-1],
            }
        )
    return found


def _ratio(over: float | None, under: float | None) -> float:
    assert over and under  # of measured cells
    return over / under


def crossing(lengths: Sequence[int], ratios: Sequence[float]) -> float | None:
    """Where `ratios` pass 1 for the last time from below, interpolated between logarithms; None where they do not."""
    for place in reversed(range(1, len(lengths))):
        low, high = ratios[place - 1], ratios[place]
        if low < 1 <= high:
            share = -math.log(low) / (math.log(high) - math.log(low))
            return float(lengths[place - 1] * (lengths[place] / lengths[place - 1]) ** share)
    return None


__all__ = ["COUNTED", "FORWARD", "TRAINING", "Settings", "benchmark_layers", "conclusions"]
