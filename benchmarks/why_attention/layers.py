"""Claims of Table 1 and of section 4, judged by the results of `benchmarks.layers`."""

from collections.abc import Callable, Sequence
from math import log
from statistics import median
from typing import Literal

from benchmarks.layers.cells import FORWARD, MEASURED, TRAINING
from benchmarks.layers.kinds import KINDS, NEIGHBOURS, REFERENCE
from benchmarks.layers.measurement import seconds_of, slope
from benchmarks.report import Results, Row
from benchmarks.why_attention.verdicts import Finding, Judge, by_all, is_near, is_similar

RECURRENT = "lstm", "gru"
CONTIGUOUS = {"convolution_3": 3, "convolution_7": 7}
DILATED = "dilated_3", "dilated_7"

_MODES = {FORWARD: "forward", TRAINING: "with backward"}
_GROWTH: dict[str, Callable[[int], float]] = {
    "1": lambda n: 1.0,
    "n": float,
    "n / k": float,
    "log_k n": log,
    "n / r": lambda n: max(1.0, 2 * n / NEIGHBOURS),
}
"""How a count that Table 1 names grows with n, whatever its constant."""


def complexity(size: Literal["length", "width"], *names: str) -> Judge:
    """The exponent of n or d in the time of these layers, beside Table 1's."""

    def judge(results: Results) -> Finding | None:
        rows = [row for row in fewest_threads(results["exponents"]) if row["contestant"] in names and row[size] is not None]
        if {row["contestant"] for row in rows} != set(names):
            return None
        figures = []
        for name in names:
            exponents = ", ".join(f"{row[size]:.2f} {_MODES[row['mode']]}" for row in rows if row["contestant"] == name)
            figures.append(f"{KINDS[name].title}: {exponents}")
        return Finding("; ".join(figures), by_all(is_near(row[size], getattr(KINDS[row["contestant"]].claims, size)) for row in rows))

    return judge


def counted(what: Literal["sequential_operations", "path_length"], *names: str) -> Judge:
    """How a count grows, beside Table 1's function of n."""

    def judge(results: Results) -> Finding | None:
        if not set(names) <= set(results["counts"]):
            return None
        lengths, held, figures = results["counts"][names[0]]["lengths"], [], []
        for name in names:
            found, claims = results["counts"][name], KINDS[name].claims
            growth = _GROWTH[claims.sequential if what == "sequential_operations" else claims.path]
            numbers = found[what]
            exponents = slope(lengths, numbers), slope(lengths, [growth(length) for length in lengths])
            held.append(exponents[0] is not None and exponents[1] is not None and is_near(exponents[0], exponents[1]))
            figures.append(f"{KINDS[name].title}: {', '.join(map(str, numbers))}")
        return Finding(f"n = {', '.join(map(str, lengths))}. {'; '.join(figures)}", by_all(held))

    return judge


def is_cheaper(name: str, other: str, what: Literal["time", "memory"] = "time") -> Judge:
    """Whether a layer takes less of something than another in every cell that both have; of memory, the longest of each width."""

    def judge(results: Results) -> Finding | None:
        ratios = time_ratios(results, name, other) if what == "time" else _memory_ratios(results, name, other)
        if not ratios:
            return None
        return Finding(f"{_spread(ratios)} of the {what} of {KINDS[other].title}", by_all(ratio < 1 for ratio in ratios))

    return judge


def convolution_beside_recurrence(results: Results) -> Finding | None:
    """Whether a convolution takes k times as long as a recurrence."""
    figures, held = [], []
    for name, width in CONTIGUOUS.items():
        for other in RECURRENT:
            ratios = time_ratios(results, name, other)
            if not ratios:
                return None
            held.append(is_similar(median(ratios), width))
            figures.append(f"k = {width}: {_spread(ratios)} of the time of {KINDS[other].title}")
    return Finding("; ".join(figures), by_all(held))


def faster_below_d(results: Results) -> Finding | None:
    """Whether self-attention is faster than a recurrence at all measured lengths below d."""
    rows = results["crossovers"]
    if not rows:
        return None
    reach = [_faster_up_to(row) for row in rows]
    true = [length >= row["d_model"] for row, length in zip(rows, reach, strict=True)]
    open_ended = [row["length"] is None and row["faster"] == "attention" and not holds for row, holds in zip(rows, true, strict=True)]
    decided = [holds for holds, is_open in zip(true, open_ended, strict=True) if not is_open]
    if not decided:
        return None
    crossed = [row["length"] / row["d_model"] for row in rows if row["length"] is not None]
    where = f"; where they cross, n is {min(crossed):.1f} to {max(crossed):.1f} times d" if crossed else ""
    figure = (
        f"true in {sum(decided)} of {len(rows)} comparisons (types, widths, modes, threads), false in {len(decided) - sum(decided)}, "
        f"true as far as measured in {sum(open_ended)}{where}"
    )
    return Finding(figure, by_all(decided))


def _faster_up_to(row: Row) -> int:
    """The length up to which self-attention is known to be faster."""
    if row["length"] is not None:
        return round(row["length"])
    return row["longest"] if row["faster"] == "attention" else 0


def cheaper_when_long(results: Results) -> Finding | None:
    """Whether restricted self-attention takes less time than the whole one at the longest length that both have, at each width."""
    cells = shared_cells(results, "restricted", REFERENCE)
    longest: dict[tuple[str, int], tuple[int, float]] = {}
    for (mode, width, length), (own, other) in cells.items():
        longest[mode, width] = max(longest.get((mode, width), (0, 0.0)), (length, own / other))
    if not longest:
        return None
    figures = [f"{ratio:.2f} at d = {width:,}, n = {length:,} {_MODES[mode]}" for (mode, width), (length, ratio) in sorted(longest.items())]
    return Finding(f"share of the time: {', '.join(figures)}", by_all(ratio < 1 for _, ratio in longest.values()))


def fewest_threads(rows: Sequence[Row]) -> list[Row]:
    """The rows of the smallest number of threads."""
    threads = min((row["threads"] for row in rows), default=0)
    return [row for row in rows if row["threads"] == threads]


def shared_cells(results: Results, name: str, other: str) -> dict[tuple[str, int, int], tuple[float, float]]:
    """Seconds of two layers by mode, width and length, wherever both were measured."""
    times = {}
    for each in (name, other):
        rows = [row for row in fewest_threads(results["cells"]) if (row["contestant"], row["outcome"]) == (each, MEASURED)]
        times[each] = {(row["mode"], row["d_model"], row["length"]): seconds for row in rows if (seconds := seconds_of(row))}
    return {place: (times[name][place], times[other][place]) for place in sorted(times[name].keys() & times[other].keys())}


def time_ratios(results: Results, name: str, other: str) -> list[float]:
    """Seconds of one layer over those of another, in each cell that both have."""
    return [own / others for own, others in shared_cells(results, name, other).values()]


def _memory_ratios(results: Results, name: str, other: str) -> list[float]:
    """Peaks of training at the longest length that both have, at each width."""
    peaks = {
        (row["contestant"], row["d_model"], row["length"]): row["peak_bytes"]
        for row in fewest_threads(results["cells"])
        if (row["mode"], row["outcome"]) == (TRAINING, MEASURED) and row["peak_bytes"]
    }
    longest: dict[int, int] = {}
    for each, width, length in peaks:
        if each == name and (other, width, length) in peaks:
            longest[width] = max(longest.get(width, 0), length)
    return [peaks[name, width, length] / peaks[other, width, length] for width, length in sorted(longest.items())]


def _spread(ratios: Sequence[float]) -> str:
    return f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}, {len(ratios)} cells)"
