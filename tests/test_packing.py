"""Packed weights: the same function, to the rounding that was asked for."""

import copy
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
from torch import nn
from transformers.activations import GELUActivation

from tests.processor import BFLOAT16, needs_bfloat16
from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_transformer.decoding import PAPER_SEARCH
from vaswani_transformer.packing import PackedLinear, has_bfloat16, has_fbgemm, int8_saturates

SOURCE = {
    "input_ids": torch.tensor([[3, 4, 5, 2], [6, 7, 2, 0]]),
    "attention_mask": torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]]),
}


needs_fbgemm = pytest.mark.skipif(not has_fbgemm(), reason="PyTorch has no FBGEMM on this CPU")
FLOAT16 = pytest.param("float16", marks=needs_fbgemm)


def build_model(**settings: Any) -> VaswaniForConditionalGeneration:
    torch.manual_seed(0)
    config = VaswaniConfig(vocab_size=50, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2,
                           decoder_attention_heads=2, encoder_ffn_dim=64, decoder_ffn_dim=64, **settings)  # fmt: skip
    model = VaswaniForConditionalGeneration(config).eval()
    for parameter in model.parameters():
        if parameter.ndim == 1:
            nn.init.normal_(parameter, mean=0.5, std=0.5)
    return model


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("rows", "width"), [(1, 8), (5, 8), (3, 8192)])
def test_float32_is_the_same_product(rows: int, width: int, bias: bool) -> None:
    linear = nn.Linear(16, width, bias=bias)
    x = torch.randn(2, rows, 16)
    packed = PackedLinear(linear.weight, linear.bias, "float32")
    assert torch.allclose(packed(x), linear(x), atol=1e-5)


def rounded(linear: nn.Linear, dtype: torch.dtype) -> nn.Linear:
    with torch.no_grad():
        linear.weight.copy_(linear.weight.to(dtype))
    return linear


@needs_bfloat16
def test_many_rows_in_bfloat16_round_weights_and_input_and_nothing_else() -> None:
    linear, x = nn.Linear(64, 32), torch.randn(4, 5, 64)
    with torch.no_grad():
        for parameter in linear.parameters():
            parameter.copy_(parameter.bfloat16())
    found = PackedLinear(linear.weight, linear.bias, "bfloat16")(x)
    assert found.dtype == torch.float32
    assert torch.allclose(found, linear(x.bfloat16().float()), rtol=2**-8, atol=1e-6)


@needs_bfloat16
@pytest.mark.parametrize("bias", [True, False])
def test_bfloat16_is_finest_about_the_offset(bias: bool) -> None:
    linear, x = rounded(nn.Linear(64, 32, bias=bias), torch.bfloat16), torch.randn(40, 64).bfloat16().float()
    if bias:
        nn.init.normal_(linear.bias, mean=9)
    offset = 9.0 if bias else -0.5
    exact = linear(x)
    bound = 2**-8 * (exact - offset).abs() + 1e-5
    packed = PackedLinear(linear.weight, linear.bias, "bfloat16", offset=offset)
    for rows in (40, 1):
        assert ((packed(x[:rows]) - exact[:rows]).abs() <= bound[:rows]).all()
        assert torch.equal(packed.relative(x[:rows]) + offset, packed(x[:rows]))
    assert ((PackedLinear(linear.weight, linear.bias, "bfloat16")(x) - exact).abs() > bound).any()


@needs_fbgemm
@pytest.mark.parametrize("dtype", [BFLOAT16, "float16"])
def test_a_few_rows_in_16_bits_round_the_weights_alone(dtype: Any) -> None:
    linear, x = nn.Linear(64, 32), torch.randn(4, 2, 64)
    found = PackedLinear(linear.weight, linear.bias, dtype)(x)
    assert found.dtype == torch.float32
    assert torch.allclose(found, rounded(linear, getattr(torch, dtype))(x), rtol=1e-5, atol=1e-6)


