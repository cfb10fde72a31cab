"""Snapshots of the model during training: complete folders that `from_pretrained` loads."""

import dataclasses
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging

from ..atomic_folder import atomic_folder
from ..recipe import SearchSettings
from ..run_folder import RunFolder


def save_checkpoint(
    run: RunFolder, update: int, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, keep: int
) -> Path:
    """Write `checkpoints/step-N` and remove all but the latest `keep` checkpoints (at least one stays)."""
    path = run.checkpoint(update)
    with atomic_folder(path) as unfinished, _without_bars():
        model.save_pretrained(unfinished)
        tokenizer.save_pretrained(unfinished)
    for older in list_checkpoints(run)[: -max(keep, 1)]:
        shutil.rmtree(older)
    return path


@contextmanager
def _without_bars() -> Iterator[None]:
    """transformers shows a bar for every file it saves, which would tear the training's own."""
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def list_checkpoints(run: RunFolder) -> list[Path]:
    """The run's checkpoints, oldest first."""
    if not run.checkpoints.is_dir():
        return []
    numbered = [
        (int(match[1]), path)
        for path in run.checkpoints.iterdir()
        if (match := re.fullmatch(r"step-(\d+)", path.name))
    ]
    return [path for _, path in sorted(numbered)]


def set_search(model: PreTrainedModel, search: SearchSettings) -> None:
    """Make the recipe's search the model's default, so that every checkpoint carries it in `generation_config.json`."""
    for name, value in dataclasses.asdict(search).items():
        setattr(model.generation_config, name, value)
