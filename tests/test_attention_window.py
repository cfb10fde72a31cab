"""Restricted and additive attention: against a plain formula, in a whole model, in files, and in memory."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters

from tests.largest_tensor import TensorMemory
from vaswani_transformer.attention_window import attend_nearby, reach_of
from vaswani_transformer.configuration_vaswani import VaswaniConfig
from vaswani_transformer.layers import VaswaniSelfAttention
from vaswani_transformer.modeling_vaswani import VaswaniForConditionalGeneration, VaswaniModel

TINY: dict[str, Any] = {
    "vocab_size": 40,
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
}
VARIANTS: dict[str, dict[str, Any]] = {
    "unscaled": {"attention_score": "dot_product"},
    "additive": {"attention_score": "additive"},
    "within 3": {"attention_window": 3},
    "itself only": {"attention_window": 1},
    "additive within 4": {"attention_score": "additive", "attention_window": 4},
}
EVERY_VARIANT = pytest.mark.parametrize("settings", VARIANTS.values(), ids=VARIANTS)
SOURCES = torch.tensor([[5, 9, 3, 17, 8, 30, 2], [8, 4, 2, 0, 0, 0, 0], [31, 25, 7, 12, 2, 0, 0]])
MASK = (SOURCES != 0).long()
TARGET = torch.tensor([[1, 6, 6, 10, 33, 5], [1, 3, 12, 4, 20, 21], [1, 9, 30, 7, 11, 13]])

Model = VaswaniForConditionalGeneration


def tiny_model(**settings: Any) -> Model:
    """The same every time, in evaluation mode and float64; its weights are enlarged so that all of them matter."""
    torch.manual_seed(0)
    model = Model(VaswaniConfig(**{**TINY, **settings})).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


@torch.no_grad()
def logits_of(model: nn.Module, **changes: Any) -> torch.Tensor:
    inputs = {"input_ids": SOURCES, "attention_mask": MASK, "decoder_input_ids": TARGET, **changes}
    return model(**inputs, use_cache=False).logits


def same(found: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)


# One attention


def formula(attention: VaswaniSelfAttention, x: torch.Tensor, real: torch.Tensor, window: int | None) -> torch.Tensor:
    """Self-attention over all pairs of positions, `[B, L, L]` at a time, with what is out of sight masked."""
    config, length = attention.config, x.shape[1]
    q, k, v = (
        part(x).unflatten(-1, (attention.num_heads, -1)).transpose(1, 2) for part in (attention.q_proj, attention.k_proj, attention.v_proj)
    )
    scores = q @ k.mT
    if config.attention_score == "scaled_dot_product":
        scores = scores / config.head_dim**0.5
    elif config.attention_score == "additive":
        scores = (torch.tanh(q[:, :, :, None] + k[:, :, None]) * attention.score.weight[:, None, None]).sum(-1)
    before, after = (length, length) if window is None else (window // 2, (window - 1) // 2)
    if attention.is_causal:
        before, after = (length if window is None else window - 1), 0
    near = torch.tensor([[-before <= j - i <= after for j in range(length)] for i in range(length)])
    seen = near & real[:, None, :]
    weights = scores.masked_fill(~seen[:, None], -1e300).softmax(-1)
    return attention.out_proj((weights @ v).transpose(1, 2).flatten(2))


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(("score", "window"), [("scaled_dot_product", 5), ("dot_product", 4), ("additive", 6), ("scaled_dot_product", 70)])
def test_outputs_and_gradients_are_those_of_masked_full_attention(score: Any, window: int, is_causal: bool, implementation: str) -> None:
    """Over several blocks, of which the last is short, and with padding on either side."""
    if score == "additive" and implementation != "eager":
        pytest.skip("additive attention has one implementation")
    config = VaswaniConfig(d_model=8, encoder_attention_heads=2, decoder_attention_heads=2, attention_score=score, attention_window=window)
    config._attn_implementation = implementation
    torch.manual_seed(0)
    attention = VaswaniSelfAttention(config, 2, 0, is_causal).double()
    if attention.score is not None:
        nn.init.normal_(attention.score.weight)
    x = torch.randn(3, 150, 8, dtype=torch.float64, requires_grad=True)
    real = torch.ones(3, 150, dtype=torch.bool)
    real[1, :20] = False
    real[2, 140:] = False
    found, expected = attention(x, real)[0][real], formula(attention, x, real, window)[real]
    same(found, expected)
    parts = (x, *attention.parameters())
    gradients = (torch.autograd.grad((output * output).sum(), parts, retain_graph=True) for output in (found, expected))
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)
    with torch.no_grad():
        same(attention(x, real)[0][real], expected)
        same(attention(x, None)[0], formula(attention, x, torch.ones_like(real), window))


def test_a_window_has_as_many_positions_as_it_says() -> None:
    for window in range(1, 8):
        around, behind = reach_of(window, is_causal=False), reach_of(window, is_causal=True)
        assert sum(around) + 1 == sum(behind) + 1 == window
        assert behind.after == 0 and around.before - around.after == (window + 1) % 2


@pytest.mark.parametrize(("heads", "has_gradient"), [(4, False), (4, True), (2, False)])
def test_the_memory_of_a_window_is_that_of_a_sixteenth_of_the_text(heads: int, has_gradient: bool) -> None:
    """A layer of 128 channels, in heads of 32 or of the paper's 64: 16,384 positions within 128 beside 1,024 that see each other."""
    peaks = []
    for length, window in ((1024, None), (16_384, 128)):
        config = VaswaniConfig.from_preset("tiny", encoder_attention_heads=heads, decoder_attention_heads=heads, attention_window=window)
        config._attn_implementation = "eager"
        attention = VaswaniSelfAttention(config, heads, 0, False)
        x = torch.zeros(1, length, 128, requires_grad=has_gradient)
        with torch.set_grad_enabled(has_gradient), TensorMemory() as memory:
            found, _ = attention(x)
            if has_gradient:
                found.sum().backward()
        peaks.append(memory.peak)
    assert peaks[1] <= 2 * peaks[0]


