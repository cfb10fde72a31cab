"""Scores of texts, against numbers worked out by hand."""

import pytest

from vaswani_transformer.evaluation.text_scores import score_texts


def test_rouge_takes_the_best_reference() -> None:
    pytest.importorskip("rouge_score", reason="the extra `tasks` is not installed")
    # "the cat sat" and "the cat": precision 2/3 and recall 1 of words, 1/2 and 1 of pairs; stemmed, "cats" is "cat"
    scores = score_texts("summarization", ["the cat sat", "a"], [["dogs", "the cats"], ["b"]], "en")
    points = {name: result.score for name, result in scores.items()}
    assert points == pytest.approx({"rougeL": 50 * 0.8, "rouge1": 50 * 0.8, "rouge2": 50 * 2 / 3})
    assert scores["rouge1"].signature == "rouge-score 0.1.2, F1, stemmed"


@pytest.mark.parametrize(
    ("language", "text", "other", "words"),
    [
        ("ru", "Рим — город.", "рим: село", 0.5),
        ("de", "Mädchen Bänke", "Mönchen Bünke", 0.0),
        ("zh", "罗马在意大利", "羅馬在意大利", 4 / 6),
        ("hi", "हिन्दी भाषा", "हिन्दी", 2 / 3),
        ("en-GB", "cats", "cat", 1.0),
    ],
)
def test_rouge_reads_letters_of_every_script(language: str, text: str, other: str, words: float) -> None:
    pytest.importorskip("rouge_score", reason="the extra `tasks` is not installed")
    assert score_texts("summarization", [text], [[text]], language)["rougeL"].score == 100
    assert score_texts("summarization", [text], [[other]], language)["rouge1"].score == pytest.approx(100 * words)


def test_an_exact_match_is_one_of_the_references() -> None:
    found = score_texts("question_answering", [" hall", "Hall", "b"], [["hall"], ["hall"], ["a", "b "]], "en")
    assert found["exact_match"].score == pytest.approx(200 / 3)
    with pytest.raises(ValueError, match="1 texts for 0 references"):
        score_texts("question_answering", ["a"], [], "en")
