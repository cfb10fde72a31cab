"""Our checkpoint as a stock `MarianMTModel`, which every release of transformers since 4.40 loads without code of ours.

The function stays the same; two things are stored differently. Marian has all sines before all cosines where the paper
interleaves them, so the model dimension is put into that order. And its normalisations add 1e-5 to a variance, ours
`layer_norm_eps`: the same, if what is normalised is larger by the root of their ratio, so whatever a normalisation reads
is scaled up and whatever reads a normalisation is scaled down. Only the first normalisation of each stack must keep its
epsilon, because Marian computes the positions in it; a factor makes up for it at the usual variance. On Multi30k that
moves logits of up to 16 by 4e-6 at most, which is less than the rounding of float32.
"""

import json
import math
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn

from ..configuration_vaswani import VaswaniConfig
from ..files.atomic_folder import new_folder
from ..files.json_files import read_json, write_json
from ..layers import VaswaniAttention
from ..modeling_vaswani import VaswaniForConditionalGeneration, VaswaniStack
from ..search_settings import OF_DRAFTS
from .length_penalty import GNMT_AS_POWER
from .original import Original, check_attention, read_original

EPSILON = 1e-5
"""What Marian's layer normalisations add to a variance; its configuration has no word for it."""

LONGEST = 512
"""Tokens of a translation at most: Marian's settings cannot count from the source's length."""

SAME = (
    *("vocab_size", "d_model", "encoder_layers", "decoder_layers", "encoder_ffn_dim", "decoder_ffn_dim"),
    *("encoder_attention_heads", "decoder_attention_heads", "activation_function", "dropout"),
    *("attention_dropout", "activation_dropout", "scale_embedding", "tie_word_embeddings", "use_cache"),
    *("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id"),
)
"""Settings that bear the same name here and there, and mean the same."""

Tensors = dict[str, torch.Tensor]


def export_marian(folder: str | Path, out: str | Path) -> Path:
    """Write the translator in `folder` as a Marian model in float32, with tokenizer and plain search settings.

    Args:
        folder: a trained model with sinusoidal positions and d_k = d_v = d_model / h.
        out: a new folder, for `MarianMTModel.from_pretrained` and all that reads Marian models.

    Returns:
        `out`.

    Raises:
        FileNotFoundError: `folder` does not exist, or a file is missing in it.
        FileExistsError: there is something at `out`.
        ValueError: `folder` holds another kind of model, or one that Marian cannot express; the sentence says why.
    """
    with new_folder(out) as unfinished, torch.no_grad():
        original = read_original(folder)
        check_expressible(original.config)
        weights = {name: tensor.float().contiguous() for name, tensor in _weights(original.model).items()}
        save_file(weights, unfinished / "model.safetensors", metadata={"format": "pt"})
        write_json(unfinished / "config.json", marian_configuration(original.config))
        write_json(unfinished / "generation_config.json", _search_settings(original))
        _save_tokenizer(original, unfinished)
    return Path(out)


def check_expressible(config: VaswaniConfig) -> None:
    """Raise a `ValueError` where Marian has no setting for what the model is."""
    instead = "export it to CTranslate2, or use it with this package or the code in its folder"
    check_attention(config, "Marian")
    for heads in (config.encoder_attention_heads, config.decoder_attention_heads):
        if not config.head_dim == config.value_head_dim == config.d_model / heads:
            raise ValueError(
                f"Marian's heads have the width d_model / h = {config.d_model} / {heads}, and this model's have d_k = "
                f"{config.head_dim} and d_v = {config.value_head_dim}; {instead}."
            )
    if config.position_embedding_type != "sinusoidal":
        raise ValueError(f"Marian has no learned positions, which this model has; {instead}.")
    if config.sinusoidal_layout == "tensor2tensor" or config.position_offset:
        raise ValueError(
            "Marian computes sinusoids of the paper's frequencies from position 0, and this model has "
            f"sinusoidal_layout={config.sinusoidal_layout!r} and position_offset={config.position_offset}; {instead}."
        )
    if config.layer_norm_eps > 2 * EPSILON:
        raise ValueError(
            f"Marian's normalisations add {EPSILON} to a variance, and this model's {config.layer_norm_eps}, which is too "
            f"much to make up for; {instead}."
        )


def _weights(model: VaswaniForConditionalGeneration) -> Tensors:
    """All tensors of a MarianMTModel, in float64."""
    config = model.config
    order = torch.arange(config.d_model)
    if config.sinusoidal_layout == "interleaved":
        order = torch.cat((order[::2], order[1::2]))
    scale = math.sqrt(EPSILON / config.layer_norm_eps)
    encoder, decoder = model.model.encoder, model.model.decoder
    if config.has_one_embedding:
        embeddings: dict[str, Any] = {"model.shared": encoder.embed_tokens}
    else:
        embeddings = {
            "model.encoder.embed_tokens": encoder.embed_tokens,
            "model.decoder.embed_tokens": decoder.embed_tokens,
            "lm_head": model.lm_head,
        }
    tensors = {f"{name}.weight": module.weight.double()[:, order] for name, module in embeddings.items()}
    for name, stack in (("encoder", encoder), ("decoder", decoder)):
        last = len(stack.layers) - 1
        for index, layer in enumerate(stack.layers):
            # The first layer reads embeddings and positions as they are, and the softmax what the last one leaves.
            reads = 1.0 if index == 0 else scale
            leaves = 1.0 if name == "decoder" and index == last else scale
            parts = _layer(layer, reads, scale, leaves, order)
            tensors |= {f"model.{name}.layers.{index}.{part}": tensor for part, tensor in parts.items()}
        tensors[f"model.{name}.layers.0.self_attn_layer_norm.weight"] *= _correction(model, stack)
    bias = model.lm_head.bias
    bias = torch.zeros(config.decoder_entries) if bias is None else bias
    return {**tensors, "final_logits_bias": bias.unsqueeze(0)}


