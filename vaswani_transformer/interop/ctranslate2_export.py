"""Export to CTranslate2: our weights, vocabulary and settings under its names.

```python
export_ctranslate2("runs/NAME/averaged", "exported", quantization="int8")
```

Shapes: D = d_model, H heads, K = d_k (`head_dim`), V = d_v (`value_head_dim`).
"""

import json
from pathlib import Path
from typing import Any

import torch
from ctranslate2.specs import attention_spec, common_spec, transformer_spec
from torch import nn

from ..files.atomic_folder import new_folder
from ..layers import VaswaniAttention, sinusoids
from ..modeling_vaswani import VaswaniStack
from ..shortlist import NOTHING
from .ctranslate2 import VMAP
from .original import Original, check_attention, read_original

QUANTIZATIONS = ("int8", "int8_float32", "bfloat16", "float16")
"""What the weights may be stored in, besides float32."""

POSITIONS = 4096
"""Rows in the table of sinusoids that an export holds; our own have no end."""

ACTIVATIONS = {
    "relu": common_spec.Activation.RELU,
    "gelu": common_spec.Activation.GELU,
    "gelu_new": common_spec.Activation.GELUTanh,
    "gelu_pytorch_tanh": common_spec.Activation.GELUTanh,
    "quick_gelu": common_spec.Activation.GELUSigmoid,
    "silu": common_spec.Activation.SWISH,
    "swish": common_spec.Activation.SWISH,
    "tanh": common_spec.Activation.Tanh,
    "sigmoid": common_spec.Activation.Sigmoid,
}
"""CTranslate2's name for each of transformers' activation functions that it has."""


def export_ctranslate2(folder: str | Path, out: str | Path, quantization: str | None = None) -> Path:
    """Write the translator in `folder` as a model of CTranslate2, with its tokenizer and search settings beside it.

    Args:
        folder: a trained model, with any of our layouts, widths and embeddings.
        out: a new folder, for `CTranslate2Model.from_pretrained` or `ctranslate2.Translator`.
        quantization: how matrices are stored: `"int8"`, `"int8_float32"`, `"bfloat16"` or `"float16"`; float32 by default.
            What a device cannot compute in, CTranslate2 converts as it loads the model, unless told to compute in it.

    Returns:
        `out`.

    Raises:
        FileNotFoundError: `folder` does not exist, or a file is missing in it.
        FileExistsError: there is something at `out`.
        ValueError: there is no such quantization, `folder` holds another kind of model, or CTranslate2 lacks its activation or attention.
    """
    if quantization is not None and quantization not in QUANTIZATIONS:
        raise ValueError(f"There is no quantization {quantization!r}; choose one of {', '.join(QUANTIZATIONS)}, or none for float32.")
    with new_folder(out) as unfinished, torch.no_grad():
        original = read_original(folder)
        specification = ctranslate2_specification(original)
        specification.validate()
        specification.optimize(quantization=quantization)
        specification.save(str(unfinished))
        original.tokenizer.save_pretrained(unfinished)
        original.save_search_settings(unfinished)
        if original.shortlist is not None:
            write_vmap(unfinished / VMAP, original)
    return Path(out)


def write_vmap(path: Path, original: Original) -> None:
    """Write the shortlist as CTranslate2's vocabulary map: on each line a source token, a tab, and its target tokens.

    The first line, without a source token, has those that every translation may hold.
    """
    assert original.shortlist is not None
    names = original.target_names
    rows = [("", original.shortlist.frequent.tolist()), *zip(original.source_names, original.shortlist.listed.tolist(), strict=True)]
    lines = (
        f"{source}\t{' '.join(names[token] for token in tokens if token != NOTHING)}\n" for source, tokens in rows if max(tokens) > NOTHING
    )
    path.write_text("".join(lines), encoding="utf-8")


def ctranslate2_specification(original: Original) -> transformer_spec.TransformerSpec:
    """The whole model in CTranslate2's terms.

    Raises:
        ValueError: CTranslate2 does not have the activation function, or the model's kind of attention.
    """
    model = original.model
    config: Any = model.config  # its widths and token ids are all set
    check_attention(config, "CTranslate2")
    if config.activation_function not in ACTIVATIONS:
        raise ValueError(f"CTranslate2 has no activation function {config.activation_function!r}, only {', '.join(ACTIVATIONS)}.")
    common = {
        "pre_norm": False,
        "activation": ACTIVATIONS[config.activation_function],
        "head_dim": max(config.head_dim, config.value_head_dim),
    }
    encoder = transformer_spec.TransformerEncoderSpec(config.encoder_layers, config.encoder_attention_heads, **common)
    decoder = transformer_spec.TransformerDecoderSpec(config.decoder_layers, config.decoder_attention_heads, **common)
    _set_stack(encoder, encoder.embeddings[0], model.model.encoder)
    _set_stack(decoder, decoder.embeddings, model.model.decoder)
    _set_linear(decoder.projection, model.lm_head)
    specification = transformer_spec.TransformerSpec(encoder, decoder)
    specification.register_source_vocabulary(original.source_names)
    specification.register_target_vocabulary(original.target_names)
    for name, value in _configuration(original).items():
        specification.config.add_attribute(name, value)
    return specification


