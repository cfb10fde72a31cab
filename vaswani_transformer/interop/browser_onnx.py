"""Our Marian export as ONNX models for a browser: an encoder, and a decoder that steps with a cache and shows its attention.

Files, inputs and outputs are named as Hugging Face's `@huggingface/transformers` expects them, so that library runs the folder, too. Three
things are our own. The decoder computes keys and values of only those source positions that its cache does not hold yet: in the first step
all of them, then none. So one plain graph does what exporters usually do with two branches. The hypotheses of one sentence share a single
row of the encoder's output. And all attention weights are outputs.

Shapes: B sentences, R rows of the decoder (B, or any number for one sentence), S source positions, T new target positions, P target and C
source positions in the cache, H heads, V vocabulary.
"""

import math
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from transformers import MarianMTModel

from ..files.atomic_folder import new_folder
from .marian import export_marian
from .onnx_exporter import quiet, require_onnx

Precision = Literal["float32", "int8"]

ENCODER, DECODER = "encoder_model", "decoder_model_merged"
SUFFIXES: dict[str, str] = {"float32": "", "int8": "_quantized"}
"""What follows a model's name in the folder `onnx`."""

OPSET = 20

_CACHED = ("decoder.key", "decoder.value", "encoder.key", "encoder.value")
"""What a layer of the decoder keeps, in the order of inputs and outputs."""


def export_browser_onnx(folder: str | Path, out: str | Path, *, precisions: Sequence[Precision] = get_args(Precision)) -> Path:
    """Write the translator in `folder` as ONNX models with tokenizer and settings, for onnxruntime-web or `@huggingface/transformers`.

    The models lie in `onnx/`, in `float32` and in `int8`: there, matrices have a scale for each column and what is multiplied with them
    one for each tensor, which is measured at run time. So in int8 the hypotheses of a beam change each other's rounding.

    Args:
        folder: a trained model that `export_marian` takes.
        out: a new folder.
        precisions: which to write.

    Returns:
        `out`.

    Raises:
        FileNotFoundError: `folder` does not exist, or a file is missing in it.
        FileExistsError: there is something at `out`.
        ValueError: the model cannot be exported to Marian's format; the sentence says why.
        ImportError: the extra `browser` is not installed.
    """
    require_onnx("An export for browsers")
    with new_folder(out) as unfinished, tempfile.TemporaryDirectory() as scratch, quiet(), torch.no_grad():
        marian = export_marian(folder, Path(scratch) / "marian")
        model = MarianMTModel.from_pretrained(marian, dtype=torch.float32).eval()
        (unfinished / "onnx").mkdir()
        for name, program in ((ENCODER, _encoder_program(model)), (DECODER, _decoder_program(model))):
            full = Path(scratch) / f"{name}.onnx"
            program.save(full)
            for precision in precisions:
                write = quantize if precision == "int8" else shutil.copyfile
                write(full, unfinished / "onnx" / f"{name}{SUFFIXES[precision]}.onnx")
        for file in marian.iterdir():
            if file.suffix == ".json":
                shutil.copyfile(file, unfinished / file.name)
    return Path(out)


class Encoder(nn.Module):
    """A Marian encoder in the operations that an export needs."""

    def __init__(self, model: MarianMTModel) -> None:
        super().__init__()
        self.embedding, self.layers = Embedding(model.model.encoder), model.model.encoder.layers

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, ...]:
        """From tokens `[B, S]`, and 1 where they are no padding, to states `[B, S, d_model]` and each layer's weights `[B, H, S, S]`."""
        mask, weights = hiding(attention_mask[:, None, None]), []
        states = self.embedding(input_ids, torch.arange(input_ids.shape[1]))
        for layer in self.layers:
            keys, values = keys_and_values(layer.self_attn, states)
            attended, seen = attend(layer.self_attn, states, keys, values, mask)
            states = feed_forward(layer, layer.self_attn_layer_norm(states + attended))
            weights.append(seen)
        return states, *weights


