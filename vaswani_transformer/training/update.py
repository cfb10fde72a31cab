"""One optimisation update: micro-batches forward and backward, one division by the target tokens of all ranks, one step of Adam."""

import math
from contextlib import nullcontext
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.optimizer import AcceleratedOptimizer
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from ..configuration_vaswani import VaswaniConfig
from ..data.batching import BatchStream, collate, require_equal_shares
from ..data.both_directions import DrawnCorpus, TurnedCorpus
from ..data.bpe_dropout import ResegmentedCorpus
from ..data.encoding import EncodedCorpus, TokenPairs
from ..data.noise import NoisedCorpus
from ..recipe import Recipe
from .cost import training_flops
from .interruption import Interruption
from .loss import target_positions
from .muon import muon_flops
from .optimization import clip_gradients, cooldown, gradient_norm, learning_rate, set_learning_rate
from .out_of_memory import fitting
from .state import Totals


class UpdateOutcome(NamedTuple):
    """The result of an update, the same on every rank."""

    totals: Totals
    learning_rate: float
    gradient_norm: float
    stop_requested: bool


class Updater:
    """Does the updates; only its model and its optimizer change.

    Every update's M micro-batches are divided among R ranks (rank r takes r, r + R, ...), and each micro-batch has its own random seed. So
    neither the number of ranks nor a restart changes what is computed.
    """

    def __init__(
        self,
        recipe: Recipe,
        config: VaswaniConfig,
        corpus: EncodedCorpus,
        accelerator: Accelerator,
        module: nn.Module,
        optimizer: AcceleratedOptimizer,
        drawn: DrawnCorpus | None = None,
    ) -> None:
        """
        Args:
            recipe: all settings.
            config: that of the model inside `module`.
            corpus: the training pairs.
            accelerator: gives ranks, device, precision.
            module: a `TranslationLoss`, as `accelerator.prepare` returned it.
            optimizer: likewise.
            drawn: `corpus` with what every epoch draws anew, see `drawn_corpus`.

        Raises:
            ValueError: the ranks cannot share the micro-batches of an update evenly.
        """
        assert config.pad_token_id is not None  # id 0 of every vocabulary of this project
        self.config, self.corpus = config, corpus
        self.pad_token_id = config.pad_token_id
        self.accelerator, self.module, self.optimizer = accelerator, module, optimizer
        frozen = "backbone" in recipe.fine_tuning.freeze
        self.step_flops = muon_flops(optimizer.param_groups)
        self.heads_only = config.parallel_heads > 1 and frozen
        self.rank, self.ranks = accelerator.process_index, accelerator.num_processes
        self.outputs = len(corpus.labels) or (None if config.is_encoder_decoder else config.vocab_size)
        """Of the map of a model without a decoder; one that marks answers has a score for each position."""
        self.marks_answers = recipe.marks_answers
        self.passes = 2 if recipe.training.r_drop else 1
        batching = recipe.batching
        self.drawn = drawn
        self.stream = BatchStream(
            corpus.source_lengths,
            corpus.target_lengths,
            source_tokens=batching.source_tokens,
            target_tokens=batching.target_tokens,
            micro_batches=batching.micro_batches or self.ranks,
            seed=recipe.training.seed,
            groups=corpus.languages,
            temperature=batching.temperature,
            lengths_of=None if drawn is None else drawn.lengths,
            mixed_lengths=batching.mixed_lengths,
        )
        require_equal_shares(self.stream.micro_batches, self.ranks)
        self.settings = recipe.training.in_updates(self.stream.updates_in)

    def run(self, update: int, interruption: Interruption | None = None) -> UpdateOutcome:
        """Do update number `update`, counted from 1.

        Args:
            update: its number decides its pairs, its dropout and its learning rate.
            interruption: tells at the end whether this rank should stop; the outcome says whether any rank should.

        Raises:
            FloatingPointError: loss or gradients are not finite; weights are as before, and the sentence names the pairs.
            MemoryError: a micro-batch does not fit; weights are as before, and the sentence says how large it is.
        """
        plan = self.stream.update(update - 1)
        totals = self._count(update)
        losses = self._backward(plan, update, totals.target_tokens)
        if self.accelerator.scaler is not None:
            self.accelerator.unscale_gradients(self.optimizer)
        norm = gradient_norm(self.module.parameters())
        wants_to_stop = interruption is not None and interruption.requested
        by_micro_batch, norm_value, stop = self._share(losses, norm, wants_to_stop)
        self._check_finite(update, plan, by_micro_batch, norm_value)
        rate = self.learning_rate(update)
        if self.settings.max_gradient_norm is not None:
            clip_gradients(self.module.parameters(), self.settings.max_gradient_norm, norm)
        set_learning_rate(self.optimizer, rate)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        totals.smoothed_loss, totals.plain_loss = (math.fsum(kind) for kind in zip(*by_micro_batch, strict=True))
        return UpdateOutcome(totals, rate, norm_value, stop)

    def learning_rate(self, update: int) -> float:
        """That of update number `update`: equation 3, times the factor of the cooldown."""
        settings = self.settings
        rate = learning_rate(update, self.config.d_model, settings.warmup_updates, settings.learning_rate_scale)
        return rate * cooldown(update, settings.total_updates, settings.cooldown_share)

    def _backward(self, plan: list[np.ndarray], update: int, target_tokens: int) -> Tensor:
        """Accumulate gradients over this rank's micro-batches; return both losses of each, [M, 2], zero where another rank computes it."""
        losses = torch.zeros(len(plan), 2, device=self.accelerator.device)
        # Data-parallel training averages gradients over the ranks, but the sum is needed
        share = self.ranks / target_tokens
        epochs = self.stream.epochs(update - 1)
        for number in range(self.rank, len(plan), self.ranks):
            corpus, pairs = self._drawn_pairs(plan[number], epochs[number])
            batch = load_batch(corpus, pairs, self.pad_token_id, self.accelerator.device)
            torch.manual_seed(_seed(self.settings.seed, update, number))
            is_last = number + self.ranks >= len(plan)
            synchronised = nullcontext() if is_last else self.accelerator.no_sync(self.module)
            with fitting(partial(self._too_large, update, batch)), synchronised:
                result = self.module(**batch)
                self.accelerator.backward(result.smoothed * share)
            losses[number] = torch.stack([result.smoothed.detach(), result.plain])
        return losses

    def _drawn_pairs(self, pairs: np.ndarray, epoch: int) -> tuple[TokenPairs, np.ndarray]:
        """Where to load some pairs from as this epoch draws them, and their numbers there."""
        if self.drawn is None:
            return self.corpus, pairs
        return self.drawn.pairs(pairs, epoch), np.arange(len(pairs))

    def _too_large(self, update: int, batch: dict[str, Tensor]) -> str:
        (pairs, source), (_, target) = batch["input_ids"].shape, batch["labels"].shape
        going_on = (
            "" if self.settings.gradient_checkpointing
            else "`training.gradient_checkpointing: true` needs less, and this run then resumes to the same result; or "
        )  # fmt: skip
        return (
            f"Update {update} ran out of memory in a micro-batch of {pairs} pairs, {pairs} x {source} = {pairs * source} source and "
            f"{pairs} x {target} = {pairs * target} target tokens with padding; the last saved state is kept. {going_on}"
            f"begin another run with more `batching.micro_batches` (now {self.stream.micro_batches}), or with lower "
            "`batching.source_tokens` and `batching.target_tokens`."
        )

    def _share(self, losses: Tensor, norm: Tensor, wants_to_stop: bool) -> tuple[list[list[float]], float, bool]:
        """Share with all ranks, in one message, what each knows."""
        known = torch.cat([losses.flatten(), losses.new_tensor([wants_to_stop])])
        if self.ranks > 1:
            torch.distributed.all_reduce(known)
        *values, stops, norm_value = torch.cat([known, norm.to(known).unsqueeze(0)]).tolist()
        return [values[i : i + 2] for i in range(0, len(values), 2)], norm_value, stops > 0

    def _check_finite(self, update: int, plan: list[np.ndarray], losses: list[list[float]], norm: float) -> None:
        suspects = [pairs for pairs, values in zip(plan, losses, strict=True) if not all(map(math.isfinite, values))]
        # With float16 an infinite gradient is how the loss scale is found: that update is skipped and the scale halved
        if not suspects and (math.isfinite(norm) or self.accelerator.scaler is not None):
            return
        what = "loss" if suspects else "gradient"
        lines = ", ".join(self.corpus.where(int(i)) for pairs in suspects or plan for i in pairs)
        self.optimizer.zero_grad(set_to_none=True)
        raise FloatingPointError(
            f"The {what} of update {update} is not finite, so the update was not made and the last saved state is kept. Lower "
            f"`training.learning_rate_scale`, warm up longer, use another `training.precision`, or look at the pairs of the batch: {lines}"
        )

    def _count(self, update: int) -> Totals:
        """The sizes of the update over all ranks; the plan gives them without communication."""
        counts = self.stream.tokens(update - 1)
        flops = self.step_flops
        for sources, targets in self.stream.lengths(update - 1):
            sizes = len(sources), int(sources.max()), int(targets.max()), int(targets.sum())
            labels = sizes[1] if self.marks_answers else self.outputs
            flops += self.passes * training_flops(self.config, *sizes, heads_only=self.heads_only, labels=labels)
        return Totals(
            source_tokens=counts.source,
            target_tokens=counts.target,
            positions=self.passes * (counts.padded_source + counts.padded_target),
            flops=flops,
        )


