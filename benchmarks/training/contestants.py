"""Who trains: our engine's own update, MarianMTModel in a plain loop, and MarianMTModel in transformers' trainer."""

import ctypes
import gc
import platform
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from tempfile import TemporaryDirectory
from typing import Any, Literal

import torch
from torch.nn.functional import cross_entropy
from transformers import (
    AutoTokenizer,
    DataCollatorForSeq2Seq,
    MarianConfig,
    MarianMTModel,
    PrinterCallback,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    TrainerCallback,
)

from benchmarks.interleaved import Timed
from benchmarks.stopwatch import Stopwatch
from benchmarks.training.work import Batching, Work
from vaswani_transformer.data.batching import IGNORED_LABEL, collate
from vaswani_transformer.interop.marian import marian_configuration
from vaswani_transformer.training.building import build_model
from vaswani_transformer.training.engine import build_accelerator
from vaswani_transformer.training.loss import TranslationLoss
from vaswani_transformer.training.optimization import build_optimizer
from vaswani_transformer.training.update import Updater

_LEARNING_RATE = 1e-4
"""Of those that have no schedule. It decides nothing here."""


class TrainingContestant(ABC):
    """A model in training and its optimizer."""

    @abstractmethod
    def round(self) -> Timed:
        """All updates of the work, timed."""


def train_round(contestant: TrainingContestant, threads: int, gives_back: bool) -> Timed:
    """A round on so many of PyTorch's threads; `gives_back` returns free memory to the system after it (where the C library is glibc)."""
    torch.set_num_threads(threads)
    gc.collect()
    timed = contestant.round()
    if gives_back and platform.libc_ver()[0] == "glibc":
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
    return timed


class Ours(TrainingContestant):
    """What `vaswani train` runs: each update is one of `training.update.Updater`, with gradient norm and check for finite losses."""

    def __init__(self, work: Work, *, precision: Literal["float32", "bfloat16"], compiled: bool = False) -> None:
        settings = replace(work.recipe.training, precision=precision, compile=compiled)
        recipe = replace(work.recipe, training=settings)
        accelerator = build_accelerator(recipe, work.run)
        model = build_model(recipe, work.vocab_size, accelerator.device)
        loss = TranslationLoss(model, settings.label_smoothing, settings.compile)
        module, optimizer = accelerator.prepare(loss, build_optimizer(loss, settings))
        self._updater = Updater(recipe, model.config, work.corpus(), accelerator, module, optimizer)
        self._updates = work.updates

    def round(self) -> Timed:
        watch = Stopwatch()
        for update in self._updates:
            self._updater.run(update)
        return watch.read()


class PlainLoop(TrainingContestant):
    """MarianMTModel as one trains it by hand: forward, torch's cross entropy with smoothing, backward, torch's Adam."""

    def __init__(
        self,
        work: Work,
        *,
        attention: Literal["sdpa", "eager"],
        precision: Literal["float32", "bfloat16"],
        fused: bool,
    ) -> None:
        """
        Args:
            precision: of autocast; weights are float32.
            fused: take the kernel of Adam that ours takes, instead of torch's default.
        """
        self._work, self._corpus, self._device = work, work.corpus(), current_device()
        self._precision = getattr(torch, precision)
        self._model = marian(work, attention).to(self._device)
        self._adam = torch.optim.Adam(self._model.parameters(), lr=_LEARNING_RATE, fused=fused or None)

    def round(self) -> Timed:
        watch = Stopwatch()
        for pairs in self._work.batches:
            self._update(pairs)
        return watch.read()

    def _update(self, pairs: Sequence[int]) -> None:
        model = self._model
        batch = collate(self._corpus, pairs, model.config.pad_token_id)
        batch = {name: tensor.to(self._device) for name, tensor in batch.items()}
        labels = batch.pop("labels")
        with torch.autocast(self._device.type, self._precision, enabled=self._precision != torch.float32):
            decoder_input_ids = model.prepare_decoder_input_ids_from_labels(labels)
            logits = model(**batch, decoder_input_ids=decoder_input_ids, use_cache=False).logits
            loss = cross_entropy(
                logits.flatten(0, 1),
                labels.flatten(),
                ignore_index=IGNORED_LABEL,
                label_smoothing=self._work.recipe.training.label_smoothing,
            )
        loss.backward()
        self._adam.step()
        self._adam.zero_grad()