@torch.no_grad()
def test_queries_that_somebody_holds_are_not_overwritten() -> None:
    config = VaswaniConfig(d_model=8, encoder_attention_heads=2, decoder_attention_heads=2, attention_window=5)
    attention, x, held = VaswaniSelfAttention(config, 2, 0, False).double(), torch.randn(3, 150, 8, dtype=torch.float64), []
    expected = attention(x)[0]
    attention.q_proj.register_forward_hook(lambda module, inputs, output: held.append(output))
    assert torch.equal(attention(x)[0], expected)
    assert torch.equal(held[0], nn.functional.linear(x, attention.q_proj.weight))


@pytest.mark.skipif(shutil.which(os.environ.get("CXX", "g++")) is None, reason="PyTorch needs a compiler of C++ for it")
@torch.no_grad()
def test_compiled_flex_attention_sees_the_same_window() -> None:
    """Over several of its blocks of 128 positions, some of them hidden by the window, others by padding."""
    sources = torch.randint(3, 40, (2, 500))
    sources[1, 350:] = 0
    mask, found, before = (sources != 0).long(), [], counters["frames"]["ok"]
    for implementation in ("eager", "flex_attention"):
        torch.manual_seed(0)
        config = VaswaniConfig(**{**TINY, "d_model": 64, "encoder_layers": 1, "decoder_layers": 1, "attention_window": 20})
        encoder = VaswaniModel._from_config(config, attn_implementation=implementation).eval().encoder
        found.append(encoder(input_ids=sources, attention_mask=mask).last_hidden_state[mask.bool()])
    torch.testing.assert_close(found[1], found[0], rtol=0, atol=1e-5)
    assert counters["frames"]["ok"] > before


