"""The training, step by step in the order in which it happens.

Claim the run folder, let a teacher translate if there is one, prepare the data, build model and optimizer, resume from the last
state, update until done (log, validate and save on the way), average the last checkpoints.
"""

import gc
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from datetime import timedelta
from typing import Any

import torch
from accelerate import Accelerator, PartialState
from accelerate.tracking import get_available_trackers
from accelerate.utils import DistributedDataParallelKwargs, InitProcessGroupKwargs, broadcast_object_list

from ..evaluation.label_scores import require_scorers
from ..files.json_files import read_json, write_json
from ..provenance import hardware, versions
from ..recipe import Recipe
from ..run_folder import RunFolder
from .averaging import average_checkpoints
from .building import adapt, build_model
from .checkpoints import (
    best_checkpoints,
    prune_checkpoints,
    renew_search,
    save_checkpoint,
    set_longest_text,
    validations_without_gain,
    window_to_average,
)
from .distillation import distill
from .interruption import Interruption
from .optimization import build_optimizer
from .precision import accelerates_name, in_float32_instead, precision_of, settle_precision
from .preparation import PreparedData, claim_run_folder, open_prepared_data, prepare_data, settle_micro_batches, sole_training
from .process_memory import bound_kernel_caches, keep_freed_memory, peak_memory
from .progress import ProgressDisplay, TrainingLog
from .sharding import ShardedLoss, is_sharded, sharded
from .state import Totals, TrainState, Validation, load_state, newest_state, save_state
from .task_parts import build_loss, build_validator
from .update import UpdateOutcome, Updater, drawn_corpus
from .watch import Watch
from .weight_average import WeightAverage

_LONGEST_WAIT = timedelta(hours=12)
"""How long the other ranks wait while the first one prepares data or validates."""


def train(recipe: Recipe, run: RunFolder) -> bool:
    """Train from the data to the averaged checkpoint, or resume a training, whatever stopped it.

    A resumed training computes the same as an uninterrupted one. All micro-batches form one endless sequence, which depends on lengths,
    budgets and seed only (`data.batching.BatchStream`); with BPE-dropout, lengths and ids of an epoch depend on seed and epoch. Update u
    takes its micro-batches u * M to (u + 1) * M - 1, where M is `batching.micro_batches`, fixed for the run. Of R ranks, rank r takes every
    R-th of them, beginning with r. So an update sees the same pairs whatever the number of ranks, before and after a stop. With the same R
    the weights are equal bit for bit. With another R, sums are added in another order, so rounding differs. A number of ranks that does not
    divide M is refused.

    Returns:
        Whether the training is complete; if a signal stopped it, the same call resumes it.

    Raises:
        ValueError: the folder holds another run, or the data, the state or the number of processes do not fit the recipe.
        FloatingPointError: loss or gradients are not finite; the sentence names the pairs.
        MemoryError: a micro-batch does not fit; the sentence says how large it is.
        OSError: the disk is full or not writable; or (`ConnectionError`) another rank failed or cannot be reached.
    """
    require_scorers(recipe.task)
    accelerator = build_accelerator(recipe, run)
    with Watch(accelerator), sole_training(run) if accelerator.is_main_process else nullcontext():
        with accelerator.main_process_first():
            if accelerator.is_main_process:
                claim_run_folder(recipe, run, accelerator.num_processes)
        distill(recipe, run)
        with accelerator.main_process_first():
            if accelerator.is_main_process:
                print(f"Run folder {run.path}: preparing the data, or opening what is prepared", flush=True)
                prepare_data(recipe, run, progress=sys.stderr.isatty())
            data = open_prepared_data(run)
        recipe = settle_micro_batches(recipe, run, accelerator.num_processes)
        complete = _train(recipe, run, data, accelerator)
        _end(accelerator)
    return complete


def _train(recipe: Recipe, run: RunFolder, data: PreparedData, accelerator: Accelerator) -> bool:
    training = Training(recipe, run, data, accelerator)
    training.resume()
    complete = training.go_on()
    if complete and accelerator.is_main_process:
        training.finish()
    return complete


def _end(accelerator: Accelerator) -> None:
    """Wait for all ranks, then destroy the process group, which nothing else holds any more.

    Whoever lets go of it last waits for its threads, and one of these may be waiting for Python's lock. PyTorch gives the lock away
    meanwhile when Python lets go, but not when a `DistributedDataParallel` does: that rank would hang for ever.
    """
    accelerator.free_memory()
    gc.collect()
    accelerator.wait_for_everyone()
    accelerator.end_training()


