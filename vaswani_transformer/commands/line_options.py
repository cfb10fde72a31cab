"""The options that the commands for files of many lines share."""

from typing import Annotated, Literal

import typer

Input = Annotated[str, typer.Option(metavar="FILE", help="The texts: plain, .gz or .xz; - is standard input.")]
Output = Annotated[str, typer.Option(metavar="FILE", help="Where to; - is standard output, which cannot be resumed.")]
Format = Annotated[Literal["text", "tsv", "csv", "jsonl"], typer.Option(help="Of the lines, in and out.")]
Column = Annotated[
    str | None,
    typer.Option("--column", "--field", metavar="NAME", help="Column, by name or number, or field.", show_default="1; text"),
]
BatchTokens = Annotated[int, typer.Option(min=1, metavar="N", help="Source tokens a batch.")]
MaxSourceTokens = Annotated[int, typer.Option(min=1, metavar="N", help="Longer texts fail.")]
Window = Annotated[int, typer.Option(min=1, metavar="N", help="Lines that are sorted by length together.")]


def check_column(column: str | None, format: str) -> None:
    """Refuse a column where lines have none."""
    if column is not None and format == "text":
        raise typer.BadParameter("--column names a part of a line, and a line of --format text has none; leave it out, or set --format.")
