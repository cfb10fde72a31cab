"""Training from a program or a notebook: `train`, which is `vaswani_transformer.train`, and what may come before it."""

from collections.abc import Sequence
from pathlib import Path

from accelerate.state import AcceleratorState

from ..recipe import Recipe, load_recipe
from ..run_folder import RunFolder
from ..shipped_recipes import find_recipe
from . import engine


def train(recipe: Recipe | str | Path, run_folder: str | Path | None = None, overrides: Sequence[str] = ()) -> Path | None:
    """Train a translator, or a model of another task, or resume a training that was stopped.

    The same as `vaswani train`; a process may call it any number of times, and each of several processes once:

        from transformers import pipeline
        from vaswani_transformer import train

        folder = train("builtin_tiny", overrides=["training.updates=200"])
        translator = pipeline("translation", model=str(folder))

    Args:
        recipe: a YAML file, the name of a recipe that comes with the package, or a `Recipe`.
        run_folder: where everything is written; by default `runs/NAME`, with the recipe's name.
        overrides: settings to change, as `--set` takes them: `"training.updates=200"`.

    Returns:
        The folder of the averaged model, which `from_pretrained` and `pipeline` load. None if Ctrl-C, a notebook's stop button or SIGTERM
        ended the training early; it saved its state first, and the same call resumes.

    Raises:
        ValueError: a setting or a corpus cannot be used, `overrides` come with a `Recipe`, or the run folder holds another run.
        FileNotFoundError: the recipe or a corpus is missing.
        FloatingPointError: loss or gradients are not finite.
        MemoryError: a micro-batch does not fit.
        OSError: the disk is full, or a folder is not writable.
    """
    recipe, run = _chosen(recipe, run_folder, overrides)
    try:
        return run.averaged if engine.train(recipe, run) else None
    finally:
        AcceleratorState._reset_state()  # otherwise the next training could not choose another precision


def translate_sources(recipe: Recipe | str | Path, run_folder: str | Path | None = None, overrides: Sequence[str] = ()) -> Path:
    """Have the teacher of a recipe (`data.distillation`) translate the training sources, and no more; `train` goes on from there.

    Args:
        recipe, run_folder, overrides: as in `train`.

    Returns:
        The folder of the pairs: line-aligned files `source.en-de.gz` and `target.en-de.gz`, and `distillation.json`, which tells what made
        them.

    Raises:
        ValueError: as in `train`; or the recipe names no teacher, or one of other languages.
        FileNotFoundError: the recipe, a corpus or the teacher is missing.
        KeyboardInterrupt: Ctrl-C or SIGTERM; the same call resumes.
    """
    recipe, run = _chosen(recipe, run_folder, overrides)
    try:
        engine.translate_sources(recipe, run)
    finally:
        AcceleratorState._reset_state()
    return run.distilled


def _chosen(recipe: Recipe | str | Path, run_folder: str | Path | None, overrides: Sequence[str]) -> tuple[Recipe, RunFolder]:
    if isinstance(recipe, Recipe):
        if overrides:
            raise ValueError("`overrides` change a recipe's file; for a `Recipe`, use `dataclasses.replace`.")
    else:
        recipe = load_recipe(find_recipe(str(recipe)), overrides)
    return recipe, RunFolder(Path(run_folder)) if run_folder is not None else RunFolder.named(recipe.name)
