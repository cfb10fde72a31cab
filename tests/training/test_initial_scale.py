"""Which first weights are scaled, by how much, and that nothing else is."""

import dataclasses
from collections.abc import Callable
from typing import Any, Literal

import pytest
import torch

from vaswani_transformer import VaswaniConfig
from vaswani_transformer.recipe import Recipe
from vaswani_transformer.training.building import build_model
from vaswani_transformer.training.initial_scale import deepnorm_factors


@pytest.mark.parametrize(
    ("encoder_layers", "decoder_layers", "encoder", "decoder"),
    [
        (1, 1, 0.87, 0.537285),  # 12^(-1/4) = 1 / 1.861210
        (6, 6, 0.496989, 0.343295),  # 6^5 = 7776, whose 16th root is 1.750541; 72^(1/4) = 2.912951
        (16, 1, 0.435, 0.537285),  # (2^16)^(-1/16) = 1/2
    ],
)
def test_deepnorms_factors_by_hand(encoder_layers: int, decoder_layers: int, encoder: float, decoder: float) -> None:
    config = VaswaniConfig(encoder_layers=encoder_layers, decoder_layers=decoder_layers)
    assert deepnorm_factors(config) == pytest.approx((encoder, decoder), rel=1e-5)


def _weights(recipe: Recipe) -> dict[str, torch.Tensor]:
    return build_model(recipe, 280, torch.device("cpu")).state_dict()


@pytest.mark.parametrize(("scale", "encoder", "decoder"), [(0.5, 0.5, 0.5), ("deepnorm", 0.87, 12**-0.25)])
def test_branches_are_scaled_and_nothing_else(
    make_recipe: Callable[..., Recipe], scale: float | Literal["deepnorm"], encoder: float, decoder: float
) -> None:
    plain, scaled = _weights(make_recipe()), _weights(make_recipe(initial_scale=scale))
    touched = set()
    for name, tensor in plain.items():
        if name.endswith(("v_proj.weight", "out_proj.weight", "fc1.weight", "fc2.weight")):
            touched.add(name)
            torch.testing.assert_close(scaled[name], tensor * (encoder if ".encoder." in name else decoder), rtol=1e-6, atol=0)
        else:
            assert torch.equal(scaled[name], tensor), name
    # Values and outputs of three attentions, and two feed-forward networks of two matrices
    assert len(touched) == 3 * 2 + 2 * 2


@pytest.mark.parametrize(
    ("model", "scaled_ones"),
    [
        ({}, {"shared", "embed_tokens", "lm_head"}),
        ({"tie_word_embeddings": False, "position_embedding_type": "learned"}, {"shared", "embed_tokens"}),
    ],
)
def test_the_tokens_vectors_are_scaled_once_and_nothing_else(
    make_recipe: Callable[..., Recipe], model: dict[str, Any], scaled_ones: set[str]
) -> None:
    plain, scaled = (
        _weights(dataclasses.replace(recipe, model=recipe.model | model))
        for recipe in (make_recipe(), make_recipe(initial_embedding_scale=0.25))
    )
    for name, tensor in plain.items():
        assert torch.equal(scaled[name], tensor * 0.25 if scaled_ones & set(name.split(".")) else tensor), name


def test_resuming_changes_no_bit(make_recipe: Callable[..., Recipe], assert_resuming_changes_no_bit: Callable[[Recipe], None]) -> None:
    assert_resuming_changes_no_bit(make_recipe(initial_scale="deepnorm", initial_embedding_scale=0.2))


@pytest.mark.parametrize("name", ["initial_scale", "initial_embedding_scale"])
def test_a_model_that_starts_from_another_keeps_its_weights(make_recipe: Callable[..., Recipe], name: str) -> None:
    with pytest.raises(ValueError, match=rf"`training\.{name}` is for a model that starts at random"):
        make_recipe(fine={"init_from": "x", "model": {}}, **{name: 0.5})