@needs_fbgemm
@pytest.mark.parametrize("scale", [1.0, 1e-4, 1e3])
def test_a_few_rows_in_float32_lose_no_more_than_its_last_place(scale: float) -> None:
    """A unit row shows the weights themselves, without any sum."""
    weight = scale * torch.randn(32, 64)
    found = PackedLinear(weight, None, "float32").few(torch.eye(64)).t()
    assert (found - weight).abs().le(2.0**-23 * weight.abs() + 2.0**-36).all()
    x = torch.randn(4, 64)
    exact = x.double() @ weight.double().t()
    off = (PackedLinear(weight, None, "float32")(x) - exact).norm()
    assert off < 3e-7 * exact.norm()


@pytest.mark.parametrize("dtype", ["float32", BFLOAT16])
def test_weights_beyond_float16_have_one_product(dtype: Any) -> None:
    linear, x = rounded(nn.Linear(64, 32, bias=False), torch.bfloat16), torch.randn(2, 64).bfloat16().float()
    with torch.no_grad():
        linear.weight[0, 0] = 2.0**17
    assert torch.allclose(PackedLinear(linear.weight, None, dtype)(x), linear(x), rtol=2**-8, atol=1e-2)


@needs_fbgemm
@pytest.mark.parametrize("width", [37, 256])
def test_a_row_in_float16_does_not_depend_on_the_others(width: int) -> None:
    weight, x = torch.randn(width, 300), torch.randn(130, 300)
    packed = PackedLinear(weight, torch.randn(width), "float16")
    together = packed(x)
    apart = 300 * 2.0**-23 * (x.abs() @ weight.abs().t() + 1)  # how far two orders of adding 300 terms can be apart
    for rows in (1, 2, 3, 7, 64, 129):
        found = packed(x[:rows].contiguous())
        if adds_in_one_order():
            assert torch.equal(found, together[:rows])
        assert ((found - together[:rows]).abs() <= apart[:rows]).all()


def adds_in_one_order() -> bool:
    """Whether FBGEMM's products with float16 add the terms of a row in one order, however many rows there are."""
    return torch.backends.cpu.get_cpu_capability() == "AVX512" and os.environ.get("FBGEMM_ENABLE_INSTRUCTIONS") != "AVX2"


@needs_bfloat16
def test_bfloat16_without_fbgemm_has_one_product(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vaswani_transformer.packing.has_fbgemm", lambda: False)
    linear, x = rounded(nn.Linear(64, 32, bias=False), torch.bfloat16), torch.randn(2, 64)
    packed = PackedLinear(linear.weight, None, "bfloat16")
    assert torch.allclose(packed(x), linear(x.bfloat16().float()), rtol=2**-8, atol=1e-6)
    with pytest.raises(ValueError, match="x86 with AVX2 only; choose float32 or bfloat16"):
        build_model().pack_weights("float16")


def test_bfloat16_without_its_products_says_what_works(monkeypatch: pytest.MonkeyPatch) -> None:
    if has_bfloat16():
        monkeypatch.setattr("vaswani_transformer.packing.has_bfloat16", lambda: False)
    with pytest.raises(ValueError, match=r"AVX-512 or AMX only; choose float32 (or float16 )?or int8\.$"):
        build_model().pack_weights("bfloat16")


@needs_fbgemm
@pytest.mark.parametrize("dtype", [BFLOAT16, "float16", "int8"])
def test_an_input_in_another_float_type_comes_back_in_it(dtype: Any) -> None:
    packed = PackedLinear(torch.randn(32, 64), torch.randn(32), dtype)
    for kind in (torch.bfloat16, torch.float64):
        x = torch.randn(2, 64).to(kind)
        assert torch.equal(packed(x), packed(x.float()).to(kind))


@pytest.mark.parametrize("rows", [1, 40])
@pytest.mark.parametrize("dtype", ["float32", BFLOAT16, FLOAT16, "int8"])
def test_rectified_results_stay_in_the_products_type(dtype: Any, rows: int) -> None:
    weight, bias, x = torch.randn(32, 64), torch.randn(32), torch.randn(rows, 64)
    expected = PackedLinear(weight, bias, dtype)(x).relu()
    found = PackedLinear(weight, bias, dtype, rectified=True)(x)
    assert torch.equal(found.float(), expected)
    is_rounded = dtype == "bfloat16" and (rows > 16 or not has_fbgemm())
    assert found.dtype == (torch.bfloat16 if is_rounded else torch.float32)


def test_int8_is_off_by_half_a_step_of_each_factor() -> None:
    linear, x = nn.Linear(64, 32), torch.randn(4, 64)
    found = PackedLinear(linear.weight, linear.bias, "int8")(x)
    weight_step = linear.weight.abs().amax(1) / 127
    input_step = (x.max() - x.min()) / (127 if int8_saturates() else 255)
    bound = (x.abs().sum(1, keepdim=True) * weight_step + linear.weight.abs().sum(1) * input_step) * 0.55
    error = (found - linear(x)).abs()
    assert (error <= bound).all()
    assert error.max() > 0


def test_int8_does_not_overflow() -> None:
    """The largest factors there are: with VNNI, 64 terms of 255 x 127; without, products are added in pairs in 16 bits."""
    assert PackedLinear(torch.ones(1, 64), None, "int8")(torch.ones(3, 64)).tolist() == [[pytest.approx(64, rel=1e-5)]] * 3


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [
        ("float32", 1e-5),
        pytest.param("bfloat16", 0.1, marks=needs_bfloat16),
        pytest.param("float16", 0.01, marks=needs_fbgemm),
        ("int8", 0.25),
    ],
)
def test_a_packed_model_says_the_same(dtype: Any, tolerance: float, bias: bool) -> None:
    plain, packed = build_model(attention_bias=bias), build_model(attention_bias=bias)
    assert packed.pack_weights(dtype) is packed
    target = torch.tensor([[1, 8, 9, 10], [1, 11, 12, 13]])
    with torch.no_grad():
        expected, found = (model(**SOURCE, decoder_input_ids=target).logits for model in (plain, packed))
    assert (found - expected).abs().max() < tolerance
    assert all(type(module) is not nn.Linear for module in packed.modules())


