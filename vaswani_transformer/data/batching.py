"""Batches of about N source and N target tokens (paper section 5.1), planned from lengths alone.

A plan is a pure function of lengths, budgets, seed and epoch. So every rank computes the same plan without talking to the others, and
resuming means asking for the next update: there is no iterator whose state could be lost. Where each epoch cuts the sentences anew
(`data.bpe_dropout`), its lengths are a function of seed and epoch, too.
"""

import itertools
import math
from array import array
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, SupportsIndex, overload

import numpy as np
import torch
from numpy.typing import NDArray

from .encoding import TokenPairs
from .temperature import draw

IndexArray = NDArray[np.int64]
LengthArray = NDArray[np.int32]

IGNORED_LABEL = -100
"""What `torch.nn.functional.cross_entropy`, and so every Hugging Face model, leaves out of the loss."""

_JITTER = 16
_SORTED_AT_ONCE = 2**21
"""Number of pairs. Sorting needs 16 bytes a pair beside the result; sorting in blocks of key ranges reuses most of that memory."""
_SAMPLED = 2**10
_CUT_AT_ONCE = 2**16


class TokenCounts(NamedTuple):
    """How many tokens one optimisation update holds over all ranks: real ones, and the positions they occupy with padding."""

    source: int
    target: int
    padded_source: int
    padded_target: int


class BatchPlan(Sequence[IndexArray]):
    """The batches of one epoch: 4 bytes for a pair and 16 for a batch, so that every rank can hold the plan of a large corpus.

    Args:
        order: [n] pair indices, the pairs of a batch side by side; of any unsigned type.
        ends: [batches] where in `order` each batch ends.
        turns: [batches] which of them comes first, second, ...
    """

    def __init__(self, order: NDArray[Any], ends: IndexArray, turns: IndexArray) -> None:
        self._order, self._ends, self._turns = order, ends, turns

    def __len__(self) -> int:
        return len(self._turns)

    @overload
    def __getitem__(self, place: SupportsIndex) -> IndexArray: ...
    @overload
    def __getitem__(self, place: slice) -> "BatchPlan": ...
    def __getitem__(self, place: SupportsIndex | slice) -> "IndexArray | BatchPlan":
        if isinstance(place, slice):
            return BatchPlan(self._order, self._ends, self._turns[place])
        batch = int(self._turns[place])
        start = int(self._ends[batch - 1]) if batch else 0
        return self._order[start : self._ends[batch]].astype(np.int64)


def plan_batches(
    source_lengths: LengthArray,
    target_lengths: LengthArray,
    *,
    source_tokens: int,
    target_tokens: int,
    seed: int,
    epoch: int,
    groups: NDArray[Any] | None = None,
    temperature: float = 1.0,
    strata: int = 1,
    first_stratum: int = 0,
) -> BatchPlan:
    """Cut one epoch into batches whose padded sides stay within their budgets.

    Pairs of similar target and source length come together, so that little is padding. Which pairs meet differs from epoch to epoch: pairs
    of equal length are shuffled, and targets count as up to a sixteenth longer than they are. Then the batches themselves are shuffled, so
    that their order says nothing about length.

    Time and memory grow with the number of pairs and with nothing else; `benchmarks.planning` measures both.

    Args:
        source_lengths: [n] tokens, `</s>` included.
        target_lengths: [n] likewise.
        source_tokens: most source positions of a batch, padding included: pairs times longest source.
        target_tokens: likewise for the target.
        seed: with `epoch`, decides every random choice.
        epoch: 0-based.
        groups: [n] each pair's group as a small number, such as its target language; needed if `temperature` is not 1.
        temperature: how much small groups are favoured, see `temperature.draw`.
        strata: into how many classes of length the batches are cut, equal in number of batches. They take turns: batch i of the epoch is
            a random one of stratum (`first_stratum` + i) mod `strata`. 1 shuffles all batches.
        first_stratum: where the epoch before this one ended.

    Returns:
        The pair indices of each batch. Every pair is in exactly one batch; if `temperature` is not 1, as often as it was drawn.

    Raises:
        ValueError: there are no pairs, or a pair does not fit the budget even alone.
    """
    _check_lengths(source_lengths, target_lengths, source_tokens, target_tokens)
    generator = np.random.default_rng([seed, epoch])
    drawn = None
    if groups is not None and temperature != 1:
        drawn = draw(groups, temperature, generator)
        source_lengths, target_lengths = source_lengths[drawn], target_lengths[drawn]
    order = _order_by_length(source_lengths, target_lengths, generator)
    ends = _cut(order, source_lengths, target_lengths, source_tokens, target_tokens)
    return BatchPlan(order if drawn is None else drawn[order], ends, _turns(len(ends), strata, first_stratum, generator))


