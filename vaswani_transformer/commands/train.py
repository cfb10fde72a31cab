"""`vaswani train`."""

from pathlib import Path
from typing import Annotated

import typer

from .recipes import Recipe

STOPPED = 130
"""The exit status of what somebody stopped, as shells have it for Ctrl-C."""


def train(
    recipe: Recipe,
    overrides: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting; repeatable.")] = None,
    run_folder: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where everything is written.", show_default="runs/NAME-OF-THE-RECIPE")
    ] = None,
) -> None:
    """Train a model, or resume a training that was stopped.

    \b
    vaswani train builtin_tiny
    vaswani train my_pair.yaml --set training.updates=2000 --run-folder runs/short
    accelerate launch -m vaswani_transformer train my_pair.yaml

    The recipe's `task` says what is trained.

    The last line trains on several devices. Ctrl-C and SIGTERM save first; the same command resumes.
    """
    from ..training.python_api import train as train_run

    try:
        complete = train_run(recipe, run_folder, overrides or ()) is not None
    except KeyboardInterrupt:
        typer.echo("Stopped; the same command resumes from what has been saved.", err=True)
        complete = False
    if not complete:
        raise typer.Exit(STOPPED)
