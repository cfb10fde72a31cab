"""Additive attention against its formula, written out, and its memory."""

import pytest
import torch

from tests.largest_tensor import TensorMemory
from vaswani_transformer import additive_score
from vaswani_transformer.additive_score import AdditiveScore


def score_of(heads: int, units: int) -> AdditiveScore:
    torch.manual_seed(0)
    score = AdditiveScore(heads, units).double()
    torch.nn.init.normal_(score.weight)
    return score


@pytest.mark.parametrize("at_once", [2**20, 200, 1])
def test_scores_and_gradients_are_those_of_the_formula(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether all hidden layers are computed at once, those of a few queries, or those of each query alone."""
    monkeypatch.setattr(additive_score, "LARGEST", at_once)
    score = score_of(3, 4)
    queries = torch.randn(2, 3, 5, 4, dtype=torch.float64, requires_grad=True)
    keys = torch.randn(2, 3, 7, 4, dtype=torch.float64, requires_grad=True)
    parts = (queries, keys, score.weight)
    found = score(queries, keys)
    expected = torch.einsum("bhtsk,hk->bhts", torch.tanh(queries[:, :, :, None] + keys[:, :, None]), score.weight)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    weights = torch.randn_like(found)
    gradients = (torch.autograd.grad((scores * weights).sum(), parts) for scores in (found, expected))
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
    with torch.no_grad():
        torch.testing.assert_close(score(queries, keys), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("length", [64, 128])
def test_hidden_layers_of_all_pairs_are_never_in_memory_at_once(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(additive_score, "LARGEST", 2**14)
    score = score_of(2, 16)
    states = torch.randn(1, 2, length, 16, dtype=torch.float64, requires_grad=True)
    with TensorMemory() as memory:
        score(states, states).sum().backward()
    scores = 2 * length**2
    assert memory.largest == max(2**14, scores)
