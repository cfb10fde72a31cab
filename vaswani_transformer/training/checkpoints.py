"""Snapshots of the model during training: complete folders that `from_pretrained` loads, and which of them are kept.

The run keeps the last ones, which are averaged, and the best of those that were validated. The saved state alone decides what is kept,
so that a training that was killed between any two steps cleans up in the same way.
"""

import copy
import dataclasses
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.tokenization_utils_base import VERY_LARGE_INTEGER
from transformers.utils import GENERATION_CONFIG_NAME, logging

from ..configuration_vaswani import VaswaniConfig
from ..data.examples import CutTexts, examples_of
from ..files.atomic_folder import atomic_folder, changed_folder, remove_folder
from ..files.checksums import verify, write_checksums
from ..files.json_files import read_json, write_json
from ..recipe import CheckpointMetric, Recipe, SearchSettings, TrainingSettings
from ..run_folder import RunFolder
from ..search_settings import OF_DRAFTS
from ..strict_yaml import plain
from .state import TrainState, Validation

if TYPE_CHECKING:
    from peft import PeftModel


def save_checkpoint(
    run: RunFolder,
    update: int,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    adapted: "PeftModel | None" = None,
) -> Path:
    """Write `checkpoints/step-N`, with the hashes of its files in `SHA256SUMS`.

    If `model` was `adapted`, its adapters are merged into it, and also saved separately in `adapter`.
    """
    path = run.checkpoint(update)
    with atomic_folder(path) as unfinished, _without_bars():
        if adapted is not None:
            model = copy.deepcopy(adapted).merge_and_unload()
            adapted.save_pretrained(str(unfinished / "adapter"))
        model.save_pretrained(unfinished)
        tokenizer.save_pretrained(unfinished)
        write_checksums(unfinished)
    return path


def prune_checkpoints(run: RunFolder, state: TrainState, settings: TrainingSettings) -> None:
    """Remove all checkpoints but those that `state` and the recipe keep; checkpoints later than `state` will be made again.

    Call it only after `state` is saved, so that the checkpoints which the saved state needs always exist.
    """
    last = state.checkpoints[-(settings.keep_last_checkpoints or settings.average_checkpoints) :]
    best = best_checkpoints(run, state, settings.best_checkpoint_metric)[: settings.keep_best_checkpoints]
    kept = {*last, *(validation.update for validation in best)}
    for path in run.checkpoints.glob("step-*"):
        name = re.fullmatch(r"step-(\d+)", path.name)
        if name and int(name[1]) not in kept:
            remove_folder(path)


def window_to_average(run: RunFolder, state: TrainState, count: int) -> list[Path]:
    """Those of the last `count` saved checkpoints that exist, oldest first; none that is kept only as one of the best."""
    paths = [run.checkpoint(update) for update in state.checkpoints[-count:]]
    return [path for path in paths if path.is_dir()]


def best_checkpoints(run: RunFolder, state: TrainState, metric: CheckpointMetric | None) -> list[Validation]:
    """The validations whose checkpoints exist, best first."""
    there = [update for update in state.checkpoints if run.checkpoint(update).is_dir()]
    return best_first([each for each in state.validations if each.update in there], metric)


def best_first(validations: Sequence[Validation], metric: CheckpointMetric | None) -> list[Validation]:
    """Sorted by `metric`, by default the first score of the task; of equals the earlier one comes first; a loss that is NaN comes last."""

    def cost(validation: Validation) -> float:
        name: str = metric or next(iter(validation.scores))
        value = validation.scores[name] if name == "loss" else -validation.scores[name]
        return math.inf if math.isnan(value) else value

    return sorted(validations, key=cost)


def validations_without_gain(validations: Sequence[Validation], metric: CheckpointMetric | None) -> int:
    """The number of validations since the best one."""
    if not validations:
        return 0
    return len(validations) - 1 - list(validations).index(best_first(validations, metric)[0])


def set_search(model: PreTrainedModel, search: SearchSettings) -> None:
    """Make the recipe's search the model's default, so that every checkpoint carries it in `generation_config.json`."""
    for name, value in _settings_of(search).items():
        setattr(model.generation_config, name, value)
        if value is None and name in ("copy_items", *OF_DRAFTS):
            delattr(model.generation_config, name)  # other programs need not know the name


def _settings_of(search: SearchSettings) -> dict[str, Any]:
    """By their names in `generation_config.json`, `None` where there is nothing to say."""
    return dataclasses.asdict(search) | {"copy_items": search.copy_items or None}


def renew_search(folder: Path, search: SearchSettings) -> dict[str, Any]:
    """Make `search` the default of the model in `folder`, whose other settings stay.

    Returns:
        What changed: the new values by their names.

    Raises:
        ValueError: a file in `folder` is damaged.
    """
    settings = read_json(folder / GENERATION_CONFIG_NAME)
    changed = {name: value for name, value in plain(_settings_of(search)).items() if settings.get(name) != value}
    if changed:
        verify(folder)
        with changed_folder(folder) as unfinished:
            renewed = {name: value for name, value in {**settings, **changed}.items() if value is not None}
            write_json(unfinished / GENERATION_CONFIG_NAME, renewed)
            write_checksums(unfinished)
    return changed


def set_longest_text(tokenizer: PreTrainedTokenizerBase, recipe: Recipe, config: VaswaniConfig) -> None:
    """Make every checkpoint's tokenizer cut texts, where a caller asks for truncation, as training did or as the model must."""
    limits = [recipe.batching.max_sentence_tokens] if isinstance(examples_of(recipe), CutTexts) else []
    if config.most_positions is not None:
        limits.append(config.most_positions)
    # A model that this one began with may have had a limit
    tokenizer.model_max_length = min(limits, default=VERY_LARGE_INTEGER)


@contextmanager
def _without_bars() -> Iterator[None]:
    """Hide the bar that transformers shows for every file it saves, which would break up the training's own."""
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
