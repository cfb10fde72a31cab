"""Greedy search that finds several tokens a pass: blockwise parallel decoding (Stern, Shazeer and Uszkoreit, 2018).

Drafts of the next tokens pass through the decoder together. The longest beginning that the model itself would have chosen is accepted, and
one more token behind it, which the same pass has scored. So the translation is that of a greedy search, token for token.

Shapes: B sentences still searched, T tokens of each in a pass (the newest one and its drafts), P positions of the prompt, V vocabulary.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch
from transformers import GenerationConfig, LogitsProcessorList

from .beam_search import behind, best_tokens, end_tokens_of, filled, likeliest, padding_of, refuse_nan
from .block_steps import BlockSteps
from .drafts import Drafter
from .stepping import closed, closed_up


class BlockwiseSearch:
    """One search over one batch."""

    def __init__(
        self,
        steps: BlockSteps,
        drafter: Drafter,
        prompts: torch.Tensor,
        processors: LogitsProcessorList,
        limits: Sequence[int],
        config: GenerationConfig,
        streamer: Any = None,
        forced_end: Sequence[int] = (),
    ) -> None:
        """The arguments are those of `greedy_search`, and who drafts."""
        self.steps, self.drafter, self.prompts, self.processors = steps, drafter, prompts, processors
        self.limits, self.config, self.streamer, self.forced_end = limits, config, streamer, forced_end
        self.end_tokens = end_tokens_of(config)
        self.found: list[list[int]] = [[] for _ in limits]
        self.searched = list(range(len(limits)))
        self.drafts: list[list[int]] = [[] for _ in limits]
        self.streamed = 0
        self.passes = self.blocks = 0
        """How often the decoder ran, and for how many sentences all in all; each time it found a block of tokens of each."""

    def run(self) -> torch.Tensor:
        """The likeliest token at every step, `[B, length]`."""
        with closed(not self.processors and self.streamer is None):
            self._search()
        if self.streamer is not None:
            self.streamer.end()
        return behind(self.prompts, self.found, self.config)

    def _search(self) -> None:
        scores = self.steps.first()
        while True:
            rows, staying = self._accept(scores)
            if self.streamer is not None:
                self._stream([self.searched[place] for place in staying])
            if not staying:
                break
            if len(staying) < len(self.searched):
                staying = closed_up(staying)
                self.steps.keep(staying)
                self.searched = [self.searched[place] for place in staying]
            proposed = self.drafter.propose(self.steps, self.searched, self.found, [rows[place] for place in staying])
            self.drafts = [draft[: self._room(sentence)] for sentence, draft in zip(self.searched, proposed, strict=True)]
            width = 1 + max(map(len, self.drafts))
            blocks = [[self.found[sentence][-1], *draft] for sentence, draft in zip(self.searched, self.drafts, strict=True)]
            lengths = [self.prompts.shape[1] + len(self.found[sentence]) - 1 for sentence in self.searched]
            scores = self.steps.next([filled(block, width) for block in blocks], lengths)

    def _accept(self, scores: torch.Tensor) -> tuple[list[int], list[int]]:
        """Append the tokens that `scores` `[B, T, V]` allow to each sentence.

        Returns:
            The row in which each one's newest token was scored, and the places of the sentences that go on.
        """
        self.passes, self.blocks = self.passes + 1, self.blocks + len(self.searched)
        choices = None if self.processors else Choices(scores)
        rows = [0] * len(self.searched)
        staying: list[int] = []
        going = list(range(len(self.searched)))
        for row in range(scores.shape[1]):
            tokens = self._under_rules(scores, going, row) if choices is None else [choices.token(place, row) for place in going]
            agreed: list[int] = []
            for place, token in zip(going, tokens, strict=True):
                sentence, draft = self.searched[place], self.drafts[place]
                said = self.found[sentence]
                is_last = len(said) + 1 == self.limits[sentence]
                said.append(min(self.forced_end) if is_last and self.forced_end else token)
                rows[place] = row
                if is_last or token in self.end_tokens:
                    continue
                (agreed if row < len(draft) and draft[row] == token else staying).append(place)
            going = agreed
            if not going:
                break
        return rows, sorted(staying)

    def _under_rules(self, scores: torch.Tensor, places: Sequence[int], row: int) -> list[int]:
        """The likeliest token after row `row` of each of `places`, under rules, which take sentences of one length at a time."""
        by_length = defaultdict(list)
        for place in places:
            by_length[len(self.found[self.searched[place]])].append(place)
        chosen: dict[int, int] = {}
        for alike in by_length.values():
            sentences = [self.searched[place] for place in alike]
            said = behind(self.prompts[sentences], [self.found[sentence] for sentence in sentences], self.config)
            _, tokens = likeliest(self.processors(said, scores[alike, row].float() + self.steps.offset))
            chosen.update(zip(alike, tokens, strict=True))
        return [chosen[place] for place in places]

    def _room(self, sentence: int) -> int:
        """How many drafts can still be right before the last token of a sentence, or the last position that the model knows."""
        room = self.limits[sentence] - len(self.found[sentence])
        most = self.steps.step.decoder.config.most_positions
        if most is not None:
            room = min(room, most - self.prompts.shape[1] - len(self.found[sentence]) + 1)
        return max(room - 1, 0)

    def _stream(self, going_on: Sequence[int]) -> None:
        """Give the streamer every token that stands for all sentences, as a greedy search would."""
        longest = max(map(len, self.found))
        until = min([len(self.found[sentence]) for sentence in going_on], default=longest)
        for number in range(self.streamed, until):
            self.streamer.put(torch.tensor([said[number] if number < len(said) else padding_of(self.config) for said in self.found]))
        self.streamed = until


class Choices:
    """The likeliest token after every row of a pass."""

    def __init__(self, scores: torch.Tensor) -> None:
        """`scores` is `[B, T, V]`."""
        self.width = scores.shape[1]
        _, self.tokens, self.best = best_tokens(scores.flatten(0, 1))

    def token(self, place: int, row: int) -> int:
        """That of the sentence at `place`; only there NaN matters, since a wrong draft may lead anywhere."""
        refuse_nan(self.best[place * self.width + row : place * self.width + row + 1])
        return self.tokens[place * self.width + row]


__all__ = ["BlockwiseSearch"]
