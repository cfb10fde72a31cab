"""How well a pretrained model undoes noise in texts, by its own forward pass."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..data.batching import collate, plan_batches
from ..data.encoding import TokenPairs, TokenSequences
from ..data.examples import text_ids
from ..data.noise import NoisedCorpus
from ..recipe import Recipe
from .bleu import MetricResult


class NoiseScores(NamedTuple):
    """The scores of some texts, of how many tokens, and what was said about each text."""

    metrics: dict[str, MetricResult]
    perplexity: float
    tokens: int
    sources: list[list[int]]
    targets: list[list[int]]
    predictions: list[list[int]]


def text_with_masks(ids: Sequence[int], tokenizer: PreTrainedTokenizerBase) -> str:
    """The text of some ids, without control tokens; the mask, which is one of them, stays."""
    left_out = set(tokenizer.all_special_ids) - {tokenizer.mask_token_id}
    return str(tokenizer.decode([number for number in ids if number not in left_out]))


@torch.inference_mode()
def score_noise(recipe: Recipe, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> NoiseScores:
    """The share of hidden tokens that are found, in points of 100; of a text that is restored, of all tokens, each after the right ones.

    Args:
        recipe: names the noise, its seed, and how many tokens a batch has.
        model: a masked language model, or for denoising an encoder-decoder.
        tokenizer: with a mask.
        texts: to add noise to, as in the first epoch of a training on them.
    """
    plain = TokenSequences.of(text_ids(texts, tokenizer), np.int64)
    noised = NoisedCorpus(TokenPairs(plain, plain), tokenizer, recipe.noise, recipe.training.seed).pairs(np.arange(len(texts)), 0)
    size, is_masking = model.config.vocab_size, recipe.noise.kind == "masking"
    budget = max(recipe.validation.batch_tokens, int(noised.source_lengths.max()), int(noised.target_lengths.max()))
    lengths = noised.source_lengths, noised.target_lengths
    targets = [(ids % size).tolist() for ids in noised.target]
    predictions: list[list[int]] = [[] for _ in texts]
    losses = []
    model.eval()
    for batch in plan_batches(*lengths, source_tokens=budget, target_tokens=budget, seed=0, epoch=0):
        inputs = {name: tensor.to(model.device) for name, tensor in collate(noised, batch, tokenizer.pad_token_id).items()}
        labels = inputs.pop("labels")
        scores = model(**inputs).logits if is_masking else model(**inputs, labels=labels).logits
        for row, pair in enumerate(batch.tolist()):
            right = torch.tensor(targets[pair], device=scores.device)
            places = torch.from_numpy(noised.target[pair] // size).to(scores.device) if is_masking else torch.arange(len(right))
            losses.append(float(torch.nn.functional.cross_entropy(scores[row, places].float(), right, reduction="sum")))
            predictions[pair] = scores[row, places].argmax(-1).tolist()
    tokens = sum(map(len, targets))
    found = sum(a == b for pair in zip(targets, predictions, strict=True) for a, b in zip(*pair, strict=True))
    noise = recipe.noise
    kind = "hidden tokens" if is_masking else f"all tokens, each after the right ones, mean span {noise.mean_span}"
    signature = f"{noise.kind}, {kind}, share {noise.share}, seed {recipe.training.seed}"
    metrics = {"accuracy": MetricResult(100 * found / tokens, signature)}
    return NoiseScores(metrics, math.exp(math.fsum(losses) / tokens), tokens, [ids.tolist() for ids in noised.source], targets, predictions)