class Decoder(nn.Module):
    """A Marian decoder with its cache as plain inputs and outputs."""

    def __init__(self, model: MarianMTModel) -> None:
        super().__init__()
        self.embedding, self.layers = Embedding(model.model.decoder), model.model.decoder.layers
        self.softmax, self.bias = model.lm_head, model.final_logits_bias

    def forward(
        self, encoder_attention_mask: Tensor, input_ids: Tensor, encoder_hidden_states: Tensor, *cache: Tensor
    ) -> tuple[Tensor, ...]:
        """Scores of the tokens after each of the new ones.

        Args:
            encoder_attention_mask: `[B, S]`.
            input_ids: the new tokens, `[R, T]`.
            encoder_hidden_states: `[B, S, d_model]`.
            cache: for each layer, keys and values of the target `[R, H, P, d_k]`, then of the source `[B, H, C, d_k]`.

        Returns:
            Logits `[R, T, V]`, the cache with all positions, each layer's weights over the target `[R, H, T, P + T]` and over the source
            `[R, H, T, S]`.
        """
        past, known = cache[0].shape[2], cache[2].shape[2]
        queries = past + torch.arange(input_ids.shape[1])
        causal = hiding(queries[:, None] >= torch.arange(past + input_ids.shape[1]))
        mask, unknown = hiding(encoder_attention_mask[:, None, None]), encoder_hidden_states[:, known:]
        states = self.embedding(input_ids, queries)
        presents, own_weights, cross_weights = [], [], []
        for layer, old in zip(self.layers, zip(*[iter(cache)] * 4, strict=True), strict=True):
            new = *keys_and_values(layer.self_attn, states), *keys_and_values(layer.encoder_attn, unknown)
            present = [torch.cat(pair, dim=2) for pair in zip(old, new, strict=True)]
            attended, own = attend(layer.self_attn, states, present[0], present[1], causal)
            states = layer.self_attn_layer_norm(states + attended)
            attended, cross = attend(layer.encoder_attn, states, present[2], present[3], mask)
            states = feed_forward(layer, layer.encoder_attn_layer_norm(states + attended))
            presents += present
            own_weights.append(own)
            cross_weights.append(cross)
        return self.softmax(states) + self.bias, *presents, *own_weights, *cross_weights


class Embedding(nn.Module):
    """Scaled embeddings plus sinusoids, which are computed, so that no text is too long."""

    frequencies: Tensor

    def __init__(self, stack: Any) -> None:
        super().__init__()
        self.tokens, self.scale = stack.embed_tokens, float(stack.embed_scale)
        half = torch.arange(0, stack.config.d_model, 2, dtype=torch.float64) / stack.config.d_model
        self.register_buffer("frequencies", (10000**-half).float())

    def forward(self, ids: Tensor, positions: Tensor) -> Tensor:
        """`[B, T]` tokens at `positions` `[T]` to `[B, T, d_model]`."""
        angles = positions[:, None] * self.frequencies
        return self.tokens(ids) * self.scale + torch.cat((angles.sin(), angles.cos()), dim=-1)


def hiding(seen: Tensor) -> Tensor:
    """What is added to scores: 0 where `seen`, and so little elsewhere that a softmax leaves nothing."""
    return torch.where(seen.bool(), 0.0, torch.finfo(torch.float32).min)


def keys_and_values(attention: Any, states: Tensor) -> tuple[Tensor, Tensor]:
    """`[B, T, d_model]` to two of `[B, H, T, d_k]`."""
    return heads(attention, attention.k_proj(states)), heads(attention, attention.v_proj(states))


def heads(attention: Any, states: Tensor) -> Tensor:
    """`[B, T, d_model]` to `[B, H, T, d_k]`."""
    return states.unflatten(-1, (attention.num_heads, attention.head_dim)).transpose(1, 2)


