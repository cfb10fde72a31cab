"""A beam search whose translations must contain given items, such as the inline code of the source.

It is the grid of Hokamp and Liu (2017), *Lexically Constrained Decoding for Sequence Generation Using Grid Beam Search*: a hypothesis
stands in the bank of how many items it has written and how many tokens of the next, and each bank has places of its own. So hypotheses that
paid for an item never compete with those that have yet to. Only the bank in which all items are written may end.

This file travels with checkpoints. Shapes: B sentences still searched, K open hypotheses a sentence, V vocabulary.
"""

import heapq
import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from transformers import GenerationConfig, LogitsProcessorList, StoppingCriteriaList

from .beam_search import Penalty, behind, end_tokens_of, filled, refuse_nan
from .copied_items import lost_items
from .decoding import are_predictable, in_place, token_limits, without_forced_end
from .stepping import Steps, closed_up, steps_of

MOST_BANKS = 12
"""Of more items than this, several share a bank; the last bank is always that of all items."""

IN_AN_ITEM = 2
"""Places of a bank in which an item is being written: its next token is known, so there is little to choose."""

_SPACES = ("Ġ", "▁")
"""What a token begins with if a space is before its text: byte-level BPE, SentencePiece."""


Check = Callable[[tuple[int, ...]], bool]
"""Whether a finished translation has all items, as text."""


class Found(NamedTuple):
    """A finished translation with all items: its log-probability over the length penalty, and its tokens."""

    worth: float
    tokens: tuple[int, ...]


class Piece(NamedTuple):
    """A hypothesis is writing an item: tokens `[:length]` of one of its spellings are there."""

    spelling: int
    length: int


class Open(NamedTuple):
    """The beginning of a translation."""

    log_probability: float
    tokens: tuple[int, ...]
    missing: tuple[int, ...]
    """How often each item must still be written."""
    pieces: tuple[Piece, ...] = ()
    fresh: tuple[int, ...] = ()
    """Items that the last token completed; a next token that is glued to it takes them back."""


class Vocabulary:
    """What the search must know of tokens: how an item may be spelled, and which tokens are glued to the text before or after them."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self._edges: dict[int, tuple[bool, bool]] = {}

    def spellings(self, item: str) -> set[tuple[int, ...]]:
        """The item's tokens at the beginning of a text, after a space, and after a bracket."""
        found = {tuple(self._ids(item))}
        for before in ("a ", "("):
            opening, both = self._ids(before.strip()), self._ids(before + item)
            if both[: len(opening)] == opening:
                found.add(tuple(both[len(opening) :]))
        return found - {()}

    def places(self, items: Counter[str], width: int) -> int:
        """How many hypotheses of a sentence with these items can be open at once, in banks of `width`."""
        longest = max(len(spelling) for item in items for spelling in self.spellings(item))
        return width + min(sum(items.values()), MOST_BANKS) * (width + IN_AN_ITEM * (longest - 1))

    def edges(self, token: int) -> tuple[bool, bool]:
        """Whether the token's text begins, and ends, with a letter, a digit or an underscore."""
        if token not in self._edges:
            text = str(self.tokenizer.convert_ids_to_tokens(token))
            is_control = token in self.tokenizer.all_special_ids
            self._edges[token] = (False, False) if is_control or not text else (_is_of_word(text[0]), _is_of_word(text[-1]))
        return self._edges[token]

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids


def _is_of_word(character: str) -> bool:
    return character not in _SPACES and (character.isalnum() or character == "_")


