"""Measure what planning an epoch of batches takes: time, memory and padding by the number of pairs.

    python scripts/benchmark_planning.py
    python scripts/benchmark_planning.py --pairs 1000000 4000000 --tokens 4096 --output runs/planning

Lengths are drawn like those of WMT 2014 English-French; each size is planned in a process of its own. Every rank of a training plans
every epoch so. Writes results.json and table.md into --output and prints the table.
"""

import argparse
import sys
from pathlib import Path

from benchmarks.planning import WMT14_EN_FR, benchmark_planning


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure time and memory of planning an epoch of batches.")
    sizes = [1_000_000, 4_000_000, 16_000_000, WMT14_EN_FR]
    parser.add_argument("--pairs", type=int, nargs="+", default=sizes, help="(default: 1, 4, 16, 36 million)")
    budget = "tokens of each side of a micro-batch (default: %(default)s, an eighth of the paper's 25,000)"
    parser.add_argument("--tokens", type=int, default=3125, help=budget)
    parser.add_argument("--output", type=Path, default=Path("runs/planning_benchmark"))
    return parser.parse_args()


def main(arguments: argparse.Namespace) -> None:
    for table in benchmark_planning(arguments.pairs, arguments.tokens, arguments.output):
        print(table.splitlines()[-1], file=sys.stderr)
    print(f"{table}\nresults.json and table.md are in {arguments.output}.")


if __name__ == "__main__":
    try:
        main(parse())
    except (OSError, RuntimeError, ValueError) as error:
        sys.exit(f"error: {error}")
