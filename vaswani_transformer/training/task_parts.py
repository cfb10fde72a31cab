"""What differs between the tasks of one engine: the loss, and how a validation scores. All else is the same for every task."""

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..recipe import Recipe
from .answer_validation import AnswerValidator
from .dropout import word_dropout
from .encoder_loss import HiddenTokenLoss, MarkedAnswerLoss, TextLabelLoss, WordLabelLoss
from .label_validation import LabelValidator
from .loss import TranslationLoss
from .noise_validation import NoiseValidator
from .preparation import PreparedData
from .validation import Validator

_LOSSES: dict[str, type[TranslationLoss]] = {"classification": TextLabelLoss, "tagging": WordLabelLoss}


def build_loss(recipe: Recipe, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> TranslationLoss:
    """Model and loss as one module."""
    settings = recipe.training
    words = word_dropout(settings.word_dropout, tokenizer) if settings.word_dropout else None
    kind = MarkedAnswerLoss if recipe.marks_answers else _LOSSES.get(recipe.task, TranslationLoss)
    kind = HiddenTokenLoss if recipe.task == "pretraining" and recipe.has_no_decoder else kind
    return kind(model, settings.label_smoothing, settings.compile, settings.r_drop, words)


def build_validator(recipe: Recipe, data: PreparedData) -> Validator:
    """What scores the model on the validation set."""
    kind: type[Validator] = LabelValidator if recipe.facts.labels else Validator
    kind = NoiseValidator if recipe.task == "pretraining" else AnswerValidator if recipe.marks_answers else kind
    return kind(recipe, data.tokenizer, data.validation)
