"""The systems that are compared, and what they cost."""

from dataclasses import dataclass
from typing import Any, Literal

from benchmarks.report import Row
from vaswani_transformer.recipe import Recipe

Name = Literal["transformer", "rnn", "cnn"]

TITLES: dict[str, str] = {
    "transformer": "Transformer (ours)",
    "rnn": "LSTM with attention (eole)",
    "cnn": "convolutional (eole)",
}


@dataclass(frozen=True)
class Pieces:
    """Files with the pieces of our tokenizer, a sentence a line, pieces between spaces; and the vocabulary, a piece a line.

    Attributes:
        pairs: of the training set.
        entries: of the vocabulary.
    """

    train: tuple[str, str]
    validation: tuple[str, str]
    vocabulary: str
    pairs: int
    entries: int


def eole_settings(system: Name, recipe: Recipe, pieces: Pieces, seed: int, layers: int) -> dict[str, Any]:
    """eole's settings of a run, without the width: our recipe's regularisation, schedule and batches, and eole's own clipping.

    The recurrent model is that of Luong et al. (2015) with a bidirectional encoder, as in Bahdanau et al. (2015): LSTMs, attention by
    a bilinear form, input feeding. The convolutional one is that of Gehring et al. (2017) with a kernel of 3. All embeddings are one
    matrix, as ours.
    """
    sides: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "rnn": ({"encoder_type": "brnn"}, {"decoder_type": "rnn", "global_attention": "general"}),
        "cnn": ({"encoder_type": "cnn"}, {"decoder_type": "cnn"}),
    }
    encoder, decoder = sides[system]
    return {
        "seed": seed,
        "share_vocab": True,
        "src_vocab": pieces.vocabulary,
        "tgt_vocab": pieces.vocabulary,
        "src_vocab_size": pieces.entries,
        "tgt_vocab_size": pieces.entries,
        "overwrite": True,
        "report_every": 50,
        "n_sample": 0,
        "data": {
            "train": {"path_src": pieces.train[0], "path_tgt": pieces.train[1]},
            "valid": {"path_src": pieces.validation[0], "path_tgt": pieces.validation[1]},
        },
        "training": _optimisation(recipe) | {"bucket_size": pieces.pairs},
        "model": {
            "architecture": "custom",
            "layers": layers,
            "share_embeddings": True,
            "share_decoder_embeddings": True,
            "embeddings": {"position_encoding": True} if system == "cnn" else {},
            "encoder": {**encoder, "layers": layers},
            "decoder": {**decoder, "layers": layers},
        },
    }


def _optimisation(recipe: Recipe) -> dict[str, Any]:
    training, batching = recipe.training, recipe.batching
    micro_batches = batching.micro_batches or 1
    return {
        "world_size": 1,
        "gpu_ranks": [],
        "num_workers": 0,
        "compute_dtype": "fp32",
        "save_format": "safetensors",
        "keep_checkpoint": training.average_checkpoints + 1,
        "train_steps": 0,
        "valid_steps": 10**9,
        "batch_type": "tokens",
        "normalization": "tokens",
        "batch_size": batching.target_tokens // micro_batches,
        "batch_size_multiple": 1,
        "valid_batch_size": recipe.validation.batch_tokens,
        "accum_count": [micro_batches],
        "accum_steps": [0],
        "optim": "adam",
        "adam_beta1": training.adam_betas[0],
        "adam_beta2": training.adam_betas[1],
        "decay_method": "noam",
        "warmup_steps": training.warmup_updates,
        "label_smoothing": training.label_smoothing,
        "dropout": [float(recipe.model_config().dropout)],
        "attention_dropout": [0.0],
        "param_init": 0.0,
        "param_init_method": "xavier_uniform",
        "log_attention_entropy": False,
    }


def eole_search(recipe: Recipe) -> dict[str, Any]:
    """Our search in eole's words, a sentence at a time, because padding changes what its encoders compute; `wu` is the paper's penalty."""
    search = recipe.search
    penalty = {"length_penalty": "wu"} if search.length_penalty_type == "gnmt" else {"length_penalty": "avg"}
    return {
        "beam_size": search.num_beams,
        **penalty,
        "alpha": search.length_penalty,
        "max_length_ratio": 2,
        "max_length": 250,
        "batch_type": "sents",
        "batch_size": 1,
        "compute_dtype": "fp32",
    }


def eole_flops(system: Name, layers: int, result: Row) -> float:
    """Floating point operations of a training by eole, counted as `training.cost.training_flops` counts ours.

    Products with a weight matrix of P entries cost 6 * P a position, forward and backward, and attention of width d 6 * 2 * d a pair
    of positions: once in a recurrent decoder, in every layer of a convolutional one. Padding is computed, and so counted.
    """
    counted, width = result["counted"], result["width"]
    attentions = layers if system == "cnn" else 1
    products = (
        result["matrices"]["encoder"] * counted["source_positions"]
        + result["matrices"]["decoder"] * counted["target_positions"]
        + result["vocabulary"] * width * counted["target_positions"]
        + 2 * width * attentions * counted["pairs"]
    )
    return 6.0 * products