class SentenceGrid:
    """One sentence's banks of open hypotheses, and the best finished ones."""

    def __init__(
        self, items: Counter[str], vocabulary: Vocabulary, limit: int, width: int, wanted: int, penalty: Callable[[int], float]
    ) -> None:
        """Begin with one empty hypothesis.

        Args:
            items: what must be written, and how often.
            limit: how many tokens the translation may have.
            width: the places of a bank.
            wanted: how many finished hypotheses to keep.
            penalty: of a length.
        """
        self.items, self.vocabulary, self.limit, self.width, self.wanted, self.penalty = items, vocabulary, limit, width, wanted, penalty
        self.spellings = [(number, tokens) for number, item in enumerate(items) for tokens in sorted(vocabulary.spellings(item))]
        self.firsts = {spelling[0] for _, spelling in self.spellings}
        self.starts_with_word = [item[0].isalnum() or item[0] == "_" for item in items]
        self.ends_with_word = [item[-1].isalnum() or item[-1] == "_" for item in items]
        self.total = sum(items.values())
        self.open = [Open(0.0, (), tuple(items.values()))]
        self.origins = [0]
        self.ended: list[tuple[float, int, Found]] = []
        self.seen = 0
        self.is_done = limit < 1

    def demanded(self, hypothesis: Open, end_tokens: Sequence[int] = ()) -> list[int]:
        """The tokens by which a hypothesis goes on with an item or begins one, and the end where it has them all."""
        tokens = [self.spellings[piece.spelling][1][piece.length] for piece in hypothesis.pieces]
        for number, spelling in self.spellings:
            if hypothesis.missing[number] and self._may_begin(hypothesis, number, spelling):
                tokens.append(spelling[0])
        tokens += () if any(hypothesis.missing) else end_tokens
        return list(dict.fromkeys(tokens))

    def extend(self, candidates: Sequence[tuple[float, int, int]], end_tokens: set[int], accepts: Check) -> None:
        """Take candidates, best first: the log-probability, the open hypothesis it continues, and its token.

        A finished translation counts only if it passes `accepts`.
        """
        banks: dict[tuple[int, int], list[tuple[Open, int]]] = {}
        taken: set[tuple[int, int]] = set()
        for log_probability, origin, token in candidates:
            if log_probability == -math.inf or (origin, token) in taken:
                continue
            taken.add((origin, token))
            if token in end_tokens:
                self._end(self.open[origin], log_probability, token, accepts)
                continue
            parent = self.open[origin]
            if not self._matters(parent, token) and len(banks.get((self._bank(parent)[0], 0), ())) == self.width:
                continue  # most candidates go this way
            hypothesis = self._appended(parent, token, log_probability)
            written, begun = self._bank(hypothesis)
            bank = banks.setdefault((written, begun), [])
            if len(bank) < (IN_AN_ITEM if begun else self.width):
                bank.append((hypothesis, origin))
        chosen = sorted((entry for bank in banks.values() for entry in bank), key=lambda entry: -entry[0].log_probability)
        self._let_go(chosen)

    def _matters(self, parent: Open, token: int) -> bool:
        """Whether `token` may change which items a hypothesis has written or is writing."""
        return bool(parent.fresh) or token in self.firsts or any(self.spellings[p.spelling][1][p.length] == token for p in parent.pieces)

    def _appended(self, parent: Open, token: int, log_probability: float) -> Open:
        missing = list(parent.missing)
        if self.vocabulary.edges(token)[0]:  # glued to the items that were just completed, which are therefore others
            for number in parent.fresh:
                missing[number] += self.ends_with_word[number]
        begun = [
            Piece(number, 0)
            for number, (item, spelling) in enumerate(self.spellings)
            if spelling[0] == token and self._may_begin(parent, item, spelling)
        ]
        pieces, fresh = [], []
        for piece in (*parent.pieces, *begun):
            item, spelling = self.spellings[piece.spelling]
            if spelling[piece.length] != token:
                continue
            if piece.length + 1 < len(spelling):
                pieces.append(Piece(piece.spelling, piece.length + 1))
            elif item not in fresh and missing[item] > 0:
                fresh.append(item)
                missing[item] -= 1
        pieces = [piece for piece in pieces if missing[self.spellings[piece.spelling][0]] > 0]
        return Open(log_probability, (*parent.tokens, token), tuple(missing), tuple(pieces), tuple(fresh))

    def _may_begin(self, hypothesis: Open, item: int, spelling: tuple[int, ...]) -> bool:
        """Whether this spelling would stand apart from the text before it."""
        is_glued = self.starts_with_word[item] and self.vocabulary.edges(spelling[0])[0]
        return not (is_glued and hypothesis.tokens and self.vocabulary.edges(hypothesis.tokens[-1])[1])

    def _bank(self, hypothesis: Open) -> tuple[int, int]:
        written = self.total - sum(hypothesis.missing)
        begun = max((piece.length for piece in hypothesis.pieces), default=0)
        return written * min(self.total, MOST_BANKS) // self.total, begun

    def _end(self, hypothesis: Open, log_probability: float, token: int, accepts: Check) -> None:
        """Give a finished hypothesis a place if it is among the best; the earlier one wins a tie."""
        worth = log_probability / self.penalty(len(hypothesis.tokens) + 1)
        if any(hypothesis.missing) or (len(self.ended) == self.wanted and worth <= self.ended[0][0]):
            return
        tokens = (*hypothesis.tokens, token)
        if accepts(tokens):
            self.seen += 1
            entry = (worth, -self.seen, Found(worth, tokens))
            (heapq.heappush if len(self.ended) < self.wanted else heapq.heappushpop)(self.ended, entry)

    def _let_go(self, chosen: Sequence[tuple[Open, int]]) -> None:
        """Keep the hypotheses that can still win a place; scores only fall."""
        length = len(chosen[0][0].tokens) if chosen else self.limit
        if chosen and len(self.ended) == self.wanted:
            largest_ahead = max(self.penalty(length + 1), self.penalty(self.limit))
            chosen = [entry for entry in chosen if entry[0].log_probability / largest_ahead > self.ended[0][0]]
        self.open, self.origins = [entry[0] for entry in chosen], [entry[1] for entry in chosen]
        self.is_done = not chosen or length >= self.limit


