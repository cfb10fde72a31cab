"""The model to train: built from the recipe, and prepared for its device and for training only the parts that are to be trained."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from transformers.utils import logging

from ..configuration_vaswani import VaswaniConfig
from ..modeling_tasks import (
    VaswaniForMaskedLM,
    VaswaniForQuestionAnswering,
    VaswaniForSequenceClassification,
    VaswaniForTokenClassification,
)
from ..modeling_vaswani import VaswaniForConditionalGeneration, VaswaniPreTrainedModel
from ..recipe import FineTuningSettings, Recipe
from ..tasks import TaskName
from .checkpoints import set_search
from .dropout import use_bit_dropout
from .initial_scale import scale_embeddings, scale_residual_branches

if TYPE_CHECKING:
    from peft import PeftModel


_MODELS: dict[TaskName, type[VaswaniPreTrainedModel]] = {
    "translation": VaswaniForConditionalGeneration,
    "summarization": VaswaniForConditionalGeneration,
    "question_answering": VaswaniForConditionalGeneration,
    "pretraining": VaswaniForConditionalGeneration,
    "classification": VaswaniForSequenceClassification,
    "tagging": VaswaniForTokenClassification,
}


def build_model(
    recipe: Recipe, vocab_size: int, device: torch.device, initial: Path | None = None, labels: Sequence[str] = ()
) -> VaswaniPreTrainedModel:
    """The recipe's model, in training mode and still on the CPU. Its weights are seeded, or those in `initial` if given.

    Args:
        recipe: names task and architecture.
        vocab_size: entries of the tokenizer.
        device: on which the model will be.
        initial: the folder of the weights to start from.
        labels: the names of all labels, for a task that has them.
    """
    settings = recipe.training
    model_class = VaswaniForQuestionAnswering if recipe.marks_answers else _MODELS[recipe.task]
    model_class = VaswaniForMaskedLM if recipe.task == "pretraining" and recipe.has_no_decoder else model_class
    named = _named(recipe, labels) if labels else {}
    torch.manual_seed(settings.seed)
    model: VaswaniPreTrainedModel
    if recipe.init_from is None:
        model = model_class(recipe.model_config(vocab_size=vocab_size, **named))
        if settings.initial_scale != 1:
            scale_residual_branches(model, settings.initial_scale)
        if settings.initial_embedding_scale != 1:
            scale_embeddings(model, settings.initial_embedding_scale)
    else:
        # In a configuration, for `from_pretrained` would write the names among the search settings, too
        config = VaswaniConfig.from_pretrained(initial, **recipe.model, **named)
        with _quiet() if recipe.has_no_decoder else nullcontext():
            model = model_class.from_pretrained(initial, config=config)
        recipe.check_dropout(model.config)
    # Fusing gains little for short sentences, and on CPUs SDPA in bfloat16 is several times slower than the plain products
    attention = "eager" if device.type == "cpu" or model.config.attention_score == "additive" else "sdpa"
    model.set_attn_implementation(attention)
    if device.type == "cpu":
        use_bit_dropout(model)
    if model.can_generate():
        set_search(model, recipe.search)
        if recipe.pipeline_tag != "translation" or getattr(model.config, "task_specific_params", None):
            # Which pipeline the folder's own code offers
            model.config.task_specific_params = {recipe.pipeline_tag: {}}
    if recipe.marks_answers:
        model.config.task_specific_params = {recipe.pipeline_tag: _search_for_answers(recipe)}
    if settings.gradient_checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    return model.train()


def _named(recipe: Recipe, labels: Sequence[str]) -> dict[str, Any]:
    """What `config.json` says about labels."""
    named: dict[str, Any] = {
        "id2label": dict(enumerate(labels)),
        "label2id": {label: number for number, label in enumerate(labels)},
    }
    return named | {"problem_type": "single_label_classification"} if recipe.task == "classification" else named


def _search_for_answers(recipe: Recipe) -> dict[str, Any]:
    """What `config.json` says about the search for answers, by the names of the pipeline's settings."""
    answers = recipe.answers
    overlap = {} if answers.overlap is None else {"doc_stride": answers.overlap}
    return {
        "max_seq_len": recipe.batching.max_sentence_tokens,
        "max_question_len": answers.longest_question,
        "max_answer_len": answers.longest,
        "handle_impossible_answer": answers.may_be_none,
        **overlap,
    }


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide transformers' table of the weights that are new: preparing the data has said so in one sentence."""
    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(before)


def adapt(model: VaswaniPreTrainedModel, settings: FineTuningSettings) -> "PeftModel | None":
    """Freeze the parts that the recipe freezes. With LoRA, put adapters into `model` and return PEFT's view of it."""
    parts = _parts(model)
    for name in settings.freeze:
        for module in parts[name]:
            module.requires_grad_(False)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ValueError(f"`fine_tuning.freeze: [{', '.join(settings.freeze)}]` leaves nothing to train; leave out one of them.")
    if settings.lora is None:
        return None
    if find_spec("peft") is None:
        raise ValueError("`fine_tuning.lora` needs PEFT, which is not installed: pip install peft")
    from .peft_lora import add_lora

    return add_lora(model, settings.lora)


def _parts(model: VaswaniPreTrainedModel) -> dict[str, list[nn.Module]]:
    """What `fine_tuning.freeze` names; a model of the encoder has two of these parts."""
    if not model.config.is_encoder_decoder:
        encoder = model.base_model.encoder
        return {"encoder": [encoder.layers], "embeddings": [encoder.embed_tokens]}
    return {
        "encoder": [model.get_encoder().layers],
        "decoder": [model.get_decoder().layers],
        "backbone": [model.model, model.lm_head],
        "embeddings": [model.get_encoder().embed_tokens, model.get_decoder().embed_tokens, model.lm_head],
    }
