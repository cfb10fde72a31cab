from collections.abc import Callable
from dataclasses import replace

import pytest

from benchmarks.training.work import TRAINER_SENTENCES, Load, Work, plan_work, typical
from vaswani_transformer.training.cost import training_flops

WorkMaker = Callable[..., Work]


def test_typical_batches_are_the_middles_of_equal_parts() -> None:
    assert typical([5.0, 1.0, 3.0, 2.0, 4.0], 1) == [2]
    # of two thirds each: lengths 1 2 | 3 4 | 5 6
    assert typical([6.0, 5.0, 4.0, 3.0, 2.0, 1.0], 3) == [4, 2, 0]
    assert typical([7.0, 7.0], 2) == [0, 1]
    with pytest.raises(ValueError, match="gives 2 batches, fewer than the 3 updates"):
        typical([1.0, 2.0], 3)


def test_the_load_is_counted(make_work: WorkMaker) -> None:
    work: Work = make_work("budget", 1)
    corpus = work.corpus()
    batches = ((0, 1, 2), (7,))
    load = Load.of(batches, corpus, work.config)
    sources, targets = ([[len(corpus.pair(i)[side]) for i in batch] for batch in batches] for side in (0, 1))
    assert load.pairs == 4
    assert load.target_tokens == sum(map(sum, targets))
    assert load.padded_target_tokens == 3 * max(targets[0]) + targets[1][0]
    assert load.flops == sum(training_flops(work.config, len(s), max(s), max(t), sum(t)) for s, t in zip(sources, targets, strict=True))


def test_batches_are_those_of_the_engine(make_work: WorkMaker) -> None:
    work: Work = make_work("budget", 3)
    corpus, batching = work.corpus(), work.recipe.batching
    assert len(work.updates) == len(work.batches) == 3 and min(work.updates) >= 1
    means = [corpus.target_lengths[list(batch)].mean() for batch in work.batches]
    assert means == sorted(means)
    for batch in work.batches:
        assert len(batch) * int(corpus.source_lengths[list(batch)].max()) <= batching.source_tokens
        assert len(batch) * int(corpus.target_lengths[list(batch)].max()) <= batching.target_tokens


@pytest.mark.parametrize("batching", ["random", "grouped"])
def test_batches_are_those_of_the_trainer(batching: str, make_work: WorkMaker) -> None:
    work: Work = make_work(batching, 2)
    assert [len(set(batch)) for batch in work.batches] == [TRAINER_SENTENCES] * 2 and work.updates == ()
    assert make_work(batching, 2).batches == work.batches  # every time the same


def test_grouping_by_length_saves_padding(make_work: WorkMaker) -> None:
    """Of the side that it groups by."""

    def padding(batching: str) -> float:
        work: Work = make_work(batching, 4)
        lengths = [work.corpus().source_lengths[list(batch)] for batch in work.batches]
        return 1 - sum(own.sum() for own in lengths) / sum(len(own) * own.max() for own in lengths)

    assert padding("grouped") < padding("random")


def test_a_corpus_that_is_too_small(make_work: WorkMaker) -> None:
    work: Work = make_work("grouped", 1)
    with pytest.raises(ValueError, match=r"gives \d+ batches, fewer than the 1000 updates"):
        plan_work("grouped", work.recipe, work.run, work.corpus(), work.vocab_size, 1000)
    assert replace(work, vocab_size=500).config.vocab_size == 500
