"""The formula for memory, against what autograd really keeps."""

from typing import Any

import pytest
import torch

from vaswani_transformer.configuration_vaswani import VaswaniConfig
from vaswani_transformer.modeling_vaswani import VaswaniForConditionalGeneration
from vaswani_transformer.training.dropout import use_bit_dropout
from vaswani_transformer.training.loss import TranslationLoss, target_positions
from vaswani_transformer.training.memory_cost import longest_that_fits, parameters, training_memory, translation_memory

SIZES = {
    "vocab_size": 50, "d_model": 32, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 4,
    "decoder_attention_heads": 2, "head_dim": 12, "encoder_ffn_dim": 48, "decoder_ffn_dim": 80,
}  # fmt: skip


def kept_for_backward(config: VaswaniConfig, sentences: int, source_length: int, target_length: int) -> int:
    """Bytes of distinct storages that autograd keeps in a training's forward pass, without weights."""
    torch.manual_seed(1)
    loss = TranslationLoss(VaswaniForConditionalGeneration(config).train(), smoothing=0.1)
    loss.model.set_attn_implementation("eager")
    use_bit_dropout(loss.model)
    weights = {parameter.untyped_storage().data_ptr() for parameter in loss.parameters()}
    kept: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage
        return tensor

    source, labels = torch.full((sentences, source_length), 5), torch.full((sentences, target_length), 6)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        result = loss(source, torch.ones_like(source), labels, target_positions(labels))
        size = sum(storage.nbytes() for storage in kept.values())
    del result
    return size


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"dropout": 0.0},
        {"attention_dropout": 0.1},
        {"head_dim": 8, "value_head_dim": 20},
        {"encoder_layers": 4, "activation_function": "gelu"},
    ],
)
@pytest.mark.parametrize(("sentences", "source_length", "target_length"), [(2, 96, 64), (1, 40, 160)])
def test_what_is_kept_is_what_autograd_keeps(changes: dict[str, float], sentences: int, source_length: int, target_length: int) -> None:
    config = VaswaniConfig(**{**SIZES, **changes})
    kept = kept_for_backward(config, sentences, source_length, target_length)
    masks = 4 * sentences * (source_length**2 + target_length**2 + target_length * source_length)  # the forward pass holds them itself
    assert training_memory(config, sentences, source_length, target_length).states - masks == pytest.approx(kept, rel=0.02)


def test_weights_are_counted_once_and_a_training_keeps_three_more() -> None:
    config = VaswaniConfig(**SIZES)
    count = VaswaniForConditionalGeneration(config).num_parameters()
    assert parameters(config) == count
    assert training_memory(config, 1, 8, 8).lasting == 4 * 4 * count
    assert translation_memory(config, 1, 8, 8).lasting == 4 * count


def test_memory_grows_with_the_square_in_training_only() -> None:
    config = VaswaniConfig.from_preset("base")
    training = [training_memory(config, 1, length, length).states for length in (10_000, 20_000)]
    translation = [translation_memory(config, 1, length, length).states for length in (10_000, 20_000)]
    assert 3.5 < training[1] / training[0] < 4
    assert 1.5 < translation[1] / translation[0] < 2.5


def test_the_longest_that_fits_is_the_last_one() -> None:
    config = VaswaniConfig(**SIZES)
    limit = training_memory(config, 2, 300, 300).total
    assert longest_that_fits(config, limit, 2) == 300
    assert longest_that_fits(config, 0) == 0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"parallel_heads": 4}, "parallel heads"),
        ({"attention_window": 9}, "dot products"),
        ({"attention_score": "additive"}, "dot products"),
    ],
)
def test_what_the_formula_does_not_know_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        training_memory(VaswaniConfig(**SIZES, **changes), 1, 8, 8)
    with pytest.raises(ValueError, match="1 or more"):
        translation_memory(VaswaniConfig(**SIZES), 1, 8, 0)
