"""The first token of each word, by hand."""

import pytest

from vaswani_transformer.word_places import first_tokens


def test_a_token_of_two_words_cannot_have_two_labels() -> None:
    assert first_tokens(["ab", "c"], [(0, 1), (1, 2), (2, 4), (0, 0)]) == [0, 2]
    with pytest.raises(ValueError, match="two of the words 'ab c' into one token"):
        first_tokens(["ab", "c"], [(0, 4), (0, 0)])
