"""What a training would meet, before it starts: files, cleaning, lengths, updates, and a few real updates for time and memory."""

import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..files.json_files import read_json
from ..provenance import hardware
from ..recipe import Precision, Recipe
from ..run_folder import RunFolder
from .distillation import time_teacher
from .engine import Training, build_accelerator
from .precision import precision_of
from .preparation import PreparedData, claim_run_folder, open_prepared_data, prepare_data

_TRANSLATED = 64
"""Sources that a teacher is tried on."""
_QUANTILES = (0.5, 0.9, 0.99, 1.0)

_WHY = {
    "empty_side": "a side has nothing to see",
    "too_long": "a side has more words than data.cleaning.max_words",
    "length_ratio": "one side is data.cleaning.max_length_ratio times longer than the other",
    "identical_sides": "source and target are the same",
    "held_out": "the source is in the validation or a test set",
    "duplicate": "the same pair came before",
    "too_many_tokens": "a side has more tokens than batching.max_sentence_tokens",
}


@dataclass(frozen=True)
class Rehearsal:
    """The findings of a rehearsal.

    Attributes:
        cleaning: as in `cleaning.json`.
        source_lengths, target_lengths: [pairs] tokens of the training pairs' sides, `</s>` included; with BPE-dropout, of the first epoch.
        updates: number of updates of the whole training.
        updates_an_epoch: number of updates of the first epoch; with a teacher, both are estimates.
        seconds: of one update, the median of those that were tried.
        memory: peak memory of the process, or the GPU, in bytes.
        teacher_seconds: of the translation of one training source, by the teacher of a student; 0 where there is none.
        hardware, precision: where this was measured, and what was computed in.
    """

    recipe: Recipe
    cleaning: dict[str, Any]
    source_lengths: NDArray[np.int32]
    target_lengths: NDArray[np.int32]
    updates: int
    updates_an_epoch: int
    seconds: float
    memory: int
    teacher_seconds: float
    hardware: dict[str, Any]
    precision: Precision
    parameters: int


def rehearse(recipe: Recipe, updates: int = 5, progress: bool = False) -> Rehearsal:
    """Prepare the data of `recipe` and do its first updates, in a folder that is removed afterwards.

    The prepared data go into the cache, where the training itself then finds them. In the place of a teacher's translations, which take
    long to make, the corpora's own target sides are looked at, and the teacher translates a few sources. Where it makes several pairs of a
    source, an epoch is taken to be as many epochs of the original pairs.

    Raises:
        ValueError: as in `train`.
        FileNotFoundError: a file of a corpus, or the teacher, is missing.
    """
    whole, pairs_a_source, epochs = recipe, _pairs_a_source(recipe), recipe.training.epochs
    recipe = replace(
        recipe,
        data=replace(recipe.data, distillation=None),
        training=replace(recipe.training, epochs=None if epochs is None else epochs * pairs_a_source),
    )
    with TemporaryDirectory() as folder:
        run = RunFolder(Path(folder) / "rehearsal")
        claim_run_folder(recipe, run)
        prepare_data(recipe, run, progress=progress)
        data = open_prepared_data(run)
        settings = replace(recipe.training, trackers=())
        accelerator = build_accelerator(replace(recipe, training=settings), run)
        training = Training(recipe, run, data, accelerator)
        stream = training.updater.stream
        seconds = median(list(_timed(training, min(updates, training.settings.total_updates)))[1:] or [0.0])
        lengths = stream.epoch_lengths(0)
        memory = _peak_memory(accelerator.device)
        return Rehearsal(
            recipe=whole,
            cleaning=read_json(run.cleaning),
            source_lengths=lengths[0].copy(),
            target_lengths=lengths[1].copy(),
            updates=training.settings.total_updates,
            updates_an_epoch=stream.updates_in(pairs_a_source),
            seconds=seconds,
            memory=memory,
            teacher_seconds=time_teacher(whole, _some_sources(data)) if whole.data.distillation else 0.0,
            hardware=hardware(accelerator.device, accelerator.num_processes),
            precision=precision_of(accelerator),
            parameters=training.model.num_parameters(),
        )


def describe(found: Rehearsal) -> str:
    """The rehearsal as a page of text."""
    return "\n".join([*_files(found), "", *_cleaning(found), "", *_lengths(found), "", *_cost(found)])


