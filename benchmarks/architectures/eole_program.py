"""Trains one of eole's models to a budget of target tokens, scores it and translates a file. It runs in eole's own environment:

    python -m benchmarks.architectures.eole_program JOB.json

Model, optimizer, batches, training loop and search are eole's. Ours are the end (at so many target tokens in place of updates), the width
(from a number of parameters), the mean of the last checkpoints, the validation loss (without label smoothing), and what is counted for the
cost. A program that was killed
goes on from its last checkpoint with the same command, in a new order of the sentences.
"""

import fcntl
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from math import sqrt
from pathlib import Path
from typing import Any

from benchmarks.architectures.cpu_clock import CpuClock, write_json

Settings = dict[str, Any]

_SMALLEST_WIDTH = 16
RESULT, PROGRESS, CLOCK = "result.json", "progress.json", "cpu.json"


class Budget:
    """Batches until so many target tokens have been read; counts what is in them. Between two updates it calls back at even marks.

    Attributes:
        counted: sentences, target tokens, padded positions of sources and targets, and pairs of them.
    """

    def __init__(
        self,
        batches: Iterable[Any],
        tokens: int,
        per_update: int,
        marks: int,
        call: Callable[[], None],
        counted: dict[str, int] | None = None,
    ) -> None:
        """
        Args:
            batches: eole's, each a mapping with `src` `[B, S]`, `tgt` `[B, T + 1]` and `tgtlen` `[B]`, and the number of its bucket.
            per_update: batches of an update.
            marks: how often `call` is called, the end included.
            counted: what earlier processes read.
        """
        self._batches, self._tokens, self._per_update, self._call = batches, tokens, per_update, call
        self.counted = counted or dict.fromkeys(("sentences", "target_tokens", "source_positions", "target_positions", "pairs"), 0)
        self._marks = [tokens * mark / marks for mark in range(1, marks + 1) if tokens * mark / marks > self.counted["target_tokens"]]

    def __iter__(self) -> Iterator[Any]:
        for number, (batch, bucket) in enumerate(self._batches):
            if number % self._per_update == 0 and self._marks and self.counted["target_tokens"] >= self._marks[0]:
                self._marks = [mark for mark in self._marks if mark > self.counted["target_tokens"]]
                self._call()
                if not self._marks:
                    return
            self._count(batch)
            yield batch, bucket

    def _count(self, batch: Any) -> None:
        (sentences, sources), targets = batch["src"].shape, batch["tgt"].shape[1] - 1
        self.counted["sentences"] += sentences
        self.counted["target_tokens"] += int((batch["tgtlen"] - 1).sum())
        self.counted["source_positions"] += sentences * sources
        self.counted["target_positions"] += sentences * targets
        self.counted["pairs"] += sentences * sources * targets


def closest_width(parameters_of: Callable[[int], int], wanted: int) -> int:
    """The even width whose model has the number of parameters nearest to `wanted`; `parameters_of` must grow with the width."""
    low, high = _SMALLEST_WIDTH, 2 * _SMALLEST_WIDTH
    while parameters_of(high) < wanted:
        low, high = high, 2 * high
    while high - low > 2:
        middle = (low + high) // 4 * 2
        low, high = (middle, high) if parameters_of(middle) < wanted else (low, middle)
    return min((low, high), key=lambda width: abs(parameters_of(width) - wanted))


def with_width(settings: Settings, width: int, peak: float) -> Settings:
    """Settings for eole, of a model so wide, whose learning rate reaches `peak` at the end of the warm-up."""
    own = deepcopy(settings)
    own["model"] |= {"hidden_size": width, "embeddings": {**own["model"].get("embeddings", {}), "word_vec_size": width}}
    own["training"]["learning_rate"] = peak * sqrt(width * own["training"]["warmup_steps"])
    return own


