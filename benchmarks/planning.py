"""What it costs to plan an epoch of batches, for corpora up to the size of WMT 2014 English-French; each in a process of its own.

    python -m benchmarks.planning
    python -m benchmarks.planning --pairs 1000000 4000000 --tokens 4096 --output runs/planning

Lengths are drawn like those of WMT 2014 English-French, not read. Every rank of a training plans every epoch so. Writes results.json and
table.md into --output and prints the table.
"""

import argparse
import gc
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.command_line import run
from benchmarks.own_process import OwnProcess
from benchmarks.report import UNKNOWN, markdown_table
from vaswani_transformer.data.batching import BatchPlan, LengthArray, plan_batches
from vaswani_transformer.files.atomic_file import write_text
from vaswani_transformer.files.json_files import write_json
from vaswani_transformer.training.process_memory import process_bytes

WMT14_EN_FR = 36_000_000
"""Pairs (paper section 5.1)."""

_SOURCE = 3.25, 0.54
_RATIO = 0.14, 0.18
"""Mean and deviation of the logarithm: of the English length, and of French over English, in tokens of a joint vocabulary of 32,000. They
are those of Europarl, a part of WMT 2014; of 100,000 of its pairs 3.2 % of a plan's positions are padding, of as many of these 3.6 %."""
_SHORTEST, _LONGEST = 2, 256
_DRAWN_AT_ONCE = 2**20
_MIB = 2**20
_COLUMNS = (
    *("pairs", "seconds", "CPU seconds", "CPU µs a pair", "peak memory, MiB", "of it libraries", "of it lengths"),
    *("a plan, MiB", "batches", "padding"),
)


def benchmark_planning(sizes: Iterable[int], tokens: int, output: Path) -> Iterator[str]:
    """Measure size after size; `results.json` and `table.md` in `output` hold those done so far.

    Args:
        sizes: numbers of pairs.
        tokens: of each side of a micro-batch.

    Yields:
        The table, a line longer each time.

    Raises:
        RuntimeError: a process failed.
    """
    results: list[dict[str, Any]] = []
    for pairs in sizes:
        results.append(_measure_alone(pairs, tokens))
        write_json(output / "results.json", {"tokens_per_side": tokens, "planning": results})
        write_text(output / "table.md", table(results))
        yield table(results)


def simulated_lengths(pairs: int, seed: int = 0) -> tuple[LengthArray, LengthArray]:
    """Source and target lengths [pairs] like those of WMT 2014 English-French, drawn in little memory."""
    generator = np.random.default_rng(seed)
    sources, targets = np.empty(pairs, dtype=np.int32), np.empty(pairs, dtype=np.int32)
    for start in range(0, pairs, _DRAWN_AT_ONCE):
        part = slice(start, min(start + _DRAWN_AT_ONCE, pairs))
        drawn = np.exp(generator.normal(*_SOURCE, part.stop - start))
        ratio = np.exp(generator.normal(*_RATIO, part.stop - start))
        sources[part] = np.clip(drawn, _SHORTEST, _LONGEST)
        targets[part] = np.clip(drawn * ratio, _SHORTEST, _LONGEST)
    return sources, targets


def measure(pairs: int, tokens: int) -> dict[str, Any]:
    """Plan two epochs, as a rank does: the plan of the first is still held when the second is made.

    Returns:
        Seconds and CPU seconds of the slower one; bytes of this process at its peak, of its libraries, of the lengths and of one plan
        (None on a system without /proc); number of batches and share of padding of the second plan.
    """
    libraries = process_bytes("VmRSS")
    lengths = simulated_lengths(pairs)
    before = process_bytes("VmRSS")
    seconds, cpu_seconds, plans = [], [], []
    for epoch in range(2):
        started, cpu_started = time.perf_counter(), time.process_time()
        plans.append(plan_batches(*lengths, source_tokens=tokens, target_tokens=tokens, seed=1, epoch=epoch))
        seconds.append(time.perf_counter() - started)
        cpu_seconds.append(time.process_time() - cpu_started)
    gc.collect()
    after, peak = process_bytes("VmRSS"), process_bytes("VmHWM")
    return {
        "pairs": pairs,
        "seconds": max(seconds),
        "cpu_seconds": max(cpu_seconds),
        "peak_bytes": peak,
        "libraries_bytes": libraries,
        "lengths_bytes": sum(side.nbytes for side in lengths),
        "plan_bytes": None if before is None or after is None else (after - before) // 2,
        "batches": len(plans[1]),
        "padding_share": _padding_share(plans[1], *lengths),
    }


def table(results: list[dict[str, Any]]) -> str:
    """Markdown, a line for each size."""
    return markdown_table(_COLUMNS, map(_cells, results), left=0) + "\n"


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    memory = (row[f"{what}_bytes"] for what in ("peak", "libraries", "lengths", "plan"))
    return (
        f"{row['pairs']:,}",
        f"{row['seconds']:.2f}",
        f"{row['cpu_seconds']:.2f}",
        f"{row['cpu_seconds'] / row['pairs'] * 1e6:.3f}",
        *(UNKNOWN if number is None else f"{number / _MIB:,.0f}" for number in memory),
        f"{row['batches']:,}",
        f"{row['padding_share']:.2%}",
    )


def _padding_share(plan: BatchPlan, sources: LengthArray, targets: LengthArray) -> float:
    padded = sum(len(batch) * (int(sources[batch].max()) + int(targets[batch].max())) for batch in plan)
    return 1 - (int(sources.sum()) + int(targets.sum())) / padded


def _measure_alone(pairs: int, tokens: int) -> dict[str, Any]:
    with OwnProcess(f"Planning {pairs:,} pairs", measure, pairs, tokens) as process:
        return dict(process.ask(dict))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure time and memory of planning an epoch of batches.")
    sizes = [1_000_000, 4_000_000, 16_000_000, WMT14_EN_FR]
    parser.add_argument("--pairs", type=int, nargs="+", default=sizes, help="(default: 1, 4, 16, 36 million)")
    budget = "tokens of each side of a micro-batch (default: %(default)s, an eighth of the paper's 25,000)"
    parser.add_argument("--tokens", type=int, default=3125, help=budget)
    parser.add_argument("--output", type=Path, default=Path("runs/planning_benchmark"))
    return parser.parse_args()


def main(arguments: argparse.Namespace) -> None:
    for rows in benchmark_planning(arguments.pairs, arguments.tokens, arguments.output):
        print(rows.splitlines()[-1], file=sys.stderr)
    print(f"{rows}\nresults.json and table.md are in {arguments.output}.")


if __name__ == "__main__":
    from benchmarks import planning  # what another process is to run must be found by its module's name

    run(planning.main, parse, RuntimeError)