def _configuration(original: Original) -> dict[str, object]:
    """One config.json for both: our settings, without the code that does not come along, and CTranslate2's."""
    config: Any = original.config
    names = original.target_names
    own = json.loads(config.to_json_string())
    end = config.eos_token_id[0] if isinstance(config.eos_token_id, list) else config.eos_token_id
    return {
        **{name: value for name, value in own.items() if name not in ("auto_map", "custom_pipelines")},
        "decoder_start_token": names[config.decoder_start_token_id],
        "bos_token": names[config.decoder_start_token_id],
        "eos_token": names[end],
        # The engine wants a name for what it does not know, and would add one; byte-level BPE knows every text.
        "unk_token": names[config.pad_token_id],
        "layer_norm_epsilon": config.layer_norm_eps,
        "positions": POSITIONS if config.position_embedding_type == "sinusoidal" else config.max_position_embeddings,
    }


def _set_stack(
    specification: transformer_spec.TransformerEncoderSpec | transformer_spec.TransformerDecoderSpec,
    embeddings: common_spec.EmbeddingsSpec,
    stack: VaswaniStack,
) -> None:
    embeddings.weight = stack.embed_tokens.weight
    specification.scale_embeddings = stack.config.scale_embedding
    specification.position_encodings.encodings = _positions(stack)
    for target, layer in zip(specification.layer, stack.layers, strict=True):
        _set_attention(target.self_attention, layer.self_attn, layer.self_attn_layer_norm)
        if hasattr(layer, "encoder_attn"):
            _set_attention(target.attention, layer.encoder_attn, layer.encoder_attn_layer_norm)
        _set_linear(target.ffn.linear_0, layer.fc1)
        _set_linear(target.ffn.linear_1, layer.fc2)
        _set_norm(target.ffn.layer_norm, layer.final_layer_norm)


def _positions(stack: VaswaniStack) -> torch.Tensor:
    """The vectors of the first positions, `[positions, D]`: CTranslate2's own sinusoids are none of our layouts."""
    config = stack.config
    if config.position_embedding_type == "learned":
        return stack.embed_positions.weight[config.position_offset :].contiguous()
    numbers = torch.arange(POSITIONS) + config.position_offset
    return sinusoids(numbers, config.d_model, config.sinusoidal_layout).float()


def _set_attention(target: attention_spec.MultiHeadAttentionSpec, attention: VaswaniAttention, norm: nn.LayerNorm) -> None:
    """Queries, keys and values in one matrix, or over the source queries in one and the others in a second.

    CTranslate2 knows one width of a head. Where d_k and d_v differ, zeros widen the narrower: they add nothing to a
    score or to what a head found.
    """
    heads, width = attention.num_heads, max(attention.head_dim, attention.value_head_dim)
    parts = [attention.q_proj, attention.k_proj, attention.v_proj]
    *inner, outer = target.linear
    for linear, group in zip(inner, [parts] if len(inner) == 1 else [parts[:1], parts[1:]], strict=True):
        linear.weight = torch.cat([_widened(part.weight, heads, width) for part in group])
        if parts[0].bias is not None:
            linear.bias = torch.cat([_widened(part.bias, heads, width) for part in group])
    outer.weight = _widened(attention.out_proj.weight.T, heads, width).T
    if attention.out_proj.bias is not None:
        outer.bias = attention.out_proj.bias
    target.queries_scale = attention.scaling
    _set_norm(target.layer_norm, norm)


def _widened(rows: torch.Tensor, heads: int, width: int) -> torch.Tensor:
    """`[H * K, ...]` to `[H * width, ...]`, with zeros behind each head's own rows."""
    by_head = rows.unflatten(0, (heads, -1))
    zeros = by_head.new_zeros(heads, width - by_head.shape[1], *by_head.shape[2:])
    return torch.cat((by_head, zeros), dim=1).flatten(0, 1)


def _set_linear(target: common_spec.LinearSpec, linear: nn.Linear) -> None:
    target.weight = linear.weight
    if linear.bias is not None:
        target.bias = linear.bias


def _set_norm(target: common_spec.LayerNormSpec, norm: nn.LayerNorm) -> None:
    target.gamma, target.beta = norm.weight, norm.bias