def translate_sources(recipe: Recipe, run: RunFolder) -> None:
    """Do what comes before a training with a teacher, and no more: the teacher's translations, in `run.distilled`.

    Raises:
        ValueError, OSError: as `train`; or the recipe names no teacher.
    """
    if recipe.data.distillation is None:
        raise ValueError(f"The recipe {recipe.name} names no teacher; set `data.distillation.teacher`.")
    accelerator = build_accelerator(recipe, run)
    with Watch(accelerator), sole_training(run) if accelerator.is_main_process else nullcontext():
        with accelerator.main_process_first():
            if accelerator.is_main_process:
                claim_run_folder(recipe, run, ranks=None)
        distill(recipe, run)
        _end(accelerator)


class Training:
    """The parts of one run and the state that moves through them."""

    def __init__(self, recipe: Recipe, run: RunFolder, data: PreparedData, accelerator: Accelerator) -> None:
        self.settings, self.run, self.accelerator = recipe.training, run, accelerator
        self.tokenizer = data.tokenizer
        self.model = build_model(recipe, len(data.tokenizer), accelerator.device, run.initial, data.train.labels)
        set_longest_text(self.tokenizer, recipe, self.model.config)
        self.adapted = adapt(self.model, recipe.fine_tuning)
        self.loss = build_loss(recipe, self.model, data.tokenizer)
        # With sharding, the whole model serves only validation and checkpoints, which first update it from the parts
        check_heads(self.model.config.parallel_heads, data)
        self.sharded = self._sharded(recipe)
        trained = self.sharded or self.loss
        self.trained = trained.model
        self.optimizer = build_optimizer(trained, self.settings, recipe.fine_tuning.layer_decay)
        if self.sharded is None:
            module, optimizer = accelerator.prepare(trained, self.optimizer)
        else:
            module, optimizer = trained, accelerator.prepare_optimizer(self.optimizer)
        decay = self.settings.ema_decay
        self.average = None if decay is None else WeightAverage(self.trained, decay)
        drawn = drawn_corpus(recipe, self.model.config, data.train, data.tokenizer, accelerator.num_processes)
        self.updater = Updater(recipe, self.model.config, data.train, accelerator, module, optimizer, drawn)
        self.settings = self.updater.settings
        self.epochs = recipe.training.epochs
        self.validator = build_validator(recipe, data)
        self.search = recipe.search if self.model.can_generate() else None
        self.metrics, self.also = recipe.facts.metrics, recipe.facts.also
        self.state = TrainState()
        self._unsaved = False
        self._has_worked = False

    def _sharded(self, recipe: Recipe) -> ShardedLoss | None:
        if not is_sharded(self.accelerator):
            return None
        return sharded(self.loss, self.accelerator, self.settings.compile)

    def resume(self) -> None:
        """Load the newest state, if there is one; cut the log after it and remove later checkpoints.

        Raises:
            ValueError: the state is damaged, or is missing although there was one; or this recipe's learning rate would have been another.
        """
        found = newest_state(self.run.state)
        if found is None and self.run.training.exists():
            raise ValueError(
                f"{self.run.training} tells of a training, but there is no state in {self.run.state} to resume from: put it back, or "
                "choose another run folder to begin with the first update."
            )
        if found is not None:
            scale = load_state(found, self.state, self.trained, self.optimizer, self.average)
            self._require_same_rate()
            self.updater.stream.restore(self.state.epoch_starts)
            if self.accelerator.scaler is not None:
                self.accelerator.scaler.load_state_dict(scale)
        silent = not self.accelerator.is_main_process
        if not silent:
            prune_checkpoints(self.run, self.state, self.settings)
        self.log = TrainingLog(self.run.log, self.state.records, silent)
        self.progress = ProgressDisplay(self.settings, self.state, silent)
        if self.epochs is not None:
            self.progress.say(f"{self.epochs:g} epochs are {self.settings.total_updates:,} updates")
        if found is not None:
            self.progress.say(f"Resuming after update {self.state.update}, from {found}")

    def _require_same_rate(self) -> None:
        """A recipe may be made longer or shorter, but only as long as no update that is done would have had another learning rate."""
        update = self.state.update
        recorded, planned = self.state.learning_rate, self.updater.learning_rate(update)
        if recorded is not None and recorded != planned:
            raise ValueError(
                f"Update {update} of {self.run.path} was done with a learning rate of {recorded:.3g}, and this recipe gives it "
                f"{planned:.3g}; set `training.updates` and `training.cooldown_share` back, or so that the cooldown begins later, or "
                "choose another folder."
            )

    def go_on(self) -> bool:
        """Update until the last update, until validation stops improving, or until a signal; return whether the training is complete."""
        stop = False
        with closing(self.progress), Interruption() as interruption:
            while True:
                # First do what the last update left undone, or a signal after it
                if not stop and self._owes_validation:
                    stop = self._validate(interruption)
                if self._unsaved and (stop or self._is_due(self.settings.checkpoint_every)):
                    self._save()
                if stop or self.is_complete:
                    break
                stop = self._update(interruption)
        if not self.is_complete:
            self.accelerator.print(
                f"Stopped after update {self.state.update} of {self.settings.total_updates}; the state is saved in {self.run.state}. "
                "The same command resumes from there."
            )
        return self.is_complete

    def finish(self) -> None:
        """Average the last checkpoints, and say where everything is. A checkpoint that holds an average itself is alone."""
        count = self.settings.average_checkpoints if self.average is None else 1
        averaged = average_last_checkpoints(self.run, self.state, count)
        changed = {} if self.search is None else renew_search(self.run.averaged, self.search)
        self.write_facts(averaged)
        print(f"The averaged model is in {self.run.averaged}; log and costs are in {self.run.log} and {self.run.training}.")
        if changed:
            settings = ", ".join(f"{name}={value}" for name, value in changed.items())
            print(f"It searches with {settings} now, as the recipe says.")
        if peak := peak_memory():
            print(f"This process held {peak / 1e9:.1f} GB of memory at most.")
        if best := self._best_checkpoint():
            points = [f"{title} {best[name]:.2f}" for name, title in self.metrics.items() if name in best]
            print(f"The best single checkpoint is {self.run.checkpoints / best['name']}: {', '.join(points)}, loss {best['loss']:.3f}.")

    @property
    def is_complete(self) -> bool:
        return self._is_last and not self._owes_validation

    @property
    def _is_last(self) -> bool:
        return self.state.update >= self.settings.total_updates or self._is_out_of_patience

    @property
    def _is_out_of_patience(self) -> bool:
        patience, metric = self.settings.patience, self.settings.best_checkpoint_metric
        return patience is not None and validations_without_gain(self.state.validations, metric) >= patience

    @property
    def _owes_validation(self) -> bool:
        done = self.state.validations[-1].update if self.state.validations else 0
        return done < self.state.update and self._is_due(self.settings.validate_every)

    def _is_due(self, every: int) -> bool:
        return self.state.update % every == 0 or self._is_last

    def _update(self, interruption: Interruption) -> bool:
        """One update; returns whether a signal has come, to any rank."""
        started = time.perf_counter()
        self._has_worked = True
        outcome = self.updater.run(self.state.update + 1, interruption)
        if self.average is not None:
            self.average.add(self.state.update + 1)
        self._count(outcome, time.perf_counter() - started)
        self.state.seconds += outcome.totals.seconds
        self._report(outcome)
        self._unsaved = True
        return outcome.stop_requested

    def _count(self, outcome: UpdateOutcome, seconds: float) -> None:
        outcome.totals.seconds = seconds
        self.state.update += 1
        self.state.learning_rate = outcome.learning_rate
        self.state.total.add(outcome.totals)
        self.state.interval.add(outcome.totals)

    def _report(self, outcome: UpdateOutcome) -> None:
        interval = self.state.interval
        record = {
            "kind": "train",
            "update": self.state.update,
            "epoch": round(self.updater.stream.epoch_of(self.state.update), 4),
            "loss": interval.smoothed_loss / interval.target_tokens,
            "nll": interval.plain_loss / interval.target_tokens,
            "learning_rate": outcome.learning_rate,
            "gradient_norm": outcome.gradient_norm,
            "target_tokens": self.state.total.target_tokens,
            "source_tokens": self.state.total.source_tokens,
            "padding_share": 1 - self.updater.passes * (interval.source_tokens + interval.target_tokens) / interval.positions,
            "tokens_per_second": interval.target_tokens / interval.seconds,
            "seconds": self.state.total.seconds,
        }
        self.progress.advance(outcome.totals.seconds, record)
        if self._is_due(self.settings.log_every):
            self._write(record)
            self.progress.tell(record)
            self.state.interval = Totals()

    def _validate(self, interruption: Interruption) -> bool:
        """Score on the first rank and share the score, since all ranks must decide alike whether to stop.

        Returns:
            Whether a signal interrupted it; the validation is then repeated when the training resumes.
        """
        started = time.perf_counter()
        self._has_worked = True
        self.progress.doing("Validating")
        scores: list[Validation | None] = [None]
        if (record := self._score(interruption)) is not None:
            scores = [Validation(self.state.update, {name: record[name] for name in (*self.metrics, "loss") if name in record})]
            place = {"kind": "validation", "update": self.state.update, "target_tokens": self.state.total.target_tokens}
            self._write({**place, **record, "seconds": self.state.total.seconds})
            self.progress.say(_describe(self.state.update, record, self.state.validations, self.metrics | self.also))
        score = broadcast_object_list(scores)[0]
        if score is None:
            return True
        self.state.validations.append(score)
        self.state.seconds += time.perf_counter() - started
        self._unsaved = True
        return False

    def _score(self, interruption: Interruption) -> dict[str, Any] | None:
        """The record of a validation on the first rank; None on the others, and if a signal interrupted it."""
        with self._weights_to_publish():
            if not self.accelerator.is_main_process:
                return None
            return interruption.unless_requested(lambda: self.validator.run(self.loss))

    def _write(self, record: dict[str, Any]) -> None:
        self.log.write(record)
        kind, step = record["kind"], record["update"]
        numbers = {f"{kind}/{key}": value for key, value in record.items() if isinstance(value, int | float)}
        self.accelerator.log(numbers, step=step)

    @contextmanager
    def _weights_to_publish(self) -> Iterator[None]:
        """Inside this context, which all ranks must enter, `model` has the weights that are validated and go into checkpoints."""
        with nullcontext() if self.average is None else self.average.in_place():
            if self.sharded is not None:
                self.sharded.copy_to(self.loss)
            yield

    def _save(self) -> None:
        """Write checkpoint, state and facts; only then remove what they replace."""
        started = time.perf_counter()
        self.progress.doing("Saving")
        is_checkpoint = self._is_due(self.settings.checkpoint_every)
        if is_checkpoint and self.state.update not in self.state.checkpoints:
            with self._weights_to_publish():
                if self.accelerator.is_main_process:
                    save_checkpoint(self.run, self.state.update, self.model, self.tokenizer, self.adapted)
            self.state.checkpoints.append(self.state.update)
        writer = self.accelerator.is_main_process
        self.state.records = self.log.records
        self.state.epoch_starts = self.updater.stream.epoch_starts
        if writer:
            self.log.flush_to_disk()
        scaler = self.accelerator.scaler
        loss_scaler = {} if scaler is None else scaler.state_dict()
        save_state(self.run.state, self.state, self.trained, self.optimizer, loss_scaler, writer, self.average)
        if writer:
            self.write_facts()
            prune_checkpoints(self.run, self.state, self.settings)
        self._unsaved = False
        self.accelerator.wait_for_everyone()
        self.state.saving_seconds += time.perf_counter() - started

    def _best_checkpoint(self) -> dict[str, Any] | None:
        best = best_checkpoints(self.run, self.state, self.settings.best_checkpoint_metric)
        if not best or not self.settings.keep_best_checkpoints:
            return None
        return {"name": self.run.checkpoint(best[0].update).name, **best[0].scores}

    def write_facts(self, averaged: Sequence[str] = ()) -> None:
        """Write `training.json`: the cost so far, and, once there is an average, the checkpoints in it."""
        total = self.state.total
        where = {
            "precision": precision_of(self.accelerator),
            "peak_memory_bytes": peak_memory(),
            "world_size": self.accelerator.num_processes,
            "hardware": hardware(self.accelerator.device, self.accelerator.num_processes),
            "versions": versions("torch", "transformers", "tokenizers", "accelerate"),
        }
        if not self._has_worked and self.run.training.exists():  # a finished run that is started again was trained elsewhere
            where |= {name: fact for name, fact in read_json(self.run.training).items() if name in where}
        write_json(self.run.training, {
            "updates": self.state.update,
            "planned_updates": self.settings.total_updates,
            "epochs": round(self.updater.stream.epoch_of(self.state.update), 4),
            "target_tokens": total.target_tokens,
            "source_tokens": total.source_tokens,
            "padded_tokens": total.positions,
            "seconds": self.state.seconds,
            "flops": total.flops,
            "parameters": self.model.num_parameters(),
            **where,
            "best_checkpoint": self._best_checkpoint(),
            "stopped_early": self._is_out_of_patience,
            "averaged_checkpoints": list(averaged),
        })  # fmt: skip


