"""Put a translator on the Hugging Face Hub.

Assemble runs/NAME/published and check it:  python scripts/publish.py runs/NAME
Say what would be uploaded where:  python scripts/publish.py runs/NAME --repo-id USER/MODEL --dry-run
And do it:  python scripts/publish.py runs/NAME --repo-id USER/MODEL

The folder, a run's or one assembled before, is loaded in a new process without this package and translates a sentence
there before anything leaves this machine. Log in with `hf auth login`, or set HF_TOKEN.
"""

import argparse
import sys
from pathlib import Path

from vaswani_transformer.hub.publish import PublishError, publish


def main() -> None:
    parser = argparse.ArgumentParser(description="Put a translator on the Hugging Face Hub.")
    parser.add_argument("folder", type=Path, help="a run's folder, or a published one")
    parser.add_argument("--repo-id", help="the repository, USER/MODEL; without it nothing is uploaded")
    parser.add_argument("--revision", help="the branch (default: main)")
    parser.add_argument("--private", action="store_true", help="create the repository as a private one")
    parser.add_argument("--dry-run", action="store_true", help="stop before the upload")
    arguments = parser.parse_args()
    try:
        publish(**vars(arguments))
    except (PublishError, OSError, ValueError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
