"""What separates the cells of a CSV file: a comma by name, a semicolon where the comma is the decimal point, or something else."""

import re

DELIMITERS = ",;\t|"
"""Those that are known."""

_QUOTED = re.compile('"[^"]*"')


def csv_delimiter(header: str) -> str:
    """Of comma, semicolon, tab and bar, the one that the first line of a CSV file has most often outside quotation marks; else a comma."""
    return max(DELIMITERS, key=_QUOTED.sub("", header).count)
