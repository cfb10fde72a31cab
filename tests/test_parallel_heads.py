"""Heads of blockwise parallel decoding: what they compute, and that a model with them is in all else the model without them."""

import copy
import json
import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from transformers import AutoModel, AutoModelForSeq2SeqLM

from tests.test_published_code import run_elsewhere
from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_transformer.bare_layers import can_run_bare
from vaswani_transformer.packing import PackedLinear
from vaswani_transformer.parallel_heads import ChainedHeads, ParallelHeads

SOURCE = torch.tensor([[3, 4, 5, 2], [6, 7, 2, 0]])


def build_model(parallel_heads: int = 4, **settings: Any) -> VaswaniForConditionalGeneration:
    torch.manual_seed(0)
    config = VaswaniConfig(
        vocab_size=50, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2,
        encoder_ffn_dim=32, decoder_ffn_dim=24, parallel_heads=parallel_heads, **settings,
    )  # fmt: skip
    model = VaswaniForConditionalGeneration(config).eval()
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            nn.init.normal_(parameter)
    return model


def heads_of(model: VaswaniForConditionalGeneration) -> ParallelHeads:
    assert isinstance(model.parallel_heads, ParallelHeads)
    return model.parallel_heads


def test_each_head_is_a_feed_forward_network_beside_the_state() -> None:
    heads, states = heads_of(build_model()), torch.randn(2, 5, 16)
    found = heads(states)
    assert found.shape == (2, 5, 3, 16)
    hidden = (states @ heads.fc1.weight.T + heads.fc1.bias).clamp(min=0)
    assert hidden.shape[-1] == 3 * 24
    for number in range(3):
        own = slice(16 * number, 16 * (number + 1))
        expected = states + hidden @ heads.fc2.weight[own].T + heads.fc2.bias[own]
        assert torch.allclose(found[..., number, :], expected, atol=1e-5)


def test_chained_heads_are_a_layer_that_reads_the_token_before_and_the_source() -> None:
    """By hand, for one sentence: every proposal from the state before it, the token between them, and the source's real tokens."""
    model = build_model(chained_heads=True)
    heads = model.parallel_heads
    assert isinstance(heads, ChainedHeads)
    states, following, source = torch.randn(1, 3, 16), torch.randn(1, 3, 16), torch.randn(1, 4, 16)
    found = heads(states, following, source, torch.tensor([[1, 1, 1, 0]]))
    following *= 4
    assert [tuple(each.shape) for each in found] == [(1, 2, 16), (1, 1, 16), (1, 0, 16)]

    def by_hand(state: torch.Tensor, token: torch.Tensor) -> torch.Tensor:
        x = heads.token_layer_norm(state + heads.token_proj.weight @ torch.cat((state, token)) + heads.token_proj.bias)
        attention, real = heads.encoder_attn, source[0, :3]
        query, keys, values = attention.q_proj(x), attention.k_proj(real), attention.v_proj(real)
        ways = []
        for way in (slice(0, 8), slice(8, 16)):
            ways.append((keys[:, way] @ query[way] / 8**0.5).softmax(0) @ values[:, way])
        x = heads.encoder_attn_layer_norm(x + attention.out_proj(torch.cat(ways)))
        return heads.final_layer_norm(x + heads.fc2(heads.fc1(x).clamp(min=0)))

    first = [by_hand(states[0, place], following[0, place]) for place in range(2)]
    assert torch.allclose(found[0][0], torch.stack(first), atol=1e-5)
    assert torch.allclose(found[1][0, 0], by_hand(first[0], following[0, 1]), atol=1e-5)


def test_heads_take_any_leading_shape() -> None:
    heads, states = heads_of(build_model()), torch.randn(4, 16)
    assert torch.allclose(heads(states)[2], heads(states[2]), atol=1e-6)


def test_a_model_of_the_paper_has_none() -> None:
    model = build_model(1)
    assert model.parallel_heads is None
    assert not [name for name in model.state_dict() if "parallel" in name]


