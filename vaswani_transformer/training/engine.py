"""The training, told in the order in which it happens.

Claim the run folder, prepare the data, build model and optimizer, go on where the last state left off, update until done (log, validate,
save on the way), average the last checkpoints.
"""

import time
from collections.abc import Sequence
from contextlib import closing
from datetime import timedelta
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.tracking import get_available_trackers
from accelerate.utils import DistributedDataParallelKwargs, InitProcessGroupKwargs, broadcast_object_list

from ..modeling_vaswani import VaswaniForConditionalGeneration
from ..recipe import Recipe, TrainingSettings
from ..run_folder import RunFolder, read_json, write_json
from .averaging import average_checkpoints
from .checkpoints import list_checkpoints, save_checkpoint, set_search
from .cost import hardware, versions
from .interruption import Interruption
from .loss import TranslationLoss
from .optimization import build_adam
from .preparation import PreparedData, claim_run_folder, prepare_data
from .progress import ProgressBar, TrainingLog
from .state import Totals, TrainState, load_state, newest_state, save_state
from .update import UpdateOutcome, Updater
from .validation import Validator

_MIXED_PRECISION = {"float32": "no", "bfloat16": "bf16", "float16": "fp16"}
_LONGEST_WAIT = timedelta(hours=12)
"""How long the other ranks wait while the first one prepares data or validates."""


def train(recipe: Recipe, run: RunFolder) -> bool:
    """Do everything `recipe` says up to the averaged checkpoint, or go on with it where it was stopped.

    Returns:
        Whether the training is complete; if a signal stopped it, the same call goes on.

    Raises:
        ValueError: the folder holds another run, or the data, the state or the number of processes do not fit the recipe.
        FloatingPointError: loss or gradients are not finite; the sentence names the pairs.
    """
    accelerator = build_accelerator(recipe, run)
    with accelerator.main_process_first():
        if accelerator.is_main_process:
            claim_run_folder(recipe, run)
        data = prepare_data(recipe, run, progress=accelerator.is_main_process)
    training = Training(recipe, run, data, accelerator)
    training.resume()
    complete = training.go_on()
    if complete and accelerator.is_main_process:
        training.write_facts(average_last_checkpoints(recipe, run))
        print(f"The averaged model is in {run.averaged}; log and costs are in {run.log} and {run.training}.")
    accelerator.wait_for_everyone()
    accelerator.end_training()
    return complete


