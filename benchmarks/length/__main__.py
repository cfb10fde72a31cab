"""Time and memory of training and translating against length, to where they stop, beside what the formulas predict.

    python -m benchmarks.length --presets tiny base --output runs/length

Each length is a process of its own: one pair, as long on both sides, of random tokens. Training is updates as `vaswani train` does them, in
float32; translating is a beam search that ends at that length. The same command goes on where it was stopped. Writes results.json
and table.md into --output after each length, and results.png at the end.
"""

import argparse
from pathlib import Path

from benchmarks.command_line import run
from benchmarks.length.measurement import WORK, Plan, benchmark_length
from benchmarks.length.report import picture, table
from benchmarks.report import Results
from vaswani_transformer.configuration_vaswani import PRESETS
from vaswani_transformer.files.atomic_file import write_text
from vaswani_transformer.files.json_files import write_json
from vaswani_transformer.report.curves import write_png


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Measure time and memory against length, beside what the formulas predict.")
    add, standard = parser.add_argument, Plan()
    add("--presets", nargs="+", default=list(standard.presets), metavar="NAME", help=f"of {', '.join(PRESETS)}")
    add("--lengths", type=int, nargs="+", default=list(standard.lengths), metavar="N")
    add("--work", nargs="+", default=list(WORK), metavar="WORK", help=f"of {', '.join(WORK)}")
    add("--threads", type=int, default=standard.threads)
    add("--beams", type=int, default=standard.beams)
    add("--gib", type=float, default=standard.gib, help="memory of one process, at most")
    add("--seconds", type=float, default=standard.seconds, help="no longer text follows one that took more")
    add("--output", type=Path, default=Path("runs/length"))
    return parser.parse_args()


def main(a: argparse.Namespace) -> None:
    """Measure, and leave results.json, table.md and results.png in `a.output`."""
    plan = Plan(tuple(a.presets), tuple(a.lengths), tuple(a.work), a.threads, a.beams, a.gib, a.seconds)
    results: Results = {}
    for results in benchmark_length(plan, a.output / "results.json"):
        write_json(a.output / "results.json", results)
        write_text(a.output / "table.md", table(results))
    write_png(picture(results), a.output / "results.png")
    print(f"{table(results)}\nresults.json, table.md and results.png are in {a.output}.")


if __name__ == "__main__":
    run(main, parse, RuntimeError)
