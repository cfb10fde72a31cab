"""The paper's beam search (section 6.1) over a model's scores of next tokens, and greedy search.

A finished hypothesis Y is worth `log P(Y | X) / ((5 + |Y|) / 6)^alpha` (Wu et al., 2016, equation 14, without
coverage). `|Y|` counts the tokens that the search added, including `</s>` but not a prefix the caller forced.

Tensors hold what is computed for every word of the vocabulary. Of each step only the best few continuations are copied to the host, in
one transfer; there a sentence's hypotheses are ordinary objects. Shapes: B sentences still searched, K open hypotheses a sentence
(`num_beams`), N wanted ones (`num_return_sequences`), W candidates, V vocabulary.
"""

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from transformers import GenerationConfig, LogitsProcessorList, StoppingCriteriaList
from transformers.generation.utils import GenerateBeamEncoderDecoderOutput
from transformers.utils import ModelOutput

from .stepping import Steps, closed, closed_up


class Hypothesis(NamedTuple):
    """A translation, or the beginning of one."""

    log_probability: float
    tokens: tuple[int, ...]
    rows: tuple[int, ...]
    """The row each token was scored in, for `compute_transition_scores`."""


@dataclass
class Penalty:
    """GNMT's length penalty."""

    alpha: float

    def __call__(self, length: int) -> float:
        """((5 + length) / 6)^alpha."""
        return ((5 + length) / 6) ** self.alpha


class SentenceSearch:
    """One sentence's hypotheses: at most K open ones, and the best N of those that ended.

    Ended hypotheses compete for the N places; they never fill a beam. Once the places are taken, an open hypothesis with log-probability s
    is dropped if it can no longer win one: later scores only lower s, so none of its continuations is worth more than s divided by the
    largest penalty ahead. This changes no result: open hypotheses are ranked by s, so those that can win rank before those that cannot.
    The sentence is done at its limit, or when no hypothesis is open.
    """

    def __init__(self, number: int, limit: int, beams: int, wanted: int, penalty: Penalty, is_predictable: bool) -> None:
        """Begin with one empty hypothesis.

        Args:
            number: the sentence's place in the batch.
            limit: how many tokens it may get.
            is_predictable: later scores only lower a log-probability.
        """
        self.number, self.limit, self.beams, self.wanted, self.penalty = number, limit, beams, wanted, penalty
        self.is_predictable = is_predictable
        self.open = [Hypothesis(0.0, (), ())]
        self.origins: list[int] = []
        self.places: list[int] = []
        self.length = 0
        self.ended: list[tuple[float, int, Hypothesis]] = []
        self.seen = 0
        self.is_done = False

    def extend(
        self,
        log_probabilities: Sequence[float],
        beams: Sequence[int],
        tokens: Sequence[int],
        ends: Sequence[bool],
    ) -> None:
        """Take W candidates, best first: candidate i appends `tokens[i]` to the open hypothesis `beams[i]`."""
        parents, self.open, self.origins, self.places = self.open, [], [], []
        self.length += 1
        for place, (log_probability, beam, token, is_end) in enumerate(zip(log_probabilities, beams, tokens, ends, strict=True)):
            if log_probability == -math.inf or (len(self.open) == self.beams and not is_end):
                continue
            row = self.number * self.beams + beam
            parent = parents[beam]
            hypothesis = Hypothesis(log_probability, (*parent.tokens, token), (*parent.rows, row))
            if is_end:
                self._end(hypothesis)
            else:
                self.open.append(hypothesis)
                self.origins.append(beam)
                self.places.append(place)
        self._let_go()

    def results(self) -> list[tuple[float, Hypothesis]]:
        """N hypotheses with their worth, best first; if fewer ended within the limit, the best open ones follow them."""
        ended = [(worth, hypothesis) for worth, _, hypothesis in sorted(self.ended, reverse=True)]
        penalty = self.penalty(self.length)
        stand_ins = [(hypothesis.log_probability / penalty, hypothesis) for hypothesis in self.open]
        nothing = [(-math.inf, Hypothesis(-math.inf, (), ()))] * self.wanted
        return (ended + stand_ins + nothing)[: self.wanted]

    def _let_go(self) -> None:
        """Drop the open hypotheses that cannot change the result any more."""
        if self.length < self.limit and self.is_predictable and len(self.ended) == self.wanted:
            largest_ahead = max(self.penalty(self.length + 1), self.penalty(self.limit))
            alive = sum(h.log_probability / largest_ahead > self.ended[0][0] for h in self.open)
            del self.open[alive:], self.origins[alive:], self.places[alive:]
        self.is_done = self.length >= self.limit or not self.open

    def _end(self, hypothesis: Hypothesis) -> None:
        """Give `hypothesis` a place if it is among the best N; the earlier one wins a tie."""
        self.seen += 1
        worth = hypothesis.log_probability / self.penalty(len(hypothesis.tokens))
        if worth > -math.inf:
            entry = (worth, -self.seen, hypothesis)
            (heapq.heappush if len(self.ended) < self.wanted else heapq.heappushpop)(self.ended, entry)


