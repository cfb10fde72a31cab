"""A text cut into sentences, and translated sentences put together to a text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vaswani_transformer.sentence_splitting import LONGEST_SPLIT, check_language, join_sentences, split_sentences

ODD = st.text(st.sampled_from("aZ. !?\"'()\n\r\t\u00a0\u3000\u2028。！1\x85\x0c“”’é😀"), max_size=40)


@given(ODD | st.text(max_size=40), st.sampled_from(["en", "de", "zh", "hi", "xx", "eng_Latn", ""]))
def test_sentences_and_gaps_are_the_text(text: str, language: str) -> None:
    sentences, gaps = split_sentences(text, language)
    assert len(gaps) == len(sentences) + 1
    assert "".join(gap + sentence for gap, sentence in zip(gaps, [*sentences, ""], strict=True)) == text
    assert all(sentence and sentence == sentence.strip() for sentence in sentences)
    assert all(len(sentence.splitlines()) == 1 for sentence in sentences)
    assert not "".join(gaps).strip()


def test_a_very_long_text_is_split_in_parts() -> None:
    sentences, _ = split_sentences('He said: "(No. ' * 60_000, "en")  # as a whole, this takes half a minute
    assert max(map(len, sentences)) <= LONGEST_SPLIT
    many = "The old man sees a dog. " * 2000
    assert split_sentences(many, "en")[0] == ["The old man sees a dog."] * 2000
    words, gaps = split_sentences("word " * 5000, "en")
    assert set(" ".join(words).split()) == {"word"} and set(gaps) == {"", " "}


def test_a_text_the_library_fails_on_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class PanicException(BaseException):
        """As libraries in Rust raise it."""

    def panic(language: str, text: str) -> list[str]:
        raise PanicException("byte index 2 is not a char boundary")

    monkeypatch.setattr("sentencex.segment", panic)
    with pytest.raises(ValueError, match=r"sentencex cannot split 'A b\.': byte index"):
        split_sentences("A b.", "en")


@pytest.mark.parametrize(
    ("sentences", "gaps", "text"),
    [
        (["A.", "B!"], ["", "", ""], "A. B!"),
        (["甲。", "乙！"], ["", "", ""], "甲。乙！"),
        (["A.", "B!"], [" ", "\n", "\t"], " A.\nB!\t"),
        (["", "B!"], ["", "", ""], "B!"),
        ([], ["\n"], ""),
    ],
)
def test_sentences_do_not_run_into_each_other(sentences: list[str], gaps: list[str], text: str) -> None:
    assert join_sentences(sentences, gaps) == text


@pytest.mark.parametrize("code", ["en", "de-CH", "pt_BR", "yue", "EN", "eng_Latn", "zh-Hant-TW"])
def test_a_languages_code_is_one(code: str) -> None:
    check_language(code)


@pytest.mark.parametrize("code", ["klingon", "english", "", "e", "en de", "-de", "de-"])
def test_what_is_no_languages_code_is_refused(code: str) -> None:
    with pytest.raises(ValueError, match=f'^split_sentences is {code!r}, which is no language\'s code; .* such as "en"'):
        check_language(code)