class ConstrainedSearch:
    """The decoding loop for `generate(custom_generate=...)`; what it found is then in `found`."""

    def __init__(self, vocabulary: Vocabulary, items: Sequence[Counter[str]], width: int, wanted: int) -> None:
        """Prepare for a batch.

        Args:
            vocabulary: of the model's tokenizer; what it has looked up serves all batches.
            items: for each sentence, what its translation must contain and how often; none is empty.
            width: places of a bank.
            wanted: translations a sentence.
        """
        self.vocabulary, self.items, self.width, self.wanted = vocabulary, items, width, wanted
        self.found: list[list[Found]] = []

    @property
    def rows(self) -> int:
        """The most hypotheses a sentence can have open: `num_beams` of the call."""
        return max(self.vocabulary.places(items, self.width) for items in self.items)

    def __call__(
        self,
        model: Any,
        input_ids: torch.Tensor,
        logits_processor: LogitsProcessorList,
        stopping_criteria: StoppingCriteriaList,
        generation_config: GenerationConfig,
        **model_kwargs: Any,
    ) -> torch.Tensor:
        """Search; returns the best translation of each sentence, or only its prompt where none has all items."""
        beams = generation_config.num_beams
        limits = token_limits(generation_config, input_ids, model_kwargs).tolist()
        processors, _ = without_forced_end(logits_processor, generation_config)
        steps = steps_of(model, input_ids, generation_config, model_kwargs, beams)
        penalty = _penalty(generation_config)
        grids = [
            SentenceGrid(items, self.vocabulary, limit, self.width, self.wanted, penalty)
            for items, limit in zip(self.items, limits, strict=True)
        ]
        prompts = input_ids[::beams]
        self.prompt_length = prompts.shape[1]
        batch = _Batch(steps, grids, prompts, in_place(processors), generation_config, self._accepts)
        batch.run()
        self.found = [[entry[2] for entry in sorted(grid.ended, reverse=True)] for grid in grids]
        return behind(prompts, [found[0].tokens if found else () for found in self.found], generation_config)

    def _accepts(self, grid: SentenceGrid, tokens: tuple[int, ...]) -> bool:
        return not lost_items(grid.items, self.vocabulary.tokenizer.decode(tokens, skip_special_tokens=True))