class _Epoch(NamedTuple):
    """The plan of an epoch, and the lengths it was made from."""

    plan: BatchPlan
    source_lengths: LengthArray
    target_lengths: LengthArray


def require_equal_shares(micro_batches: int, world_size: int) -> None:
    """Refuse a number of ranks that cannot share the micro-batches of an update equally: some would wait for the others forever.

    Raises:
        ValueError: it is not a divisor of `micro_batches`.
    """
    if micro_batches % world_size:
        raise ValueError(
            f"{world_size} processes cannot share {micro_batches} micro-batches equally; "
            f"start a number of them that divides {micro_batches}, or, for a new run, set batching.micro_batches to a multiple of "
            f"{world_size}."
        )


class BatchStream:
    """The endless sequence of micro-batches: all of epoch 0, then all of epoch 1, and so on, cut into optimisation updates.

    Update `u` takes micro-batches `u * M` to `(u + 1) * M - 1` of the sequence, so an epoch may end inside an update and nothing is left
    out. Asking for updates in order plans each epoch once. A jump to a late update plans the epochs before it once, to count their batches,
    unless it is told their number (`restore`).

    Args:
        source_lengths: [n] tokens, `</s>` included.
        target_lengths: [n] likewise.
        source_tokens: most source positions of one UPDATE over all ranks; each micro-batch gets an equal share.
        target_tokens: likewise for the target.
        micro_batches: M, the shares an update is cut into.
        seed: decides composition and order.
        groups, temperature: see `plan_batches`.
        lengths_of: gives both sides' lengths in an epoch, where they differ from epoch to epoch; all within the budgets.
        mixed_lengths: whether an update takes one micro-batch of each of M classes of length, in place of M random ones.

    Raises:
        ValueError: there are no pairs, or a pair does not fit a micro-batch even alone.
    """

    def __init__(
        self,
        source_lengths: LengthArray,
        target_lengths: LengthArray,
        *,
        source_tokens: int,
        target_tokens: int,
        micro_batches: int = 1,
        seed: int = 1,
        groups: NDArray[Any] | None = None,
        temperature: float = 1.0,
        lengths_of: Callable[[int], tuple[LengthArray, LengthArray]] | None = None,
        mixed_lengths: bool = False,
    ) -> None:
        if micro_batches < 1:
            raise ValueError(f"micro_batches must be at least 1, not {micro_batches}.")
        self._lengths, self._lengths_of = (source_lengths, target_lengths), lengths_of
        self._budgets = {
            "source_tokens": source_tokens // micro_batches,
            "target_tokens": target_tokens // micro_batches,
        }
        self.micro_batches, self.seed = micro_batches, seed
        self._groups, self._temperature = groups, temperature
        self._strata = micro_batches if mixed_lengths else 1
        _check_lengths(source_lengths, target_lengths, **self._budgets)
        self._epoch_starts = [0]
        self._epochs: dict[int, _Epoch] = {}

    @property
    def epoch_starts(self) -> list[int]:
        """The number of the first micro-batch of each epoch, as far as epochs have been planned."""
        return list(self._epoch_starts)

    def restore(self, epoch_starts: Sequence[int]) -> None:
        """Take over the `epoch_starts` of an equal stream, so that these epochs need not be planned to count their batches."""
        if len(epoch_starts) > len(self._epoch_starts):
            self._epoch_starts = list(epoch_starts)

    def update(self, update: int) -> list[IndexArray]:
        """The pair indices of each of the M micro-batches of the 0-based optimisation update."""
        first = update * self.micro_batches
        return [self._micro_batch(position) for position in range(first, first + self.micro_batches)]

    def tokens(self, update: int) -> TokenCounts:
        """The tokens of an update over all ranks, known from the lengths without communication."""
        counts = []
        for indices, (sources, targets) in zip(self.update(update), self.lengths(update), strict=True):
            padded = len(indices) * int(sources.max()), len(indices) * int(targets.max())
            counts.append((int(sources.sum()), int(targets.sum()), *padded))
        return TokenCounts(*(sum(column) for column in zip(*counts, strict=True)))

    def lengths(self, update: int) -> list[tuple[LengthArray, LengthArray]]:
        """The lengths of the sources and of the targets in each of the M micro-batches of an update."""
        lengths = []
        for number, indices in zip(self.epochs(update), self.update(update), strict=True):
            epoch = self._epoch(number)
            lengths.append((epoch.source_lengths[indices], epoch.target_lengths[indices]))
        return lengths

    def epoch_lengths(self, epoch: int) -> tuple[LengthArray, LengthArray]:
        """The lengths of all sources and of all targets in an epoch."""
        found = self._epoch(epoch)
        return found.source_lengths, found.target_lengths

    def epochs(self, update: int) -> list[int]:
        """The epoch of each of the M micro-batches of an update."""
        first = update * self.micro_batches
        return [self._epoch_at(position) for position in range(first, first + self.micro_batches)]

    def epoch_of(self, update: int) -> float:
        """How many passes over the corpus lie before this update, such as 1.25."""
        position = update * self.micro_batches
        epoch = self._epoch_at(position)
        start, end = self._epoch_starts[epoch : epoch + 2]
        return epoch + (position - start) / (end - start)

    def updates_in(self, epochs: float) -> int:
        """The number of the update that completes `epochs` passes over the corpus.

        Plans every epoch up to there, to count its batches. Where lengths differ from epoch to epoch, it plans the first one only and takes
        all others to be as long.
        """
        if self._lengths_of is not None:
            return max(math.ceil(epochs * self._epoch_starts_until(1)[1] / self.micro_batches), 1)
        whole, rest = divmod(epochs, 1)
        position = self._epoch_starts_until(int(whole))[int(whole)]
        if rest:
            position += math.ceil(rest * len(self._epoch(int(whole)).plan))
        return max(math.ceil(position / self.micro_batches), 1)

    def _micro_batch(self, position: int) -> IndexArray:
        epoch = self._epoch_at(position)
        return self._epoch(epoch).plan[position - self._epoch_starts[epoch]]

    def _epoch_at(self, position: int) -> int:
        """The epoch of a micro-batch; the length of every epoch up to it is known afterwards."""
        while self._epoch_starts[-1] <= position:
            self._epoch_starts_until(len(self._epoch_starts))
        return bisect_right(self._epoch_starts, position) - 1

    def _epoch_starts_until(self, epoch: int) -> list[int]:
        while len(self._epoch_starts) <= epoch:
            batches = len(self._epoch(len(self._epoch_starts) - 1).plan)
            self._epoch_starts.append(self._epoch_starts[-1] + batches)
        return self._epoch_starts

    def _epoch(self, epoch: int) -> _Epoch:
        """The plan of an epoch. The two used last are kept: an update may need the end of one and the beginning of the next."""
        if epoch not in self._epochs:
            while len(self._epochs) > 1:
                del self._epochs[next(iter(self._epochs))]
            lengths = self._lengths if self._lengths_of is None else self._lengths_of(epoch)
            plan = plan_batches(
                lengths[0],
                lengths[1],
                **self._budgets,
                seed=self.seed,
                epoch=epoch,
                groups=self._groups,
                temperature=self._temperature,
                strata=self._strata,
                # An update may begin in the epoch before; going on with the next stratum, it still has one of each
                first_stratum=self._epoch_starts_until(epoch)[epoch] % self._strata if self._strata > 1 else 0,
            )
            self._epochs[epoch] = _Epoch(plan, *lengths)
        return self._epochs[epoch]


