"""Noise: how much, where, the same again; and each kind by hand."""

import random
from pathlib import Path

import pytest

from benchmarks.limits.noise import KINDS, add_noise, read_misspellings

TEXT = [f"The small dog number {row} sees twenty sleeping cats , really ." for row in range(40)]
WRONG = {"small": ["smal", "samll"], "sees": ["sess"], "cats": ["catts"], "the": ["teh"], "really": ["realy"]}


@pytest.mark.parametrize("kind", KINDS)
def test_a_share_of_the_words_is_changed_and_a_larger_share_holds_the_smaller(kind: str) -> None:
    few, more, again = (add_noise(TEXT, kind, share, misspellings=WRONG) for share in (0.05, 0.1, 0.1))
    assert (few.words, few.changed_words, more.changed_words) == (400, 20, 40) and more.share == 0.1
    assert more == again != add_noise(TEXT, kind, 0.1, seed=2, misspellings=WRONG)
    for clean, some, many in zip(TEXT, few.sentences, more.sentences, strict=True):
        if some != clean:
            assert many != clean
        if kind != "punctuation":
            columns = zip(clean.split(), some.split(), many.split(), strict=True)
            assert all(word in (old, later) for old, word, later in columns)
    assert add_noise(TEXT, kind, 0, misspellings=WRONG).sentences == TEXT


def test_each_kind_by_hand() -> None:
    """Where everything that can be changed is changed, there is one way only."""
    assert add_noise(["An abcd (efgh), ooo i12 oops"], "swap", 1).sentences == ["An acbd (egfh), ooo i12 opos"]
    assert add_noise(['Big NASA "cat\'s" A 7 &apos;s x.'], "case", 1).sentences == ['BIG nasa "CAT\'S" A 7 &apos;s X.']
    assert add_noise(['"Hello," she said: well-known, it\'s!'], "punctuation", 1).sentences == ["Hello she said well-known it's"]
    assert add_noise(["a b c d &quot; hello , &apos;s &quot; @-@ ."], "punctuation", 1).sentences == ["a b c d hello s"]
    assert add_noise(["The the THE dog."], "misspelling", 1, misspellings={"the": ["teh"]}).sentences == ["Teh teh teh dog."]


def test_the_share_that_is_reached_is_told_where_too_few_words_can_be_changed() -> None:
    noised = add_noise(["one two three four five .", "six seven eight nine ten ."], "punctuation", 0.5)
    assert (noised.changed_words, noised.words, noised.share) == (2, 10, 0.2)
    assert noised.sentences == ["one two three four five", "six seven eight nine ten"]


def test_swapped_words_keep_their_letters_and_their_ends() -> None:
    rng = random.Random(1)
    words = ["".join(rng.choices("abcdefgh", k=rng.randint(1, 9))) for _ in range(300)]
    for old, new in zip(words, add_noise(words, "swap", 1).sentences, strict=True):
        assert sorted(old) == sorted(new) and (old[0], old[-1]) == (new[0], new[-1])
        assert sum(one != other for one, other in zip(old, new, strict=True)) in (0, 2)


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    for kind, share, text, message in [
        ("typo", 0.1, TEXT, "no noise called 'typo'; choose of misspelling, swap"),
        ("swap", 5.0, TEXT, "share of words is 5.0; it is from 0 to 1"),
        ("misspelling", 0.1, TEXT, "give --misspellings FILE"),
        ("swap", 0.1, [". ,"], "no word in the text"),
    ]:
        with pytest.raises(ValueError, match=message):
            add_noise(text, kind, share)
    with pytest.raises(FileNotFoundError, match=r"no file .*absent, nor one that ends in .gz"):
        read_misspellings(tmp_path / "absent")
    (tmp_path / "list").write_text("alone\nsame same\n")
    with pytest.raises(ValueError, match="holds no misspelling"):
        read_misspellings(tmp_path / "list")
    (tmp_path / "list").write_text("word wrod word\n\n")
    assert read_misspellings(tmp_path / "list") == {"word": ["wrod"]}