class Training:
    """The parts of one run and the state that moves through them."""

    def __init__(self, recipe: Recipe, run: RunFolder, data: PreparedData, accelerator: Accelerator) -> None:
        self.settings, self.run, self.accelerator = recipe.training, run, accelerator
        self.tokenizer = data.tokenizer
        self.model = build_model(recipe, len(data.tokenizer), accelerator.device)
        self.loss = TranslationLoss(self.model, self.settings.label_smoothing, self.settings.compile)
        self.adam = build_adam(self.model.parameters(), self.settings)
        module, optimizer = accelerator.prepare(self.loss, self.adam)
        self.updater = Updater(recipe, self.model.config, data.train, accelerator, module, optimizer)
        self.validator = Validator(recipe, data.tokenizer, data.validation)
        self.state = TrainState()

    def resume(self) -> None:
        """Load the newest state, if there is one, and begin the log behind it."""
        found = newest_state(self.run.state)
        if found is not None:
            scale = load_state(found, self.state, self.model, self.adam)
            if self.accelerator.scaler is not None:
                self.accelerator.scaler.load_state_dict(scale)
        silent = not self.accelerator.is_main_process
        self.log = TrainingLog(self.run.log, self.state.update, silent)
        self.bar = ProgressBar(self.state.update, self.settings.updates, silent)
        if found is not None:
            self.bar.say(f"Going on after update {self.state.update}, from {found}")

    def go_on(self) -> bool:
        """Update until the last one, until validation stops improving, or until a signal; returns whether the training is complete."""
        stop = False
        with closing(self.log), closing(self.bar), Interruption() as interruption:
            while not (stop or self.is_complete):
                started = time.perf_counter()
                outcome = self.updater.run(self.state.update + 1, interruption)
                stop = outcome.stop_requested
                self._count(outcome, time.perf_counter() - started)
                self._report(outcome)
                if self._is_due(self.settings.validate_every):
                    self._validate()
                self.state.seconds += time.perf_counter() - started
                if self._is_due(self.settings.checkpoint_every):
                    self._save_checkpoint()
                if stop or self._is_due(self.settings.checkpoint_every):
                    self._save_state()
        if not self.is_complete:
            self.accelerator.print(
                f"Stopped after update {self.state.update} of {self.settings.updates}; the state is saved in {self.run.state}. "
                "The same command goes on from there."
            )
        return self.is_complete

    @property
    def is_complete(self) -> bool:
        return self.state.update >= self.settings.updates or self._is_out_of_patience

    @property
    def _is_out_of_patience(self) -> bool:
        return (
            self.settings.patience is not None
            and self.state.validations_without_gain >= self.settings.patience
        )

    def _is_due(self, every: int) -> bool:
        return self.state.update % every == 0 or self.is_complete

    def _count(self, outcome: UpdateOutcome, seconds: float) -> None:
        outcome.totals.seconds = seconds
        self.state.update += 1
        self.state.total.add(outcome.totals)
        self.state.interval.add(outcome.totals)

    def _report(self, outcome: UpdateOutcome) -> None:
        interval = self.state.interval
        rate = interval.target_tokens / interval.seconds
        self.bar.advance(interval.smoothed_loss / interval.target_tokens, outcome.learning_rate, rate)
        if not self._is_due(self.settings.log_every):
            return
        self._write({
            "kind": "train",
            "update": self.state.update,
            "epoch": round(self.updater.stream.epoch_of(self.state.update), 4),
            "loss": interval.smoothed_loss / interval.target_tokens,
            "nll": interval.plain_loss / interval.target_tokens,
            "learning_rate": outcome.learning_rate,
            "gradient_norm": outcome.gradient_norm,
            "target_tokens": self.state.total.target_tokens,
            "source_tokens": self.state.total.source_tokens,
            "padding_share": 1 - (interval.source_tokens + interval.target_tokens) / interval.positions,
            "tokens_per_second": rate,
            "seconds": self.state.total.seconds,
        })  # fmt: skip
        self.state.interval = Totals()

    def _validate(self) -> None:
        """The first rank scores, all learn the score: whether to stop must be decided by all alike."""
        scores: list[float] = [0.0]
        if self.accelerator.is_main_process:
            record = self.validator.run(self.loss)
            scores = [record["bleu"]]
            place = {"kind": "validation", "update": self.state.update}
            self._write({**place, **record, "seconds": self.state.total.seconds})
            self.bar.say(_describe(self.state.update, record))
        score = broadcast_object_list(scores)[0]
        if self.state.best_score is None or score > self.state.best_score:
            self.state.best_score, self.state.validations_without_gain = score, 0
        else:
            self.state.validations_without_gain += 1

    def _write(self, record: dict[str, Any]) -> None:
        self.log.write(record)
        kind, step = record["kind"], record["update"]
        numbers = {f"{kind}/{key}": value for key, value in record.items() if isinstance(value, int | float)}
        self.accelerator.log(numbers, step=step)

    def _save_checkpoint(self) -> None:
        if self.accelerator.is_main_process:
            keep = self.settings.average_checkpoints
            save_checkpoint(self.run, self.state.update, self.model, self.tokenizer, keep)
        self.accelerator.wait_for_everyone()

    def _save_state(self) -> None:
        if self.accelerator.is_main_process:
            self.log.flush_to_disk()
            scaler = self.accelerator.scaler
            loss_scaler = {} if scaler is None else scaler.state_dict()
            save_state(self.run.state, self.state, self.model, self.adam, loss_scaler)
            self.write_facts()
        self.accelerator.wait_for_everyone()

    def write_facts(self, averaged: Sequence[str] = ()) -> None:
        """`training.json`: what it took so far, and which checkpoints went into the average once there is one."""
        total = self.state.total
        write_json(self.run.training, {
            "updates": self.state.update,
            "epochs": round(self.updater.stream.epoch_of(self.state.update), 4),
            "target_tokens": total.target_tokens,
            "source_tokens": total.source_tokens,
            "padded_tokens": total.positions,
            "seconds": self.state.seconds,
            "flops": total.flops,
            "parameters": self.model.num_parameters(),
            "world_size": self.accelerator.num_processes,
            "precision": self.settings.precision,
            "hardware": hardware(self.accelerator.device, self.accelerator.num_processes),
            "versions": versions(),
            "best_bleu": self.state.best_score,
            "stopped_early": self._is_out_of_patience,
            "averaged_checkpoints": list(averaged),
        })  # fmt: skip