def test_cost_is_linear() -> None:
    """The numbers that are read: each block of queries sees its window and no more, however long the text."""
    counts = []
    for length in (1024, 2048):
        states = torch.zeros(1, 1, length, 2)
        seen: list[int] = []

        def counting(module: Any, queries: Any, keys: Any, values: Any, mask: Any, seen: list[int] = seen) -> Any:
            seen.append(queries.shape[2] * keys.shape[2])
            return queries.transpose(1, 2), None

        attend_nearby(counting, reach_of(128, False), None, states, states, states, None)
        counts.append(sum(seen))
    assert counts[0] <= 1024 * 256 and counts[1] <= 2 * counts[0] + 128 * 128


# A whole model


@EVERY_VARIANT
def test_padding_changes_nothing(settings: dict[str, Any]) -> None:
    model = tiny_model(**settings)
    together = logits_of(model)
    left = torch.stack([row.roll(int((mask == 0).sum())) for row, mask in zip(SOURCES, MASK, strict=True)])
    same(logits_of(model, input_ids=left, attention_mask=(left != 0).long()), together)
    padded, mask = nn.functional.pad(TARGET, (2, 0), value=39), nn.functional.pad(torch.ones_like(TARGET), (2, 0))
    same(logits_of(model, decoder_input_ids=padded, decoder_attention_mask=mask)[:, 2:], together)
    for i, length in enumerate(MASK.sum(-1).tolist()):
        alone = {"input_ids": SOURCES[i : i + 1, :length], "attention_mask": None, "decoder_input_ids": TARGET[i : i + 1]}
        same(logits_of(model, **alone), together[i : i + 1])


@EVERY_VARIANT
@pytest.mark.parametrize("steps", [[1] * 6, [4, 2], [2, 4]])
@torch.no_grad()
def test_cached_steps_equal_one_pass(settings: dict[str, Any], steps: list[int]) -> None:
    model, cache, logits = tiny_model(**settings), None, []
    window = settings.get("attention_window")
    for ids in TARGET.split(steps, dim=1):
        outputs = model(input_ids=SOURCES, attention_mask=MASK, decoder_input_ids=ids, past_key_values=cache, use_cache=True)
        cache = outputs.past_key_values
        logits.append(outputs.logits)
    same(torch.cat(logits, dim=1), logits_of(model))
    kept = {layer.keys.shape[2] for layer in cache.self_attention_cache.layers}
    assert kept == {6 if window is None else max(window - 1, 1)}
    assert {layer.keys.shape[2] for layer in cache.cross_attention_cache.layers} == {SOURCES.shape[1]}


@EVERY_VARIANT
@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("penalty", ["gnmt", None])
def test_searches_find_the_same_without_a_cache_and_alone(settings: dict[str, Any], beams: int, penalty: str | None) -> None:
    model = tiny_model(**settings)
    search = {"num_beams": beams, "length_penalty_type": penalty, "max_new_tokens": 9}
    together = model.generate(SOURCES, attention_mask=MASK, **search)
    without = model.generate(SOURCES, attention_mask=MASK, use_cache=False, **search)
    assert together.tolist() == without.tolist()
    for row, source, mask in zip(together.tolist(), SOURCES, MASK, strict=True):
        alone = model.generate(source[mask.bool()].unsqueeze(0), **search)[0].tolist()
        assert row[: len(alone)] == alone and not any(row[len(alone) :])


