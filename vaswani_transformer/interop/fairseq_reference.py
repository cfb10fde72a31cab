"""fairseq's function computed a second time, by PyTorch's own layers: what a converted checkpoint is compared with."""

import math
from typing import Any

import torch
from torch import Tensor, nn
from transformers.activations import ACT2FN

from ..configuration_vaswani import VaswaniConfig
from .from_fairseq import PAD


class FairseqReference:
    """A post-LayerNorm Transformer of `torch.nn` over fairseq's positions, with the weights of a checkpoint."""

    def __init__(self, config: VaswaniConfig, tensors: dict[str, Tensor]) -> None:
        """`tensors` bear our names."""
        self.config, self.tensors = config, tensors
        self.encoder = self._stack("encoder", nn.TransformerEncoderLayer)
        self.decoder = self._stack("decoder", nn.TransformerDecoderLayer)

    @torch.no_grad()
    def __call__(self, input_ids: Tensor, attention_mask: Tensor, decoder_input_ids: Tensor) -> Tensor:
        """Logits `[B, T, V]` behind `decoder_input_ids` `[B, T]`; source and mask are `[B, S]`."""
        hidden = attention_mask == 0
        source = self._embed("encoder", input_ids, attention_mask)
        for layer in self.encoder:
            source = layer(source, src_key_padding_mask=hidden)
        target = self._embed("decoder", decoder_input_ids, torch.ones_like(decoder_input_ids))
        future = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        for layer in self.decoder:
            target = layer(target, source, tgt_mask=future, memory_key_padding_mask=hidden.float() * -1e30)
        return target @ self.tensors["lm_head.weight"].T

    def _embed(self, side: str, ids: Tensor, mask: Tensor) -> Tensor:
        width = self.config.d_model
        scale = math.sqrt(width) if self.config.scale_embedding else 1.0
        step = math.log(10_000) / (width // 2 - 1)
        angles = (mask.cumsum(1) + PAD).unsqueeze(-1) * torch.exp(torch.arange(width // 2) * -step)
        embedded = self.tensors[f"model.{side}.embed_tokens.weight"][ids] * scale
        return embedded + torch.cat((angles.sin(), angles.cos()), dim=-1)

    def _stack(self, side: str, kind: type[nn.Module]) -> list[Any]:
        config = self.config
        heads, inner = (getattr(config, f"{side}_{what}") for what in ("attention_heads", "ffn_dim"))
        norms = ["self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"]
        attentions = {"self_attn": "self_attn", "multihead_attn": "encoder_attn"}
        if side == "encoder":
            del norms[1], attentions["multihead_attn"]
        names = {"linear1": "fc1", "linear2": "fc2"} | {f"norm{number}": norm for number, norm in enumerate(norms, start=1)}
        layers = []
        for index in range(getattr(config, f"{side}_layers")):
            start, weights = f"model.{side}.layers.{index}.", {}
            for end in ("weight", "bias"):
                for theirs, ours in names.items():
                    weights[f"{theirs}.{end}"] = self.tensors[f"{start}{ours}.{end}"]
                for theirs, ours in attentions.items():
                    parts = [self.tensors[f"{start}{ours}.{part}_proj.{end}"] for part in "qkv"]
                    weights[f"{theirs}.in_proj_{end}"] = torch.cat(parts)
                    weights[f"{theirs}.out_proj.{end}"] = self.tensors[f"{start}{ours}.out_proj.{end}"]
            layer: Any = kind(config.d_model, heads, inner, 0.0, ACT2FN[config.activation_function], batch_first=True)
            layer.load_state_dict(weights)
            layers.append(layer.eval())
        return layers
