"""Token-budget batches: complete, within budget, the same on every rank, resumable, different from epoch to epoch."""

import itertools
import tracemalloc
from collections.abc import Iterable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from vaswani_transformer.data import batching
from vaswani_transformer.data.batching import BatchPlan, BatchStream, collate, plan_batches, require_equal_shares
from vaswani_transformer.data.encoding import TokenSequences

BUDGET = 400


def corpus_lengths(pairs: int = 3000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Lengths like those of a corpus: many short sentences, a long tail, targets a little longer than sources."""
    generator = np.random.default_rng(seed)
    sources = np.clip(generator.gamma(3.0, 6.0, pairs), 1, 99).astype(np.int32)
    targets = np.clip(sources * generator.normal(1.1, 0.15, pairs), 1, 99).astype(np.int32)
    return sources, targets


SOURCES, TARGETS = corpus_lengths()


def plan(epoch: int = 0, seed: int = 1) -> BatchPlan:
    return plan_batches(SOURCES, TARGETS, source_tokens=BUDGET, target_tokens=BUDGET, seed=seed, epoch=epoch)


def stream(micro_batches: int = 4, budget: int = BUDGET) -> BatchStream:
    return BatchStream(
        SOURCES,
        TARGETS,
        source_tokens=budget * micro_batches,
        target_tokens=budget * micro_batches,
        micro_batches=micro_batches,
        seed=1,
    )


def as_lists(batches: Iterable[np.ndarray]) -> list[list[int]]:
    return [batch.tolist() for batch in batches]


@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=60),
    st.integers(40, 200),
    st.integers(40, 200),
    st.integers(0, 3),
)
def test_every_pair_is_in_exactly_one_batch_and_every_batch_within_budget(
    lengths: list[tuple[int, int]], source_tokens: int, target_tokens: int, epoch: int
) -> None:
    sources, targets = np.array(lengths, dtype=np.int32).T
    batches = plan_batches(sources, targets, source_tokens=source_tokens, target_tokens=target_tokens, seed=3, epoch=epoch)
    assert sorted(itertools.chain.from_iterable(as_lists(batches))) == list(range(len(lengths)))
    for batch in batches:
        assert 1 <= len(batch) * sources[batch].max() <= source_tokens
        assert 1 <= len(batch) * targets[batch].max() <= target_tokens


def test_a_batch_by_hand() -> None:
    sources, targets = np.array([2, 2, 9], dtype=np.int32), np.array([3, 3, 1], dtype=np.int32)
    batches = plan_batches(sources, targets, source_tokens=9, target_tokens=6, seed=0, epoch=0)
    assert sorted(sorted(batch.tolist()) for batch in batches) == [[0, 1], [2]]


def test_padding_is_small_on_both_sides() -> None:
    batches = plan()
    for lengths, share in ((SOURCES, 0.1), (TARGETS, 0.03)):
        padded = sum(len(batch) * int(lengths[batch].max()) for batch in batches)
        assert 1 - lengths.sum() / padded < share


def test_batches_are_full() -> None:
    """Each is limited by one of its two budgets, so the fuller side of a batch comes close to it."""
    fill = [max(len(b) * SOURCES[b].max(), len(b) * TARGETS[b].max()) / BUDGET for b in plan()]
    assert np.mean(fill) > 0.9


def test_the_plan_depends_on_seed_and_epoch_alone() -> None:
    assert as_lists(plan(epoch=2)) == as_lists(plan(epoch=2))
    assert as_lists(plan(epoch=2)) != as_lists(plan(epoch=3)) != as_lists(plan(epoch=3, seed=2))


def test_other_pairs_meet_in_another_epoch() -> None:
    first, second = ({frozenset(batch) for batch in as_lists(plan(epoch=epoch))} for epoch in (0, 1))
    assert len(first & second) < 0.1 * len(first)


def test_the_order_of_batches_says_nothing_about_length() -> None:
    means = np.array([[TARGETS[batch].mean() for batch in plan(epoch)[:150]] for epoch in range(40)])
    first, second = means[:, :75].mean(), means[:, 75:].mean()
    assert abs(first - second) < 0.05 * means.mean()
    assert abs(np.corrcoef(means[:, :-1].ravel(), means[:, 1:].ravel())[0, 1]) < 0.1


def test_a_million_pairs_are_planned() -> None:
    sources, targets = corpus_lengths(1_000_000)
    batches = plan_batches(sources, targets, source_tokens=3000, target_tokens=3000, seed=1, epoch=0)
    assert sum(map(len, batches)) == 1_000_000
    assert np.bincount(np.concatenate(list(batches))).max() == 1


@pytest.mark.parametrize(("sorted_at_once", "sampled", "cut_at_once"), [(64, 4, 7), (512, 64, 1000), (1, 1, 1)])
def test_working_in_blocks_changes_nothing(monkeypatch: pytest.MonkeyPatch, sorted_at_once: int, sampled: int, cut_at_once: int) -> None:
    whole = as_lists(plan(epoch=3))
    monkeypatch.setattr(batching, "_SORTED_AT_ONCE", sorted_at_once)
    monkeypatch.setattr(batching, "_SAMPLED", sampled)
    monkeypatch.setattr(batching, "_CUT_AT_ONCE", cut_at_once)
    assert as_lists(plan(epoch=3)) == whole


def test_a_plan_is_what_numpy_says_in_one_go() -> None:
    """The same random numbers, all pairs sorted at once: what plans have always been, so that recorded trainings go on as they began."""
    generator = np.random.default_rng([1, 5])
    order = generator.permutation(len(SOURCES))
    late = generator.random(len(order), dtype=np.float32) * (TARGETS[order].astype(np.uint16) // 16 + 1)
    target_key = TARGETS[order] + late.astype(np.int32)
    limit = max(SOURCES.max(), TARGETS.max()) * 17 // 16 + 1
    source_key = np.where(target_key % 2 == 1, limit - SOURCES[order], SOURCES[order])
    order = order[np.lexsort((source_key, target_key))]
    ends = [0]
    while ends[-1] < len(order):
        rest = order[ends[-1] :]
        sizes = np.arange(1, len(rest) + 1)
        padded = (np.maximum.accumulate(lengths[rest]) * sizes for lengths in (SOURCES, TARGETS))
        ends.append(ends[-1] + int(np.count_nonzero(np.max(list(padded), axis=0) <= BUDGET)))
    batches = np.split(order, ends[1:-1])
    assert as_lists(plan(epoch=5)) == [batches[turn].tolist() for turn in generator.permutation(len(batches))]


def test_memory_is_a_few_bytes_a_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks and pairs in the proportion of 2 to 36 million."""
    pairs = 300_000
    monkeypatch.setattr(batching, "_SORTED_AT_ONCE", pairs // 18)
    sources, targets = corpus_lengths(pairs)
    plan()  # imports
    tracemalloc.start()
    batches = plan_batches(sources, targets, source_tokens=3000, target_tokens=3000, seed=1, epoch=0)
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(batches) > 1000
    assert held < 5 * pairs
    assert peak < 24 * pairs


GROUPS = (np.arange(len(SOURCES)) % 10 == 0).astype(np.uint16)
"""A tenth of the pairs is of group 1."""


def tempered(temperature: float, epoch: int = 0) -> BatchPlan:
    budgets = {"source_tokens": BUDGET, "target_tokens": BUDGET}
    return plan_batches(SOURCES, TARGETS, **budgets, seed=1, epoch=epoch, groups=GROUPS, temperature=temperature)


def test_at_temperature_1_groups_change_nothing() -> None:
    assert as_lists(tempered(1.0, epoch=3)) == as_lists(plan(epoch=3))


def test_temperature_shows_small_groups_more_often() -> None:
    for temperature, expected in ((2.0, [2250, 750]), (1e9, [1500, 1500])):  # sqrt(2700) : sqrt(300) is 3 : 1
        batches = tempered(temperature)
        shown = np.concatenate(list(batches))
        assert np.bincount(GROUPS[shown]).tolist() == expected
        assert set(np.flatnonzero(GROUPS)) <= set(shown)
        for batch in batches:
            assert len(batch) * max(SOURCES[batch].max(), TARGETS[batch].max()) <= BUDGET
    assert as_lists(tempered(2.0)) == as_lists(tempered(2.0))
    assert set(np.concatenate(list(tempered(2.0)))) != set(np.concatenate(list(tempered(2.0, epoch=1))))


def test_the_stream_is_planned_at_its_temperature() -> None:
    budgets = {"source_tokens": BUDGET, "target_tokens": BUDGET}
    stream = BatchStream(SOURCES, TARGETS, **budgets, seed=1, groups=GROUPS, temperature=2.0)
    assert [stream.update(u)[0].tolist() for u in range(20)] == as_lists(tempered(2.0)[:20])


def test_temperature_takes_a_few_bytes_a_pair_more(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = 300_000
    monkeypatch.setattr(batching, "_SORTED_AT_ONCE", pairs // 18)
    lengths, groups = corpus_lengths(pairs), np.arange(pairs, dtype=np.uint16) % 3
    tempered(2.0)  # imports
    tracemalloc.start()
    batches = plan_batches(*lengths, source_tokens=3000, target_tokens=3000, seed=1, epoch=0, groups=groups, temperature=2.0)
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(batches) > 1000
    assert held < 5 * pairs
    assert peak < 40 * pairs


def mixed(micro_batches: int) -> BatchStream:
    budgets = {"source_tokens": BUDGET * micro_batches, "target_tokens": BUDGET * micro_batches}
    return BatchStream(SOURCES, TARGETS, **budgets, micro_batches=micro_batches, seed=1, mixed_lengths=True)


def test_strata_by_hand() -> None:
    # One pair a batch, the shortest first: no two fit together, and so short targets have no jitter. From the second stratum on, the seven
    # turns of the epoch fall to strata 1 2 0 1 2 0 1, so stratum 0 has the two shortest pairs, 1 the next three and 2 the two longest
    lengths = np.arange(9, 16, dtype=np.int32)
    strata, orders = [0, 0, 1, 1, 1, 2, 2], set()
    for epoch in range(5):
        batches = plan_batches(
            lengths, lengths, source_tokens=15, target_tokens=15, seed=1, epoch=epoch, strata=3, first_stratum=1
        )  # fmt: skip
        taken = [pair for batch in batches for pair in batch.tolist()]
        assert [strata[pair] for pair in taken] == [1, 2, 0, 1, 2, 0, 1]
        assert sorted(taken) == list(range(7))
        orders.add(tuple(taken))
    assert len(orders) > 1


@pytest.mark.parametrize("micro_batches", [2, 3, 5])
def test_every_update_holds_one_batch_of_each_stratum(micro_batches: int) -> None:
    """Also the updates that hold the end of one epoch and the beginning of the next."""
    batches = mixed(micro_batches)
    updates = batches.updates_in(2)
    targets = [[int(TARGETS[pairs].mean()) for pairs in batches.update(update)] for update in range(updates)]
    lengths = sorted(itertools.chain.from_iterable(targets))
    borders = [lengths[len(lengths) * place // micro_batches] for place in range(1, micro_batches)]
    for means in targets:
        # Jitter and epochs of other batches move a border by a token or two
        for place, border in enumerate(borders):
            assert max(means[: place + 1]) <= border + 3
            assert min(means[place + 1 :]) >= border - 3
    random_updates = [[int(TARGETS[pairs].mean()) for pairs in stream(micro_batches).update(update)] for update in range(updates)]
    assert np.std(np.mean(targets, axis=1)) < 0.7 * np.std(np.mean(random_updates, axis=1))


def test_mixed_lengths_keep_every_pair_and_differ_from_epoch_to_epoch() -> None:
    batches = mixed(3)
    whole = [batches._epoch(epoch).plan for epoch in range(2)]
    for batch in whole:
        assert sorted(np.concatenate(list(batch))) == list(range(len(SOURCES)))
    assert as_lists(whole[0])[:20] != as_lists(whole[1])[:20]
    assert {tuple(batch) for batch in as_lists(whole[0])} == {tuple(batch) for batch in as_lists(plan())}


def test_a_jump_to_a_late_update_finds_the_same_mix() -> None:
    batches = mixed(3)
    late = 2 * batches.updates_in(1) + 5
    in_order = [as_lists(batches.update(update)) for update in range(late + 1)]
    assert as_lists(mixed(3).update(late)) == in_order[late]


def test_a_plan_is_a_sequence() -> None:
    batches = plan()
    assert as_lists(batches[2:5]) == as_lists(batches)[2:5]
    assert batches[-1].tolist() == as_lists(batches)[-1]
    assert batches[0].dtype == np.int64
    with pytest.raises(IndexError):
        batches[len(batches)]


def test_lengths_beyond_sixteen_bits_are_planned() -> None:
    lengths = np.array([70_000, 3, 70_001, 3], dtype=np.int32)
    batches = plan_batches(lengths, lengths, source_tokens=140_002, target_tokens=140_002, seed=1, epoch=0)
    assert {frozenset(batch) for batch in as_lists(batches)} == {frozenset({0, 2}), frozenset({1, 3})}


def test_the_stream_goes_through_each_epoch_once_across_updates() -> None:
    one_epoch, micro_batches = len(plan()), 4
    assert one_epoch % micro_batches, "the epoch must end inside an update for this test to mean something"
    updates = [stream().update(u) for u in range(2 * one_epoch // micro_batches + 1)]
    flat = list(itertools.chain.from_iterable(updates))
    assert all(len(update) == micro_batches for update in updates)
    assert as_lists(flat[:one_epoch]) == as_lists(plan(epoch=0))
    assert as_lists(flat[one_epoch : one_epoch + 20]) == as_lists(plan(epoch=1)[:20])


def test_a_jump_lands_where_a_walk_does() -> None:
    walked = stream()
    walk = [as_lists(walked.update(u)) for u in range(90)]
    for update in (89, 0, 33, 34, 61):
        assert as_lists(stream().update(update)) == walk[update]
    backwards = stream()
    assert [as_lists(backwards.update(u)) for u in reversed(range(90))] == walk[::-1]


def test_tokens_of_an_update_are_known_from_the_lengths() -> None:
    batches, counts = stream().update(5), stream().tokens(5)
    assert counts.source == sum(SOURCES[batch].sum() for batch in batches)
    assert counts.target == sum(TARGETS[batch].sum() for batch in batches)
    assert counts.padded_source == sum(len(batch) * SOURCES[batch].max() for batch in batches) <= 4 * BUDGET
    assert counts.padded_target == sum(len(batch) * TARGETS[batch].max() for batch in batches) <= 4 * BUDGET


def test_progress_is_counted_in_epochs() -> None:
    batches = stream(micro_batches=1)
    first, second = len(plan(epoch=0)), len(plan(epoch=1))
    assert batches.epoch_of(0) == 0.0
    assert batches.epoch_of(first) == 1.0
    assert batches.epoch_of(first + 10) == pytest.approx(1 + 10 / second)


@pytest.mark.parametrize("epochs", [0.01, 0.5, 1, 1.25, 2.0, 3])
@pytest.mark.parametrize("micro_batches", [1, 4])
def test_the_updates_of_some_epochs_are_the_first_to_complete_them(epochs: float, micro_batches: int) -> None:
    counted = stream(micro_batches).updates_in(epochs)
    walked = stream(micro_batches)
    assert walked.epoch_of(counted) >= epochs
    assert counted == 1 or walked.epoch_of(counted - 1) < epochs


def test_a_pair_beyond_the_budget_is_named_with_the_remedy() -> None:
    lengths = np.array([5, 31, 5], dtype=np.int32)
    with pytest.raises(ValueError, match=r"Pair 1 has 31 target tokens.*only 30.*max_sentence_tokens"):
        plan_batches(np.full_like(lengths, 5), lengths, source_tokens=30, target_tokens=30, seed=1, epoch=0)
    with pytest.raises(ValueError, match=r"Pair 1 has 31 source tokens.*only 30.*micro_batches"):
        BatchStream(lengths, lengths, source_tokens=60, target_tokens=60, micro_batches=2)


def test_what_cannot_be_planned_is_an_error() -> None:
    none, one, zero = (np.array(lengths, dtype=np.int32) for lengths in ([], [5], [0]))
    with pytest.raises(ValueError, match="no sentence pairs"):
        plan_batches(none, none, source_tokens=9, target_tokens=9, seed=1, epoch=0)
    with pytest.raises(ValueError, match="1 source but 0 target"):
        plan_batches(one, none, source_tokens=9, target_tokens=9, seed=1, epoch=0)
    with pytest.raises(ValueError, match="target of 0 tokens"):
        plan_batches(one, zero, source_tokens=9, target_tokens=9, seed=1, epoch=0)
    with pytest.raises(ValueError, match="micro_batches must be at least 1"):
        stream(micro_batches=0)


def test_ranks_that_cannot_share_equally_are_an_error() -> None:
    with pytest.raises(ValueError, match=r"3 processes cannot share 4 micro-batches.*multiple of 3"):
        require_equal_shares(4, 3)
    require_equal_shares(4, 2)


class ThreePairs:
    """What `collate` needs of an encoded corpus."""

    source = TokenSequences(np.array([7, 8, 2, 9, 2, 2], dtype=np.uint16), np.array([0, 3, 5, 6]))
    target = TokenSequences(np.array([5, 2, 6, 7, 2, 2], dtype=np.uint16), np.array([0, 2, 5, 6]))
    source_lengths = source.lengths


def test_collate_by_hand() -> None:
    batch = collate(ThreePairs(), [1, 0, 2], pad_token_id=0)  # type: ignore[arg-type]
    assert batch["input_ids"].tolist() == [[9, 2, 0], [7, 8, 2], [2, 0, 0]]
    assert batch["attention_mask"].tolist() == [[1, 1, 0], [1, 1, 1], [1, 0, 0]]
    assert batch["labels"].tolist() == [[6, 7, 2], [5, 2, -100], [2, -100, -100]]
    assert {tensor.dtype for tensor in batch.values()} == {torch.int64}
