"""What `import vaswani_transformer` does to transformers: the Auto classes know the model, and `pipeline` does again what it did."""

from typing import Any

import transformers
from transformers import AutoConfig, AutoModel, AutoModelForQuestionAnswering, AutoModelForSeq2SeqLM, pipelines

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
from .pipeline_question_answering import QuestionAnsweringPipeline
from .pipeline_text_to_text import SummarizationPipeline, Text2TextGenerationPipeline
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


PIPELINES: dict[str, tuple[Any, Any, tuple[str, str]]] = {
    "translation": (TranslationPipeline, AutoModelForSeq2SeqLM, ("google-t5/t5-base", "a9723ea")),
    "summarization": (SummarizationPipeline, AutoModelForSeq2SeqLM, ("sshleifer/distilbart-cnn-12-6", "a4f8f3e")),
    "text2text-generation": (Text2TextGenerationPipeline, AutoModelForSeq2SeqLM, ("google-t5/t5-base", "a9723ea")),
    "question-answering": (
        QuestionAnsweringPipeline,
        AutoModelForQuestionAnswering,
        ("distilbert/distilbert-base-cased-distilled-squad", "564e9b5"),
    ),
}
"""Tasks that transformers 5 removed: the pipeline, what loads its model, and the model and revision that transformers 4 took by default."""


def _register_pipelines() -> None:
    """Make them, and "translation_xx_to_yy", tasks of `pipeline` again."""
    registry = pipelines.PIPELINE_REGISTRY
    for task, (kind, auto_class, default) in PIPELINES.items():
        # Newer releases refuse the names in this table before they look at the registered ones; older ones have no such table.
        getattr(pipelines, "REMOVED_TASKS", {}).pop(task, None)
        registry.register_pipeline(task, kind, pt_model=auto_class, default={"model": default}, type="text")
        # With this mark, `save_pretrained` of a pipeline would name custom code in any model's config, and that model would
        # then ask for trust_remote_code=True.
        del kind._registered_impl
    find_task = registry.check_task

    def check_task(task: str) -> tuple[str, dict[str, Any], Any]:
        return find_task("translation" if languages_of(task) != (None, None) else task)

    registry.check_task = check_task


_register_model()
_register_pipelines()
