"""Seconds of shorter texts, and what they say of a longer one."""

from typing import Any

import pytest
import torch
from transformers import GenerationMixin

from vaswani_transformer.configuration_vaswani import VaswaniConfig
from vaswani_transformer.training import time_cost
from vaswani_transformer.training.time_cost import Trial, at, fit, predicted_seconds

TINY = VaswaniConfig(
    vocab_size=30, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2,
    encoder_ffn_dim=16, decoder_ffn_dim=16,
)  # fmt: skip


def test_three_terms_are_found_and_none_is_negative() -> None:
    lengths = [1, 2, 4, 8]
    assert fit(lengths, [3 + 2 * n + 0.5 * n**2 for n in lengths]) == pytest.approx((3, 2, 0.5))
    assert fit(lengths, [5 * n for n in lengths]) == pytest.approx((0, 5, 0), abs=1e-9)
    assert fit(lengths, [3 * n**2 for n in lengths]) == pytest.approx((0, 0, 3), abs=1e-9)
    for seconds in ([4, 5, 5.5, 5.6], [1, 8, 64, 512], [9, 3, 4, 5]):
        assert min(fit(lengths, seconds)) >= 0
    assert at((3, 2, 0.5), 10) == 73
    assert fit([7], [14]) == pytest.approx((14, 0, 0))  # a single length says nothing of growth


def test_a_length_is_predicted_from_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int]] = []

    def by_hand(run: Any, length: int) -> float:
        asked.append((run.__name__, length))
        return 1 + 2.0 * length if run.__name__ == "update" else 3.0 * length + length**2

    monkeypatch.setattr(time_cost, "_fastest", by_hand)
    assert predicted_seconds(TINY, 64, sentences=2, beams=2) == pytest.approx((1 + 2 * 64, 3 * 64 + 64**2))
    assert asked == [(name, length) for name in ("update", "translate") for length in (4, 8, 16, 32)]


def test_an_update_trains_and_a_translation_has_the_length(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    trial, found = Trial(TINY, sentences=3, beams=2), []
    before = trial.model.model.encoder.layers[0].fc1.weight.clone()
    trial.update(7)
    assert not torch.equal(trial.model.model.encoder.layers[0].fc1.weight, before)
    generate = trial.model.generate
    trial.model.generate = lambda *asked, **settings: found.append(generate(*asked, **settings))
    with monkeypatch.context() as patch:
        patch.setattr(GenerationMixin, "_beam_search", None)  # the search of trained checkpoints is the paper's own
        trial.translate(9)
    assert found[0].shape == (3, 10)
