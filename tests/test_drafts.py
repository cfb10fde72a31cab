"""Copying from the source, by examples small enough to follow."""

import pytest

from vaswani_transformer.drafts import SourceDrafts

SOURCE = [5, 6, 7, 8, 6, 9, 10]


@pytest.mark.parametrize(
    ("tokens", "draft"),
    [
        ([], []),
        ([4], []),
        ([7], [8, 6]),
        ([3, 8], [6, 9]),
        ([6], [7, 8]),  # the first of two
        ([8, 6], [9, 10]),  # the longer match wins
        ([4, 6], [7, 8]),
        ([5, 6], [7, 8, 6, 9]),  # two tokens that match make a longer draft
        ([7, 8, 6], [9, 10]),
        ([10], []),  # nothing follows
    ],
)
def test_what_follows_in_the_source(tokens: list[int], draft: list[int]) -> None:
    assert SourceDrafts([SOURCE]).continuation(SOURCE, tokens) == draft


def test_the_longer_a_match_the_longer_its_draft_and_none_holds_padding() -> None:
    drafts = SourceDrafts([[*range(3, 40), 2, 0, 0]], never=(0, 2))
    assert drafts.sources == [[*range(3, 40)]]
    for matching, length in ((1, 2), (2, 4), (3, 8), (4, 8)):
        assert drafts.continuation(drafts.sources[0], list(range(11 - matching, 11))) == list(range(11, 11 + length))
    assert drafts.continuation(drafts.sources[0], [38]) == [39]
