"""The settings that corpora of known size get."""

from collections import Counter

import pytest

from vaswani_transformer.data.cleaning import CleaningReport
from vaswani_transformer.data.survey import Side, Survey
from vaswani_transformer.proposal import REASONS, propose
from vaswani_transformer.recipe import load_recipe
from vaswani_transformer.shipped_recipes import find_recipe


def corpus(pairs: int, words: int, different: int = 60_000) -> Survey:
    """Sentences of one length on both sides."""
    report = CleaningReport(pairs_in=pairs, kept=pairs)
    side = Side(lengths=Counter({words: pairs}), words={str(number) for number in range(different)})
    return Survey(report, side, side, [])


def test_captions_get_the_settings_of_the_recipe_for_multi30k() -> None:
    found, shipped = propose(corpus(29_000, 12)), load_recipe(find_recipe("multi30k_en_de_muon"))
    training, batching = shipped.training, shipped.batching
    assert (training.updates, training.warmup_updates) == (found.updates, found.warmup_updates)
    assert {key: getattr(training, key) for key in REASONS} == found.size.more
    assert training.learning_rate_scale == pytest.approx(found.learning_rate_scale, abs=0.003)
    assert (batching.target_tokens, batching.micro_batches, batching.mixed_lengths) == (4096, found.size.micro_batches, True)
    assert (found.size.model, found.size.batch_tokens) == ({"preset": "tiny", "dropout": 0.2}, 4096)
    assert (training.average_checkpoints, training.checkpoint_every) == (found.average, found.checkpoint_every)
    assert (found.updates, found.warmup_updates, found.average, found.checkpoint_every) == (5200, 1000, 1, 100)
    assert found.learning_rate_scale == pytest.approx(1.43, abs=0.003)
    assert found.vocab_size == pytest.approx(10_000, rel=0.02)


def test_captions_get_the_second_run_of_the_recipe_for_multi30k() -> None:
    second, shipped = propose(corpus(29_000, 12)).second, load_recipe(find_recipe("multi30k_en_de_distilled"))
    assert second is not None
    assert second.updates == pytest.approx(shipped.training.updates, rel=0.03)
    assert second.warmup_updates == pytest.approx(shipped.training.warmup_updates, rel=0.03)
    assert second.learning_rate_scale == pytest.approx(shipped.training.learning_rate_scale, rel=0.03)
    assert (second.dropout, second.cooldown_share) == (shipped.model["dropout"], shipped.training.cooldown_share)


def test_only_what_was_tried_gets_a_second_run() -> None:
    assert [propose(corpus(pairs, 15)).second is not None for pairs in (20, 99_999, 100_000, 4_500_000)] == [True, True, False, False]


@pytest.mark.parametrize("pairs", [20, 300, 3_000, 60_000])
def test_the_parts_of_a_second_run_fit_each_other(pairs: int) -> None:
    second = propose(corpus(pairs, 15)).second
    assert second is not None
    assert 1 <= second.warmup_updates < second.updates * (1 - second.cooldown_share) + 1
    assert second.validate_every % second.checkpoint_every == 0 and second.validate_every <= second.updates


def test_wmt_gets_the_papers_base_model() -> None:
    found = propose(corpus(4_500_000, 25, different=300_000))
    assert (found.size.model, found.size.batch_tokens, found.updates) == ({"preset": "base"}, 25_000, 100_000)
    assert (found.warmup_updates, found.learning_rate_scale, found.average) == (4000, 1.0, 5)
    assert (found.vocab_size, found.checkpoint_every) == (37_000, 1500)


@pytest.mark.parametrize("pairs", [20, 300, 3_000, 60_000, 150_000, 400_000, 2_000_000, 30_000_000])
def test_any_size_gets_settings_that_fit_each_other(pairs: int) -> None:
    found = propose(corpus(pairs, 15))
    assert found.updates // found.checkpoint_every >= found.average
    assert found.validate_every % found.checkpoint_every == 0 and found.validate_every <= found.updates
    assert 1 <= found.warmup_updates <= found.updates // 5
    assert found.size.micro_batches >= 2  # so that an update can hold sentences of different lengths
    assert found.max_sentence_tokens <= found.size.batch_tokens // found.size.micro_batches


def test_few_different_words_make_a_small_vocabulary() -> None:
    assert propose(corpus(29_000, 12, different=500)).vocab_size == pytest.approx(506, rel=0.02)
    assert propose(corpus(30, 4, different=5)).vocab_size == 300
