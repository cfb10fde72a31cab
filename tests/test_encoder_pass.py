"""The encoder of a search against the encoder's own `forward`."""

from typing import Any

import pytest
import torch
from transformers.generation import GenerationMixin

from tests.test_decoder_step import MASK, SETTINGS, build_model
from vaswani_transformer import VaswaniForConditionalGeneration
from vaswani_transformer.bare_layers import MANY_SENTENCES, BareLayer
from vaswani_transformer.encoder_pass import encode

IDS = torch.randint(3, 30, MASK.shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("mask", [None, torch.ones_like(MASK), MASK])
@pytest.mark.parametrize("settings", SETTINGS)
@torch.no_grad()
def test_real_tokens_get_what_forward_gives_them(settings: dict[str, Any], mask: torch.Tensor | None) -> None:
    encoder = build_model(**settings).get_encoder()
    found, expected = encode(encoder, IDS, mask), encoder(IDS, attention_mask=mask).last_hidden_state
    real = torch.ones_like(IDS).bool() if mask is None else mask.bool()
    assert found.shape == expected.shape
    assert torch.allclose(found[real], expected[real], atol=1e-12)
    assert not found[~real].any()


@pytest.mark.parametrize("mask", [None, MASK])
@torch.no_grad()
def test_many_sentences_get_what_a_few_get(mask: torch.Tensor | None) -> None:
    encoder, times = build_model().get_encoder(), MANY_SENTENCES // len(IDS)
    many = encode(encoder, IDS.repeat(times, 1), None if mask is None else mask.repeat(times, 1))
    few = encode(encoder, IDS, mask)
    assert torch.allclose(many, few.repeat(times, 1, 1), atol=1e-12)


@torch.no_grad()
def test_positions_of_ones_own_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of sinusoids are shared between searches, and are not for who writes other ones."""
    encoder = build_model().get_encoder()
    plain = encode(encoder, IDS, None)
    monkeypatch.setattr(type(encoder), "position_vectors", lambda self, numbers: numbers.double().unsqueeze(-1).expand(-1, 16))
    found = encode(encoder, IDS, None)
    assert not torch.allclose(found, plain)
    assert torch.allclose(found, encoder(IDS).last_hidden_state, atol=1e-12)


@torch.no_grad()
def test_padding_is_not_multiplied(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[int] = []
    feed_forward = BareLayer.feed_forward
    monkeypatch.setattr(BareLayer, "feed_forward", lambda self, x: rows.append(len(x)) or feed_forward(self, x))
    encode(build_model().get_encoder(), IDS, MASK)
    assert rows == [int(MASK.sum())] * 2


def build_decided_model() -> VaswaniForConditionalGeneration:
    """One whose translations depend on their sources."""
    model = build_model(tie_word_embeddings=False)
    torch.manual_seed(3)
    for parameter in model.parameters():
        if parameter.ndim == 2:
            torch.nn.init.normal_(parameter)
    return model


@pytest.mark.skipif(
    not hasattr(GenerationMixin, "_prepare_text_encoder_decoder_kwargs_for_generation"),
    reason="this transformers encodes in a method of another name, with the encoder's forward",
)
@pytest.mark.parametrize("beams", [1, 3])
def test_generate_encodes_this_way_where_nobody_looks(beams: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr("vaswani_transformer.decoding.encode", lambda *given: asked.append(1) or encode(*given))
    model = build_decided_model()
    given = {"attention_mask": MASK, "max_new_tokens": 6, "num_beams": beams, "length_penalty_type": "gnmt"}
    expected = model.generate(IDS, **given)
    assert asked == [1] and len(expected.unique(dim=0)) > 2
    seen = model.generate(IDS, return_dict_in_generate=True, output_hidden_states=True, **given)
    assert torch.equal(seen.sequences, expected) and len(seen.encoder_hidden_states) == 3
    with torch.no_grad():
        encoded = model.get_encoder()(IDS, attention_mask=MASK)
    assert torch.equal(model.generate(encoder_outputs=encoded, **given), expected)
    model.get_encoder().layers[0].register_forward_hook(lambda module, inputs, output: output.flip(0))
    assert not torch.equal(model.generate(IDS, **given), expected)
    assert asked == [1]
