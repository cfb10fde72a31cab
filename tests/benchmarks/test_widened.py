"""A widened model computes what the narrow one does."""

from typing import Any

import pytest
import torch

from benchmarks.widened import widened
from tests.test_decoding import BOS, EOS, PAD, SOURCES, padded
from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration


def build_model(**settings: Any) -> VaswaniForConditionalGeneration:
    torch.manual_seed(0)
    config = VaswaniConfig(
        vocab_size=11, d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=2,
        encoder_ffn_dim=24, decoder_ffn_dim=20, pad_token_id=PAD, bos_token_id=BOS, eos_token_id=EOS, decoder_start_token_id=BOS,
        **settings,
    )  # fmt: skip
    model = VaswaniForConditionalGeneration(config).double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("settings", [{}, {"attention_bias": True, "lm_head_bias": True}, {"parallel_heads": 4, "chained_heads": True}])
def test_it_gives_the_same_scores_and_proposals(times: int, settings: dict[str, Any]) -> None:
    model, given = build_model(**settings), padded(SOURCES)
    wide = widened(model, times)
    assert wide.config.d_model == times * model.config.d_model and wide.config.head_dim == model.config.head_dim
    tokens = torch.tensor([[BOS, 5, 6, 7]] * len(SOURCES))
    with torch.no_grad():
        expected, found = (each(**given, decoder_input_ids=tokens).logits for each in (model, wide))
    assert torch.allclose(found, expected, atol=1e-5)
    if model.parallel_heads is not None:
        search = {"num_beams": 1, "draft": "heads", "max_new_tokens": 12}
        assert torch.equal(wide.generate(**given, **search), model.generate(**given, **search))
        proposed = [proposals(each, given, tokens) for each in (model, wide)]
        assert all(torch.allclose(*each, atol=1e-5) for each in zip(*proposed, strict=True))


def proposals(model: Any, given: dict[str, torch.Tensor], tokens: torch.Tensor) -> list[torch.Tensor]:
    """The scores of what chained heads propose behind each of `tokens`."""
    with torch.no_grad():
        source = model.get_encoder()(**given)[0]
        states = model.get_decoder()(input_ids=tokens, encoder_hidden_states=source, encoder_attention_mask=given["attention_mask"])[0]
        ahead = model.parallel_heads(states, model.get_decoder().embed_tokens(tokens), source, given["attention_mask"])
        return [model.get_output_embeddings()(each) for each in ahead]


def test_what_cannot_be_widened_is_refused() -> None:
    with pytest.raises(ValueError, match="propose all at once cannot be widened"):
        widened(build_model(parallel_heads=3), 2)
    with pytest.raises(ValueError, match="tied and scaled embeddings"):
        widened(build_model(scale_embedding=False), 2)
