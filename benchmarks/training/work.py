"""What is done in a round of training: which pairs come together in which batches, and what is in them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count, takewhile
from typing import Literal

import numpy as np
import torch
from transformers.trainer_pt_utils import LengthGroupedSampler

from vaswani_transformer.configuration_vaswani import VaswaniConfig
from vaswani_transformer.data.batching import BatchStream
from vaswani_transformer.data.encoding import EncodedCorpus
from vaswani_transformer.recipe import Recipe
from vaswani_transformer.run_folder import RunFolder
from vaswani_transformer.training.cost import training_flops

TRAINER_SENTENCES = 128
"""A batch of transformers' trainer."""

Batching = Literal["budget", "random", "grouped"]
"""By a budget of tokens, as our engine plans it; or as transformers' trainer does it, a fixed number of sentences, drawn at random or
grouped by the length of the source."""

Batches = tuple[tuple[int, ...], ...]
"""Numbers of the pairs of each batch."""


@dataclass(frozen=True)
class Load:
    """How much is in some batches.

    Attributes:
        pairs: sentence pairs.
        target_tokens: real ones.
        padded_target_tokens: positions.
        flops: of the model, forward and backward, as `training.cost.training_flops` counts them.
    """

    pairs: int
    target_tokens: int
    padded_target_tokens: int
    flops: float

    @classmethod
    def of(cls, batches: Iterable[Sequence[int]], corpus: EncodedCorpus, config: VaswaniConfig) -> "Load":
        pairs, tokens, padded, flops = 0, 0, 0, 0.0
        for batch in batches:
            sources, targets = corpus.source_lengths[list(batch)], corpus.target_lengths[list(batch)]
            pairs += len(batch)
            tokens += int(targets.sum())
            padded += len(batch) * int(targets.max())
            sizes = int(sources.max()), int(targets.max()), int(targets.sum())
            flops += training_flops(config, len(batch), *sizes)
        return cls(pairs, tokens, padded, flops)


@dataclass(frozen=True)
class Work:
    """What a contestant does in each round.

    Attributes:
        recipe: architecture and optimisation. The corpora it names are not read: they are in `run` already.
        run: a run folder with tokenizer and encoded pairs.
        vocab_size: rows of the embedding.
        batches: the pairs of each update.
        updates: where the engine plans the batches, the numbers of the updates that have them, counted from 1; otherwise none.
        load: what is in the batches.
    """

    recipe: Recipe
    run: RunFolder
    vocab_size: int
    batches: Batches
    updates: tuple[int, ...]
    load: Load

    @property
    def config(self) -> VaswaniConfig:
        return self.recipe.model_config(vocab_size=self.vocab_size)

    def corpus(self) -> EncodedCorpus:
        return EncodedCorpus.open(self.run.encoded / "train")


def plan_work(batching: Batching, recipe: Recipe, run: RunFolder, corpus: EncodedCorpus, vocab_size: int, updates: int) -> Work:
    """A round of `updates` updates, chosen from one epoch.

    Raises:
        ValueError: the corpus is too small.
    """
    epoch = _epoch(batching, recipe, corpus)
    numbers = typical([float(corpus.target_lengths[batch].mean()) for batch in epoch], updates)
    batches = tuple(tuple(epoch[number]) for number in numbers)
    of_engine = tuple(number + 1 for number in numbers) if batching == "budget" else ()
    load = Load.of(batches, corpus, recipe.model_config(vocab_size=vocab_size))
    return Work(recipe, run, vocab_size, batches, of_engine, load)


def typical(lengths: Sequence[float], wanted: int) -> list[int]:
    """Numbers of `wanted` batches, from short sentences to long ones: the middle of each of so many equal parts.

    Args:
        lengths: of the sentences of each batch.

    Raises:
        ValueError: there are fewer batches.
    """
    if len(lengths) < wanted:
        raise ValueError(
            f"The corpus gives {len(lengths)} batches, fewer than the {wanted} updates of a round; take a larger one, or fewer updates."
        )
    by_length = np.argsort(lengths, kind="stable")
    return [int(by_length[(2 * part + 1) * len(lengths) // (2 * wanted)]) for part in range(wanted)]


def _epoch(batching: Batching, recipe: Recipe, corpus: EncodedCorpus) -> list[list[int]]:
    """The batches of the first epoch, those of the engine update by update."""
    if batching == "budget":
        stream = BatchStream(
            corpus.source_lengths,
            corpus.target_lengths,
            source_tokens=recipe.batching.source_tokens,
            target_tokens=recipe.batching.target_tokens,
            seed=recipe.training.seed,
        )
        return [stream.update(u)[0].tolist() for u in takewhile(lambda u: stream.epoch_of(u) < 1, count())]
    generator = torch.Generator().manual_seed(recipe.training.seed)
    if batching == "random":
        order = torch.randperm(len(corpus), generator=generator).tolist()
    else:
        lengths = corpus.source_lengths.tolist()
        order = list(LengthGroupedSampler(TRAINER_SENTENCES, lengths=lengths, generator=generator))
    full = range(0, len(order) - TRAINER_SENTENCES + 1, TRAINER_SENTENCES)
    return [order[start : start + TRAINER_SENTENCES] for start in full]
