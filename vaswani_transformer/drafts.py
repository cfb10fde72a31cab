"""Drafts of the next few tokens, for a search that verifies them all at once.

A draft costs a row of a matrix product where it is wrong, and saves a pass through the decoder where it is right. It never changes a
translation.
"""

from collections.abc import Sequence
from typing import Protocol

from .block_steps import BlockSteps


class Drafter(Protocol):
    """Whatever proposes tokens."""

    def propose(self, steps: BlockSteps, sentences: Sequence[int], found: Sequence[Sequence[int]], rows: Sequence[int]) -> list[list[int]]:
        """What may follow the tokens of each sentence still searched.

        Args:
            steps: as of the last pass.
            sentences: their places in the batch.
            found: the tokens of all sentences of the batch.
            rows: where each one's newest token was scored in the last pass.
        """


class HeadDrafts:
    """What a model's parallel heads propose, of either kind (Stern, Shazeer and Uszkoreit, 2018, section 3)."""

    def propose(self, steps: BlockSteps, sentences: Sequence[int], found: Sequence[Sequence[int]], rows: Sequence[int]) -> list[list[int]]:
        """See `Drafter.propose`."""
        return steps.guesses(rows, [found[sentence][-1] for sentence in sentences])


class SourceDrafts:
    """What follows, in the source, the tokens that the translation has just copied from it.

    Names, numbers, inline code and links are the same in both languages. So after tokens that stand in the source, the next ones of the
    source are a good guess. Prompt lookup in transformers does the same with the text that was generated so far, where a
    translation does not repeat itself.
    """

    LONGEST_MATCH = 3

    def __init__(self, sources: Sequence[Sequence[int]], unmatched: Drafter | None = None, never: Sequence[int] = ()) -> None:
        """Begin.

        Args:
            sources: the tokens of each sentence of the batch.
            unmatched: proposes for sentences whose last tokens are not in their source.
            never: tokens that no draft contains, such as padding and the end.
        """
        self.sources = [[token for token in source if token not in never] for source in sources]
        self.unmatched = unmatched

    def propose(self, steps: BlockSteps, sentences: Sequence[int], found: Sequence[Sequence[int]], rows: Sequence[int]) -> list[list[int]]:
        """See `Drafter.propose`."""
        drafts = [self.continuation(self.sources[sentence], found[sentence]) for sentence in sentences]
        if self.unmatched is not None and not all(drafts):
            others = self.unmatched.propose(steps, sentences, found, rows)
            drafts = [draft or other for draft, other in zip(drafts, others, strict=True)]
        return drafts

    def continuation(self, source: Sequence[int], tokens: Sequence[int]) -> list[int]:
        """What follows in `source` the longest end of `tokens` that occurs in it; nothing if not even the last token does.

        A match of n tokens is a reason to draft 2^n: one alone is often a comma.
        """
        for length in range(min(self.LONGEST_MATCH, len(tokens)), 0, -1):
            end = list(tokens[-length:])
            for start in range(len(source) - length):
                if list(source[start : start + length]) == end:
                    return list(source[start + length : start + length + 2**length])
        return []


__all__ = ["Drafter", "HeadDrafts", "SourceDrafts"]
