"""The model to train: built from the recipe, and prepared for its device and for training only the parts that are to be trained."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from ..modeling_vaswani import VaswaniForConditionalGeneration
from ..recipe import FineTuningSettings, Recipe
from .checkpoints import set_search
from .dropout import use_bit_dropout
from .initial_scale import scale_residual_branches

if TYPE_CHECKING:
    from peft import PeftModel


def build_model(recipe: Recipe, vocab_size: int, device: torch.device, initial: Path | None = None) -> VaswaniForConditionalGeneration:
    """The recipe's model, in training mode and still on the CPU. Its weights are seeded, or those in `initial` if given."""
    settings = recipe.training
    torch.manual_seed(settings.seed)
    if recipe.init_from is None:
        model = VaswaniForConditionalGeneration(recipe.model_config(vocab_size=vocab_size))
        if settings.initial_scale != 1:
            scale_residual_branches(model, settings.initial_scale)
    else:
        model = VaswaniForConditionalGeneration.from_pretrained(initial, **recipe.model)
        recipe.check_dropout(model.config)
    # Fusing gains little for short sentences, and on CPUs SDPA in bfloat16 is several times slower than the plain products
    attention = "eager" if device.type == "cpu" or model.config.attention_score == "additive" else "sdpa"
    model.set_attn_implementation(attention)
    if device.type == "cpu":
        use_bit_dropout(model)
    set_search(model, recipe.search)
    if settings.gradient_checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    return model.train()


def adapt(model: VaswaniForConditionalGeneration, settings: FineTuningSettings) -> "PeftModel | None":
    """Freeze the parts that the recipe freezes. With LoRA, put adapters into `model` and return PEFT's view of it."""
    parts = {
        "encoder": [model.get_encoder().layers],
        "decoder": [model.get_decoder().layers],
        "backbone": [model.model, model.lm_head],
        "embeddings": [model.get_encoder().embed_tokens, model.get_decoder().embed_tokens, model.lm_head],
    }
    for name in settings.freeze:
        for module in parts[name]:
            module.requires_grad_(False)
    if settings.lora is None:
        return None
    if find_spec("peft") is None:
        raise ValueError("`fine_tuning.lora` needs PEFT, which is not installed: pip install peft")
    from .peft_lora import add_lora

    return add_lora(model, settings.lora)