def test_float32_finds_the_same_translations() -> None:
    plain, packed = build_model(), build_model().pack_weights()
    for settings in (
        PAPER_SEARCH,
        {"num_beams": 1, "extra_length": 10},
        {"num_beams": 3, "max_new_tokens": 9},
    ):
        assert torch.equal(packed.generate(**SOURCE, **settings), plain.generate(**SOURCE, **settings))
        one = SOURCE["input_ids"][:1]
        assert torch.equal(packed.generate(one, **settings), plain.generate(one, **settings))


@needs_bfloat16
def test_bfloat16_rounds_logits_about_the_logarithm_of_how_many_there_are() -> None:
    packed = build_model().pack_weights("bfloat16")
    assert packed.lm_head.offset == 4  # log 50 = 3.91
    others = [module for module in packed.modules() if isinstance(module, PackedLinear)]
    assert [module.offset for module in others if module.offset] == [4]
    assert build_model().pack_weights().lm_head.offset == 0


@pytest.mark.parametrize(("name", "left"), [("relu", nn.Identity), ("gelu", GELUActivation)])
def test_relu_goes_into_the_product(name: str, left: type[nn.Module]) -> None:
    plain, packed = (
        build_model(activation_function=name),
        build_model(activation_function=name).pack_weights(),
    )
    for layer in (*packed.get_encoder().layers, *packed.get_decoder().layers):
        assert type(layer.activation_fn) is left
    target = torch.tensor([[1, 8, 9, 10], [1, 11, 12, 13]])
    with torch.no_grad():
        expected, found = (model(**SOURCE, decoder_input_ids=target).logits for model in (plain, packed))
    assert torch.allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("rows", [1, 30])
@pytest.mark.parametrize("dtype", ["float32", BFLOAT16, FLOAT16, "int8"])
@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16, torch.float64])
def test_a_model_keeps_the_type_it_was_loaded_in(kind: torch.dtype, dtype: Any, rows: int) -> None:
    plain, packed = build_model().to(kind), build_model().to(kind).pack_weights(dtype)
    target = torch.randint(3, 50, (2, rows))
    with torch.no_grad():
        expected, found = (model(**SOURCE, decoder_input_ids=target).logits for model in (plain, packed))
    assert found.dtype == kind
    assert (found - expected).abs().max() < 0.5
    assert packed.generate(**SOURCE, **PAPER_SEARCH).shape[0] == 2


