"""The tasks that a recipe can name, and the facts about each that recipes, trainings and cards share."""

from dataclasses import dataclass, field
from typing import Literal

TaskName = Literal["translation", "summarization", "question_answering", "classification", "tagging", "pretraining"]

LABELLED = ("text", "label")
"""The columns of a table with one label for each text, unless a corpus names others."""

TAGGED = ("tokens", "tags")
"""The columns of a table with a label for each word, unless a corpus names others."""

SUMMARIZED = ("text", "summary")
"""The columns of a table with a summary of each text, unless a corpus names others."""

ANSWERED = ("text", "answer")
"""The columns of a table with texts that end in a question, and its answer, unless a corpus names others."""

MARKED = ("context", "answers")
"""The columns of a table with answers that are marked in a context; the third one, `question`, has always this name."""

UNLABELLED = ("text", "text")
"""The columns of a table for pretraining, unless a corpus names another."""

BETWEEN_TEXTS = "\x1e"
"""What parts several references for one text, such as the summaries of several people. The first one is trained on."""

BETWEEN_WORDS = "\t"
"""What parts the words of a tagged text, and their labels, on the way from a corpus to the ids: no format with columns has it in a word."""


@dataclass(frozen=True)
class Task:
    """The facts about one task.

    Attributes:
        metrics: the scores of a validation, by their names in the log, as people call them. The first one decides which checkpoint is the
            best, unless the recipe chooses another. All are points of 100; higher is better.
        columns: of a table; None for the codes of the two languages.
        labels: whether a text gets labels of a fixed set, by the encoder and a map, and not another text.
        pipeline_tag: the Hub's name of the task.
        also: further scores of a validation, which rank nothing.
    """

    metrics: dict[str, str]
    columns: tuple[str, str] | None
    labels: bool
    pipeline_tag: str
    also: dict[str, str] = field(default_factory=dict)


TASKS: dict[TaskName, Task] = {
    "translation": Task({"bleu": "BLEU"}, None, False, "translation", {"chrf": "chrF"}),
    "summarization": Task({"rougeL": "ROUGE-L", "rouge1": "ROUGE-1", "rouge2": "ROUGE-2"}, SUMMARIZED, False, "summarization"),
    "question_answering": Task({"exact_match": "exact match"}, ANSWERED, False, "text2text-generation"),
    "classification": Task({"accuracy": "accuracy", "macro_f1": "macro F1"}, LABELLED, True, "text-classification"),
    "tagging": Task({"accuracy": "accuracy", "entity_f1": "entity F1"}, TAGGED, True, "token-classification"),
    "pretraining": Task({"accuracy": "accuracy"}, UNLABELLED, False, "fill-mask"),
}

MARKING = Task({"f1": "F1", "exact_match": "exact match"}, MARKED, False, "question-answering")
"""Question answering where the encoder marks the answer in a context, and writes none."""


def score_titles() -> dict[str, str]:
    """What people call the scores of all tasks, by their names in the log; of each task the one that ranks checkpoints first."""
    return {name: title for task in (*TASKS.values(), MARKING) for name, title in (task.metrics | task.also).items()}
