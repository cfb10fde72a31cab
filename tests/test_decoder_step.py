"""Step by step against the decoder's own `forward`."""

from typing import Any

import accelerate
import peft
import pytest
import torch
from transformers import GenerationConfig
from transformers.modeling_outputs import BaseModelOutput

from tests.processor import BFLOAT16, needs_bfloat16
from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_transformer.bare_layers import Unpadded
from vaswani_transformer.decoder_step import FoldedSource, can_fold, source_of
from vaswani_transformer.stepping import DecoderSteps, ModelSteps, closed_up, steps_of

BEAMS, STEPS = 3, 22
MASK = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [0, 1, 1, 1, 1], [1, 1, 0, 0, 0]])

SETTINGS: list[dict[str, Any]] = [
    {},
    {"attention_bias": True, "scale_embedding": False, "position_offset": 2},
    {"position_embedding_type": "learned", "max_position_embeddings": 30},
    {"sinusoidal_layout": "tensor2tensor", "activation_function": "gelu", "head_dim": 12},
]


def build_model(**settings: Any) -> VaswaniForConditionalGeneration:
    torch.manual_seed(0)
    config = VaswaniConfig(vocab_size=30, d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2,
                           decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32, **settings)  # fmt: skip
    return VaswaniForConditionalGeneration(config).double().eval()


def prepared(model: Any, beams: int = BEAMS, prompt: int = 1, mask: torch.Tensor = MASK) -> dict[str, Any]:
    """Encoded sources as `generate` would repeat them, and prompts of some length."""
    torch.manual_seed(1)
    source = torch.randn(*mask.shape, 16, dtype=torch.double).repeat_interleave(beams, 0)
    prompts = torch.randint(3, 30, (len(mask), prompt)).repeat_interleave(beams, 0)
    kwargs = {
        "encoder_outputs": BaseModelOutput(last_hidden_state=source),
        "attention_mask": mask.repeat_interleave(beams, 0),
        "use_cache": True,
    }
    return {"model": model, "input_ids": prompts, "model_kwargs": kwargs, "beams": beams}


def settings_of_generate(**settings: Any) -> GenerationConfig:
    return GenerationConfig(max_length=99, use_cache=True, **settings)


@pytest.mark.parametrize(("prompt", "times"), [(1, 1), (4, 1), (1, 8), (4, 8)])
@pytest.mark.parametrize("settings", SETTINGS)
@torch.no_grad()
def test_every_step_equals_the_model(settings: dict[str, Any], prompt: int, times: int) -> None:
    """Of a few sentences and of as many as `MANY_SENTENCES`, until they are a few."""
    model, mask = build_model(**settings), MASK.repeat(times, 1)
    slow = ModelSteps(config=settings_of_generate(), **prepared(model, prompt=prompt, mask=mask))
    fast = steps_of(config=settings_of_generate(), **prepared(model, prompt=prompt, mask=mask))
    assert type(fast) is DecoderSteps
    expected, found = slow.first(), fast.first()
    assert found.shape[1] == 1
    assert torch.allclose(found.expand_as(expected), expected, atol=1e-12)
    width = BEAMS
    for step in range(STEPS):
        if step in (5, 13):
            staying = closed_up(range(len(expected))[step % 2 :: 2])
            slow.keep(staying)
            fast.keep(staying)
        sentences = len(expected) if step not in (5, 13) else len(staying)
        before, width = width, (BEAMS, BEAMS, 2, 1, BEAMS)[step % 5]
        tokens = torch.randint(3, 30, (sentences, width))
        rows = torch.randint(0, before, (sentences, width)).sort(dim=1).values
        expected, found = slow.next(tokens, rows), fast.next(tokens, rows)
        assert torch.allclose(found, expected, atol=1e-12), step
    assert fast.past.shape[-1] < prompt + BEAMS * STEPS, "nothing was forgotten"


@pytest.mark.parametrize(
    ("staying", "order"),
    [([0, 1, 2], [0, 1, 2]), ([0, 2, 5], [0, 5, 2]), ([3, 4], [3, 4]), ([1, 2, 3], [3, 1, 2]), ([7], [7])],
)
def test_the_last_sentences_fill_the_gaps(staying: list[int], order: list[int]) -> None:
    assert closed_up(staying) == order


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("prompt", "sentence"), [(1, 0), (4, 1), (1, 2)])
@torch.no_grad()
def test_one_short_source_takes_the_projections_to_its_side(prompt: int, sentence: int, bias: bool) -> None:
    model, mask = build_model(attention_bias=bias), MASK[sentence : sentence + 1]
    for parameter in model.parameters():
        if parameter.ndim == 1:
            torch.nn.init.normal_(parameter)
    slow = ModelSteps(config=settings_of_generate(), **prepared(model, prompt=prompt, mask=mask))
    fast = steps_of(config=settings_of_generate(), **prepared(model, prompt=prompt, mask=mask))
    assert isinstance(fast, DecoderSteps) and all(type(layer.source) is FoldedSource for layer in fast.step.layers)
    expected, found = slow.first(), fast.first()
    assert torch.allclose(found.expand_as(expected), expected, atol=1e-12)
    for _ in range(4):
        tokens, rows = torch.randint(3, 30, (1, BEAMS)), torch.randint(0, BEAMS, (1, BEAMS)).sort().values
        assert torch.allclose(fast.next(tokens, rows), slow.next(tokens, rows), atol=1e-12)


