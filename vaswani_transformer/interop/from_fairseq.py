"""A checkpoint of fairseq's `transformer`, the family of "Scaling NMT", as our model: the same function under other names.

fairseq's layers, normalised behind each sub-layer, are the paper's with biases in the attention; its sinusoids are tensor2tensor's and
begin behind the padding's number; its decoder starts at `</s>`.
"""

import re
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import GenerationConfig

from ..configuration_vaswani import VaswaniConfig
from ..modeling_vaswani import VaswaniForConditionalGeneration
from .torch_files import Inert, check_layers, check_sizes, check_tensors, read_torch_file, shown

BOS, PAD, EOS, UNKNOWN = 0, 1, 2, 3
"""The first four entries of every dictionary."""

SEARCH: dict[str, Any] = {
    "num_beams": 5,
    "length_penalty": 1.0,
    "early_stopping": True,
    "max_new_tokens": 200,
    "bad_words_ids": [[PAD]],
}
"""How fairseq-generate searches unless told otherwise."""

EPSILON = 1e-5
"""What its layer normalisations add to a variance."""

ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "silu", "tanh": "tanh"}
"""transformers' name for each activation function of fairseq's."""

NEUTRAL: dict[str, Any] = {
    "encoder_normalize_before": "normalises before each sub-layer of the encoder",
    "decoder_normalize_before": "normalises before each sub-layer of the decoder",
    "encoder_learned_pos": "learns the encoder's positions",
    "decoder_learned_pos": "learns the decoder's positions",
    "no_token_positional_embeddings": "has no positions",
    "layernorm_embedding": "normalises its embeddings",
    "adaptive_input": "has adaptive embeddings",
    "adaptive_softmax_cutoff": "has an adaptive softmax",
    "no_cross_attention": "has no attention over the source",
    "cross_self_attention": "attends to source and target at once",
}
"""What each of these switches makes of the model, where it is on, that ours cannot be."""

SIZES = (
    *("encoder_embed_dim", "encoder_layers", "decoder_layers", "encoder_attention_heads", "decoder_attention_heads"),
    *("encoder_ffn_embed_dim", "decoder_ffn_embed_dim"),
)
"""Settings without which the weights cannot be read."""

DROPOUTS = ("dropout", "attention_dropout", "activation_dropout", "relu_dropout")

RENAMED = (
    (r"^(encoder|decoder)\.", r"model.\1."),
    (r"layer_norms\.0\.", "self_attn_layer_norm."),
    (r"^(model\.encoder\..*)layer_norms\.1\.", r"\1final_layer_norm."),
    (r"^(model\.decoder\..*)layer_norms\.1\.", r"\1encoder_attn_layer_norm."),
    (r"layer_norms\.2\.", "final_layer_norm."),
    (r"^model\.decoder\.(embed_out|output_projection\.weight)$", "lm_head.weight"),
)
"""From fairseq's names, those of its first releases among them, to ours."""

NO_WEIGHTS = re.compile(r"^(encoder|decoder)\.(version|embed_positions\.(_float_tensor|weights))$")

METERS = [
    (Inert, f"fairseq.{module}.{name}")
    for module in ("meters", "logging.meters")
    for name in ("AverageMeter", "TimeMeter", "StopwatchMeter")
]
"""The clocks of the training, which releases of 2018 and 2019 stored beside the weights."""


class FairseqCheckpoint(NamedTuple):
    """The settings of the model and its tensors, under fairseq's names."""

    settings: dict[str, Any]
    tensors: dict[str, Tensor]


def read_fairseq(path: Path) -> FairseqCheckpoint:
    """Read a checkpoint; nothing that stands in it is run.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is damaged, no checkpoint of fairseq's, or wants code to be run.
    """
    content = read_torch_file(path, known=[Namespace, *METERS])
    content = content if isinstance(content, dict) else {}
    whole, settings = content.get("cfg"), content.get("args")
    if settings is None and isinstance(whole, dict):
        settings = whole.get("model")
    settings = vars(settings) if isinstance(settings, Namespace) else settings
    if not isinstance(settings, dict) or not isinstance(content.get("model"), dict):
        raise ValueError(f"{path} is no checkpoint of fairseq's: it lacks the model's settings (`args` or `cfg`) or its weights (`model`).")
    for name, value in settings.items():
        if not isinstance(name, str) or isinstance(value, Tensor):
            raise ValueError(f"{path}: the setting {shown(name)} is {type(value).__name__}; the file is damaged or hostile.")
    return FairseqCheckpoint(settings, check_tensors(path, content["model"]))


