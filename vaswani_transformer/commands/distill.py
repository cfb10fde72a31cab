"""`vaswani distill`."""

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from .recipes import Recipe
from .train import STOPPED


def distill(
    recipe: Recipe,
    teacher: Annotated[str, typer.Option(metavar="MODEL", help="Its folder, or a repository of the Hub: any translator.")],
    num_beams: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Beams of the teacher's search.", show_default="the teacher's own")
    ] = None,
    best: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Keep the N best translations of a source, each as a pair.", show_default="1")
    ] = None,
    closest: Annotated[bool, typer.Option("--closest", help="Of these, keep the one nearest to the reference (sentence BLEU).")] = False,
    keep_original: Annotated[bool, typer.Option("--keep-original", help="Train on the original pairs, too.")] = False,
    dtype: Annotated[
        Literal["float32", "bfloat16", "float16", "int8"] | None,
        typer.Option(help="What the teacher computes in.", show_default="what MODEL holds; float32 on a CPU"),
    ] = None,
    overrides: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting; repeatable.")] = None,
    run_folder: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where everything is written.", show_default="runs/NAME-OF-THE-RECIPE")
    ] = None,
    only_translate: Annotated[bool, typer.Option("--only-translate", help="Do not train yet; the same command without it does.")] = False,
) -> None:
    """Train a student on a teacher's translations.

    \b
    vaswani distill my_student.yaml --teacher runs/my_teacher/averaged --dtype bfloat16
    vaswani distill my_student.yaml --teacher runs/my_teacher/averaged --best 5 --closest

    It is `vaswani train` with the recipe's keys under `data.distillation` set as the options say. Two commands may share the work: the
    first, with --only-translate, on a machine that is fast at it. The translations are cached, so that further students of the same
    teacher take them from there. Ctrl-C and SIGTERM lose nothing that is complete; the same command resumes.
    """
    from ..training.python_api import train, translate_sources

    settings = {
        "teacher": teacher, "num_beams": num_beams, "best": best, "closest": closest, "keep_original": keep_original, "dtype": dtype,
    }  # fmt: skip
    changes = [f"data.distillation.{key}={json.dumps(value)}" for key, value in settings.items() if value not in (None, False)]
    changes += overrides or ()
    try:
        if only_translate:
            print(f"The pairs are in {translate_sources(recipe, run_folder, changes)}.")
            complete = True
        else:
            complete = train(recipe, run_folder, changes) is not None
    except KeyboardInterrupt:
        typer.echo("Stopped; the same command resumes from what has been saved.", err=True)
        complete = False
    if not complete:
        raise typer.Exit(STOPPED)