@needs_bfloat16
@pytest.mark.parametrize("name", ["fc1", "fc2"])
def test_a_layer_of_another_kind_stays_and_gets_its_own_type(name: str) -> None:
    model = build_model()
    for layer in model.get_decoder().layers:
        torch.nn.utils.parametrizations.weight_norm(getattr(layer, name))
    model.pack_weights("bfloat16")
    target = torch.randint(3, 50, (2, 30))
    with torch.no_grad():
        expected, found = (chosen(**SOURCE, decoder_input_ids=target).logits for chosen in (build_model(), model))
    assert (found - expected).abs().max() < 0.2


@pytest.mark.parametrize("target", ["q_proj", "fc2"])
def test_adapters_are_merged_first(target: str) -> None:
    adapted = peft.get_peft_model(build_model(), peft.LoraConfig(target_modules=[target]))
    with pytest.raises(ValueError, match=rf"layers\.0\..*{target} has an adapter; merge it into .* `merge_and_unload\(\)`"):
        adapted.base_model.model.pack_weights()
    adapted.merge_and_unload().pack_weights()


def test_what_cannot_be_packed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="choose one of float32, bfloat16, float16, int8"):
        build_model().pack_weights("int4")  # type: ignore[arg-type]
    packed = build_model().pack_weights("int8")
    with pytest.raises(ValueError, match="packed already"):
        packed.pack_weights("int8")
    with pytest.raises(ValueError, match="cannot be saved"):
        packed.save_pretrained(tmp_path / "packed")
    assert not (tmp_path / "packed").exists()
    with pytest.raises(ValueError, match="for CPUs"):
        build_model().to("meta").pack_weights()


def test_packed_weights_are_not_saved_by_another_door() -> None:
    packed = build_model().pack_weights()
    for part in (packed, packed.model, packed.lm_head):
        with pytest.raises(ValueError, match="cannot be saved; save the model before"):
            part.state_dict()
        with pytest.raises(ValueError, match="cannot be replaced; load them into the model before"):
            part.load_state_dict({}, strict=False)


def test_packed_weights_are_not_trained() -> None:
    packed = build_model().pack_weights()
    loss = packed(**SOURCE, labels=torch.tensor([[8, 9, 2], [11, 2, 0]])).loss
    with pytest.raises(ValueError, match="cannot be trained; load the model again"):
        loss.backward()


def test_gradients_do_not_change_what_a_packed_model_says() -> None:
    packed = build_model().pack_weights()
    target = torch.tensor([[1, 8, 9, 10], [1, 11, 12, 13]])
    with torch.no_grad():
        expected = packed(**SOURCE, decoder_input_ids=target).logits
    assert torch.equal(packed(**SOURCE, decoder_input_ids=target).logits, expected)


@pytest.mark.parametrize(
    "convert",
    [lambda m: m.to(torch.bfloat16), lambda m: m.half(), lambda m: m.double(), lambda m: m.to("meta"), lambda m: m.model.double()],
)
def test_a_packed_model_is_not_converted(convert: Callable[[Any], Any]) -> None:
    packed = build_model().pack_weights()
    with pytest.raises(ValueError, match="cannot be converted or moved; convert or move the model before"):
        convert(packed)
    assert {parameter.dtype for parameter in packed.parameters()} == {torch.float32}
    assert packed.to("cpu").float() is packed


def test_a_packed_models_vocabulary_keeps_its_size() -> None:
    packed = build_model().pack_weights()
    with pytest.raises(ValueError, match="cannot be resized; resize the embeddings before"):
        packed.resize_token_embeddings(60)
    assert packed.config.vocab_size == len(packed.get_input_embeddings().weight) == 50


def test_a_packed_model_is_copied_and_not_pickled() -> None:
    packed = build_model().pack_weights()
    with pytest.raises(ValueError, match="cannot be pickled; pickle the model before `pack_weights`"):
        pickle.dumps(packed)
    assert torch.equal(copy.deepcopy(packed).generate(**SOURCE), packed.generate(**SOURCE))


@pytest.mark.parametrize("setting", ["FBGEMM_ENABLE_INSTRUCTIONS", "ONEDNN_MAX_CPU_ISA"])
def test_packing_works_on_an_older_processor(setting: str, run_python: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    """All tests of this file but this one, in a process that uses no more than AVX2."""
    monkeypatch.setenv(setting, "AVX2")
    root = Path(__file__).parents[1]
    run_python(root, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "not older_processor", "tests/test_packing.py")