def from_fairseq(checkpoint: FairseqCheckpoint) -> VaswaniForConditionalGeneration:
    """The same function as our model, searching as fairseq-generate does by default.

    Raises:
        ValueError: the checkpoint is another kind of model, or its weights are not those of its settings.
    """
    tensors = _renamed(checkpoint.tensors)
    config = _configuration(checkpoint.settings, tensors)
    with torch.device("meta"):  # shapes without memory, until the checkpoint has them all
        expected = VaswaniForConditionalGeneration(config).state_dict()
    if config.tie_word_embeddings:
        # fairseq stores a shared matrix under each of its names, early releases not under all of them
        tensors.setdefault("lm_head.weight", tensors["model.decoder.embed_tokens.weight"])
        _check_equal(tensors, "lm_head.weight", "model.decoder.embed_tokens.weight")
    if config.has_one_embedding:
        tensors["model.shared.weight"] = tensors["model.decoder.embed_tokens.weight"]
        _check_equal(tensors, "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight")
    for fault, names in (
        ("lacks", expected.keys() - tensors.keys()),
        ("has too much", tensors.keys() - expected.keys()),
    ):
        if names:
            first, *others = sorted(names)
            more = f" and {len(others)} more" if others else ""
            raise ValueError(f"The checkpoint {fault}: {first}{more} (in our names); it is not the model that its settings describe.")
    for name, tensor in expected.items():
        if tensors[name].shape != tensor.shape:
            raise ValueError(
                f"The checkpoint's {name} (in our names) has the shape {tuple(tensors[name].shape)}, and its settings ask for "
                f"{tuple(tensor.shape)}; they are of two models."
            )
        if not tensors[name].isfinite().all():
            raise ValueError(f"The checkpoint's {name} (in our names) holds NaN or infinity; the checkpoint is damaged.")
    model = VaswaniForConditionalGeneration(config)
    model.load_state_dict(tensors)
    ids = {name: getattr(config, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id")}
    model.generation_config = GenerationConfig(**SEARCH, **ids)
    return model.eval()


def check_dictionaries(model: VaswaniForConditionalGeneration, dictionaries: Sequence[tuple[Path, list[str]]]) -> None:
    """Refuse dictionaries, of source and target, that have not as many entries as the model embeds.

    Raises:
        ValueError: the sentence names the dictionary and both numbers.
    """
    config = model.config
    for (path, symbols), entries in zip(dictionaries, (config.vocab_size, config.decoder_entries), strict=True):
        if len(symbols) != entries:
            raise ValueError(
                f"{path} has {len(symbols):,} entries, fairseq's own four among them, and the checkpoint embeds {entries:,} tokens; it is "
                "the dictionary of another model."
            )
    if config.target_vocab_size is None and dictionaries[0][1] != dictionaries[1][1]:
        raise ValueError(
            f"{dictionaries[0][0]} and {dictionaries[1][0]} differ, and the model has one dictionary for both languages; "
            "they are not its own."
        )


def _renamed(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors under our names; a matrix that early releases kept for query, key and value together is split."""
    renamed: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if NO_WEIGHTS.match(name):
            continue
        for pattern, replacement in RENAMED:
            name = re.sub(pattern, replacement, name)
        joined = re.fullmatch(r"(.*)\.in_proj_(weight|bias)", name)
        if joined:
            for part, rows in zip("qkv", tensor.chunk(3), strict=False):
                renamed[f"{joined[1]}.{part}_proj.{joined[2]}"] = rows
        else:
            renamed[name] = tensor
    return renamed


def _configuration(settings: dict[str, Any], tensors: dict[str, Tensor]) -> VaswaniConfig:
    _check_kind(settings, tensors)
    width = settings["encoder_embed_dim"]
    is_joined = bool(settings.get("share_all_embeddings"))
    return VaswaniConfig(
        vocab_size=len(tensors["model.encoder.embed_tokens.weight"]),
        target_vocab_size=None if is_joined else len(tensors["model.decoder.embed_tokens.weight"]),
        tie_word_embeddings=is_joined or bool(settings.get("share_decoder_input_output_embed")),
        d_model=width,
        encoder_layers=settings["encoder_layers"],
        decoder_layers=settings["decoder_layers"],
        encoder_attention_heads=settings["encoder_attention_heads"],
        decoder_attention_heads=settings["decoder_attention_heads"],
        encoder_ffn_dim=settings["encoder_ffn_embed_dim"],
        decoder_ffn_dim=settings["decoder_ffn_embed_dim"],
        head_dim=width // settings["encoder_attention_heads"],
        dropout=settings.get("dropout", 0.1) or 0.0,
        attention_dropout=settings.get("attention_dropout") or 0.0,
        activation_dropout=settings.get("activation_dropout") or settings.get("relu_dropout") or 0.0,
        activation_function=ACTIVATIONS[settings.get("activation_fn") or "relu"],
        attention_bias=True,
        layer_norm_eps=EPSILON,
        sinusoidal_layout="tensor2tensor",
        position_offset=PAD + 1,
        scale_embedding=not settings.get("no_scale_embedding"),
        bos_token_id=BOS,
        pad_token_id=PAD,
        eos_token_id=EOS,
        decoder_start_token_id=EOS,
    )  # fmt: skip


def _check_equal(tensors: dict[str, Tensor], one: str, other: str) -> None:
    if not tensors[one].equal(tensors[other]):
        raise ValueError(
            f"The checkpoint's settings say that {one} and {other} (in our names) are one matrix, and it holds two that differ; it is not "
            "the model that its settings describe."
        )


def _check_kind(settings: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Refuse what ours cannot be."""
    kind = settings.get("arch") or settings.get("_name")
    if (
        not str(kind).startswith("transformer")
        or "model.encoder.embed_tokens.weight" not in tensors
        or "model.decoder.embed_tokens.weight" not in tensors
    ):
        raise ValueError(f"The checkpoint holds a model of the architecture {shown(kind)}; only fairseq's `transformer` can be converted.")
    for name, meaning in NEUTRAL.items():
        if settings.get(name):
            raise ValueError(f"The checkpoint's model {meaning} ({name}={shown(settings[name])}), which ours does not.")
    activation = settings.get("activation_fn") or "relu"
    if not isinstance(activation, str) or activation not in ACTIVATIONS:
        raise ValueError(f"The checkpoint's activation function is {shown(activation)}; ours can be {', '.join(ACTIVATIONS)}.")
    if absent := [name for name in SIZES if name not in settings]:
        raise ValueError(f"The checkpoint's settings lack {', '.join(absent)}; without the sizes its weights cannot be read.")
    layers = {name.split("_")[0]: settings[name] for name in SIZES if name.endswith("_layers")}
    shapes = [*(tensor.shape for tensor in tensors.values()), (len(tensors),)]
    check_sizes("The checkpoint's settings", {name: settings[name] for name in SIZES}, shapes)
    check_layers("its settings", layers, tensors)
    for name in DROPOUTS:
        rate = settings.get(name) or 0.0
        if not (isinstance(rate, int | float) and 0 <= rate < 1):
            raise ValueError(f"The checkpoint's {name} is {shown(rate)}; it must be a number from 0 and below 1.")
    width = settings["encoder_embed_dim"]
    for name in ("decoder_embed_dim", "decoder_input_dim", "decoder_output_dim"):
        if settings.get(name, width) != width:
            raise ValueError(f"The checkpoint's {name} is {shown(settings[name])} and its encoder_embed_dim {width}; ours has one width.")
    for name in ("encoder_attention_heads", "decoder_attention_heads"):
        if width % settings[name] or width % 2 or width < 4:
            raise ValueError(f"The checkpoint's width is {width} and its {name} {settings[name]}; no model of fairseq's has both.")
