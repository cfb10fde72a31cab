"""A `MarianMTModel`, such as OPUS-MT's, as our model: the same function under the same names."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from transformers import MarianConfig, MarianMTModel, MarianTokenizer, PreTrainedTokenizerBase

from ..configuration_vaswani import VaswaniConfig
from ..files.json_files import read_json
from ..layers import sinusoids
from ..modeling_vaswani import VaswaniForConditionalGeneration
from ..translation.loading import first_line
from .marian import EPSILON, SAME
from .torch_files import check_layers, check_sizes, check_tensors, read_torch_file

WEIGHTS = ("model.safetensors", "pytorch_model.bin")
TOKENIZER_FILES = ("source.spm", "target.spm", "vocab.json")

MOST_POSITIONS = 2**16
"""The weights do not tell the number of positions: transformers computes them when it builds the model."""


def read_marian(folder: Path) -> tuple[MarianMTModel, PreTrainedTokenizerBase]:
    """Load a Marian model in float32 and its tokenizer, as transformers does, after a look at every file of the folder that is needed.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: a file is damaged or hostile, it is another kind of model, or its parts do not belong together.
    """
    weights = marian_weights(folder)
    shapes = _shapes(weights)
    try:
        config = MarianConfig.from_pretrained(folder)
    except Exception as error:
        raise ValueError(f"{folder / 'config.json'} is not the configuration of a model ({first_line(error)}); copy it again.") from error
    _check_sizes(folder / "config.json", config, shapes)
    try:
        model, loading = MarianMTModel.from_pretrained(
            folder,
            dtype=torch.float32,
            output_loading_info=True,
            use_safetensors=weights.suffix != ".bin",
            ignore_mismatched_sizes=True,  # they are reported, and refused below
        )
    except Exception as error:  # of several libraries; each becomes one sentence
        raise ValueError(
            f"{weights} and config.json do not make a Marian model ({first_line(error)}); copy both again from where they came."
        ) from error
    for fault, names in (("lacks", "missing_keys"), ("has too much", "unexpected_keys")):
        if loading[names]:
            raise ValueError(f"{weights} {fault}: {_some(loading[names])}; it is not the model that config.json describes.")
    if loading["mismatched_keys"]:
        name, own, expected = min(loading["mismatched_keys"])
        raise ValueError(
            f"In {weights}, {name} has the shape {tuple(own)}, and config.json asks for {tuple(expected)}; they are of two models."
        )
    if not all(tensor.isfinite().all() for tensor in model.state_dict().values()):
        raise ValueError(f"{weights} holds weights that are no numbers (NaN or infinite); it is damaged.")
    return model.eval(), _tokenizer(folder, model.config)


def from_marian(marian: MarianMTModel) -> VaswaniForConditionalGeneration:
    """The same function as our model, with the search settings that `marian` has.

    Raises:
        ValueError: its positions are not Marian's sinusoids.
    """
    own = marian.config
    for stack in (marian.model.encoder, marian.model.decoder):
        table = stack.embed_positions.weight
        difference = sinusoids(torch.arange(len(table)), own.d_model, "concatenated") - table
        if difference.abs().max() > 0.01:  # float16 rounds by 0.0005
            raise ValueError(
                "The model's position vectors are not the sinusoids that every Marian model has, so it is something else; "
                "use it with MarianMTModel."
            )
    tensors = {name: tensor.clone() for name, tensor in marian.state_dict().items()}
    bias = tensors.pop("final_logits_bias").squeeze(0)
    config = VaswaniConfig(
        **{name: getattr(own, name) for name in SAME},
        target_vocab_size=None if own.share_encoder_decoder_embeddings else own.decoder_vocab_size,
        attention_bias=True,
        layer_norm_eps=EPSILON,
        sinusoidal_layout="concatenated",
        max_position_embeddings=own.max_position_embeddings,
        lm_head_bias=bool(bias.any()),
    )
    model = VaswaniForConditionalGeneration(config)
    tensors["lm_head.bias"] = bias
    model.load_state_dict({name: tensors[name] for name in model.state_dict()})
    model.generation_config = marian.generation_config
    return model.eval()


def marian_weights(folder: Path) -> Path:
    """The file of the weights, after all that is needed was found."""
    if not (folder / "config.json").is_file():
        raise FileNotFoundError(f"{folder} has no config.json; give the folder or repository of a Marian model.")
    try:
        kind = read_json(folder / "config.json")["model_type"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{folder / 'config.json'} is not the configuration of a model; copy it again.") from error
    if kind != "marian":
        raise ValueError(f"{folder} holds a model of the type {kind!r}, not a Marian model.")
    weights = [folder / name for name in WEIGHTS if (folder / name).is_file()]
    if not weights:
        raise FileNotFoundError(f"{folder} has no weights: neither {' nor '.join(WEIGHTS)}.")
    for name in TOKENIZER_FILES:
        if not (folder / name).is_file():
            raise FileNotFoundError(f"{folder} has no {name}, which Marian's tokenizer consists of; copy it there.")
    return weights[0]


def _shapes(weights: Path) -> dict[str, Sequence[int]]:
    """The shapes of a file's tensors; those of torch.save are looked at, too."""
    if weights.suffix == ".bin":
        return {name: tensor.shape for name, tensor in check_tensors(weights, read_torch_file(weights)).items()}
    try:
        with safe_open(weights, "pt") as file:
            names = file.keys()
            return {name: file.get_slice(name).get_shape() for name in names}
    except SafetensorError as error:
        raise ValueError(
            f"{weights} and config.json do not make a Marian model ({error}); copy both again from where they came."
        ) from error


