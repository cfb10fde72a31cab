"""What a training begins with: random weights, another model, or the shape and tokenizer of another model with random weights."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import torch
from transformers import AutoTokenizer

from benchmarks.report import Row
from vaswani_transformer.configuration_vaswani import VaswaniConfig
from vaswani_transformer.files.atomic_folder import atomic_folder
from vaswani_transformer.files.checksums import file_sha256, write_checksums
from vaswani_transformer.files.json_files import read_json
from vaswani_transformer.modeling_vaswani import VaswaniForConditionalGeneration
from vaswani_transformer.recipe import Recipe
from vaswani_transformer.run_folder import RunFolder
from vaswani_transformer.training.initial_scale import deepnorm_factors, scale_embeddings, scale_residual_branches
from vaswani_transformer.translation.loading import load_encoder

SCRATCH = "scratch"
FRESH = "fresh_"
"""Before the name of the model whose shape and tokenizer a start with random weights has."""

_SIZES = (
    *("d_model", "encoder_layers", "decoder_layers", "encoder_attention_heads", "decoder_attention_heads"),
    *("encoder_ffn_dim", "decoder_ffn_dim", "head_dim", "value_head_dim"),
)


@dataclass(frozen=True)
class Start:
    """A model to begin with.

    Attributes:
        name: in tables and folders.
        folder: of the model.
        is_fresh: its weights are drawn anew, so that only its shape and its tokenizer are taken.
    """

    name: str
    folder: Path
    is_fresh: bool = False

    @property
    def sha256(self) -> str:
        """Of the model's weights."""
        return _sha256(self.folder / "model.safetensors")

    @property
    def config(self) -> VaswaniConfig:
        found: VaswaniConfig = VaswaniConfig.from_pretrained(self.folder)
        return found

    def sizes(self, *, with_decoder: bool) -> dict[str, Any]:
        """The settings of `model` in a recipe that give a model of this shape, and its rate of dropout."""
        config = self.config
        sizes = {name: getattr(config, name) for name in _SIZES if with_decoder or not name.startswith("decoder_")}
        return {"preset": "base", "dropout": config.dropout, **sizes}

    def facts(self) -> Row:
        """What it is, and what it cost, as far as the run that made it is beside it."""
        run = RunFolder(self.folder.parent)
        cost = read_json(run.training) if run.training.is_file() else {}
        return {
            "name": self.name,
            "folder": self.folder.as_posix(),
            "sha256": self.sha256,
            "is_fresh": self.is_fresh,
            "has_decoder": self.config.is_encoder_decoder,
            "vocab_size": self.config.vocab_size,
            **{name: getattr(self.config, name) for name in _SIZES},
            "training": {name: cost[name] for name in ("updates", "source_tokens", "target_tokens", "seconds", "flops") if name in cost},
        }


@cache
def _sha256(file: Path) -> str:
    return file_sha256(file)


def require_model(start: Start) -> None:
    """
    Raises:
        FileNotFoundError: there is no such folder, or no model in it.
        ValueError: it is not a model of ours, or it is damaged.
    """
    load_encoder(start.folder)


def initial_folder(start: Start, recipe: Recipe, folder: Path) -> Path:
    """The folder that `init_from` names: the start's own, or a model that has to be made of it first, below `folder`.

    A recipe that writes text needs a decoder. Where the start has none, it is drawn at random with the recipe's seed. What is drawn has the
    recipe's initial scales, as `scratch` does.
    """
    lacks_decoder = not recipe.has_no_decoder and not start.config.is_encoder_decoder
    if not (start.is_fresh or lacks_decoder):
        return start.folder
    settings = recipe.training
    scales = f"-{settings.initial_embedding_scale}" if start.is_fresh else ""
    made = folder / start.name / f"{start.sha256[:12]}-seed-{settings.seed}-scales-{settings.initial_scale}{scales}"
    if not made.is_dir():
        torch.manual_seed(settings.seed)
        if start.is_fresh:
            config = start.config.for_translator()
            config.parallel_heads = 1
            model = VaswaniForConditionalGeneration(config)
            scale_residual_branches(model, _scale(recipe, model.config))
            scale_embeddings(model, settings.initial_embedding_scale)
        else:
            model = VaswaniForConditionalGeneration.from_pretrained(start.folder)
            scale_residual_branches(model, settings.initial_scale, only_decoder=True)
        with atomic_folder(made) as unfinished:
            model.save_pretrained(unfinished)
            AutoTokenizer.from_pretrained(start.folder).save_pretrained(unfinished)
            write_checksums(unfinished)
    return made


def _scale(recipe: Recipe, config: VaswaniConfig) -> float | Literal["deepnorm"]:
    """The recipe's initial scale; `deepnorm` has another factor for an encoder that is to stand alone, though drawn with a decoder."""
    scale = recipe.training.initial_scale
    if scale != "deepnorm" or not recipe.has_no_decoder:
        return scale
    return deepnorm_factors(config.for_encoder())[0]
