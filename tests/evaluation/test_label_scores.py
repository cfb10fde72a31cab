"""Scores of labels, against numbers worked out by hand."""

import pytest

from vaswani_transformer.evaluation import label_scores
from vaswani_transformer.evaluation.label_scores import metrics_of, require_scorers, score_labels


def test_accuracy_and_macro_f1() -> None:
    pytest.importorskip("sklearn", reason="the extra `tasks` is not installed")
    # a: precision 1/2, recall 1, F1 2/3; b: precision 1, recall 1/2, F1 2/3; c is nobody's; d: never found, F1 0
    scores = score_labels("classification", "abcd", ["a", "b", "b", "d"], ["a", "b", "a", "b"])
    assert {name: result.score for name, result in scores.items()} == pytest.approx({"accuracy": 50.0, "macro_f1": 100 * (2 / 3 + 0.5) / 3})
    assert scores["macro_f1"].signature.startswith("scikit-learn ")


def test_an_entity_counts_only_with_its_kind_and_both_ends() -> None:
    pytest.importorskip("seqeval", reason="the extra `tasks` is not installed")
    labels = ("B-x", "B-y", "I-x", "O")
    right = [["B-x", "I-x", "O", "B-y"], ["B-x", "O"]]
    found = [["B-x", "O", "O", "B-y"], ["B-y", "O"]]  # one of three is found, of three that are given
    scores = score_labels("tagging", labels, right, found)
    assert scores["entity_f1"].score == pytest.approx(100 / 3)
    assert scores["accuracy"].score == pytest.approx(400 / 6)


def test_the_prefixes_of_bilou_are_those_of_bioes() -> None:
    pytest.importorskip("seqeval", reason="the extra `tasks` is not installed")
    labels = ("B-x", "I-x", "L-x", "U-x", "O")
    right = [["U-x", "U-x", "O"], ["B-x", "I-x", "L-x"]]
    assert score_labels("tagging", labels, right, right)["entity_f1"].score == 100
    found = [["B-x", "L-x", "O"], ["B-x", "I-x", "L-x"]]  # two are given and found; one of them is right, and three are
    assert score_labels("tagging", labels, right, found)["entity_f1"].score == pytest.approx(100 * 2 * (1 / 2) * (1 / 3) / (1 / 2 + 1 / 3))


def test_only_labels_of_entities_have_an_entity_f1() -> None:
    assert metrics_of("tagging", ("NOUN", "VERB")) == ("accuracy",)
    assert metrics_of("tagging", ("I-PER", "O")) == ("accuracy", "entity_f1")


def test_each_text_needs_as_many_predictions_as_labels() -> None:
    pytest.importorskip("seqeval", reason="the extra `tasks` is not installed")
    with pytest.raises(ValueError, match="Text 1 has 2 labels, and 1 were predicted"):
        score_labels("tagging", "ab", ["a", "ab"], ["a", "a"])


def test_a_missing_package_is_named_with_the_way_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(label_scores, "find_spec", lambda name: None if name == "seqeval" else name)
    with pytest.raises(ImportError, match=r"scored with seqeval, .*vaswani_transformer\[tasks\]"):
        require_scorers("tagging")
    require_scorers("translation")