def test_the_rest_of_the_model_does_not_know_of_them() -> None:
    """Equal weights, equal scores, and `forward` does not run the heads: they are made after everything else and called by nobody."""
    with_heads, without = build_model(4), build_model(1)
    without.load_state_dict({name: tensor for name, tensor in with_heads.state_dict().items() if not name.startswith("parallel_heads.")})
    calls: list[int] = []
    heads_of(with_heads).register_forward_pre_hook(lambda *_: calls.append(1))
    target = {"input_ids": SOURCE, "decoder_input_ids": SOURCE[:, :2]}
    assert torch.equal(with_heads(**target).logits, without(**target).logits)
    assert not calls


@pytest.mark.parametrize("count", [0, -1])
def test_a_step_proposes_at_least_one_token(count: int) -> None:
    with pytest.raises(ValueError, match=rf"`parallel_heads` must be at least 1, not {count}"):
        VaswaniConfig.from_preset("tiny", parallel_heads=count)


def test_save_and_load_keep_them(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model, states = build_model(), torch.randn(3, 16)
    model.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["parallel_heads"] == 4
    again = AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    assert torch.equal(heads_of(again)(states), heads_of(model)(states))
    logger = logging.getLogger("transformers")
    logger.propagate = True
    try:
        bare = AutoModel.from_pretrained(tmp_path)
        left_out = VaswaniForConditionalGeneration.from_pretrained(tmp_path, parallel_heads=1)
    finally:
        logger.propagate = False
    assert torch.equal(bare.shared.weight, model.model.shared.weight)
    assert left_out.parallel_heads is None
    assert "parallel_heads" not in caplog.text


def test_a_folder_has_their_code(tmp_path: Path) -> None:
    build_model().save_pretrained(tmp_path / "model")
    script = (
        "import sys; sys.modules['vaswani_transformer'] = None\n"
        "from transformers import AutoModelForSeq2SeqLM\n"
        "heads = AutoModelForSeq2SeqLM.from_pretrained(sys.argv[1], trust_remote_code=True).parallel_heads\n"
        "print(type(heads).__name__, *heads.fc2.weight.shape)"
    )
    done = run_elsewhere(script, str(tmp_path / "model"), home=tmp_path / "elsewhere")
    assert done.stdout.split() == ["ParallelHeads", "48", "72"], done.stderr


def test_chained_heads_are_kept_and_packed(tmp_path: Path) -> None:
    model = build_model(chained_heads=True)
    inputs = torch.randn(2, 5, 16), torch.randn(2, 5, 16), torch.randn(2, 4, 16), torch.tensor([[1, 1, 1, 0], [1, 1, 1, 1]])
    expected = model.parallel_heads(*inputs)
    model.save_pretrained(tmp_path)
    again = AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    assert all(torch.equal(*each) for each in zip(again.parallel_heads(*inputs), expected, strict=True))
    assert VaswaniForConditionalGeneration.from_pretrained(tmp_path, parallel_heads=1).parallel_heads is None
    packed = again.pack_weights()
    assert can_run_bare(packed)
    assert all(torch.allclose(*each, atol=0.1) for each in zip(packed.parallel_heads(*inputs), expected, strict=True))


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_packing_packs_them(activation: str) -> None:
    model, states = build_model(activation_function=activation), torch.randn(3, 16)
    packed = copy.deepcopy(model).pack_weights()
    assert type(heads_of(packed).fc1) is type(heads_of(packed).fc2) is PackedLinear
    # Drafts are verified, so their weights are rounded to 8 bits whatever the type
    assert torch.allclose(heads_of(packed)(states), heads_of(model)(states), atol=0.05)


def test_a_search_still_runs_the_layers_as_functions() -> None:
    model = build_model()
    assert can_run_bare(model)
    assert can_run_bare(copy.deepcopy(model).pack_weights())
    heads_of(model).register_forward_hook(lambda *_: None)
    assert not can_run_bare(model)


def test_resizing_the_vocabulary_leaves_them_alone() -> None:
    model, states = build_model(), torch.randn(3, 16)
    before = heads_of(model)(states)
    model.resize_token_embeddings(60)
    assert torch.equal(heads_of(model)(states), before)
    assert model.lm_head(heads_of(model)(states)).shape == (3, 3, 60)
