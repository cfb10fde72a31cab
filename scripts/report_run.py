"""Turn a run folder into one page: python scripts/report_run.py runs/NAME [--output page.html]

The training may be finished, stopped or still at work. The page has its course, what it is, and sample translations over time; it needs no
other file, the picture is inside. With `--output page.png` it is the picture alone.
"""

import argparse
import sys
from pathlib import Path

from vaswani_transformer.report.run_report import write_report
from vaswani_transformer.run_folder import RunFolder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="the folder scripts/train.py writes")
    parser.add_argument(
        "--output",
        type=Path,
        help="a file that ends in .html or .png; report.html in the run's folder by default",
    )
    arguments = parser.parse_args()
    run = RunFolder(arguments.run)
    page = arguments.output or run.report
    try:
        remark = write_report(run, page)
    except (OSError, ValueError) as error:
        sys.exit(f"error: {error}")
    if remark:
        print(remark, file=sys.stderr)
    print(f"The report is in {page}.")


if __name__ == "__main__":
    main()
