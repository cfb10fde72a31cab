"""Write the model card of an evaluated run, and the picture of its training beside it.

As runs/NAME/README.md and curves.png:  python scripts/make_card.py runs/NAME
As a document of the project, with NAME.png:  python scripts/make_card.py runs/NAME --card model_cards/NAME.md
"""

import argparse
import sys
from pathlib import Path

from vaswani_transformer.report.model_card import write_card
from vaswani_transformer.run_folder import RunFolder


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the model card of an evaluated run.")
    parser.add_argument("run", type=Path, help="the run's folder")
    parser.add_argument("--card", type=Path, help="the file to write (default: README.md in the run's folder)")
    parser.add_argument("--model-id", help="what readers load, USER/MODEL (default: the recipe's name)")
    arguments = parser.parse_args()
    try:
        print(write_card(RunFolder(arguments.run), arguments.card, arguments.model_id))
    except (OSError, ValueError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
