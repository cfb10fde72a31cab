"""BLEU on cases whose n-grams are counted on paper."""

import math

import pytest

from vaswani_transformer.evaluation.bleu import paper_bleu, prepare_as_paper, sacrebleu_tokenizer, score, split_compounds


def test_paper_bleu_of_counted_ngrams() -> None:
    # hypothesis  the cat sat on a mat   6 tokens
    # reference   the cat sat on the mat 6 tokens -> no brevity penalty
    # 1-grams: the cat sat on mat match, "a" does not           5/6
    # 2-grams: "the cat" "cat sat" "sat on" of 5                3/5
    # 3-grams: "the cat sat" "cat sat on" of 4                  2/4
    # 4-grams: "the cat sat on" of 3                            1/3
    expected = 100 * (5 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25
    result = paper_bleu(["the cat sat on a mat"], ["the cat sat on the mat"], target_language="en", tokenized=True)
    assert result.score == pytest.approx(expected)


def test_counts_are_clipped_and_summed_over_the_corpus() -> None:
    # pair 1: hypothesis  a a a a a   reference  a a b b b
    #   1-grams 2/5 (clipped at the reference's two), 2-grams "a a" 1/4, 3-grams 0/3, 4-grams 0/2
    # pair 2: hypothesis = reference  c d e f g
    #   1-grams 5/5, 2-grams 4/4, 3-grams 3/3, 4-grams 2/2
    # corpus: 7/10, 5/8, 3/6, 2/4: not the mean of the two sentences' scores
    expected = 100 * (7 / 10 * 5 / 8 * 3 / 6 * 2 / 4) ** 0.25
    result = paper_bleu(["a a a a a", "c d e f g"], ["a a b b b", "c d e f g"], target_language="en", tokenized=True)
    assert result.score == pytest.approx(expected)


def test_brevity_penalty() -> None:
    # every n-gram of the 5 tokens matches, the reference has 6: only exp(1 - 6/5) is left
    result = paper_bleu(["the cat sat on the"], ["the cat sat on the mat"], target_language="en", tokenized=True)
    assert result.score == pytest.approx(100 * math.exp(1 - 6 / 5))


def test_the_paper_does_not_smooth() -> None:
    # no 4-gram matches: multi-bleu gives 0, sacreBLEU gives half a match in place of none
    scores = score(["a b c x d e f"], ["a b c y d e f"], target_language="en", tokenized=True)
    assert scores["paper_bleu"].score == 0
    # 1-grams 6/7, 2-grams 4/6, 3-grams 2/5, 4-grams 0/4 smoothed to (1/2)/4
    assert scores["sacrebleu"].score == pytest.approx(100 * (6 / 7 * 4 / 6 * 2 / 5 * 0.5 / 4) ** 0.25)


def test_splitting_compounds_turns_a_miss_into_matches() -> None:
    # hypothesis  wir lesen die E ##AT##-##AT## Mail ##AT##-##AT## Tests   8 tokens, not 4
    # reference   wir lesen die E ##AT##-##AT## Mail ##AT##-##AT## Test    8 tokens
    # only the last token is wrong: 7/8 6/7 5/6 4/5
    expected = 100 * (7 / 8 * 6 / 7 * 5 / 6 * 4 / 5) ** 0.25
    result = paper_bleu(["wir lesen die E-Mail-Tests"], ["wir lesen die E-Mail-Test"], target_language="de", tokenized=True)
    assert result.score == pytest.approx(expected)


@pytest.mark.parametrize(
    ("text", "split"),
    [
        ("E-Mail", "E ##AT##-##AT## Mail"),
        ("well-known off-line", "well ##AT##-##AT## known off ##AT##-##AT## line"),
        ("a-b-c", "a ##AT##-##AT## b-c"),  # the first match has used up the b
        ("a - b", "a - b"),
        ("-5 5-", "-5 5-"),
        ("a--b", "a ##AT##-##AT## -b"),
        ("", ""),
    ],
)
def test_split_compounds(text: str, split: str) -> None:
    assert split_compounds(text) == split


def test_moses_tokens_depend_on_the_language_and_are_not_escaped() -> None:
    assert prepare_as_paper(["It's R&D-work."], "en", tokenized=False) == ["It 's R & D ##AT##-##AT## work ."]
    assert prepare_as_paper(["C'est l'œuvre."], "fr", tokenized=False) == ["C' est l' œuvre ."]
    assert prepare_as_paper(["It's"], "en", tokenized=True) == ["It's"]


def test_signatures_say_how_the_text_was_prepared() -> None:
    raw = score(["Ein Test."], ["Ein Test."], target_language="de_DE", tokenized=False)
    assert "case:mixed" in raw["sacrebleu"].signature and "tok:13a" in raw["sacrebleu"].signature
    assert "tok:moses-de-" in raw["paper_bleu"].signature and "compounds:atat" in raw["paper_bleu"].signature
    assert "nc:6" in raw["chrf"].signature

    prepared = score(["ein test ."], ["Ein Test ."], target_language="de", tokenized=True, lowercase=True)
    assert "case:lc" in prepared["sacrebleu"].signature and "tok:none" in prepared["sacrebleu"].signature
    assert "case:lc" in prepared["paper_bleu"].signature and "tok:given" in prepared["paper_bleu"].signature
    assert "case:lc" in prepared["chrf"].signature


def test_lowercase_ignores_case_everywhere() -> None:
    ignored = score(["A B C D"], ["a b c d"], target_language="en", tokenized=True, lowercase=True)
    assert [result.score for result in ignored.values()] == pytest.approx([100, 100, 100])
    respected = score(["A B C D"], ["a b c d"], target_language="en", tokenized=True)
    assert [result.score for result in respected.values()] == [0, 0, 0]


def test_the_order_of_the_sentences_does_not_matter() -> None:
    hypotheses = [
        "The cat sat on the mat.",
        "It rains today, and I stay.",
        "Nobody knows the well-known man.",
    ]
    references = [
        "The cat sits on a mat.",
        "It is raining today, so I stay.",
        "Nobody knows that well-known man.",
    ]
    forwards = score(hypotheses, references, target_language="en", tokenized=False)
    backwards = score(hypotheses[::-1], references[::-1], target_language="en", tokenized=False)
    assert forwards == backwards


def test_empty_translations_score_zero() -> None:
    scores = score(["", ""], ["a b c d", "e f"], target_language="en", tokenized=False)
    assert [result.score for result in scores.values()] == [0, 0, 0]


def test_one_empty_translation_costs_length() -> None:
    # the first pair matches wholly: 4/4 3/3 2/2 1/1; lengths 4 against 6
    result = paper_bleu(["a b c d", ""], ["a b c d", "e f"], target_language="en", tokenized=True)
    assert result.score == pytest.approx(100 * math.exp(1 - 6 / 4))


def test_bad_input_is_refused() -> None:
    with pytest.raises(ValueError, match="2 translations but 1 references"):
        score(["a", "b"], ["a"], target_language="en", tokenized=False)
    with pytest.raises(ValueError, match="empty"):
        score([], [], target_language="en", tokenized=False)
    with pytest.raises(TypeError, match="not one string"):
        score("ab", "ab", target_language="en", tokenized=False)


def test_scripts_without_spaces_get_their_own_tokeniser() -> None:
    assert sacrebleu_tokenizer("zh", tokenized=False) == "zh"
    assert sacrebleu_tokenizer("ja", tokenized=False) in ("ja-mecab", "char")
    assert sacrebleu_tokenizer("ko-KR", tokenized=False) in ("ko-mecab", "char")
    assert sacrebleu_tokenizer("de", tokenized=False) == "13a"
    assert sacrebleu_tokenizer("zh", tokenized=True) == "none"
    assert score(["我喜欢猫。"], ["我喜欢狗。"], target_language="zh", tokenized=False)["sacrebleu"].score > 0