def check_heads(tokens: int, data: PreparedData) -> None:
    """Raise a `ValueError` if a model that proposes `tokens` a step has a head for which no target of the training is long enough."""
    longest = int(data.train.target_lengths.max())
    if tokens > longest:
        raise ValueError(
            f"`training.parallel_heads: {tokens}` is more heads than the longest target has tokens ({longest}, its end included), so some "
            f"would never be trained; set it to {longest} at most."
        )


def build_accelerator(recipe: Recipe, run: RunFolder) -> Accelerator:
    """Devices, ranks, precision and trackers. We accumulate gradients ourselves: Accelerate's would divide the loss a second time.

    Raises:
        ValueError: a tracker is not installed, this machine does not support the precision, or these processes have trained already.
    """
    on_cpu = not torch.accelerator.is_available()
    if on_cpu:
        keep_freed_memory()
        bound_kernel_caches()
    precision = settle_precision(recipe.training.precision, on_cpu)
    if PartialState._shared_state and PartialState().num_processes > 1 and not torch.distributed.is_initialized():
        raise ValueError("A job of several processes trains once, and this one has: start another job for the next training.")
    available = [str(tracker) for tracker in get_available_trackers()]
    for tracker in recipe.training.trackers:
        if tracker not in available:
            choice = ", ".join(available) or "none"
            raise ValueError(f"The tracker {tracker!r} of `training.trackers` is not installed; available: {choice}.")
    accelerator = Accelerator(
        # Given explicitly; otherwise processes that a launcher starts on a machine without GPUs do not find each other
        cpu=on_cpu,
        mixed_precision=accelerates_name(precision),
        log_with=list(recipe.training.trackers) or None,
        project_dir=run.path,
        kwargs_handlers=[
            DistributedDataParallelKwargs(gradient_as_bucket_view=True),
            InitProcessGroupKwargs(timeout=_LONGEST_WAIT),
        ],
    )
    if precision != recipe.training.precision:
        accelerator.print(in_float32_instead("The training", on_cpu))
    accelerator.gradient_accumulation_steps = 1  # whatever the launcher's configuration says
    if recipe.training.trackers:
        accelerator.init_trackers(recipe.name, config={"recipe": recipe.to_yaml()})
    return accelerator


