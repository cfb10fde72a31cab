"""R-Drop's fused loss is the paper's, values and gradients, and two passes cost what two passes cost."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from torch import Tensor
from torch.nn import functional

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_transformer.data.batching import IGNORED_LABEL
from vaswani_transformer.recipe import Recipe
from vaswani_transformer.run_folder import RunFolder
from vaswani_transformer.training import loss as loss_module
from vaswani_transformer.training.building import build_model
from vaswani_transformer.training.loss import Losses, TranslationLoss, r_drop_cross_entropy, target_positions
from vaswani_transformer.training.optimization import build_optimizer
from vaswani_transformer.training.preparation import prepare_data
from vaswani_transformer.training.state import Totals
from vaswani_transformer.training.update import Updater


def _oracle(first: Tensor, second: Tensor, targets: Tensor, smoothing: float, alpha: float) -> Tensor:
    """The definition, with whole matrices and torch's own functions."""
    entropies = [functional.cross_entropy(each, targets, label_smoothing=smoothing, reduction="sum") for each in (first, second)]
    p, q = first.log_softmax(-1), second.log_softmax(-1)
    divergences = [functional.kl_div(b, a, reduction="sum", log_target=True) for a, b in ((p, q), (q, p))]
    return sum(entropies) / 2 + alpha * sum(divergences) / 2


def test_a_loss_worked_out_on_paper() -> None:
    # Logits are (ln 2, 0) and (0, 0), so p = (2/3, 1/3) and q = (1/2, 1/2); target 0
    hidden, weight = torch.tensor([[[1.0], [0.0]]]).double(), torch.tensor([[2.0], [1.0]]).double().log()
    losses = r_drop_cross_entropy(hidden, weight, torch.tensor([0]), smoothing=0.0, alpha=3.0)
    entropy = (math.log(3 / 2) + math.log(2)) / 2
    p_of_q = 2 / 3 * math.log(4 / 3) + 1 / 3 * math.log(2 / 3)
    q_of_p = 1 / 2 * math.log(3 / 4) + 1 / 2 * math.log(3 / 2)
    assert losses.plain.item() == pytest.approx(entropy, rel=1e-12)
    assert losses.smoothed.item() == pytest.approx(entropy + 3.0 * (p_of_q + q_of_p) / 2, rel=1e-12)


@pytest.mark.parametrize("chunk_tokens", [1, 2, 3, 7, 21, 22, 256])
@pytest.mark.parametrize(("smoothing", "alpha"), [(0.0, 1.0), (0.1, 2.5), (0.1, 0.0)])
def test_equals_the_definition_in_float64(chunk_tokens: int, smoothing: float, alpha: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss_module, "BLOCK_LOGITS", 60)  # four rows of 13 in a block
    generator = torch.Generator().manual_seed(3)
    hidden = torch.randn(11, 2, 6, generator=generator, dtype=torch.float64).requires_grad_()
    weight = torch.randn(13, 6, generator=generator, dtype=torch.float64).requires_grad_()
    targets = torch.randint(0, 13, (11,), generator=generator)
    first, second = (hidden @ weight.t()).unbind(1)
    expected = _oracle(first, second, targets, smoothing, alpha)
    losses = r_drop_cross_entropy(hidden, weight, targets, smoothing, alpha, chunk_tokens)
    torch.testing.assert_close(losses.smoothed, expected, rtol=0, atol=1e-10)
    both = [functional.cross_entropy(each, targets, reduction="sum") for each in (first, second)]
    torch.testing.assert_close(losses.plain, (sum(both) / 2).detach(), rtol=0, atol=1e-10)
    gradients = torch.autograd.grad(3 * losses.smoothed, [hidden, weight])
    for gradient, wanted in zip(gradients, torch.autograd.grad(3 * expected, [hidden, weight]), strict=True):
        torch.testing.assert_close(gradient, wanted, rtol=0, atol=1e-10)


def test_bfloat16_autocast_keeps_the_softmax_in_float32() -> None:
    generator = torch.Generator().manual_seed(0)
    hidden, weight = (torch.randn(*size, generator=generator).requires_grad_() for size in ((64, 2, 32), (500, 32)))
    targets = torch.randint(0, 500, (64,), generator=generator)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        losses = r_drop_cross_entropy(hidden, weight, targets, 0.1, 2.5)
    exact = r_drop_cross_entropy(hidden, weight, targets, 0.1, 2.5)
    torch.testing.assert_close(losses.smoothed, exact.smoothed, rtol=4e-3, atol=0)
    gradients, wanted = (torch.autograd.grad(each.smoothed, [hidden, weight]) for each in (losses, exact))
    for gradient, reference in zip(gradients, wanted, strict=True):
        assert gradient.dtype == torch.float32
        assert (gradient - reference).norm() < 0.02 * reference.norm()