def _correction(model: VaswaniForConditionalGeneration, stack: VaswaniStack) -> float:
    """What a stack's first normalisation must be multiplied by for its other epsilon, at the variance it usually sees."""
    seen: list[torch.Tensor] = []
    norm = stack.layers[0].self_attn_layer_norm
    hook = norm.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    entries = min(model.config.vocab_size, model.config.decoder_entries)
    words = torch.randint(entries, (64, 16), generator=torch.Generator().manual_seed(0))
    model(input_ids=words, decoder_input_ids=words)
    hook.remove()
    variance = 1 / (1 / seen[0].double().var(-1, unbiased=False)).mean().item()
    return math.sqrt((variance + EPSILON) / (variance + model.config.layer_norm_eps))


def _layer(
    layer: Any,
    reads: float,
    scale: float,
    leaves: float,
    order: torch.Tensor,
) -> Tensors:
    """One layer: what it reads is `reads` times as large as ours, what is inside `scale` times, and what leaves it `leaves` times."""
    parts = {
        **_attention("self_attn", layer.self_attn, reads, order),
        **_writing("self_attn_layer_norm", layer.self_attn_layer_norm, scale, order),
        **_reading("fc1", layer.fc1, scale, order),
        **_writing("fc2", layer.fc2, scale, order),
        **_writing("final_layer_norm", layer.final_layer_norm, leaves, order),
    }
    if hasattr(layer, "encoder_attn"):
        # The encoder's output, which it reads too, is as large as the inside.
        parts |= _attention("encoder_attn", layer.encoder_attn, scale, order)
        parts |= _writing("encoder_attn_layer_norm", layer.encoder_attn_layer_norm, scale, order)
    return parts


def _attention(name: str, attention: VaswaniAttention, reads: float, order: torch.Tensor) -> Tensors:
    queries = _reading(f"{name}.q_proj", attention.q_proj, reads, order)
    if attention.config.attention_score == "dot_product":  # Marian divides
        queries = {part: tensor * math.sqrt(attention.head_dim) for part, tensor in queries.items()}
    return {
        **queries,
        **_reading(f"{name}.k_proj", attention.k_proj, reads, order),
        **_reading(f"{name}.v_proj", attention.v_proj, reads, order),
        **_writing(f"{name}.out_proj", attention.out_proj, reads, order),
    }


def _reading(name: str, linear: nn.Linear, scale: float, order: torch.Tensor) -> Tensors:
    """A map from the model dimension, which comes in `order` and `scale` times as large."""
    bias = torch.zeros(linear.out_features) if linear.bias is None else linear.bias
    return {f"{name}.weight": linear.weight.double()[:, order] / scale, f"{name}.bias": bias.double()}


def _writing(name: str, module: nn.Linear | nn.LayerNorm, scale: float, order: torch.Tensor) -> Tensors:
    """A map to the model dimension, or a normalisation of it, which goes out in `order` and `scale` times as large."""
    bias = torch.zeros(len(order)) if module.bias is None else module.bias
    return {
        f"{name}.weight": module.weight.double()[order] * scale,
        f"{name}.bias": bias.double()[order] * scale,
    }


def marian_configuration(config: VaswaniConfig) -> dict[str, Any]:
    """A config.json that means the same to old and new releases; every default that differs between them is named."""
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        **{name: getattr(config, name) for name in (*SAME, "is_encoder_decoder")},
        "decoder_vocab_size": config.decoder_entries,
        "share_encoder_decoder_embeddings": config.has_one_embedding,
        "max_position_embeddings": max(config.max_position_embeddings, LONGEST),
        "forced_eos_token_id": None,
        "encoder_layerdrop": 0.0,
        "decoder_layerdrop": 0.0,
        "normalize_before": False,
        "normalize_embedding": False,
        "static_position_embeddings": True,
        "torch_dtype": "float32",
    }


def _search_settings(original: Original) -> dict[str, Any]:
    """Hugging Face's own settings nearest to ours."""
    config, own = original.config, original.model.generation_config.to_diff_dict()
    penalty = own.pop("length_penalty", 1.0)
    if own.pop("length_penalty_type", None) == "gnmt":
        penalty *= GNMT_AS_POWER
    own.pop("extra_length", None)
    for name in ("copy_items", *OF_DRAFTS, "shortlist"):
        own.pop(name, None)
    own.pop("_from_model_config", None)
    if own.get("max_new_tokens") is None:
        own.setdefault("max_length", LONGEST)
    ids = {name: getattr(config, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id")}
    return {**ids, **own, "length_penalty": round(penalty, 3)}


def _save_tokenizer(original: Original, folder: Path) -> None:
    """The same tokenizer under names that old releases know, too."""
    original.tokenizer.save_pretrained(folder)
    if not (folder / "tokenizer.json").is_file():
        return  # a class that transformers has had for as long as Marian's
    settings = read_json(folder / "tokenizer_config.json")
    for name in ("backend", "is_local", "local_files_only"):
        settings.pop(name, None)
    settings |= {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_input_names": ["input_ids", "attention_mask"],
    }
    write_json(folder / "tokenizer_config.json", settings)
    definition = read_json(folder / "tokenizer.json")
    merges = definition["model"].get("merges", [])
    # No token has a space in it, and tokenizers before 0.20 read pairs only in this form.
    definition["model"]["merges"] = [pair if isinstance(pair, str) else " ".join(pair) for pair in merges]
    (folder / "tokenizer.json").write_text(json.dumps(definition, ensure_ascii=False), encoding="utf-8")
