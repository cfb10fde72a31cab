"""The likeliest token by 8 bits and a few exact rows, against all exact rows."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.processor import BFLOAT16
from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_transformer.packing import PackedLinear, has_fbgemm, rounded
from vaswani_transformer.selected_rows import Likeliest

pytestmark = pytest.mark.skipif(not has_fbgemm(), reason="PyTorch has FBGEMM's products on x86 with AVX2 only")
TYPES: list[Any] = ["float32", "float16", BFLOAT16]


def packed(weight: torch.Tensor, bias: torch.Tensor | None, kind: Any) -> Likeliest:
    """What `pack_weights` makes of a model with parallel heads and this map to the vocabulary."""
    torch.manual_seed(0)
    width = weight.shape[1]
    config = VaswaniConfig.from_preset(
        "tiny", vocab_size=len(weight), d_model=width, encoder_attention_heads=2, decoder_attention_heads=2, encoder_layers=1,
        decoder_layers=1, encoder_ffn_dim=8, decoder_ffn_dim=8, parallel_heads=2, tie_word_embeddings=False, lm_head_bias=bias is not None,
    )  # fmt: skip
    model = VaswaniForConditionalGeneration(config).eval()
    model.lm_head.weight.data.copy_(weight)
    if bias is not None:
        model.lm_head.bias.data.copy_(bias)
    model.pack_weights(kind)
    return Likeliest(model.lm_head, model.parallel_heads.to_vocabulary)


@pytest.mark.parametrize("kind", TYPES)
@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    entries=st.sampled_from([40, 700]),
    rows=st.integers(1, 16),
    scale=st.sampled_from([1e-3, 0.06, 3.0]),
    outliers=st.booleans(),
    twins=st.booleans(),
    bias=st.booleans(),
)
def test_it_is_the_likeliest_of_all(
    kind: Any, seed: int, entries: int, rows: int, scale: float, outliers: bool, twins: bool, bias: bool
) -> None:
    """Also where 8 bits see little of a row beside one large number, and where rows differ by less than a step of 8 bits."""
    draw = torch.Generator().manual_seed(seed)
    weight = scale * torch.randn(entries, 32, generator=draw)
    if outliers:
        weight[::7, 3] *= 50
    if twins:
        weight[entries // 2 :] = weight[: entries - entries // 2] + 1e-3 * scale * torch.randn(entries - entries // 2, 32, generator=draw)
    shift = torch.randn(entries, generator=draw) if bias else None
    x = torch.randn(rows, 32, generator=draw)
    likeliest = packed(weight, shift, kind)
    tokens, scores = likeliest(x)
    exact = x.double() @ rounded(weight, kind).double().t() + (0 if shift is None else shift.double())
    found = exact.gather(1, torch.tensor(tokens).unsqueeze(1)).squeeze(1)
    room = 2e-6 * float(weight.norm(dim=1).max() * x.norm(dim=1).max() + 1)
    assert bool((found >= exact.amax(1) - room).all())
    torch.testing.assert_close(torch.tensor(scores, dtype=torch.float64) + likeliest.exact.offset, found, rtol=1e-5, atol=10 * room)
    near = set(likeliest.could_be(x).tolist())
    best = exact.argmax(1).tolist()
    assert near.issuperset(best)


@pytest.mark.parametrize("kind", TYPES)
def test_few_tokens_are_scored_exactly(kind: Any) -> None:
    weight = 0.06 * torch.randn(12_000, 64, generator=torch.Generator().manual_seed(1))
    likeliest = packed(weight, None, kind)
    near = likeliest.could_be(4 * weight[[5, 77]] / 0.06)
    assert {5, 77} <= set(near.tolist()) and len(near) < 20


def test_the_first_of_equals_wins_however_many_there_are() -> None:
    for entries in (40, 700):
        weight = torch.ones(entries, 32)
        assert packed(weight, None, "float32")(torch.ones(2, 32))[0] == [0, 0]


def test_what_is_no_number_stays_none() -> None:
    likeliest = packed(torch.randn(40, 32), None, "float32")
    _, scores = likeliest(torch.stack((torch.ones(32), torch.full((32,), torch.nan))))
    assert scores[0] == scores[0] and scores[1] != scores[1]


def test_a_model_in_8_bits_has_nothing_rougher() -> None:
    config = VaswaniConfig.from_preset("tiny", vocab_size=40, d_model=32, parallel_heads=2)
    model = VaswaniForConditionalGeneration(config).eval().pack_weights("int8")
    assert isinstance(model.parallel_heads.to_vocabulary, PackedLinear) and model.parallel_heads.to_vocabulary.apart is None