def _files(found: Rehearsal) -> Iterator[str]:
    data = found.recipe.data
    yield f"{found.recipe.name}: {found.recipe.subject}"
    for split, corpora in data.by_split.items():
        for corpus in corpora:
            files = [str(path.absolute()) for path in corpus.files(Path(data.root)).values()]
            yield f"  {split:<12} {', '.join(files) or corpus.title}"
    yield from (f"  {'licence' if number == 0 else '':<12} {line}" for number, line in enumerate(data.licences.lines()))


def _cleaning(found: Rehearsal) -> Iterator[str]:
    facts = found.cleaning
    has_labels = found.recipe.facts.labels
    yield f"Of {facts['pairs_in']:,} training {'texts' if has_labels else 'pairs'} {facts['kept']:,} are trained on"
    for reason, number in facts["dropped"].items():
        if number:
            yield f"  {number:>10,} dropped ({number / facts['pairs_in']:.1%}): {_WHY[reason]}"


def _lengths(found: Rehearsal) -> Iterator[str]:
    limit = found.recipe.batching.max_sentence_tokens
    rate = found.recipe.tokenizer.bpe_dropout
    drawn = f", in the first epoch of BPE-dropout {rate:g}" if rate else ""
    yield f"Tokens of a sentence (vocabulary of {found.cleaning['tokenizer']['vocab_size']:,} entries{drawn})"
    yield "  " + " " * 8 + "".join(f"{label:>9}" for label in ("median", "90 %", "99 %", "longest"))
    names = ("text", "labels") if found.recipe.facts.labels else ("source", "target")
    for name, lengths in zip(names, (found.source_lengths, found.target_lengths), strict=True):
        yield f"  {name:<8}" + "".join(f"{int(np.quantile(lengths, share, method='higher')):>9,}" for share in _QUANTILES)
    dropped = found.cleaning["dropped"]["too_many_tokens"]
    share = dropped / (dropped + found.cleaning["kept"])
    yield f"  {share:.2%} of the pairs have more than {limit} tokens on a side and are left out"


def _cost(found: Rehearsal) -> Iterator[str]:
    if distillation := found.recipe.data.distillation:
        sources = found.cleaning["kept"]
        yield f"Before it trains, {distillation.teacher} translates the sources: {found.teacher_seconds:.2g} s each on this machine,"
        yield f"  {_duration(found.teacher_seconds * sources)} for {sources:,}; what the cache holds is not translated again"
    if (pairs := _pairs_a_source(found.recipe)) > 1:
        yield f"It trains on {pairs} pairs of each source, about {pairs * found.cleaning['kept']:,} in all;"
        yield "  this is an estimate, since cleaning drops equal pairs, and an epoch's length follows from it"
    epochs = found.updates / found.updates_an_epoch
    yield f"{found.updates:,} updates, {found.updates_an_epoch:,} an epoch: {epochs:,.1f} epochs"
    yield f"  a model of {found.parameters:,} parameters"
    if not found.seconds:
        yield "  the training is too short to estimate its time"
        return
    machine = found.hardware.get("gpu") or f"{found.hardware['cpu']}, threads: {found.hardware['threads']}"
    yield f"  estimate from the first updates on this machine ({machine}, {found.precision}):"
    yield f"  {found.seconds:.2f} s an update, {_duration(found.seconds * found.updates)} in all; validation and saving come on top"
    yield f"  {found.memory / 2**20:,.0f} MiB of memory so far; the longest batches and validation may take more"


def _pairs_a_source(recipe: Recipe) -> int:
    """How many pairs training makes of each source, the original one included where it is kept."""
    settings = recipe.data.distillation
    if settings is None:
        return 1
    return (1 if settings.closest else settings.best) + settings.keep_original


def _some_sources(data: PreparedData) -> list[str]:
    """Training sources from the whole corpus, evenly spaced."""
    count = len(data.train.source_lengths)
    chosen = np.unique(np.linspace(0, count - 1, _TRANSLATED, dtype=np.int64))
    return [data.tokenizer.decode(data.train.source[index], skip_special_tokens=True) for index in chosen]


def _timed(training: Training, updates: int) -> Iterator[float]:
    """Seconds of each of the first updates; the very first is slower than all others."""
    for update in range(1, updates + 1):
        started = time.perf_counter()
        training.updater.run(update)
        yield time.perf_counter() - started


def _peak_memory(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{max(minutes, 1)} min"
