"""How a benchmark ends: with its report, or with one sentence on what was wrong."""

import sys
from argparse import Namespace
from collections.abc import Callable


def run(main: Callable[[Namespace], None], parse: Callable[[], Namespace], *also: type[Exception]) -> None:
    """Call `main` with the parsed command line; bad input, or a library that is not installed, ends the process in one sentence.

    Args:
        main: measures, and writes the report.
        parse: reads the command line.
        also: further errors of this benchmark that are told in a sentence.
    """
    told: tuple[type[Exception], ...] = (ImportError, OSError, ValueError, *also)
    try:
        main(parse())
    except told as error:
        sys.exit(f"error: {error}")
