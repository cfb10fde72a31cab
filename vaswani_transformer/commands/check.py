"""`vaswani check`."""

import sys
from typing import Annotated

import typer

from ..shipped_recipes import find_recipe
from .recipes import Recipe


def check(
    recipe: Recipe,
    overrides: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting; repeatable.")] = None,
    updates: Annotated[int, typer.Option(min=2, metavar="N", help="Real updates to measure.")] = 5,
) -> None:
    """Say what a training would meet, before any training.

    \b
    vaswani check my_pair.yaml
    vaswani check my_pair.yaml --set model.preset=base

    Reads and cleans the data, learns the vocabulary, and makes a few updates on this machine: which files, what cleaning drops and why,
    how long the sentences are in tokens, how many updates an epoch has, and an estimate of time and memory. Nothing of it stays, but the
    prepared data are in the cache, where the training finds them, unless a teacher writes its text first.
    """
    from ..recipe import load_recipe
    from ..training.rehearsal import describe, rehearse

    print(describe(rehearse(load_recipe(find_recipe(recipe), overrides or ()), updates, progress=sys.stderr.isatty())))
