"""FLOPs of a model small enough to count on paper."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from vaswani_transformer.configuration_vaswani import VaswaniConfig
from vaswani_transformer.modeling_vaswani import VaswaniForConditionalGeneration
from vaswani_transformer.training import loss as loss_module
from vaswani_transformer.training.cost import training_flops, translation_flops
from vaswani_transformer.training.loss import TranslationLoss, target_positions


def test_flops_by_hand() -> None:
    config = VaswaniConfig(
        vocab_size=11, d_model=4, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=8, decoder_ffn_dim=8,
    )  # fmt: skip
    # Two sentences, 3 source and 5 target positions each, 7 real target tokens. Every projection is 4 x 4 = 16, feed-forward 2 * 32 = 64.
    encoder = 3 * (4 * 16 + 64) + 3 * 3 * 2 * 4
    decoder = 5 * (4 * 16 + 2 * 16 + 64) + 3 * (2 * 16) + (5 * 5 + 5 * 3) * 2 * 4
    assert training_flops(config, 2, 3, 5, 7) == 6 * (2 * (encoder + decoder) + 7 * 11 * 4)


def test_a_window_bounds_the_pairs_of_self_attention() -> None:
    whole, near = (VaswaniConfig.from_preset("tiny", vocab_size=300, attention_window=window) for window in (None, 6))
    pairs = whole.encoder_layers * 7 * (7 - 6)  # a target of 5 tokens is within the window
    assert training_flops(whole, 2, 7, 5, 10) - training_flops(near, 2, 7, 5, 10) == 6 * 2 * pairs * 2 * whole.d_model


def test_flops_follow_torchs_own_counter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss_module, "CHUNK_MULTIPLES", {})  # torch would count the rows that fill a chunk
    config = VaswaniConfig.from_preset("tiny", vocab_size=300)
    loss = TranslationLoss(VaswaniForConditionalGeneration(config), smoothing=0.1)
    loss.model.set_attn_implementation("eager")
    source, labels = torch.full((2, 7), 5), torch.full((2, 5), 6)
    with FlopCounterMode(display=False) as counter:
        loss(source, torch.ones_like(source), labels, target_positions(labels)).smoothed.backward()
    assert training_flops(config, 2, 7, 5, 10) == pytest.approx(counter.get_total_flops(), rel=0.01)


def test_the_softmax_has_as_many_classes_as_the_target_has_entries() -> None:
    sizes = {"vocab_size": 300, "tie_word_embeddings": False}
    joint, own = (VaswaniConfig.from_preset("tiny", **sizes, target_vocab_size=entries) for entries in (None, 100))
    assert training_flops(joint, 2, 7, 5, 10) - training_flops(own, 2, 7, 5, 10) == 6 * 200 * joint.d_model * 10


def test_flops_of_a_search_by_hand() -> None:
    """As above, one sentence, two beams, a token at a time: the first sees one position, the fifth five."""
    config = VaswaniConfig(
        vocab_size=11, d_model=4, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=8, decoder_ffn_dim=8,
    )  # fmt: skip
    once = 3 * (4 * 16 + 64) + 3 * 3 * 2 * 4 + 3 * (2 * 16)
    each = 5 * (4 * 16 + 2 * 16 + 64) + ((1 + 2 + 3 + 4 + 5) + 5 * 3) * 2 * 4 + 5 * 11 * 4
    assert translation_flops(config, 1, 3, 5, beams=2) == pytest.approx(2 * (once + 2 * each))
    assert translation_flops(config, 7, 3, 5, beams=2) == pytest.approx(7 * 2 * (once + 2 * each))
    config.attention_window = 3  # of the source all three, of the target 1, 2, 3, 3 and 3
    assert translation_flops(config, 1, 3, 5, beams=2) == pytest.approx(2 * (once + 2 * (each - 3 * 2 * 4)))
