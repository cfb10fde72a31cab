"""The Transformer of "Attention Is All You Need" for transformers 5.

Importing this package registers its configuration and its models with the Auto classes and gives back the pipelines that transformers 5
dropped: `"translation"`, `"summarization"` and `"text2text-generation"` for every sequence-to-sequence model, `"question-answering"` for
every model that marks answers. Where transformers has not been imported yet, this happens when it is, so that the command's help need not
wait for it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .late_registration import register_with_transformers

if TYPE_CHECKING:
    from .data.mask_token import add_mask_token
    from .inspection.alignment import align
    from .inspection.attribution import attribute
    from .inspection.maps import attention_maps
    from .registration import (
        QuestionAnsweringPipeline,
        SummarizationPipeline,
        Text2TextGenerationPipeline,
        TranslationPipeline,
        VaswaniConfig,
        VaswaniEncoderModel,
        VaswaniForConditionalGeneration,
        VaswaniForMaskedLM,
        VaswaniForQuestionAnswering,
        VaswaniForSequenceClassification,
        VaswaniForTokenClassification,
        VaswaniModel,
        train_tokenizer,
    )
    from .training.python_api import train

__version__ = "0.2.0"

_ROOMS = {
    "add_mask_token": "data.mask_token",
    "align": "inspection.alignment",
    "attention_maps": "inspection.maps",
    "attribute": "inspection.attribution",
    "train": "training.python_api",
}
"""Where a public name is that `registration` does not have."""

__all__ = [
    "QuestionAnsweringPipeline",
    "SummarizationPipeline",
    "Text2TextGenerationPipeline",
    "TranslationPipeline",
    "VaswaniConfig",
    "VaswaniEncoderModel",
    "VaswaniForConditionalGeneration",
    "VaswaniForMaskedLM",
    "VaswaniForQuestionAnswering",
    "VaswaniForSequenceClassification",
    "VaswaniForTokenClassification",
    "VaswaniModel",
    "add_mask_token",
    "align",
    "attention_maps",
    "attribute",
    "train",
    "train_tokenizer",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_ROOMS.get(name, 'registration')}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


register_with_transformers()
