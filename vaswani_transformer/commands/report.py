"""`vaswani report`."""

from pathlib import Path
from typing import Annotated

import typer


def report(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run: finished, stopped or still at work.")],
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="It ends in .html or .png.", show_default="report.html in the run's folder")
    ] = None,
) -> None:
    """Turn a run into one page: curves, costs, sample translations.

    \b
    vaswani report runs/my_pair
    vaswani report runs/my_pair --output curves.png

    The page needs no other file, the picture is inside. A .png is the picture alone.
    """
    from ..report.run_report import write_report
    from ..run_folder import RunFolder

    run = RunFolder(folder)
    page = output or run.report
    if remark := write_report(run, page):
        typer.echo(remark, err=True)
    print(f"The report is in {page}.")
