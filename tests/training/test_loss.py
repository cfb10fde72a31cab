"""The fused loss is torch's label-smoothed cross entropy, to the last digits, values and gradients."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from transformers import MarianConfig, MarianMTModel

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_transformer.data.batching import IGNORED_LABEL
from vaswani_transformer.training.loss import TranslationLoss, smoothed_cross_entropy, target_positions


def _example(tokens: int = 11, width: int = 6, vocabulary: int = 13, dtype: torch.dtype = torch.float64) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(3)
    hidden = torch.randn(tokens, width, generator=generator, dtype=dtype).requires_grad_()
    weight = torch.randn(vocabulary, width, generator=generator, dtype=dtype).requires_grad_()
    return hidden, weight, torch.randint(0, vocabulary, (tokens,), generator=generator)


def test_a_loss_worked_out_on_paper() -> None:
    # Logits are (ln 2, 0), so p = (2/3, 1/3); target 0; smoothing 0.2 makes the reference (0.9, 0.1).
    hidden, weight = torch.tensor([[1.0]]), torch.tensor([[2.0], [1.0]]).log()
    losses = smoothed_cross_entropy(hidden, weight, torch.tensor([0]), smoothing=0.2)
    assert losses.plain.item() == pytest.approx(-torch.log(torch.tensor(2 / 3)).item())
    assert losses.smoothed.item() == pytest.approx(0.9 * 0.405465 + 0.1 * 1.098612, abs=1e-6)


@pytest.mark.parametrize("chunk_tokens", [1, 2, 3, 10, 11, 12, 256])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_equals_torch_in_float64(chunk_tokens: int, smoothing: float) -> None:
    hidden, weight, targets = _example()
    expected = functional.cross_entropy(hidden @ weight.t(), targets, label_smoothing=smoothing, reduction="sum")
    expected_gradients = torch.autograd.grad(3 * expected, [hidden, weight])
    losses = smoothed_cross_entropy(hidden, weight, targets, smoothing, chunk_tokens)
    gradients = torch.autograd.grad(3 * losses.smoothed, [hidden, weight])
    plain = functional.cross_entropy(hidden @ weight.t(), targets, reduction="sum")
    torch.testing.assert_close(losses.smoothed, expected, rtol=0, atol=1e-10)
    torch.testing.assert_close(losses.plain, plain.detach(), rtol=0, atol=1e-10)
    for gradient, expected_gradient in zip(gradients, expected_gradients, strict=True):
        torch.testing.assert_close(gradient, expected_gradient, rtol=0, atol=1e-10)


def test_extreme_logits_stay_exact() -> None:
    hidden = torch.tensor([[1000.0], [-1000.0]], dtype=torch.float64)
    weight = torch.tensor([[1.0], [-1.0], [0.0]], dtype=torch.float64)
    losses = smoothed_cross_entropy(hidden, weight, torch.tensor([1, 1]), smoothing=0.0)
    assert losses.plain.item() == 2000.0


def test_a_frozen_projection_gets_no_gradient() -> None:
    hidden, weight, targets = _example()
    smoothed_cross_entropy(hidden, weight.detach(), targets, 0.1).smoothed.backward()
    assert hidden.grad is not None
    assert weight.grad is None


def test_without_gradients_none_are_computed() -> None:
    hidden, weight, targets = _example()
    with torch.no_grad():
        quiet = smoothed_cross_entropy(hidden, weight, targets, 0.1)
    assert not quiet.smoothed.requires_grad
    assert quiet.smoothed.item() == smoothed_cross_entropy(hidden, weight, targets, 0.1).smoothed.item()


def test_no_target_tokens_cost_nothing() -> None:
    hidden, weight, targets = _example(tokens=0)
    assert smoothed_cross_entropy(hidden, weight, targets, 0.1).smoothed.item() == 0.0


def test_bfloat16_autocast_keeps_the_softmax_in_float32() -> None:
    hidden, weight, targets = _example(tokens=64, width=32, vocabulary=500, dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        losses = smoothed_cross_entropy(hidden, weight, targets, 0.1)
    gradients = torch.autograd.grad(losses.smoothed, [hidden, weight])
    exact = smoothed_cross_entropy(hidden, weight, targets, 0.1)
    expected = torch.autograd.grad(exact.smoothed, [hidden, weight])
    assert losses.smoothed.dtype == gradients[0].dtype == gradients[1].dtype == torch.float32
    torch.testing.assert_close(losses.smoothed, exact.smoothed, rtol=2e-3, atol=0)
    for gradient, reference in zip(gradients, expected, strict=True):
        assert (gradient - reference).norm() < 0.02 * reference.norm()


def test_padding_is_neither_projected_nor_counted() -> None:
    torch.manual_seed(0)
    config = MarianConfig(
        vocab_size=29, d_model=8, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2,
        encoder_ffn_dim=16, decoder_ffn_dim=16, max_position_embeddings=16, pad_token_id=0, eos_token_id=2,
        decoder_start_token_id=1,
    )  # fmt: skip
    model = MarianMTModel(config).double().eval()
    source = torch.tensor([[5, 6, 7, 2], [8, 9, 2, 0]])
    labels = torch.tensor([[4, 3, 2], [6, 2, IGNORED_LABEL]])
    positions = target_positions(labels)
    assert positions.tolist() == [0, 1, 2, 3, 4]
    losses = TranslationLoss(model, smoothing=0.1)(source, (source != 0).long(), labels, positions)
    logits = model(input_ids=source, attention_mask=(source != 0).long(), labels=labels).logits
    expected = functional.cross_entropy(
        logits.flatten(0, 1),
        labels.flatten(),
        label_smoothing=0.1,
        ignore_index=IGNORED_LABEL,
        reduction="sum",
    )
    torch.testing.assert_close(losses.smoothed, expected, rtol=0, atol=1e-10)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for ours, theirs in zip(
        torch.autograd.grad(losses.smoothed, parameters, allow_unused=True),
        torch.autograd.grad(expected, parameters, allow_unused=True),
        strict=True,
    ):
        if theirs is not None:
            torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10)


def test_a_bias_of_the_projection_counts_and_learns() -> None:
    torch.manual_seed(0)
    sizes = {"encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8}
    config = VaswaniConfig.from_preset("tiny", vocab_size=29, lm_head_bias=True, **sizes)
    model = VaswaniForConditionalGeneration(config).double().eval()
    torch.nn.init.normal_(model.lm_head.bias)
    source, labels = torch.tensor([[5, 6, 7, 2]]), torch.tensor([[4, 3, 2]])
    losses = TranslationLoss(model, smoothing=0.1)(source, torch.ones_like(source), labels, target_positions(labels))
    logits = model(input_ids=source, labels=labels).logits
    expected = functional.cross_entropy(logits[0], labels[0], label_smoothing=0.1, reduction="sum")
    torch.testing.assert_close(losses.smoothed, expected, rtol=0, atol=1e-10)
    parameters = [model.lm_head.bias, model.lm_head.weight]
    for ours, theirs in zip(
        torch.autograd.grad(losses.smoothed, parameters),
        torch.autograd.grad(expected, parameters),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10)
