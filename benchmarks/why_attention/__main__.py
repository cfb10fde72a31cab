"""Every claim of the paper beside what was measured: agrees, disagrees or not measured, by stated rules.

    python -m benchmarks.why_attention --results docs/measured --output docs/measured/why_attention
    python -m benchmarks.why_attention --results runs docs/measured --output runs/why_attention

It reads the results that the other benchmarks left, and measures nothing itself; where results are missing, the row names their command.
Of several folders of results, the first that has a file counts. Writes results.json and table.md into --output.
"""

import argparse
from pathlib import Path

from benchmarks.command_line import run
from benchmarks.why_attention.claims import CLAIMS
from benchmarks.why_attention.report import found_results, judged, table
from vaswani_transformer.files.atomic_file import write_text
from vaswani_transformer.files.json_files import write_json


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Every claim of the paper beside what was measured.")
    add = parser.add_argument
    add("--results", type=Path, nargs="+", default=[Path("docs/measured")], metavar="FOLDER", help="of the other benchmarks' results")
    add("--output", type=Path, default=Path("runs/why_attention"))
    return parser.parse_args()


def main(a: argparse.Namespace) -> None:
    """Write results.json and table.md into `a.output`."""
    results = judged(CLAIMS, found_results(a.results))
    write_json(a.output / "results.json", results)
    write_text(a.output / "table.md", table(results))
    print(f"{table(results)}\nresults.json and table.md are in {a.output}.")


if __name__ == "__main__":
    run(main, parse)
