"""How a benchmark ends: with its report, or with one sentence on what was wrong."""

import sys
from argparse import Namespace
from collections.abc import Callable


def run(main: Callable[[Namespace], None], parse: Callable[[], Namespace]) -> None:
    """Call `main` with the parsed command line; bad input, or a library that is not installed, ends the process in one sentence."""
    try:
        main(parse())
    except (ImportError, OSError, ValueError) as error:
        sys.exit(f"error: {error}")