class _Batch:
    """The sentences still searched, and the model's steps for them."""

    def __init__(
        self,
        steps: Steps,
        grids: list[SentenceGrid],
        prompts: torch.Tensor,
        processors: LogitsProcessorList,
        config: GenerationConfig,
        accepts: Callable[[SentenceGrid, tuple[int, ...]], bool],
    ) -> None:
        self.steps, self.grids, self.prompts, self.processors, self.config, self.accepts = (
            steps,
            grids,
            prompts,
            processors,
            config,
            accepts,
        )
        self.rows = list(range(len(grids)))
        self.end_tokens = end_tokens_of(config)
        self.can_shrink = steps.can_shrink and are_predictable(processors)

    def run(self) -> None:
        """Until every sentence is done."""
        logits = self.steps.first()
        while True:
            self._extend(logits)
            staying = [place for place, grid in enumerate(self.grids) if not grid.is_done]
            if not staying:
                return
            if self.can_shrink and len(staying) < len(self.grids):
                staying = closed_up(staying)
                self.grids, self.rows = [self.grids[i] for i in staying], [self.rows[i] for i in staying]
                self.steps.keep(staying)
            width = max(len(grid.open) for grid in self.grids)
            logits = self.steps.next(
                self._on_device([filled([h.tokens[-1] for h in grid.open], width) for grid in self.grids]),
                self._on_device([filled(grid.origins, width) for grid in self.grids]),
            )

    def _extend(self, logits: torch.Tensor) -> None:
        """Append tokens to the hypotheses, given the scores `[B, K, V]` of all next ones."""
        log_probs = torch.log_softmax(logits.float(), -1)
        if self.processors:
            log_probs = self.processors(self._ids(logits.shape[1]), log_probs.flatten(0, 1)).view(logits.shape)
        best = log_probs.topk(min(self._most_wanted(), logits.shape[2]))
        values, tokens = best.values.tolist(), best.indices.tolist()
        demanded = [[grid.demanded(hypothesis, sorted(self.end_tokens)) for hypothesis in grid.open] for grid in self.grids]
        most = max((len(each) for row in demanded for each in row), default=0)
        asked = self._on_device([filled([filled(each, most) for each in row], logits.shape[1], [0] * most) for row in demanded])
        answered = log_probs.gather(2, asked.view(*logits.shape[:2], most)).tolist()
        for i, grid in enumerate(self.grids):
            if grid.is_done:
                continue
            refuse_nan([values[i][0][0]])
            candidates = [
                (hypothesis.log_probability + value, origin, token)
                for origin, hypothesis in enumerate(grid.open)
                for value, token in (
                    *zip(values[i][origin], tokens[i][origin], strict=True),
                    *zip(answered[i][origin], demanded[i][origin], strict=False),
                )
            ]
            candidates.sort(key=lambda candidate: -candidate[0])
            grid.extend(candidates, self.end_tokens, partial(self.accepts, grid))

    def _most_wanted(self) -> int:
        """Of each hypothesis, so many continuations that its bank could be full of them, and every end."""
        return max(grid.width for grid in self.grids) + len(self.end_tokens)

    def _ids(self, width: int) -> torch.Tensor:
        """The tokens of all hypotheses, prompts included, `[B * width, length]`."""
        said = [each for grid in self.grids for each in filled([h.tokens for h in grid.open], width, ())]
        return behind(self.prompts[self.rows].repeat_interleave(width, dim=0), said, self.config)

    def _on_device(self, numbers: list[Any]) -> torch.Tensor:
        return torch.tensor(numbers, dtype=torch.long, device=self.prompts.device)


def _penalty(config: GenerationConfig) -> Callable[[int], float]:
    """GNMT's length penalty or Hugging Face's, as the settings name it."""
    if getattr(config, "length_penalty_type", None) == "gnmt":
        return Penalty(config.length_penalty)
    alpha: float = config.length_penalty
    return lambda length: float(length**alpha)


__all__ = ["ConstrainedSearch"]
