"""Compare runs at equal numbers of target tokens: python scripts/compare_runs.py "fine-tuned=runs/a-1,runs/a-2" "from scratch=runs/b-1"

The runs of a name differ in their seed. Prints a table in Markdown; --picture curves.png draws it.
"""

import argparse
import sys
from pathlib import Path

from vaswani_transformer.report.run_comparison import compare_runs
from vaswani_transformer.run_folder import RunFolder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="+", metavar="NAME=RUN[,RUN...]", help="folders scripts/train.py wrote")
    parser.add_argument("--picture", type=Path, help="a PNG file to write")
    arguments = parser.parse_args()
    groups = {}
    for group in arguments.groups:
        name, is_named, runs = group.partition("=")
        groups[name] = [RunFolder(Path(run)) for run in (runs if is_named else name).split(",")]
    try:
        print(compare_runs(groups, arguments.picture))
    except (OSError, ValueError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
