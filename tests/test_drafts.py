"""Copying from the source, by examples small enough to follow."""

import pytest

from vaswani_transformer.drafts import SourceDrafts

SOURCE = [5, 6, 7, 8, 6, 9, 10]


@pytest.mark.parametrize(
    ("tokens", "draft"),
    [
        ([], []),
        ([4], []),
        ([7], [8, 6, 9, 10]),
        ([3, 8], [6, 9, 10]),
        ([6], [7, 8, 6, 9, 10]),  # the first of two
        ([8, 6], [9, 10]),  # the longer match wins
        ([4, 6], [7, 8, 6, 9, 10]),
        ([7, 8, 6], [9, 10]),
        ([10], []),  # nothing follows
    ],
)
def test_what_follows_in_the_source(tokens: list[int], draft: list[int]) -> None:
    assert SourceDrafts([SOURCE]).continuation(SOURCE, tokens) == draft


def test_a_draft_ends_after_some_tokens_and_never_holds_padding() -> None:
    drafts = SourceDrafts([[*range(3, 40), 2, 0, 0]], never=(0, 2))
    assert drafts.sources == [[*range(3, 40)]]
    assert drafts.continuation(drafts.sources[0], [5]) == list(range(6, 6 + SourceDrafts.LENGTH))
    assert drafts.continuation(drafts.sources[0], [38]) == [39]