class Training:
    """One run of eole's trainer."""

    def __init__(self, job: Settings) -> None:
        self._job, self._folder = job, Path(job["folder"])
        self._progress = _read(self._folder / PROGRESS)
        width = self._progress["width"] if self._progress else self._fit()
        settings = with_width(job["settings"], width, job["peak"])
        settings["training"]["model_path"] = str(self._folder / "model")
        if self._progress:
            settings["seed"] += self._progress["step"]
            settings["training"]["train_from"] = str(self._folder / "model" / f"step_{self._progress['step']}")
        self.width, self._curve = width, list(self._progress["curve"]) if self._progress else []
        self._build(settings)

    def _fit(self) -> int:
        from eole.config.run import TrainConfig
        from eole.models.model import get_model_class
        from eole.train_single import TrainingInitializer

        def parameters_of(width: int) -> int:
            context = TrainingInitializer(TrainConfig(**with_width(self._job["settings"], width, self._job["peak"]))).initialize()
            model = get_model_class(context.config.model).build(context.config.model, context.vocabs, context.config.training)
            return parameter_count(model)

        return closest_width(parameters_of, self._job["parameters"])

    def _build(self, settings: Settings) -> None:
        """As `eole.train_single.main` does it, with an end at the budget."""
        from eole.config.run import TrainConfig
        from eole.constants import CorpusTask
        from eole.inputters.dynamic_iterator import build_dynamic_dataset_iter
        from eole.models.model import get_model_class
        from eole.models.model_saver import build_model_saver
        from eole.train_single import TrainingInitializer, configure_process
        from eole.trainer import build_trainer
        from eole.utils.logging import init_logger
        from eole.utils.optimizers import Optimizer

        config = TrainConfig(**settings)
        configure_process(config, -1)
        init_logger(config.log_file)
        context = TrainingInitializer(config).initialize()
        config, vocabs = context.config, context.vocabs
        self.model = get_model_class(config.model).for_training(
            config.model, vocabs, config.training, metadata=context.metadata, device_id=-1
        )
        self._optimizer = Optimizer.from_config(self.model, config, metadata=context.metadata)
        self._saver = build_model_saver(config, self.model, vocabs, self._optimizer, -1, context.transforms)
        self._trainer = build_trainer(config, -1, self.model, vocabs, self._optimizer, model_saver=self._saver)

        def read(task: Any) -> Any:
            return build_dynamic_dataset_iter(config, context.transforms, vocabs, task=task, device_id=-1)

        self._validation = read(CorpusTask.VALID)
        self._padding = vocabs["tgt"][vocabs["specials"]["pad_token"]]
        self.vocabulary = len(vocabs["tgt"])
        before = self._progress["counted"] if self._progress else None
        per_update, marks = config.training.accum_count[0], self._job["validations"] * self._job["checkpoints_per_validation"]
        self.budget = Budget(read(CorpusTask.TRAIN), self._job["target_tokens"], per_update, marks, self._checkpoint, before)

    @property
    def step(self) -> int:
        """Updates so far."""
        return int(self._optimizer.training_step) - 1

    def run(self) -> Settings:
        """Train to the end of the budget, put the mean of the last checkpoints in the weights' place, and score."""
        if self.budget.counted["target_tokens"] < self._job["target_tokens"]:
            self._trainer.train(self.budget, 0, save_checkpoint_steps=0)
        take_mean(self.model, last_checkpoints(self._folder / "model", self.step, self._job["averaged_checkpoints"]))
        as_it_comes, _ = nats(self.model, self._validation, self._padding, averaged=True)
        take_trained_weights(self.model)
        nll, tokens = nats(self.model, self._validation, self._padding)
        self._saver.save(self.step + 1)  # beside the checkpoints, for a program that is killed now and comes again
        matrices = {side: sum(p.numel() for p in getattr(self.model, side).parameters() if p.ndim > 1) for side in ("encoder", "decoder")}
        return {
            "width": self.width,
            "parameters": parameter_count(self.model),
            "matrices": matrices,
            "vocabulary": self.vocabulary,
            "updates": self.step,
            "counted": self.budget.counted,
            "curve": self._curve,
            "nll": nll,
            "nll_as_it_comes": as_it_comes,
            "validation_tokens": tokens,
        }

    def _checkpoint(self) -> None:
        read = self.budget.counted["target_tokens"]
        if read * self._job["validations"] >= self._job["target_tokens"] * (len(self._curve) + 1):
            nll, _ = nats(self.model, self._validation, self._padding)
            self._curve.append({"target_tokens": read, "nll": nll})
        self._saver.save(self.step)
        write_json(
            self._folder / PROGRESS,
            {"step": self.step, "width": self.width, "counted": self.budget.counted, "curve": self._curve},
        )