def _losses(
    r_drop: float, dropout: float, *, train: bool, checkpointing: bool = False
) -> tuple[TranslationLoss, Losses, tuple[Tensor, ...]]:
    """The losses of two sentences, and the model that computed them."""
    torch.manual_seed(0)
    config = VaswaniConfig.from_preset("tiny", vocab_size=29, d_model=16, encoder_layers=1, decoder_layers=1, dropout=dropout)
    model = VaswaniForConditionalGeneration(config).double()
    model.set_attn_implementation("eager")
    if checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    source = torch.tensor([[5, 6, 7, 2], [8, 9, 2, 0]])
    labels = torch.tensor([[4, 3, 2], [6, 2, IGNORED_LABEL]])
    module = TranslationLoss(model.train(train), 0.1, r_drop=r_drop).train(train)
    torch.manual_seed(1)
    return module, module(source, (source != 0).long(), labels, target_positions(labels)), (source, labels)


def test_both_passes_have_their_own_dropout() -> None:
    module, losses, (source, labels) = _losses(2.5, 0.3, train=True)
    source, labels = source.repeat(2, 1), labels.repeat(2, 1)
    torch.manual_seed(1)
    logits = module.model(input_ids=source, attention_mask=(source != 0).long(), labels=labels).logits
    real = labels != IGNORED_LABEL
    first, second = logits[real].chunk(2)
    assert (first - second).abs().min() > 1e-6
    expected = _oracle(first, second, labels[real][:5], 0.1, 2.5)
    torch.testing.assert_close(losses.smoothed, expected, rtol=0, atol=1e-10)
    parameters = list(module.parameters())
    for ours, theirs in zip(torch.autograd.grad(losses.smoothed, parameters), torch.autograd.grad(expected, parameters), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10)


@pytest.mark.parametrize(("dropout", "train"), [(0.3, False), (0.0, True)])
def test_without_dropout_it_is_the_plain_loss(dropout: float, train: bool) -> None:
    (_, twice, _), (_, once, _) = (_losses(r_drop, dropout, train=train) for r_drop in (2.5, 0.0))
    torch.testing.assert_close(twice.smoothed, once.smoothed, rtol=1e-12, atol=0)
    torch.testing.assert_close(twice.plain, once.plain, rtol=1e-12, atol=0)


def test_gradient_checkpointing_repeats_the_same_dropout() -> None:
    (plain, losses, _), (checkpointed, again, _) = (_losses(2.5, 0.3, train=True, checkpointing=each) for each in (False, True))
    losses.smoothed.backward()
    again.smoothed.backward()
    for parameter, other in zip(plain.parameters(), checkpointed.parameters(), strict=True):
        assert parameter.grad is not None and other.grad is not None
        assert torch.equal(parameter.grad, other.grad)


def _totals(recipe: Recipe, run: RunFolder) -> Totals:
    data = prepare_data(recipe, run)
    accelerator = Accelerator(cpu=True)
    model = build_model(recipe, len(data.tokenizer), torch.device("cpu"))
    module = TranslationLoss(model, 0.1, r_drop=recipe.training.r_drop)
    updater = Updater(recipe, model.config, data.train, accelerator, *accelerator.prepare(module, build_optimizer(model, recipe.training)))
    updater.stream.update = lambda update: [np.array([3, 41, 8]), np.array([5])]  # type: ignore[method-assign]
    return updater.run(1).totals


def test_what_is_computed_counts_twice_and_what_is_seen_once(make_recipe: Callable[..., Recipe], run: RunFolder) -> None:
    once, twice = (_totals(make_recipe(r_drop=r_drop), run) for r_drop in (0.0, 2.5))
    assert (twice.flops, twice.positions) == (2 * once.flops, 2 * once.positions)
    assert (twice.source_tokens, twice.target_tokens) == (once.source_tokens, once.target_tokens)
    # Per token both are near log V; the plain loss of twice the passes is not twice as large
    assert twice.plain_loss == pytest.approx(once.plain_loss, rel=0.1)


def test_resuming_changes_no_bit(make_recipe: Callable[..., Recipe], assert_resuming_changes_no_bit: Callable[[Recipe], None]) -> None:
    assert_resuming_changes_no_bit(make_recipe(r_drop=2.5))