def test_only_one_short_source_in_full_precision_takes_them() -> None:
    attention = build_model().model.decoder.layers[0].encoder_attn
    width = attention.head_dim

    def can_fold_source(*shape: int, dtype: torch.dtype = torch.float32) -> bool:
        return can_fold(attention, Unpadded(torch.zeros(*shape, 16, dtype=dtype), None))

    assert can_fold_source(1, width)
    assert not can_fold_source(1, width + 1)
    assert not can_fold_source(2, width)
    assert not can_fold_source(1, width, dtype=torch.bfloat16)
    torch.nn.utils.parametrizations.spectral_norm(attention.q_proj)
    assert not can_fold_source(1, width)


@pytest.mark.parametrize("kind", [None, "float32", "float16", BFLOAT16, "int8"])
@torch.no_grad()
def test_few_steps_and_many_round_alike(kind: Any) -> None:
    """Folded sources have the weights before packing, so few steps go without them only where nothing was rounded."""
    model = build_model().float()
    if kind is not None:
        model.pack_weights(kind)
    attention, encoded = model.model.decoder.layers[0].encoder_attn, Unpadded(torch.randn(1, 3, 16), None)
    few, many = (source_of(attention, encoded, many_steps) for many_steps in (False, True))
    folds = {None: (False, True), "float32": (False, True), "bfloat16": (False, False)}
    assert (type(few) is FoldedSource, type(many) is FoldedSource) == folds.get(kind, (True, True))
    x = torch.randn(4, 16)
    assert torch.allclose(few(x, 1), many(x, 1), atol=1e-5)


@torch.no_grad()
def test_a_learned_position_beyond_the_last_is_named() -> None:
    model = build_model(position_embedding_type="learned", max_position_embeddings=3)
    steps = steps_of(config=settings_of_generate(), **prepared(model, beams=1))
    tokens = torch.zeros((len(MASK), 1), dtype=torch.long)
    steps.first()
    steps.next(tokens, tokens)
    steps.next(tokens, tokens)
    with pytest.raises(ValueError, match="with the position 3"):
        steps.next(tokens, tokens)


@torch.no_grad()
def test_adapters_and_parametrizations_take_part() -> None:
    """Both are modules that are not linear layers by type, and go through `forward`."""
    plain = steps_of(config=settings_of_generate(), **prepared(build_model())).first()
    adapted = build_model()
    peft.inject_adapter_in_model(peft.LoraConfig(target_modules=["q_proj", "fc2"], init_lora_weights=False), adapted)
    spectral = build_model()
    torch.nn.utils.parametrizations.spectral_norm(spectral.model.decoder.layers[0].fc1)
    for model in (adapted.double().eval(), spectral.eval()):
        steps = steps_of(config=settings_of_generate(), **prepared(model))
        assert type(steps) is ModelSteps
        assert not torch.allclose(steps.first(), plain)


@torch.no_grad()
def test_a_model_that_is_moved_part_by_part_goes_through_forward() -> None:
    model = build_model()
    expected = model.generate(torch.tensor([[5, 6, 2]]), max_new_tokens=5)
    accelerate.cpu_offload(model, torch.device("cpu"))
    assert type(steps_of(config=settings_of_generate(), **prepared(model))) is ModelSteps
    assert torch.equal(model.generate(torch.tensor([[5, 6, 2]]), max_new_tokens=5), expected)


@needs_bfloat16
@torch.no_grad()
def test_packed_weights_may_leave_out_an_offset() -> None:
    model = build_model(lm_head_bias=True).pack_weights("bfloat16")
    mask = MASK.repeat(8, 1)
    expected = ModelSteps(config=settings_of_generate(), **prepared(model, mask=mask)).first()
    for offset, kind in ((3, DecoderSteps), (0, ModelSteps)):  # log 30 = 3.40
        steps = steps_of(config=settings_of_generate(), **prepared(model, mask=mask))
        assert type(steps) is kind
        assert steps.offset == offset
        assert torch.allclose((steps.first() + offset).expand_as(expected), expected, atol=0.1)
        model.lm_head.register_forward_hook(lambda *_: None)


@torch.no_grad()
def test_hooks_take_part() -> None:
    model = build_model()
    plain = steps_of(config=settings_of_generate(), **prepared(model)).first()
    model.model.decoder.layers[1].fc2.register_forward_hook(lambda module, inputs, output: output * 3)
    hooked = steps_of(config=settings_of_generate(), **prepared(model)).first()
    assert not torch.allclose(hooked, plain)
    slow = ModelSteps(config=settings_of_generate(), **prepared(model)).first()
    assert torch.allclose(hooked.expand_as(slow), slow, atol=1e-12)


@pytest.mark.parametrize(
    "settings",
    [
        {"use_cache": False},
        {"return_dict_in_generate": True, "output_scores": True},
        {"return_dict_in_generate": True, "output_attentions": True},
    ],
)
def test_what_needs_the_models_own_forward_gets_it(settings: dict[str, Any]) -> None:
    model = build_model()
    config = GenerationConfig(max_length=9, **settings)
    assert type(steps_of(config=config, **prepared(model))) is ModelSteps


def test_heads_of_two_widths_and_training_go_through_forward() -> None:
    different = build_model(head_dim=4, value_head_dim=8)
    assert type(steps_of(config=settings_of_generate(), **prepared(different))) is ModelSteps
    training = build_model(dropout=0.5).train()
    assert type(steps_of(config=settings_of_generate(), **prepared(training))) is ModelSteps
