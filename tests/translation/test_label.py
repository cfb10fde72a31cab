"""Labels of many texts: those of transformers' pipelines, whatever the batch, and what becomes of lines without a label."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    pipeline,
)

from vaswani_transformer import VaswaniConfig, VaswaniForSequenceClassification, VaswaniForTokenClassification
from vaswani_transformer.translation.job import JobSettings, translate_file
from vaswani_transformer.translation.label import Labeller
from vaswani_transformer.translation.loading import load_labelling
from vaswani_transformer.translation.translate import Failure, Outcome

LABELS = {0: "good", 1: "bad", 2: "B-loc", 3: "O"}
TEXTS = [
    "the woman reads a book", "a dog", "The man sees two houses  and\ta dog .", "cat", "naïve cafés 🙂 ﬁnd it", "a book a book a book",
    "two dogs run on the beach and the man sees a house",
]  # fmt: skip


def save(folder: Path, kind: type[PreTrainedModel], tokenizer: PreTrainedTokenizerBase, **settings: Any) -> Path:
    torch.manual_seed(3)
    named = {"id2label": LABELS, "label2id": {name: number for number, name in LABELS.items()}}
    config = VaswaniConfig(
        vocab_size=len(tokenizer), d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2,
        encoder_ffn_dim=32, decoder_ffn_dim=32, position_embedding_type="learned", max_position_embeddings=60, **{**named, **settings},
    )  # fmt: skip
    model = kind(config)
    for parameter in model.parameters():
        if parameter.ndim == 2:
            torch.nn.init.normal_(parameter, std=0.7)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def classifier(tokenizer: PreTrainedTokenizerBase, tmp_path: Path) -> Path:
    return save(tmp_path / "classifier", VaswaniForSequenceClassification, tokenizer)


@pytest.fixture
def tagger(tokenizer: PreTrainedTokenizerBase, tmp_path: Path) -> Path:
    return save(tmp_path / "tagger", VaswaniForTokenClassification, tokenizer)


def labeller(folder: Path, **settings: Any) -> Labeller:
    model, tokenizer, _ = load_labelling(str(folder))
    return Labeller(model, tokenizer, **settings)


def in_order(outcomes: Sequence[tuple[int, Outcome]]) -> list[Outcome]:
    assert sorted(index for index, _ in outcomes) == list(range(len(outcomes)))
    return [outcome for _, outcome in sorted(outcomes)]


@pytest.mark.parametrize("batch_tokens", [1, 30, 4096])
def test_a_text_gets_the_labels_and_probabilities_of_the_pipeline(classifier: Path, batch_tokens: int) -> None:
    found = in_order(list(labeller(classifier, nbest=3, scores=True, batch_tokens=batch_tokens)(TEXTS)))
    expected = pipeline("text-classification", model=str(classifier))(TEXTS, top_k=3)
    assert len({each[0]["label"] for each in expected}) > 1
    assert [[label.text for label in outcome] for outcome in found] == [[each["label"] for each in row] for row in expected]
    scores = [[label.score for label in outcome] for outcome in found]
    torch.testing.assert_close(torch.tensor(scores), torch.tensor([[each["score"] for each in row] for row in expected]))


@pytest.mark.parametrize("batch_tokens", [1, 4096])
def test_a_word_gets_the_label_of_its_first_token(tagger: Path, batch_tokens: int) -> None:
    found = in_order(list(labeller(tagger, batch_tokens=batch_tokens)(TEXTS)))
    tag = pipeline("token-classification", model=str(tagger))
    seen = set()
    for text, outcome in zip(TEXTS, found, strict=True):
        labels = outcome[0].text.split(" ")
        words = text.split()
        pieces = tag(" ".join(words), ignore_labels=[])
        start, expected = 0, []
        for word in words:
            expected.append(next(piece["entity"] for piece in pieces if piece["end"] > start))
            start += len(word) + 1
        assert labels == expected
        seen |= set(labels)
    assert len(seen) > 1


def test_any_classifier_of_transformers_will_do(tokenizer: PreTrainedTokenizerBase, tmp_path: Path) -> None:
    torch.manual_seed(0)
    small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    BertForSequenceClassification(BertConfig(vocab_size=len(tokenizer), id2label=LABELS, **small)).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    found = in_order(list(labeller(tmp_path)(TEXTS)))
    expected = pipeline("text-classification", model=str(tmp_path))(TEXTS)
    assert [outcome[0].text for outcome in found] == [each["label"] for each in expected]


def test_lines_that_get_no_label_harm_no_other(classifier: Path) -> None:
    texts = ["a dog", " \t", "half \ud800", " ".join("a" * 70), " ".join("a" * 100)]
    found = in_order(list(labeller(classifier, max_source_tokens=80)(texts)))
    assert found[0][0].text in LABELS.values() and found[0][0].text != found[1][0].text == ""
    reasons = [outcome.reason if isinstance(outcome, Failure) else outcome for outcome in found[2:]]
    assert "half a surrogate pair" in reasons[0]
    # learned positions
    assert "the position 70, which is outside of 0 to 59" in reasons[1]
    assert reasons[2] == "101 tokens are more than the 80 of max_source_tokens; split the text into sentences"


def test_a_file_of_any_format_gets_a_column_or_a_field(classifier: Path, tagger: Path, tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_text('id;text\n1;"a dog"\n2;a book a book a book\n')
    best = labeller(classifier, nbest=2, scores=True)
    done = translate_file(str(source), str(target), best, JobSettings("csv", "text", 2, True, name=best.name), progress=False)
    assert (done.lines, done.failed) == (3, 0)
    header, *rows = target.read_text().splitlines()
    assert header == "id;text;label_1;score_1;label_2;score_2"
    expected = [[each for label in outcome for each in label] for _, outcome in sorted(best(["a dog", "a book a book a book"]))]
    assert [row.split(";")[2:] for row in rows] == [[a, f"{p:.6f}", b, f"{q:.6f}"] for a, p, b, q in expected]
    source.write_text('{"text": "a dog"}\n{"text": 3}\n')
    words, again = labeller(tagger), tmp_path / "again"
    done = translate_file(str(source), str(again), words, JobSettings("jsonl", name=words.name), progress=False)
    assert (done.lines, done.failed) == (2, 1)
    first, second = map(json.loads, again.read_text().splitlines())
    assert first == {"text": "a dog", "labels": dict(words(["a dog"]))[0][0].text} and len(first["labels"].split(" ")) == 2
    assert second == {"text": 3, "labels": "", "error": "the field text holds a number instead of a string"}


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"nbest": 5}, r"^5 labels a text are more than the 4 that the model has; ask for fewer\.$"),
        ({"nbest": 0}, r"and `nbest` 0; all must be at least 1\.$"),
        ({"batch_tokens": 0}, r"^`batch_tokens` is 0,"),
    ],
)
def test_what_cannot_be_asked_for(classifier: Path, settings: dict[str, int], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        labeller(classifier, **settings)


@pytest.mark.parametrize("settings", [{"nbest": 2}, {"scores": True}])
def test_the_labels_of_words_have_no_alternatives_and_no_score(tagger: Path, settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="A tagger gives each word one label, without a score; leave out `nbest` and `scores`"):
        labeller(tagger, **settings)


@pytest.mark.parametrize(
    ("settings", "what"),
    [({"num_labels": 1, "id2label": {0: "x"}}, "a number"), ({"problem_type": "multi_label_classification"}, "several labels at once")],
)
def test_what_is_not_one_label_is_for_the_pipeline(
    tokenizer: PreTrainedTokenizerBase, tmp_path: Path, settings: dict[str, Any], what: str
) -> None:
    folder = save(tmp_path, VaswaniForSequenceClassification, tokenizer, **settings)
    with pytest.raises(ValueError, match=f"The model gives a text {what}.*; use pipeline"):
        labeller(folder)


def test_a_translator_gives_no_labels(checkpoint: Path) -> None:
    with pytest.raises(ValueError, match="holds a VaswaniForConditionalGeneration, which gives texts no labels; name the folder"):
        load_labelling(str(checkpoint))