def attend(attention: Any, states: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Equation 1 of the paper, with its weights."""
    queries = heads(attention, attention.q_proj(states) / math.sqrt(attention.head_dim))
    weights = torch.softmax(queries @ keys.transpose(-1, -2) + mask, dim=-1)
    return attention.out_proj((weights @ values).transpose(1, 2).flatten(2)), weights


def feed_forward(layer: Any, states: Tensor) -> Tensor:
    """The second half of a layer."""
    return layer.final_layer_norm(states + layer.fc2(layer.activation_fn(layer.fc1(states))))


def cache_names(layers: int, prefix: str) -> list[str]:
    """Names of the cache's tensors, `prefix` being `past_key_values` for inputs and `present` for outputs."""
    return [f"{prefix}.{layer}.{kept}" for layer in range(layers) for kept in _CACHED]


def _encoder_program(model: MarianMTModel) -> Any:
    layers = range(model.config.encoder_layers)
    inputs = {name: torch.ones((2, 7), dtype=torch.long) for name in ("input_ids", "attention_mask")}
    outputs = ["last_hidden_state", *(f"encoder_attentions.{layer}" for layer in layers)]
    return _program(Encoder(model), inputs, {}, outputs)


def _decoder_program(model: MarianMTModel) -> Any:
    config = model.config
    layers, heads_of = config.decoder_layers, config.decoder_attention_heads
    # Sizes that differ wherever they may, so that the export takes none for another.
    rows, source, known, past, new = 2, 7, 3, 4, 5
    inputs = {
        "encoder_attention_mask": torch.ones((rows, source), dtype=torch.long),
        "input_ids": torch.ones((rows, new), dtype=torch.long),
        "encoder_hidden_states": torch.zeros((rows, source, config.d_model)),
    }
    cache = {
        name: torch.zeros((rows, heads_of, known if "encoder" in name else past, config.d_model // heads_of))
        for name in cache_names(layers, "past_key_values")
    }
    seen = [f"{kind}_attentions.{layer}" for kind in ("decoder", "cross") for layer in range(layers)]
    return _program(Decoder(model), inputs, cache, ["logits", *cache_names(layers, "present"), *seen])


def _program(module: nn.Module, inputs: dict[str, Tensor], cache: dict[str, Tensor], outputs: list[str]) -> Any:
    """The ONNX program of `module`; rows and lengths stay open."""
    dynamic = torch.export.Dim.DYNAMIC
    shapes: list[Any] = [{0: dynamic, 1: dynamic} for _ in inputs]
    if cache:
        shapes.append(tuple({0: dynamic, 2: dynamic} for _ in cache))
    program = torch.onnx.export(
        module.eval(),
        (*inputs.values(), *cache.values()),
        input_names=[*inputs, *cache],
        output_names=outputs,
        dynamic_shapes=tuple(shapes),
        opset_version=OPSET,
        dynamo=True,
        verbose=False,
    )
    assert program is not None
    _free_the_rows(program.model)
    return program


def _free_the_rows(model: Any) -> None:
    """Let every reshape keep its input's first two sizes: as exported, it asks for the rows of one input, and they may differ."""
    import onnx_ir as ir
    from onnx_ir.passes.common import RemoveUnusedNodesPass

    shapes: dict[tuple[int, ...], ir.Value] = {}
    for node in list(model.graph):
        if node.op_type == "Reshape":
            sizes = (0, 0, *node.outputs[0].shape[2:])  # 0: as in the input
            if sizes not in shapes:
                name = "sizes_" + "_".join(map(str, sizes))
                shapes[sizes] = ir.Value(name=name, const_value=ir.tensor(list(sizes), ir.DataType.INT64, name=name))
                model.graph.register_initializer(shapes[sizes])
            node.replace_input_with(1, shapes[sizes])
            node.attributes.pop("allowzero", None)
    RemoveUnusedNodesPass()(model)


def quantize(full: Path, out: Path) -> None:
    """Write the model `full` of `export_browser_onnx` in int8."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    quantize_dynamic(full, out, per_channel=True, weight_type=QuantType.QInt8)
