"""An update is the same whether its pairs come at once or in shares, and a broken one is never made."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from accelerate import Accelerator

from vaswani_transformer.data.encoding import EncodedCorpus
from vaswani_transformer.recipe import Recipe
from vaswani_transformer.run_folder import RunFolder
from vaswani_transformer.training.building import build_model
from vaswani_transformer.training.loss import Losses, TranslationLoss
from vaswani_transformer.training.optimization import build_optimizer
from vaswani_transformer.training.preparation import prepare_data
from vaswani_transformer.training.update import Updater, _seed


@pytest.fixture
def make_updater(make_recipe: Callable[..., Recipe], run: RunFolder) -> Callable[..., Updater]:
    """An updater in float64 without dropout, of which every call gives an equal one."""

    def make(plan: list[list[int]] | None = None, **training: object) -> Updater:
        recipe = make_recipe(**training)
        data = prepare_data(recipe, run)
        accelerator = Accelerator(cpu=True)
        model = build_model(recipe, len(data.tokenizer), torch.device("cpu")).double().eval()
        module = TranslationLoss(model, recipe.training.label_smoothing)
        adam = build_optimizer(model, recipe.training)
        updater = Updater(recipe, model.config, data.train, accelerator, *accelerator.prepare(module, adam))
        if plan is not None:
            updater.stream.micro_batches = len(plan)
            updater.stream.update = lambda update: [np.array(pairs) for pairs in plan]  # type: ignore[method-assign]
        return updater

    return make


def _parameters(updater: Updater) -> dict[str, torch.Tensor]:
    return {name: parameter.detach().clone() for name, parameter in updater.module.named_parameters()}


def test_four_accumulated_micro_batches_are_one_batch(make_updater: Callable[..., Updater]) -> None:
    whole, shares = make_updater([[3, 41, 8, 57, 12, 20]]), make_updater([[3, 41], [8], [57, 12], [20]])
    outcomes = [updater.run(1) for updater in (whole, shares)]
    assert outcomes[0].totals.smoothed_loss == pytest.approx(outcomes[1].totals.smoothed_loss, rel=1e-6)
    assert outcomes[0].gradient_norm == pytest.approx(outcomes[1].gradient_norm, rel=1e-10)
    expected = _parameters(whole)
    for name, parameter in _parameters(shares).items():
        torch.testing.assert_close(parameter, expected[name], rtol=0, atol=1e-10)


def test_totals_by_hand(make_updater: Callable[..., Updater]) -> None:
    updater = make_updater([[0, 30], [59]])
    sources, targets = updater.corpus.source_lengths, updater.corpus.target_lengths
    totals = updater.run(1).totals
    assert totals.source_tokens == sources[0] + sources[30] + sources[59]
    assert totals.target_tokens == targets[0] + targets[30] + targets[59]
    padded = 2 * max(sources[0], sources[30]) + 2 * max(targets[0], targets[30]) + sources[59] + targets[59]
    assert totals.positions == padded


def test_the_loss_is_the_mean_over_real_target_tokens(make_updater: Callable[..., Updater]) -> None:
    totals = make_updater([[1, 2, 3]]).run(1).totals
    # An untrained model knows about nothing: close to the uniform distribution's log V
    assert totals.plain_loss / totals.target_tokens == pytest.approx(math.log(280), rel=0.2)


def test_clipping_happens_only_on_request(make_updater: Callable[..., Updater]) -> None:
    free, clipped = make_updater(), make_updater(max_gradient_norm=1e-12)
    assert free.run(1).gradient_norm == clipped.run(1).gradient_norm > 1e-3  # the norm that is logged is the one before
    # Adam does not see the scale of gradients until they come near its epsilon
    before, after = _parameters(make_updater()), _parameters(clipped)
    moved = max((after[name] - before[name]).abs().max().item() for name in before)
    assert moved < 0.5 * max((_parameters(free)[name] - before[name]).abs().max().item() for name in before)


def test_a_loss_that_is_not_finite_names_the_lines_and_changes_nothing(
    make_updater: Callable[..., Updater], monkeypatch: pytest.MonkeyPatch
) -> None:
    updater = make_updater([[3, 4], [5, 6]])
    forward = TranslationLoss.forward

    def poisoned(self: TranslationLoss, **batch: torch.Tensor) -> object:
        losses = forward(self, **batch)
        is_second = batch["labels"].tolist() == _labels(updater.corpus, [5, 6])
        return losses._replace(smoothed=losses.smoothed * float("nan")) if is_second else losses

    monkeypatch.setattr(TranslationLoss, "forward", poisoned)
    updater.module.forward = poisoned.__get__(updater.module)  # Accelerate may have bound the original
    before = _parameters(updater)
    with pytest.raises(FloatingPointError, match=r"loss of update 7 is not finite.*: train\.en:6, train\.en:7$"):
        updater.run(7)
    assert all(torch.equal(parameter, before[name]) for name, parameter in _parameters(updater).items())
    assert all(parameter.grad is None for parameter in updater.module.parameters())


def test_a_gradient_that_is_not_finite_names_the_whole_update(
    make_updater: Callable[..., Updater],
) -> None:
    updater = make_updater([[3], [5]])
    next(iter(updater.module.parameters())).register_hook(lambda gradient: gradient * float("inf"))
    with pytest.raises(FloatingPointError, match=r"gradient of update 1 is not finite.*: train\.en:4, train\.en:6$"):
        updater.run(1)


def test_ranks_that_cannot_share_evenly_are_refused(make_updater: Callable[..., Updater], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Accelerator, "num_processes", 3)
    with pytest.raises(ValueError, match=r"3 processes cannot share 2 micro-batches.*micro_batches"):
        make_updater()


def test_every_micro_batch_has_its_own_seed() -> None:
    seeds = {_seed(seed, update, number) for seed in range(3) for update in range(20) for number in range(4)}
    assert len(seeds) == 3 * 20 * 4
    assert max(seeds) < 2**32


def _labels(corpus: EncodedCorpus, pairs: list[int]) -> list[list[int]]:
    rows = [corpus.pair(pair)[1].tolist() for pair in pairs]
    longest = max(map(len, rows))
    return [row + [-100] * (longest - len(row)) for row in rows]


@pytest.mark.parametrize("failure", ["allocator", "system"])
def test_a_batch_that_does_not_fit_is_told_by_its_size(
    make_updater: Callable[..., Updater], monkeypatch: pytest.MonkeyPatch, failure: str
) -> None:
    updater = make_updater([[3, 41], [8, 57, 12]], gradient_checkpointing=failure == "system")
    forward = TranslationLoss.forward

    def exhaust(self: TranslationLoss, input_ids: torch.Tensor, **others: torch.Tensor) -> Losses:
        if len(input_ids) == 3:
            if failure == "system":
                raise MemoryError
            torch.empty(2**62, dtype=torch.uint8)
        return forward(self, input_ids, **others)

    monkeypatch.setattr(TranslationLoss, "forward", exhaust)
    before = _parameters(updater)
    source, target = (max(lengths[[8, 57, 12]]) for lengths in (updater.corpus.source_lengths, updater.corpus.target_lengths))
    with pytest.raises(MemoryError) as caught:
        updater.run(1)
    sentence = str(caught.value)
    assert f"Update 1 ran out of memory in a micro-batch of 3 pairs, 3 x {source} = {3 * source} source" in sentence
    assert f"and 3 x {target} = {3 * target} target tokens with padding" in sentence
    assert "more `batching.micro_batches` (now 2)" in sentence
    assert ("`training.gradient_checkpointing: true` needs less" in sentence) == (failure == "allocator")
    for name, parameter in _parameters(updater).items():
        assert torch.equal(parameter, before[name])
