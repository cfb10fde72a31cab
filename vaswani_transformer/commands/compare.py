"""`vaswani compare`."""

from pathlib import Path
from typing import Annotated

import typer


def compare(
    groups: Annotated[list[str], typer.Argument(metavar="NAME=RUN[,RUN...]", help="Run folders; those of one name differ in their seed.")],
    picture: Annotated[Path | None, typer.Option(metavar="FILE", help="Also draw the curves, as this PNG file.")] = None,
) -> None:
    """Compare runs of one task at equal numbers of target tokens.

    \b
    vaswani compare "fine-tuned=runs/a-1,runs/a-2" "from scratch=runs/b-1" --picture curves.png

    Runs of the encoder's tasks, of summaries and of answers that were evaluated on the same test sets are also compared text by text there.
    """
    from ..report.run_comparison import compare_runs
    from ..run_folder import RunFolder

    runs = {}
    for group in groups:
        name, is_named, folders = group.partition("=")
        if name in runs:
            raise typer.BadParameter(f"{name!r} is given twice; several runs of one name are written {name}=X,Y.")
        runs[name] = [RunFolder(Path(folder)) for folder in (folders if is_named else name).split(",")]
    print(compare_runs(runs, picture))