@EVERY_VARIANT
def test_saved_models_and_weights_asked_for_are_the_same(settings: dict[str, Any], tmp_path: Path) -> None:
    model = tiny_model(**settings)
    model.save_pretrained(tmp_path)
    loaded, loading = Model.from_pretrained(tmp_path, output_loading_info=True, dtype=torch.float64)
    assert not any(loading.values())
    assert {name: getattr(loaded.config, name) for name in settings} == settings
    assert torch.equal(logits_of(loaded.eval()), logits_of(model))
    with torch.no_grad():
        outputs = model(input_ids=SOURCES, attention_mask=MASK, decoder_input_ids=TARGET, output_attentions=True)
    same(outputs.logits, logits_of(model))
    same(outputs.encoder_attentions[1].sum(-1), torch.ones(3, 4, 7).double())
    model.set_attn_implementation("eager")
    model.config.output_attentions = True
    with torch.no_grad():
        again = model(input_ids=SOURCES, attention_mask=MASK, decoder_input_ids=TARGET)
    for name in ("encoder_attentions", "decoder_attentions", "cross_attentions"):
        assert len(again[name]) == 2 and all(map(torch.equal, again[name], outputs[name]))
    if window := settings.get("attention_window"):
        places = torch.arange(7)
        distances = places - places.unsqueeze(-1)
        far = (distances < -(window // 2)) | (distances > (window - 1) // 2)
        assert not outputs.encoder_attentions[0][0][:, far].any()
        assert not outputs.decoder_attentions[0].tril(-window).any() and not outputs.decoder_attentions[0].triu(1).any()


@EVERY_VARIANT
def test_a_step_of_training_moves_every_weight_and_packed_weights_agree(settings: dict[str, Any]) -> None:
    model = tiny_model(**settings).float()
    model.train()(input_ids=SOURCES, attention_mask=MASK, labels=TARGET).loss.backward()
    # With its own position as the only one, a softmax is 1 whatever the score
    idle = {name for name, weight in model.named_parameters() if weight.grad is None or not weight.grad.any()}
    if settings.get("attention_window") != 1:
        assert not idle
    expected = logits_of(model.eval())
    torch.testing.assert_close(logits_of(model.pack_weights()), expected, rtol=1e-4, atol=1e-4)


def test_first_weights_of_additive_attention_give_scores_of_any_sign() -> None:
    score = VaswaniModel(VaswaniConfig(**{**TINY, "head_dim": 64, "attention_score": "additive"})).encoder.layers[0].self_attn.score
    bound = (6 / 65) ** 0.5
    assert 0.9 * bound < score.weight.max() <= bound and -bound <= score.weight.min() < -0.9 * bound


# What is refused


@pytest.mark.parametrize(
    ("settings", "implementation"),
    [
        ({"attention_score": "additive"}, "sdpa"),
        ({"attention_window": 4}, "flash_attention_2"),
        (VARIANTS["additive within 4"], "flex_attention"),
    ],
)
def test_other_implementations_are_refused(settings: dict[str, Any], implementation: str) -> None:
    with pytest.raises(ValueError, match=f"attn_implementation='{implementation}' cannot compute .*; choose 'eager'"):
        Model._from_config(VaswaniConfig(**TINY, **settings), attn_implementation=implementation)


def test_masks_and_caches_that_hide_distances_are_refused() -> None:
    model = tiny_model(attention_window=3)
    holes = MASK.clone()
    holes[0, 3] = 0
    with pytest.raises(ValueError, match=r"padding between the tokens .* put the padding at one end"):
        logits_of(model, attention_mask=holes)
    with pytest.raises(ValueError, match=r"got one of the shape \(3, 1, 7, 7\)"):
        logits_of(model, attention_mask=torch.ones(3, 1, 7, 7))
    with pytest.raises(ValueError, match="a cache that grows, and this one is static"):
        model.generate(SOURCES, attention_mask=MASK, cache_implementation="static", max_new_tokens=3)


def test_additive_scores_are_computed_whatever_the_configuration_names() -> None:
    model = tiny_model(attention_score="additive")
    expected = logits_of(model)
    model.config._attn_implementation = "sdpa"  # nobody checks this, and dot products would be other scores
    assert torch.equal(logits_of(model), expected)


def test_a_window_has_one_position_at_least(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="`attention_window` must be at least 1, not 0"):
        VaswaniConfig(attention_window=0)
    tiny_model().save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="`attention_window` must be at least 1, not -3"):
        Model.from_pretrained(tmp_path, attention_window=-3)
