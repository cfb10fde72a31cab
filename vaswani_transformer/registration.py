"""What `import vaswani_transformer` does to transformers: the Auto classes know the model, and `pipeline` translates again."""

from typing import Any

import transformers
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM, pipelines

from .configuration_vaswani import TASKS_IN_FOLDER, VaswaniConfig
from .data.bpe import train_tokenizer as train_tokenizer
from .languages import languages_of
from .modeling_tasks import (
    VaswaniEncoderModel,
    VaswaniForMaskedLM,
    VaswaniForQuestionAnswering,
    VaswaniForSequenceClassification,
    VaswaniForTokenClassification,
)
from .modeling_vaswani import VaswaniForConditionalGeneration, VaswaniModel
from .pipeline_translation import TranslationPipeline

TASK_MODELS = (
    VaswaniEncoderModel,
    VaswaniForMaskedLM,
    VaswaniForQuestionAnswering,
    VaswaniForSequenceClassification,
    VaswaniForTokenClassification,
)
"""What runs the encoder alone."""


def _register_model() -> None:
    """Let the Auto classes find the model, and let `save_pretrained` put the code beside the weights."""
    AutoConfig.register(VaswaniConfig.model_type, VaswaniConfig, exist_ok=True)
    # Of two, transformers takes the one that `architectures` names, and else the first; see `VaswaniConfig.name_encoder`.
    AutoModel.register(VaswaniConfig, (VaswaniModel, VaswaniEncoderModel), exist_ok=True)
    AutoModelForSeq2SeqLM.register(VaswaniConfig, VaswaniForConditionalGeneration, exist_ok=True)
    VaswaniConfig.register_for_auto_class()
    VaswaniModel.register_for_auto_class("AutoModel")
    VaswaniForConditionalGeneration.register_for_auto_class("AutoModelForSeq2SeqLM")
    for task in TASK_MODELS:
        (auto_class,) = (name for name, place in TASKS_IN_FOLDER.items() if place.endswith(f".{task.__name__}"))
        getattr(transformers, auto_class).register(VaswaniConfig, task, exist_ok=True)
        task.register_for_auto_class(auto_class)


def _register_pipeline() -> None:
    """Make "translation" and "translation_xx_to_yy" tasks of `pipeline` again."""
    # Newer releases refuse the names in this table before they look at the registered ones; older ones have no such table.
    getattr(pipelines, "REMOVED_TASKS", {}).pop("translation", None)
    registry = pipelines.PIPELINE_REGISTRY
    registry.register_pipeline(
        "translation",
        TranslationPipeline,
        pt_model=AutoModelForSeq2SeqLM,
        default={"model": ("google-t5/t5-base", "a9723ea")},  # transformers 4's
        type="text",
    )
    # With this mark, `save_pretrained` of a pipeline would name custom code in any model's config, and that model would
    # then ask for trust_remote_code=True.
    del TranslationPipeline._registered_impl
    find_task = registry.check_task

    def check_task(task: str) -> tuple[str, dict[str, Any], Any]:
        return find_task("translation" if languages_of(task) != (None, None) else task)

    registry.check_task = check_task


_register_model()
_register_pipeline()
