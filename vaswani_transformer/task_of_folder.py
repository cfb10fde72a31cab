"""Which task the model in a folder does. It decides which files belong there, how the folder is tried, and what its card may say."""

from pathlib import Path

from .files.json_files import read_json

TEXT_TO_TEXT = ("translation", "summarization", "text2text-generation")
ON_ENCODER = {
    "VaswaniForSequenceClassification": "text-classification",
    "VaswaniForTokenClassification": "token-classification",
    "VaswaniForQuestionAnswering": "question-answering",
    "VaswaniForMaskedLM": "fill-mask",
    "VaswaniEncoderModel": "feature-extraction",
}
"""The models without a decoder; a folder may name the last one beside another."""


def task_of(folder: Path) -> str:
    """The Hub's name of the task: that of the model's class, or of the pipeline in the folder where the model writes text.

    Args:
        folder: with a `config.json`; without one, what is missing is a translator's.
    """
    config = read_json(folder / "config.json") if (folder / "config.json").is_file() else {}
    named = config.get("architectures") or []
    found = [task for kind, task in ON_ENCODER.items() if kind in named]
    found += [task for task in config.get("custom_pipelines") or {} if task in TEXT_TO_TEXT]
    return [*found, TEXT_TO_TEXT[0]][0]


def writes_text(task: str) -> bool:
    """Whether a model of this task has a decoder, and so settings of a search."""
    return task in TEXT_TO_TEXT


def wrong_task_of_card(task: str, tag: str | None) -> bool:
    """Whether a card's `pipeline_tag` is that of a model of another kind; a tag that no model here has may be the author's own choice."""
    if tag is None or tag == task or (writes_text(task) and writes_text(tag)):
        return False
    return tag in TEXT_TO_TEXT or tag in ON_ENCODER.values()
