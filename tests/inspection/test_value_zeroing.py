"""Value zeroing beside the paper's formulas written out, and beside inseq's own with its fault mended."""

import sys
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from tests.inspection.test_attribution import FAMILIES, SOURCE, TARGET, ids_of, inseq, needs_inseq, other, ours
from vaswani_transformer.inspection import value_zeroing as module
from vaswani_transformer.inspection.value_zeroing import value_zeroing

__all__ = ["inseq", "ours"]  # fixtures


def attended(attention: Any, queries: Tensor, keys: Tensor, zeroed: int | None, causal: bool) -> Tensor:
    """Equation 1 and the heads' joint projection, without the value of one key."""
    heads, width = attention.num_heads, attention.head_dim
    q, k, v = (
        (states @ projection.weight.T).view(len(states), heads, width).transpose(0, 1)
        for states, projection in ((queries, attention.q_proj), (keys, attention.k_proj), (keys, attention.v_proj))
    )
    if zeroed is not None:
        v[:, zeroed] = 0
    scores = q @ k.transpose(1, 2) / width**0.5
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf)
    return (scores.softmax(-1) @ v).transpose(0, 1).flatten(1) @ attention.out_proj.weight.T


def after(layer: Any, x: Tensor, encoded: Tensor | None, zeroed: int | None, where: str) -> Tensor:
    """A layer of the paper, Figure 1; `where` is the attention that loses a value."""
    x = layer.self_attn_layer_norm(x + attended(layer.self_attn, x, x, zeroed if where == "self" else None, causal=encoded is not None))
    if encoded is not None:
        x = layer.encoder_attn_layer_norm(x + attended(layer.encoder_attn, x, encoded, zeroed if where == "cross" else None, False))
    return layer.final_layer_norm(x + layer.fc2(layer.fc1(x).relu()))


@torch.no_grad()
def test_every_distance_by_hand(ours: Any, tokenizer: PreTrainedTokenizerBase) -> None:
    source, target = ids_of(ours, tokenizer)
    source, target = source[:, -4:], target[:, :5]
    found = value_zeroing(ours, source, torch.ones_like(source), target)
    states = ours(input_ids=source, decoder_input_ids=target, output_hidden_states=True)
    encoded = states.encoder_last_hidden_state[0]
    for map_, stack, hidden, memory, where, keys in (
        (found.encoder, ours.model.encoder, states.encoder_hidden_states, None, "self", source.shape[1]),
        (found.decoder, ours.model.decoder, states.decoder_hidden_states, encoded, "self", target.shape[1]),
        (found.cross, ours.model.decoder, states.decoder_hidden_states, encoded, "cross", source.shape[1]),
    ):
        for number, layer in enumerate(stack.layers):
            x = hidden[number][0]
            clean = after(layer, x, memory, None, where)
            distances = torch.stack(
                [1 - nn.functional.cosine_similarity(after(layer, x, memory, key, where), clean, dim=-1) for key in range(keys)], dim=-1
            )
            assert distances.max() > 1e-3
            assert torch.allclose(map_[number], distances / distances.sum(-1, keepdim=True), atol=1e-9)


@pytest.mark.parametrize("family", FAMILIES)
def test_rows_are_shares_and_nothing_comes_from_later(
    family: str, tokenizer: PreTrainedTokenizerBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = other(family, tokenizer)
    source, target = ids_of(model, tokenizer)
    found = value_zeroing(model, source, torch.ones_like(source), target)
    for shares in found:
        assert (shares >= 0).all() and (shares.sum(-1) - 1).abs().max() < 1e-9
    assert found.decoder.triu(1).abs().max() < 1e-9
    monkeypatch.setattr(module, "_TOKENS_AT_ONCE", 40)  # several batches
    for shares, again in zip(found, value_zeroing(model, source, torch.ones_like(source), target), strict=True):
        assert torch.allclose(shares, again, atol=1e-12)


@needs_inseq
@pytest.mark.parametrize("family", ["ours", "marian", "bart"])
def test_beside_inseq_with_its_fault_mended(
    family: str, ours: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    from inseq.attr.feat.ops.value_zeroing import ValueZeroing
    from inseq.models import HuggingfaceModel
    from inseq.models.model_config import MODEL_CONFIGS, ModelConfig

    def mended(self: Any, block_idx: int, hidden_state_idx: int = 0) -> Any:
        def hook(layer: nn.Module, inputs: Any, output: Any) -> Tensor:
            assert isinstance(output, Tensor), "if layers return tuples again, inseq works as it is"
            self.corrupted_block_output_states[block_idx] = output.clone().float().detach().cpu()
            return self.clean_block_output_states[block_idx]

        return hook

    model = ours if family == "ours" else other(family, tokenizer)
    for stack in (model.get_encoder(), model.get_decoder()):
        if hasattr(stack, "embed_scale"):
            stack.embed_scale = 1.0  # inseq would multiply by it once more than Marian's decoder does
    fresh = deepcopy(model)
    names = ModelConfig("self_attn", "values", "encoder_attn")
    monkeypatch.setitem(MODEL_CONFIGS, "VaswaniForConditionalGeneration", names)
    unk = tokenizer.special_tokens_map.get("unk_token")
    wrapper = HuggingfaceModel.load(model, "value_zeroing", tokenizer, device="cpu")
    try:
        with pytest.raises(TypeError, match="'Tensor' and 'tuple'"):
            wrapper.attribute(SOURCE, TARGET, show_progress=False)
        sys.settrace(None)  # after an error, inseq's hooks and its tracing stay
        monkeypatch.setattr(ValueZeroing, "get_states_extract_and_patch_hook", mended)
        wrapper = HuggingfaceModel.load(fresh, "value_zeroing", tokenizer, device="cpu")
        theirs = wrapper.attribute(SOURCE, TARGET, show_progress=False, attribute_target=True)[0]
    finally:
        tokenizer.unk_token = unk
    source, target = ids_of(model, tokenizer)
    found = value_zeroing(fresh, source, torch.ones_like(source), target[:, :-1])
    steps = target.shape[1] - 1
    assert theirs.source_attributions.shape == (source.shape[1], steps, 2)
    assert (
        theirs.source_attributions.permute(2, 1, 0) - found.cross
    ).abs().max() < 0.01  # inseq computes in float32 and rounds distances below 1e-5 to 0
    before = theirs.target_attributions.nan_to_num(0)[:steps].permute(2, 1, 0)
    assert (before - found.decoder).abs().max() < 0.01