def nats(model: Any, batches: Iterable[Any], padding: int, averaged: bool = False) -> tuple[float, int]:
    """The mean negative log-likelihood of a target token, end of sentence included, and the number of tokens; no smoothing, no dropout.

    eole's convolutions validate and translate with moving averages that start at zero and are not corrected for it, so that a short
    training is scored with weights that are too small. Only with `averaged` is that done here.
    """
    import torch

    model.eval()
    if not averaged:
        for module in model.modules():
            if hasattr(module, "polyak_decay"):
                module.train()  # takes the weights themselves, and has no dropout of its own
    total, tokens = 0.0, 0
    with torch.no_grad():
        for batch, _ in batches:
            states = model(batch["src"], batch["tgt"], batch["srclen"])[0]
            labels = batch["tgt"][:, 1:]
            scores = torch.log_softmax(model.generator(states), dim=-1).gather(2, labels.unsqueeze(-1)).squeeze(-1)
            kept = labels.ne(padding)
            total -= float(scores[kept].double().sum())
            tokens += int(kept.sum())
    model.train()
    return total / tokens, tokens


def last_checkpoints(folder: Path, step: int, number: int) -> list[Path]:
    """The files with eole's weights of the last checkpoints up to `step`, in order."""
    files = {int(file.parent.name.removeprefix("step_")): file for file in folder.glob("step_*/model.00.safetensors")}
    return [files[found] for found in sorted(found for found in files if found <= step)[-number:]]


def take_mean(model: Any, files: Sequence[Path]) -> None:
    """Put the mean of the tensors of `files` in the place of the model's own, added in float64 and rounded once (section 6.1)."""
    import torch
    from safetensors.torch import load_file

    states, own = [load_file(file) for file in files], model.state_dict()
    with torch.no_grad():
        for name in states[0]:
            if own[name].is_floating_point():
                own[name].copy_(torch.stack([state[name].double() for state in states]).mean(0))


def take_trained_weights(model: Any) -> None:
    """Put the weights themselves in place of the moving averages; see `nats`."""
    for module in model.modules():
        if hasattr(module, "polyak_decay"):
            for name in ("V", "g", "b"):
                getattr(module, f"{name}_avg").copy_(getattr(module, name).data)


def parameter_count(model: Any) -> int:
    """Of all tensors that are trained; a shared one counts once."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def translate(job: Settings) -> None:
    """Translate the job's sources with eole's search."""
    from eole.bin.run.predict import predict
    from eole.config.run import PredictConfig

    files = {"model_path": [str(Path(job["folder"]) / "model")], "src": job["sources"], "output": job["translations"]}
    predict(PredictConfig(**files, **job["search"]))


def _read(file: Path) -> Settings | None:
    found: Settings | None = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None
    return found


def main(file: str) -> None:
    """Do the job that a JSON file describes, and leave `result.json` in its folder; first wait for a process that is at it already.

    (A command that is killed leaves this program at work.)
    """
    job = json.loads(Path(file).read_text(encoding="utf-8"))
    folder = Path(job["folder"])
    with (folder / "training.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (folder / RESULT).is_file():
            return
        with CpuClock(folder / CLOCK):
            result = Training(job).run()
        translate(job)
        write_json(folder / RESULT, result)


if __name__ == "__main__":
    main(sys.argv[1])