def collate(corpus: TokenPairs, indices: IndexArray | Sequence[int], pad_token_id: int) -> dict[str, torch.Tensor]:
    """Token ids of some pairs as the tensors a model takes.

    Returns:
        `input_ids` [B, S], `attention_mask` [B, S] (1 on real tokens) and `labels` [B, T] (-100 on padding), all int64.
    """
    chosen = np.asarray(indices, dtype=np.int64)
    input_ids = corpus.source.padded(chosen, pad_token_id)
    attention_mask = np.arange(input_ids.shape[1]) < corpus.source_lengths[chosen][:, None]
    return {
        "input_ids": torch.from_numpy(input_ids),
        "attention_mask": torch.from_numpy(attention_mask.astype(np.int64)),
        "labels": torch.from_numpy(corpus.target.padded(chosen, IGNORED_LABEL)),
    }


def _check_lengths(source_lengths: LengthArray, target_lengths: LengthArray, source_tokens: int, target_tokens: int) -> None:
    if len(source_lengths) != len(target_lengths):
        raise ValueError(f"There are {len(source_lengths)} source but {len(target_lengths)} target lengths; each pair needs both.")
    if not len(source_lengths):
        raise ValueError("There are no sentence pairs to make batches of; check what cleaning dropped.")
    for side, lengths, budget in (
        ("source", source_lengths, source_tokens),
        ("target", target_lengths, target_tokens),
    ):
        longest, shortest = int(np.argmax(lengths)), int(np.argmin(lengths))
        if lengths[shortest] < 1:
            raise ValueError(f"Pair {shortest} has a {side} of {lengths[shortest]} tokens; an encoded sentence holds at least `</s>`.")
        if lengths[longest] > budget:
            raise ValueError(
                f"Pair {longest} has {lengths[longest]} {side} tokens, but a micro-batch may hold only {budget}: raise "
                f"batching.{side}_tokens, lower batching.micro_batches, or drop such pairs with batching.max_sentence_tokens."
            )


