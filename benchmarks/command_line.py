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
        main(_parsed(parse))
    except told as error:
        sys.exit(f"error: {error}")


def _parsed(parse: Callable[[], Namespace]) -> Namespace:
    """The command line, with a `--help` that names the command as it is given, and not the file `__main__.py` of its folder."""
    module = sys.modules["__main__"].__spec__
    if module is None:
        return parse()
    program, sys.argv[0] = sys.argv[0], f"python -m {module.name.removesuffix('.__main__')}"
    try:
        return parse()
    finally:
        sys.argv[0] = program
