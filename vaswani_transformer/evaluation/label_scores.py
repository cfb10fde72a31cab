"""Scores of labels: accuracy, macro F1 and entity F1, computed by scikit-learn and seqeval.

Both come with the extra `tasks`. A reference and a prediction are the labels of one text: one label, or one for each word.
"""

from collections.abc import Sequence
from importlib.metadata import version
from importlib.util import find_spec
from itertools import chain

from ..tasks import TaskName
from .bleu import MetricResult

_PREFIXES = ("B-", "I-", "E-", "S-", "L-", "U-")
_OF_SEQEVAL = {"L-": "E-", "U-": "S-"}
"""BILOU's prefixes of the last and the only word of an entity; seqeval knows them by those of BIOES."""
_PACKAGES: dict[TaskName, dict[str, str]] = {
    "summarization": {"rouge_score": "rouge-score"},
    "classification": {"sklearn": "scikit-learn"},
    "tagging": {"sklearn": "scikit-learn", "seqeval": "seqeval"},
}

Labels = Sequence[Sequence[str]]


def require_scorers(task: TaskName) -> None:
    """Raise an `ImportError` if a package that scores this task is not installed; its sentence says how to install it."""
    for module, name in _PACKAGES.get(task, {}).items():
        if find_spec(module) is None:
            raise ImportError(f"`task: {task}` is scored with {name}, which is not installed: pip install 'vaswani_transformer[tasks]'")


def are_entities(labels: Sequence[str]) -> bool:
    """Whether labels mark the words of entities: `O` outside of them, and in them a prefix such as `B-` before the entity's kind."""
    return "O" in labels and all(label == "O" or label.startswith(_PREFIXES) for label in labels)


def metrics_of(task: TaskName, labels: Sequence[str]) -> tuple[str, ...]:
    """The scores that labels of these names get: entity F1 only where they mark entities."""
    if task == "classification":
        return "accuracy", "macro_f1"
    return ("accuracy", "entity_f1") if are_entities(labels) else ("accuracy",)


def score_labels(task: TaskName, labels: Sequence[str], references: Labels, predictions: Labels) -> dict[str, MetricResult]:
    """Compare predicted labels with the right ones.

    - `accuracy`: the share of right labels, over all texts or words;
    - `macro_f1`: the mean over the labels of F1, the harmonic mean of precision and recall; a label that nobody gives or has is left out;
    - `entity_f1`: F1 of whole entities, kind and both ends, over all texts (micro), as the CoNLL shared task's script counts them.

    Args:
        task: classification or tagging.
        labels: the names of all labels.
        references: the right ones of each text.
        predictions: those of the model, equally many of each text.

    Returns:
        Scores in points of 100, each with the package and the function that computed it.

    Raises:
        ImportError: a package is not installed.
        ValueError: a text has another number of references than of predictions.
    """
    require_scorers(task)
    wrong = [i for i, (right, found) in enumerate(zip(references, predictions, strict=True)) if len(right) != len(found)]
    if wrong:
        right, found = references[wrong[0]], predictions[wrong[0]]
        raise ValueError(f"Text {wrong[0]} has {len(right)} labels, and {len(found)} were predicted; each needs one.")
    flat = [list(chain.from_iterable(side)) for side in (references, predictions)]
    return {name: _SCORERS[name](flat[0], flat[1], references, predictions) for name in metrics_of(task, labels)}


def _accuracy(right: list[str], found: list[str], references: Labels, predictions: Labels) -> MetricResult:
    from sklearn.metrics import accuracy_score

    return MetricResult(100 * float(accuracy_score(right, found)), f"scikit-learn {version('scikit-learn')}, accuracy_score")


def _macro_f1(right: list[str], found: list[str], references: Labels, predictions: Labels) -> MetricResult:
    from sklearn.metrics import f1_score

    points = 100 * float(f1_score(right, found, average="macro", zero_division=0))
    return MetricResult(points, f"scikit-learn {version('scikit-learn')}, f1_score(average='macro')")


def _entity_f1(right: list[str], found: list[str], references: Labels, predictions: Labels) -> MetricResult:
    from seqeval.metrics import f1_score

    points = 100 * float(f1_score(*([[*map(_for_seqeval, text)] for text in side] for side in (references, predictions)), zero_division=0))
    return MetricResult(points, f"seqeval {version('seqeval')}, f1_score")


def _for_seqeval(label: str) -> str:
    return _OF_SEQEVAL.get(label[:2], label[:2]) + label[2:]


_SCORERS = {"accuracy": _accuracy, "macro_f1": _macro_f1, "entity_f1": _entity_f1}
