"""`vaswani card`."""

from pathlib import Path
from typing import Annotated

import typer


def card(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of an evaluated run.")],
    file: Annotated[
        Path | None, typer.Option("--card", metavar="FILE", help="The file to write.", show_default="README.md in the run's folder")
    ] = None,
    model_id: Annotated[str | None, typer.Option(metavar="USER/MODEL", help="What readers load.", show_default="the recipe's name")] = None,
) -> None:
    """Write the model card of an evaluated run, and its curves.

    \b
    vaswani card runs/my_pair
    vaswani card runs/my_pair --card model_cards/my_pair.md

    Every number is read from the run's files; the picture of the training lies beside the card.
    """
    from ..report.model_card import write_card
    from ..run_folder import RunFolder

    print(write_card(RunFolder(run), file, model_id))