def drawn_corpus(
    recipe: Recipe, config: VaswaniConfig, corpus: EncodedCorpus, tokenizer: PreTrainedTokenizerBase, ranks: int
) -> DrawnCorpus | None:
    """The corpus with what every epoch draws anew, or `None`: the noise of a pretraining, BPE-dropout, or both directions.

    No sentence becomes longer than the corpus was limited to, or than a micro-batch holds.

    Raises:
        ValueError: BPE-dropout does not fit the tokenizer, or both directions the vocabularies of the model with this `config`.
    """
    settings = recipe.training
    if recipe.task == "pretraining":
        return NoisedCorpus(corpus, tokenizer, recipe.noise, settings.seed)
    drawn: DrawnCorpus | None = None
    if recipe.tokenizer.bpe_dropout:
        batching = recipe.batching
        micro_batches, longest = batching.micro_batches or ranks, corpus.index["max_tokens"]
        limits = min(longest, batching.source_tokens // micro_batches), min(longest, batching.target_tokens // micro_batches)
        drawn = ResegmentedCorpus(corpus, tokenizer, rate=recipe.tokenizer.bpe_dropout, seed=settings.seed, limits=limits)
    if settings.both_directions_epochs:
        if config.target_vocab_size is not None:
            raise ValueError(
                "`training.both_directions_epochs` makes sources of targets, and the model has a vocabulary for each of its languages; "
                "leave it out."
            )
        drawn = TurnedCorpus(corpus, settings.seed, settings.both_directions_epochs, drawn)
    return drawn


def load_batch(corpus: TokenPairs, pairs: np.ndarray, pad_token_id: int, device: torch.device) -> dict[str, Tensor]:
    """The arguments of `TranslationLoss` for some pairs, on `device`."""
    batch = collate(corpus, pairs, pad_token_id)
    batch["target_positions"] = target_positions(batch["labels"])
    if device.type == "cuda":  # pinned memory lets the copy overlap with the device's work
        return {name: tensor.pin_memory().to(device, non_blocking=True) for name, tensor in batch.items()}
    return {name: tensor.to(device) for name, tensor in batch.items()}


def _seed(seed: int, update: int, micro_batch: int) -> int:
    """A well-mixed seed, because torch's CPU generator uses only the lower 32 bits."""
    return int(np.random.SeedSequence((seed, update, micro_batch)).generate_state(1)[0])