def _check_sizes(where: Path, config: MarianConfig, shapes: dict[str, Sequence[int]]) -> None:
    """Refuse sizes for which transformers would set memory aside before it looks at the weights."""
    layers = {side: getattr(config, f"{side}_layers") for side in ("encoder", "decoder")}
    entries = {} if config.decoder_vocab_size is None else {"decoder_vocab_size": config.decoder_vocab_size}
    sizes = {name: getattr(config, name) for name in SAME if name == "d_model" or name.endswith(("_size", "_dim", "_heads"))}
    check_sizes(where, {**sizes, **entries}, shapes.values())
    check_sizes(where, {f"{side}_layers": number for side, number in layers.items()}, [(len(shapes),)])
    check_layers(where, layers, shapes)
    if not 0 < config.max_position_embeddings <= MOST_POSITIONS:
        raise ValueError(f"{where}: max_position_embeddings is {config.max_position_embeddings:,}; from 1 to {MOST_POSITIONS:,} can be.")


def _tokenizer(folder: Path, config: Any) -> PreTrainedTokenizerBase:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about languages that Moses has no rules for
            tokenizer = MarianTokenizer.from_pretrained(folder)
    except ImportError:
        raise
    except Exception as error:
        raise ValueError(
            f"The tokenizer in {folder} cannot be read ({first_line(error)}); copy {', '.join(TOKENIZER_FILES)} again."
        ) from error
    sides = [("vocab.json", tokenizer.encoder, config.vocab_size)]
    if tokenizer.separate_vocabs:
        sides.append(("target_vocab.json", tokenizer.target_encoder, config.decoder_vocab_size))
    for name, vocabulary, entries in sides:
        largest = max(vocabulary.values())
        if largest >= entries:
            raise ValueError(
                f"{folder / name} has the token id {largest}, and the model embeds only {entries} tokens; they are of two models."
            )
    for name in ("pad_token_id", "eos_token_id"):
        if getattr(tokenizer, name) != getattr(config, name):
            raise ValueError(
                f"In {folder} the tokenizer's {name} is {getattr(tokenizer, name)} and the model's {getattr(config, name)}; "
                "they are of two models."
            )
    if tokenizer.separate_vocabs == config.share_encoder_decoder_embeddings:
        one, other = ("two", "one") if tokenizer.separate_vocabs else ("one", "two")
        raise ValueError(
            f"In {folder} the tokenizer has {one} and the model {other} of vocabularies for source and target; they are of two models."
        )
    return tokenizer


def _some(names: Any) -> str:
    first, *others = sorted(names)
    return f"{first} and {len(others)} more" if others else first