def average_last_checkpoints(run: RunFolder, state: TrainState, count: int) -> list[str]:
    """Write `averaged`, unless it already is the mean of exactly these checkpoints; return their names."""
    last = window_to_average(run, state, count)
    names = [checkpoint.name for checkpoint in last]
    before = read_json(run.training)["averaged_checkpoints"] if run.training.exists() else None
    if not run.averaged.exists() or before != names:
        average_checkpoints(last, run.averaged)
    return names


def _describe(update: int, record: dict[str, Any], earlier: Sequence[Validation], metrics: dict[str, str]) -> str:
    first, *others = (name for name in metrics if name in record)
    best = max(earlier, key=lambda validation: validation.scores[first], default=None)
    rank = "the best so far"
    if best is not None and best.scores[first] >= record[first]:
        rank = f"the best was {best.scores[first]:.2f} after update {best.update}"
    of_each = [f"{name[5:]} {points:.2f}" for name, points in record.items() if name.startswith("bleu_")]
    rank = "; ".join([rank, *of_each])
    if "right_ahead" in record:
        ahead = ", ".join(f"{share:.1%}" for share in record["right_ahead"])
        rank = f"{rank}; right proposals of the tokens 1, 2, ... ahead: {ahead}"
    points = [f"{metrics[first]} {record[first]:.2f} ({rank})", *(f"{metrics[name]} {record[name]:.2f}" for name in others)]
    lines = [f"Update {update}: {', '.join(points)}, perplexity {record['perplexity']:.3f}"]
    for sample in record["samples"]:
        lines += [f"  {kind:<11} {' '.join(text.split())}" for kind, text in sample.items()]
    return "\n".join(lines)