class HuggingFaceTrainer(TrainingContestant):
    """MarianMTModel in `Seq2SeqTrainer` with all its defaults; what it does before the first and after the last update is not timed."""

    def __init__(self, work: Work, *, precision: Literal["float32", "bfloat16"]) -> None:
        corpus, self._scratch = work.corpus(), TemporaryDirectory()
        (sentences,) = {len(pairs) for pairs in work.batches}
        settings = Seq2SeqTrainingArguments(
            output_dir=self._scratch.name,
            per_device_train_batch_size=sentences,
            max_steps=len(work.batches),
            train_sampling_strategy="sequential",  # the batches come in the order in which they were drawn
            label_smoothing_factor=work.recipe.training.label_smoothing,
            learning_rate=_LEARNING_RATE,
            bf16=precision == "bfloat16",
            dataloader_pin_memory=torch.accelerator.is_available(),  # or it warns that there is none
            report_to="none",
            save_strategy="no",
            disable_tqdm=True,
        )
        model, tokenizer = marian(work, "sdpa"), AutoTokenizer.from_pretrained(work.run.tokenizer)
        self._callback = _Callback()
        self._trainer = Seq2SeqTrainer(
            model=model,
            args=settings,
            train_dataset=[_example(*corpus.pair(i)) for pairs in work.batches for i in pairs],
            data_collator=DataCollatorForSeq2Seq(tokenizer, model=model),
            processing_class=tokenizer,
            callbacks=[self._callback],
        )
        self._trainer.remove_callback(PrinterCallback)

    def round(self) -> Timed:
        self._trainer.train()
        assert self._callback.timed is not None  # training called it back
        return self._callback.timed


class _Callback(TrainerCallback):
    """Times from the beginning of the first step to the end of the last."""

    timed: Timed | None = None

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == 0:
            self._watch = Stopwatch()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == state.max_steps:
            self.timed = self._watch.read()


def marian(work: Work, attention: str) -> Any:
    """MarianMTModel of the work's architecture with seeded weights, in training mode."""
    torch.manual_seed(work.recipe.training.seed)
    config = MarianConfig.from_dict(marian_configuration(work.config))
    return MarianMTModel._from_config(config, attn_implementation=attention).train()


def current_device() -> torch.device:
    """The accelerator, where there is one."""
    return torch.accelerator.current_accelerator() or torch.device("cpu")


def _example(source: Any, target: Any) -> dict[str, list[int]]:
    return {"input_ids": source.tolist(), "attention_mask": [1] * len(source), "labels": target.tolist()}


@dataclass(frozen=True)
class Kind:
    """A contestant for any work.

    Attributes:
        title: for tables and pictures.
        build: what trains.
        options: of `build`; `precision` is that of its matrix products.
        batches: how its pairs come together.
    """

    title: str
    build: Callable[..., TrainingContestant]
    options: dict[str, Any]
    batches: Batching = "budget"

    def __call__(self, work: Work) -> TrainingContestant:
        return self.build(work, **self.options)

    @property
    def is_ours(self) -> bool:
        return self.build is Ours

    @property
    def is_loop(self) -> bool:
        return self.build is PlainLoop


def _loop(title: str, attention: str, precision: str, *, fused: bool = True) -> Kind:
    return Kind(f"MarianMTModel {title}", PlainLoop, {"attention": attention, "precision": precision, "fused": fused})


def _trainer(title: str, batches: Batching, precision: str = "float32") -> Kind:
    return Kind(f"Seq2SeqTrainer {title}", HuggingFaceTrainer, {"precision": precision}, batches)


KINDS = {
    "marian": _loop("as it comes", "sdpa", "float32", fused=False),
    "marian-fused": _loop("SDPA float32, fused Adam", "sdpa", "float32"),
    "marian-eager": _loop("eager float32, fused Adam", "eager", "float32"),
    "marian-bf16": _loop("SDPA bfloat16, fused Adam", "sdpa", "bfloat16"),
    "marian-eager-bf16": _loop("eager bfloat16, fused Adam", "eager", "bfloat16"),
    "trainer": _trainer("float32", "random"),
    "trainer-grouped": _trainer("float32, by length", "grouped"),
    "trainer-grouped-bf16": _trainer("bfloat16, by length", "grouped", "bfloat16"),
    "ours": Kind("ours float32", Ours, {"precision": "float32"}),
    "ours-bf16": Kind("ours bfloat16", Ours, {"precision": "bfloat16"}),
    "ours-compiled": Kind("ours bfloat16, compiled", Ours, {"precision": "bfloat16", "compiled": True}),
}

ON_CPU = (
    *("marian", "marian-fused", "marian-eager", "marian-bf16", "marian-eager-bf16"),
    *("trainer", "trainer-grouped", "ours", "ours-bf16"),
)
ON_GPU = (*ON_CPU[:7], "trainer-grouped-bf16", "ours", "ours-bf16", "ours-compiled")
"""Who runs unless somebody else is named; the first is what all ratios refer to."""