def _order_by_length(sources: LengthArray, targets: LengthArray, generator: np.random.Generator) -> NDArray[Any]:
    """Pairs by target, then source length, random among equals.

    Source lengths alternately rise and fall from one target length to the next, so that neighbours at the border are of similar length.
    """
    order = generator.permutation(len(sources))
    limit = max(int(sources.max()), int(targets.max())) * (_JITTER + 1) // _JITTER + 1
    kind: Any = np.uint16 if limit < 2**16 else np.int64  # 16 bits are sorted by radix: several times faster on millions of pairs
    target_key = targets.astype(kind)[order]
    jitter = generator.random(len(order), dtype=np.float32)
    jitter *= target_key // _JITTER + 1
    target_key += jitter.astype(kind)
    del jitter
    source_key = sources.astype(kind)[order]
    np.subtract(limit, source_key, out=source_key, where=target_key % 2 == 1, casting="unsafe")
    by_length = np.empty(len(order), dtype=np.min_scalar_type(len(order)))
    done = 0
    for low, high in _key_ranges(target_key):
        block = np.flatnonzero((target_key >= low) & (target_key < high))
        block = block[np.lexsort((source_key[block], target_key[block]))]
        by_length[done : done + len(block)] = order[block]
        done += len(block)
    return by_length


def _key_ranges(keys: NDArray[Any]) -> list[tuple[int, int]]:
    """Half-open ranges that split `keys` into blocks of about `_SORTED_AT_ONCE`, estimated from a sample; equal keys stay together."""
    sample = np.sort(keys[::_SAMPLED])
    firsts = np.unique(sample[_SORTED_AT_ONCE // _SAMPLED :: _SORTED_AT_ONCE // _SAMPLED]).tolist()
    return list(itertools.pairwise([0, *firsts, int(keys.max()) + 1]))


def _turns(batches: int, strata: int, first_stratum: int, generator: np.random.Generator) -> IndexArray:
    """Which of the batches, numbered by length, comes first, second, ...; see `plan_batches`."""
    if strata == 1:
        return generator.permutation(batches)
    stratum_of_turn = (first_stratum + np.arange(batches)) % strata
    sizes = np.bincount(stratum_of_turn, minlength=strata)
    turns = np.empty(batches, dtype=np.int64)
    for stratum, (size, end) in enumerate(zip(sizes, sizes.cumsum(), strict=True)):
        turns[stratum_of_turn == stratum] = generator.permutation(np.arange(end - size, end))
    return turns


def _cut(order: NDArray[Any], sources: LengthArray, targets: LengthArray, source_tokens: int, target_tokens: int) -> IndexArray:
    """Where each batch ends if every one takes as many of the pairs, in this order, as its budgets allow."""
    ends = array("q")
    pairs = longest_source = longest_target = 0
    for start in range(0, len(order), _CUT_AT_ONCE):
        some = order[start : start + _CUT_AT_ONCE]
        lengths = zip(sources[some].tolist(), targets[some].tolist(), strict=True)
        for place, (source, target) in enumerate(lengths, start):
            pairs += 1
            if source > longest_source:
                longest_source = source
            if target > longest_target:
                longest_target = target
            if pairs * longest_source > source_tokens or pairs * longest_target > target_tokens:
                ends.append(place)
                pairs, longest_source, longest_target = 1, source, target
    ends.append(len(order))
    return np.frombuffer(ends, dtype=np.int64)
