"""SQuAD's exact match and F1, against numbers computed by hand from their definition."""

import pytest

from vaswani_transformer.evaluation.answer_scores import exact_match, f1, plain_answer, score_answers


@pytest.mark.parametrize(
    ("answer", "reference", "alike", "share"),
    [
        ("The Denver Broncos!", "denver   broncos", 1.0, 1.0),
        ("in the big city", "the city of Zürich", 0.0, 1 / 3),  # in big city; city of zürich: 1 of 3 and 1 of 3
        ("a cat a cat dog", "cat dog dog", 0.0, 2 / 3),  # cat cat dog; cat dog dog: 2 of 3 and 2 of 3
        ("green tea", "tea", 0.0, 2 / 3),  # precision 1/2, recall 1
        ("night", "day", 0.0, 0.0),
        ("", "", 1.0, 1.0),
        ("", "day", 0.0, 0.0),
        ("the", "", 1.0, 1.0),  # an article alone is nothing, as in SQuAD's script
        ("U.S.", "us", 1.0, 1.0),
        ("anthem", "them", 0.0, 0.0),  # no article inside of a word
    ],
)
def test_two_answers(answer: str, reference: str, alike: float, share: float) -> None:
    assert exact_match(answer, reference) == alike
    assert f1(answer, reference) == pytest.approx(share)


def test_the_best_reference_counts_and_none_may_be_right() -> None:
    found = score_answers(["green tea", "", "dog", ""], [["black tea", "tea", "a green tea"], [], [], ["dog"]])
    assert {name: result.score for name, result in found.items()} == {"f1": 50.0, "exact_match": 50.0}
    assert next(iter(score_answers(["green tea"], [["tea", "black coffee"]]).values())).score == pytest.approx(200 / 3)
    assert plain_answer("  An  apple, A pear ") == "apple pear"
    with pytest.raises(ValueError, match="There are 1 answers to 0 questions"):
        score_answers(["a"], [])