def build_accelerator(recipe: Recipe, run: RunFolder) -> Accelerator:
    """Devices, ranks, precision and trackers. Accumulation is ours: Accelerate's would divide the loss a second time.

    Raises:
        ValueError: a tracker is not installed, or the precision is not to be had on this machine.
    """
    on_cpu = not torch.accelerator.is_available()
    if on_cpu and recipe.training.precision == "float16":
        raise ValueError("`training.precision: float16` needs a GPU; on a CPU set bfloat16 or float32.")
    available = [str(tracker) for tracker in get_available_trackers()]
    for tracker in recipe.training.trackers:
        if tracker not in available:
            choice = ", ".join(available) or "none"
            raise ValueError(
                f"The tracker {tracker!r} of `training.trackers` is not installed; available: {choice}."
            )
    accelerator = Accelerator(
        # Said outright, or the processes that a launcher starts on a machine without GPUs do not see each other
        cpu=on_cpu,
        mixed_precision=_MIXED_PRECISION[recipe.training.precision],
        log_with=list(recipe.training.trackers) or None,
        project_dir=run.path,
        kwargs_handlers=[
            DistributedDataParallelKwargs(broadcast_buffers=False, gradient_as_bucket_view=True),
            InitProcessGroupKwargs(timeout=_LONGEST_WAIT),
        ],
    )
    accelerator.gradient_accumulation_steps = 1  # whatever the launcher's configuration says
    if recipe.training.trackers:
        accelerator.init_trackers(recipe.name, config={"recipe": recipe.to_yaml()})
    return accelerator


def build_model(recipe: Recipe, vocab_size: int, device: torch.device) -> VaswaniForConditionalGeneration:
    """The recipe's model with seeded initial weights, in training mode, on the CPU still."""
    settings: TrainingSettings = recipe.training
    torch.manual_seed(settings.seed)
    config = recipe.model_config(vocab_size=vocab_size)
    # Short sentences leave little to fuse, and on CPUs SDPA in bfloat16 is several times slower than the plain products
    attention = "eager" if device.type == "cpu" else "sdpa"
    model = VaswaniForConditionalGeneration(config)
    model.set_attn_implementation(attention)
    set_search(model, recipe.search)
    if settings.gradient_checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    return model.train()


def average_last_checkpoints(recipe: Recipe, run: RunFolder) -> list[str]:
    """Write `averaged`, unless it already is the mean of exactly these checkpoints; returns their names."""
    last = list_checkpoints(run)[-max(recipe.training.average_checkpoints, 1) :]
    names = [checkpoint.name for checkpoint in last]
    if not run.averaged.exists() or read_json(run.training)["averaged_checkpoints"] != names:
        average_checkpoints(last, run.averaged)
    return names


def _describe(update: int, record: dict[str, Any]) -> str:
    lines = [
        f"Update {update}: BLEU {record['bleu']:.2f}, chrF {record['chrf']:.2f}, perplexity {record['perplexity']:.3f}"
    ]
    for sample in record["samples"]:
        lines += [f"  {kind:<11} {sample[kind]}" for kind in ("source", "reference", "translation")]
    return "\n".join(lines)