class GnmtBeamSearch:
    """One search over one batch."""

    def __init__(
        self,
        steps: Steps,
        prompts: torch.Tensor,
        processors: LogitsProcessorList,
        criteria: StoppingCriteriaList,
        config: GenerationConfig,
        limits: Sequence[int],
        is_predictable: bool,
        forced_end: Sequence[int] = (),
        earliest: Mapping[int, int] = MappingProxyType({}),
    ) -> None:
        """Begin.

        Args:
            prompts: `[B, P]`.
            limits: how many tokens each sentence may get.
            is_predictable: see `PREDICTABLE_PROCESSORS`.
            forced_end: the only tokens allowed as the last one of a sentence that reaches its limit; empty allows all.
            earliest: how many tokens must stand before each of these end tokens.
        """
        self.steps, self.prompts, self.processors, self.criteria = steps, prompts, processors, criteria
        self.config, self.beams = config, config.num_beams
        penalty = Penalty(config.length_penalty)
        self.sentences = [
            SentenceSearch(number, limit, self.beams, config.num_return_sequences, penalty, is_predictable)
            for number, limit in enumerate(limits)
        ]
        self.end_tokens, self.forced_end = end_tokens_of(config), list(forced_end)
        self.dtype = torch.float32
        self.recorder = StepRecorder(config)
        self.names: Sequence[int] | None = None if steps.columns is None else steps.columns.tolist()
        self.earliest = columns_of(earliest, self.names)
        self.length = 0
        self.searched = self.sentences
        self.best: torch.Tensor | None = None
        """The last step's largest sums `[B, W]`, where they still belong to these sentences."""
        self.can_shrink = not criteria and not self.recorder.is_on and is_predictable and steps.can_shrink

    def run(self, encoder_outputs: ModelOutput) -> torch.Tensor | GenerateBeamEncoderDecoderOutput:
        """Search until every sentence is done; returns what `generate` returns."""
        with closed(self.steps.is_closed and not (self.processors or self.criteria or self.recorder.is_on)):
            self._search()
        return self._output(encoder_outputs)

    def _search(self) -> None:
        logits = self.steps.first()
        while True:
            self._extend(logits)
            staying = [i for i, s in enumerate(self.searched) if not s.is_done]
            if not staying:
                return
            if self.can_shrink and len(staying) < len(self.searched):
                staying = closed_up(staying)
                self.searched = [self.searched[i] for i in staying]
                self.steps.keep(staying)
                self.best = None
            width = max(len(s.open) for s in self.searched) if self.can_shrink else self.beams
            logits = self.steps.next(
                self._on_device([filled([h.tokens[-1] for h in s.open], width) for s in self.searched]),
                self._on_device([filled(s.origins, width) for s in self.searched]),
            )

    def _extend(self, logits: torch.Tensor) -> None:
        """Append a token to every hypothesis, given the scores `[B, K or 1, V]` of all next tokens."""
        _, hypotheses, vocabulary = logits.shape
        log_probs, so_far = self._log_probabilities(logits), self._so_far(hypotheses)
        is_own = not (self.processors or self.recorder.is_on)  # else somebody may have kept these scores
        sums = log_probs.add_(so_far) if is_own else log_probs + so_far
        self.best, values, places = largest(sums, self.beams * (1 + len(self.end_tokens)))
        self.length += 1
        origins = [[place // vocabulary for place in row] for row in places]
        chosen = [[place % vocabulary for place in row] for row in places]
        if self.names is not None:
            chosen = [[self.names[column] for column in row] for row in chosen]
        for i, (sentence, ends) in enumerate(zip(self.searched, self._ends(origins, chosen), strict=True)):
            if not sentence.is_done:
                refuse_nan(values[i][:1])  # NaN is sorted before all numbers
                sentence.extend(values[i], origins[i], chosen[i], ends)

    def _so_far(self, width: int) -> torch.Tensor:
        """Log-probabilities of the open hypotheses, `[B, width, 1]`, minus infinity where a sentence has fewer."""
        first = list(range(width))
        if self.best is not None and all(sentence.places == first for sentence in self.searched):
            return self.best.narrow(1, 0, width).unsqueeze(-1)  # as they are, which is faster than to make a tensor of them
        numbers = [filled([h.log_probability for h in s.open], width, -math.inf) for s in self.searched]
        return torch.tensor(numbers, dtype=self.dtype, device=self.prompts.device).unsqueeze(-1)

    def _log_probabilities(self, logits: torch.Tensor) -> torch.Tensor:
        """Log-probabilities of all next tokens, `[B, K or 1, V]`, at least in float32, after the caller's rules."""
        self.dtype = torch.float64 if logits.dtype is torch.float64 else torch.float32
        rows = logits.flatten(0, 1).to(self.dtype)
        # In place, because fresh memory for a vocabulary's scores costs as much as a third of the operation.
        log_probs = torch.log_softmax(rows, -1, out=None if self.recorder.is_on else rows)
        if self.processors:
            repeats = self.beams if logits.shape[1] == 1 else 1
            ids = self._ids(logits.shape[1] * repeats)
            if repeats > 1:
                log_probs = log_probs.repeat_interleave(repeats, dim=0)
            log_probs = self.processors(ids, log_probs)[::repeats]
        bar(log_probs, self.earliest, self.length)
        if self.forced_end:
            log_probs = self._with_forced_ends(log_probs.view(logits.shape)).flatten(0, 1)
        if self.recorder.is_on:
            self.recorder.add(self.steps.outputs, rows, log_probs)
        return log_probs.view(logits.shape)

    def _with_forced_ends(self, log_probs: torch.Tensor) -> torch.Tensor:
        """`log_probs` `[B, K or 1, V]`; for a sentence at its limit, 0 for its forced end tokens and minus infinity for all others."""
        lasts = [i for i, s in enumerate(self.searched) if s.length + 1 == s.limit]
        if lasts:
            forced = torch.full_like(log_probs[0], -math.inf)
            forced[:, self.forced_end] = 0
            log_probs = log_probs.index_put((self._on_device(lasts),), forced)
        return log_probs

    def _ends(self, origins: list[list[int]], tokens: list[list[int]]) -> list[list[bool]]:
        """Which candidates end here."""
        ends = [[token in self.end_tokens for token in row] for row in tokens]
        if not self.criteria:
            return ends
        rows = [i * self.beams + beam for i, row in enumerate(origins) for beam in row]
        newest = self._on_device(tokens).view(-1, 1)
        ruled = self.criteria(torch.cat((self._ids(self.beams)[rows], newest), dim=-1), None)
        ruled = ruled.view(len(ends), -1).tolist()
        return [[a or b for a, b in zip(*pair, strict=True)] for pair in zip(ends, ruled, strict=True)]

    def _ids(self, width: int) -> torch.Tensor:
        """The tokens of all hypotheses, prompts included, `[B * width, length]`."""
        prompts = self.prompts[[sentence.number for sentence in self.searched]]
        tokens = [said for s in self.searched for said in filled([h.tokens for h in s.open], width, ())]
        return behind(prompts.repeat_interleave(width, dim=0), tokens, self.config)

    def _on_device(self, numbers: list) -> torch.Tensor:
        return torch.tensor(numbers, dtype=torch.long, device=self.prompts.device)

    def _output(self, encoder_outputs: ModelOutput) -> torch.Tensor | GenerateBeamEncoderDecoderOutput:
        """What `generate` returns: every sentence's N hypotheses, best first."""
        config = self.config
        results = [result for sentence in self.sentences for result in sentence.results()]
        prompts = self.prompts.repeat_interleave(config.num_return_sequences, dim=0)
        sequences = behind(prompts, [hypothesis.tokens for _, hypothesis in results], config)
        if not config.return_dict_in_generate:
            return sequences
        longest = sequences.shape[1] - prompts.shape[1]
        return GenerateBeamEncoderDecoderOutput(
            sequences=sequences,
            sequences_scores=torch.tensor([worth for worth, _ in results], dtype=self.dtype, device=prompts.device),
            beam_indices=self._on_device([filled(h.rows, longest, -1) for _, h in results]),
            encoder_attentions=encoder_outputs.get("attentions") if config.output_attentions else None,
            encoder_hidden_states=encoder_outputs.get("hidden_states") if config.output_hidden_states else None,
            **self.recorder.steps(),
        )


HARDLY_ANY = 8192
"""So few scores are sorted faster than divided into blocks."""


def filled(items: Sequence[Any], width: int, filler: Any = 0) -> list[Any]:
    """`items`, padded with `filler` to `width` entries."""
    return [*items, *[filler] * (width - len(items))]


def largest(sums: torch.Tensor, number: int) -> tuple[torch.Tensor, list[list[float]], list[list[int]]]:
    """The `number` largest of each sentence's `sums` `[B, K, V]` (all, if they are fewer), largest first, on their device and on the host.

    Also returns their places among the sentence's K * V. Only the blocks with the largest maxima can hold them, so the vocabulary is read
    once and hardly sorted.
    """
    sentences, hypotheses, width = sums.shape
    if hypotheses * width <= HARDLY_ANY:
        best, found = sums.flatten(1).topk(min(number, hypotheses * width))
        values, places = on_host(best, found)
        return best, values, [[int(place) for place in row] for row in places]
    block = block_width(width)
    blocks = sums.reshape(-1, block)
    most = blocks.amax(-1).view(sentences, -1)
    chosen = most.topk(min(number, most.shape[1])).indices
    firsts = torch.arange(0, most.numel(), most.shape[1], device=sums.device).unsqueeze(-1)
    entries = blocks.index_select(0, (chosen + firsts).flatten()).view(sentences, -1)
    best, found = entries.topk(min(number, entries.shape[1]))
    values, within, blocks_of = on_host(best, found, chosen)
    places = [
        [int(own[int(place) // block]) * block + int(place) % block for place in row] for row, own in zip(within, blocks_of, strict=True)
    ]
    return best, values, places


def on_host(*parts: torch.Tensor) -> list[list[list[Any]]]:
    """The rows of each of `parts` `[B, any]` as lists of numbers; on an accelerator of floats, after one wait for all of them."""
    if parts[0].device.type == "cpu":
        return [part.tolist() for part in parts]
    rows = torch.cat([part.double() for part in parts], dim=-1).tolist()
    ends = list(accumulate(part.shape[-1] for part in parts))
    return [[row[start:end] for row in rows] for start, end in zip([0, *ends], ends, strict=False)]


def columns_of(earliest: Mapping[int, int], names: Sequence[int] | None) -> dict[int, int]:
    """`earliest` by columns of the scores, which have these `names` if they are not the whole vocabulary."""
    if names is None:
        return dict(earliest)
    return {names.index(token): least for token, least in earliest.items() if token in names}


def bar(scores: torch.Tensor, earliest: Mapping[int, int], length: int) -> None:
    """Forbid in `scores` `[..., V]` the end tokens that may not stand behind only `length` tokens; `earliest` is by column."""
    for column, least in earliest.items():
        if length < least:
            scores.select(-1, column).fill_(-math.inf)


def first_largest(rows: torch.Tensor) -> torch.Tensor:
    """The place of the largest entry of each row `[R, V]`, the first of equals, `[R]`: a faster `argmax`."""
    blocks = rows.unflatten(1, (-1, block_width(rows.shape[1])))
    chosen = blocks.amax(-1).argmax(-1)
    return chosen * blocks.shape[2] + blocks[torch.arange(len(rows), device=rows.device), chosen].argmax(-1)


@cache
def block_width(width: int) -> int:
    """The best length of equal blocks for a row of `width`: PyTorch reads 32 entries of a block at once, and a remainder one by one."""
    return min((size for size in range(1, 257) if width % size == 0), key=lambda size: (size % 32 + 8) / size)


def greedy_search(
    steps: Steps,
    prompts: torch.Tensor,
    processors: LogitsProcessorList,
    limits: Sequence[int],
    config: GenerationConfig,
    streamer: Any = None,
    forced_end: Sequence[int] = (),
    earliest: Mapping[int, int] = MappingProxyType({}),
) -> torch.Tensor:
    """The likeliest token at every step, `[B, length]`; sentences leave the batch as they end or reach their limit.

    Args:
        prompts: `[B, P]`.
        processors: they change the scores of next tokens, independent of a sentence's row.
        limits: how many tokens each sentence may get.
        streamer: gets every sentence's next token at every step, `[B]`; padding for sentences that have ended.
        forced_end: the first of these ends a sentence that reaches its limit.
        earliest: how many tokens must stand before each of these end tokens.
    """
    end_tokens = end_tokens_of(config)
    barred = columns_of(earliest, None if steps.columns is None else steps.columns.tolist())
    found: list[list[int]] = [[] for _ in limits]
    searched = list(range(len(limits)))
    with closed(not processors and streamer is None and steps.is_closed):
        logits = steps.first()
        while searched:
            if processors:
                said = behind(prompts[searched], [found[sentence] for sentence in searched], config)
                logits = processors(said, logits[:, -1].float() + steps.offset).unsqueeze(1)
            scores = logits[:, -1]
            bar(scores, barred, len(found[searched[0]]))
            newest, tokens = likeliest(scores)
            if steps.columns is not None:
                newest = steps.columns[newest]
                tokens = newest.tolist()
            staying = []
            for i, sentence in enumerate(searched):
                is_last = len(found[sentence]) + 1 == limits[sentence]
                found[sentence].append(min(forced_end) if is_last and forced_end else tokens[i])
                if not is_last and tokens[i] not in end_tokens:
                    staying.append(i)
            if streamer is not None:
                streamer.put(torch.tensor([found[i][-1] if i in searched else padding_of(config) for i in range(len(limits))]))
            if staying and len(staying) < len(searched):
                staying = closed_up(staying)
                steps.keep(staying)
                newest = newest[staying]
            searched = [searched[i] for i in staying]
            if searched:
                newest = newest.unsqueeze(-1)
                logits = steps.next(newest, torch.zeros_like(newest))
    if streamer is not None:
        streamer.end()
    return behind(prompts, found, config)


def likeliest(scores: torch.Tensor) -> tuple[torch.Tensor, list[int]]:
    """The token with the largest score in each row of `scores` `[R, V]`: as `[R]` on their device, and as a list on the host.

    Raises:
        ValueError: one of the scores is not a number.
    """
    tokens, chosen, best = best_tokens(scores)
    refuse_nan(best)
    return tokens, chosen


ONE_PASS = 200_000
"""Up to so many scores, their largest are found faster by one operation than by fewer comparisons."""


def likeliest_tokens(scores: torch.Tensor) -> torch.Tensor:
    """The token with the largest score in each row of `scores` `[R, V]`, the first of equals, `[R]`."""
    return scores.argmax(-1) if scores.numel() <= ONE_PASS else first_largest(scores)


def best_tokens(scores: torch.Tensor) -> tuple[torch.Tensor, list[int], list[float]]:
    """The token with the largest score in each row of `scores` `[R, V]`: on their device and on the host, and its score."""
    on_cpu = scores.device.type == "cpu"
    if on_cpu and scores.numel() <= ONE_PASS:
        values, tokens = scores.max(-1)  # the first of equals, as `argmax`, and its score in the same pass
    else:
        tokens = likeliest_tokens(scores)
        values = scores.gather(1, tokens.unsqueeze(-1)).squeeze(-1)
    if on_cpu:
        return tokens, tokens.tolist(), values.tolist()
    numbers, best = torch.stack((tokens.double(), values.double())).tolist()  # the step's one wait for the device
    return tokens, [int(number) for number in numbers], best


def refuse_nan(scores: Sequence[float]) -> None:
    """Refuse scores of next tokens that cannot be compared.

    Raises:
        ValueError: one of them is not a number.
    """
    if any(score != score for score in scores):
        raise ValueError(
            "The model's scores for the next token are not numbers (NaN), so none is the best; look for NaN or infinity in its weights and "
            "inputs, or compute in a wider type, such as torch.float32."
        )


def behind(prompts: torch.Tensor, found: Sequence[Sequence[int]], config: GenerationConfig) -> torch.Tensor:
    """The found tokens after their prompts `[B, P]`, shorter ones padded, `[B, length]`."""
    longest = max(map(len, found))
    rows = [filled(tokens, longest, padding_of(config)) for tokens in found]
    return torch.cat((prompts, torch.tensor(rows, dtype=torch.long, device=prompts.device)), dim=-1)


def padding_of(config: GenerationConfig) -> int:
    """The token that pads the shorter sentences of a batch."""
    return 0 if config._pad_token_tensor is None else int(config._pad_token_tensor)


def end_tokens_of(config: GenerationConfig) -> set[int]:
    """The tokens that end a translation."""
    end = config._eos_token_tensor
    return set() if end is None else set(end.flatten().tolist())


class StepRecorder:
    """What the caller asked `generate` to return of every step, under the names of its output."""

    def __init__(self, config: GenerationConfig) -> None:
        wanted = {
            "scores": config.output_scores,
            "logits": config.output_logits,
            "decoder_attentions": config.output_attentions,
            "cross_attentions": config.output_attentions,
            "decoder_hidden_states": config.output_hidden_states,
        }
        self._steps: dict[str, list[Any]] = {name: [] for name, on in wanted.items() if on and config.return_dict_in_generate}
        self.is_on = bool(self._steps)

    def add(self, outputs: ModelOutput, logits: torch.Tensor, log_probs: torch.Tensor) -> None:
        """Note one step."""
        given = {**outputs, "scores": log_probs, "logits": logits}
        for name, steps in self._steps.items():
            steps.append(given.get(name))

    def steps(self) -> dict[str, tuple[Any, ...]]:
        """All steps so far."""
        return {name: tuple(steps) for name, steps in self._steps.items()}


__all__ = ["GnmtBeamSearch", "greedy_search"]
