"""Trainings whose epochs cut the words anew: exact after every stop, for every number of ranks, within their budgets."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from vaswani_transformer import VaswaniConfig
from vaswani_transformer.data.batching import BatchStream
from vaswani_transformer.data.bpe_dropout import ResegmentedCorpus
from vaswani_transformer.files.json_files import read_json, read_json_lines
from vaswani_transformer.recipe import Recipe
from vaswani_transformer.run_folder import RunFolder
from vaswani_transformer.training import engine
from vaswani_transformer.training import update as update_module
from vaswani_transformer.training.engine import train
from vaswani_transformer.training.preparation import open_prepared_data, prepare_data
from vaswani_transformer.training.rehearsal import describe, rehearse
from vaswani_transformer.training.update import drawn_corpus

RATE = 0.3


@pytest.fixture
def make(make_recipe: Callable[..., Recipe]) -> Callable[..., Recipe]:
    """A recipe with BPE-dropout, of about two updates an epoch."""

    def build(rate: float = RATE, **changes: Any) -> Recipe:
        batching = {"source_tokens": 512, "target_tokens": 512, "micro_batches": 2, **changes.pop("batching", {})}
        return make_recipe(batching, fine={"tokenizer": {"vocab_size": 290, "bpe_dropout": rate}}, **changes)

    return build


def bits(run: RunFolder) -> list[bytes]:
    return [(run.state / "update-8" / f"{name}.safetensors").read_bytes() for name in ("model", "optimizer")]


def stopped_after_every_update(recipe: Recipe, run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    for stop in range(1, 8):
        monkeypatch.setattr(engine.Training, "is_complete", property(lambda self, stop=stop: self.state.update >= stop))
        monkeypatch.setattr(engine.Training, "_is_due", lambda self, every: True)
        train(recipe, run)
        monkeypatch.undo()
    assert train(recipe, run)


def test_a_stop_after_any_update_changes_no_bit(make: Callable[..., Recipe], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, stopped = RunFolder(tmp_path / "whole"), RunFolder(tmp_path / "stopped")
    recipe = make(checkpoint_every=8, validate_every=8)
    assert train(recipe, whole)
    stopped_after_every_update(recipe, stopped, monkeypatch)
    assert bits(whole) == bits(stopped)
    facts = [read_json(run.training) for run in (whole, stopped)]
    assert facts[0]["epochs"] > 2
    for fact in ("epochs", "target_tokens", "source_tokens", "padded_tokens", "flops"):
        assert facts[0][fact] == facts[1][fact]


def test_a_resumed_training_draws_no_earlier_epoch(make: Callable[..., Recipe], run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    train(make(updates=8), run)
    epochs, lengths = [], ResegmentedCorpus.lengths

    def watched(self: ResegmentedCorpus, epoch: int) -> Any:
        epochs.append(epoch)
        return lengths(self, epoch)

    monkeypatch.setattr(ResegmentedCorpus, "lengths", watched)
    train(make(updates=9), run)
    assert min(set(epochs) - {0}) >= 2  # the first is needed before the state is read, to try the first update's shares


def test_what_is_counted_is_what_is_trained_on(make: Callable[..., Recipe], run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    batches, load = [], update_module.load_batch

    def watched(*arguments: Any) -> Any:
        batches.append(load(*arguments))
        return batches[-1]

    monkeypatch.setattr(update_module, "load_batch", watched)
    recipe = make()
    train(recipe, run)
    facts = read_json(run.training)
    assert facts["source_tokens"] == sum(int(batch["attention_mask"].sum()) for batch in batches)
    assert facts["target_tokens"] == sum(int((batch["labels"] >= 0).sum()) for batch in batches)
    assert facts["padded_tokens"] == sum(batch["input_ids"].numel() + batch["labels"].numel() for batch in batches)
    assert max(max(batch["input_ids"].numel(), batch["labels"].numel()) for batch in batches) <= 256
    plain = open_prepared_data(run).train
    per_epoch = facts["source_tokens"] / facts["epochs"]
    assert per_epoch > 1.1 * plain.index["source_tokens"]
    validated = [record for record in read_json_lines(run.log) if record["kind"] == "validation"]
    assert len(validated) == 2


def test_shares_of_ranks_make_the_whole(make: Callable[..., Recipe], run: RunFolder) -> None:
    """What a rank trains on depends on its micro-batches only, not on what it or others drew before."""
    recipe = make(batching={"micro_batches": 4})
    data = prepare_data(recipe, run)
    batching = recipe.batching

    def stream(ranks: int) -> tuple[ResegmentedCorpus, BatchStream]:
        found = drawn_corpus(recipe, VaswaniConfig(), data.train, data.tokenizer, ranks)
        assert found is not None
        lengths = data.train.source_lengths, data.train.target_lengths
        budgets = {"source_tokens": batching.source_tokens, "target_tokens": batching.target_tokens, "micro_batches": 4}
        return found, BatchStream(*lengths, **budgets, seed=recipe.training.seed, lengths_of=found.lengths)

    def ids(rank: int, ranks: int, updates: range) -> list[list[list[int]]]:
        corpus, batches = stream(ranks)
        found = []
        for update in updates:
            epochs = batches.epochs(update)[rank::ranks]
            for pairs, epoch in zip(batches.update(update)[rank::ranks], epochs, strict=True):
                found.append([row.tolist() for row in corpus.pairs(pairs, epoch).target])
        return found

    whole = ids(0, 1, range(6))
    first, second = ids(0, 2, range(6)), ids(1, 2, range(6))
    assert [batch for pair in zip(first, second, strict=True) for batch in pair] == whole
    assert ids(0, 1, range(5, 6)) == whole[-4:]


def test_two_micro_batches_that_meet_in_an_update_have_their_own_epochs(make: Callable[..., Recipe], run: RunFolder) -> None:
    recipe = make()
    data = prepare_data(recipe, run)
    again = drawn_corpus(recipe, VaswaniConfig(), data.train, data.tokenizer, 1)
    assert again is not None
    stream = BatchStream(*again.lengths(0), source_tokens=256, target_tokens=256, micro_batches=3, lengths_of=again.lengths)
    updates = [update for update in range(12) if len(set(stream.epochs(update))) == 2]
    assert updates
    for epoch, pairs, lengths in zip(stream.epochs(updates[0]), stream.update(updates[0]), stream.lengths(updates[0]), strict=True):
        cut = again.pairs(pairs, epoch)
        assert np.array_equal(cut.source_lengths, lengths[0]) and np.array_equal(cut.target_lengths, lengths[1])


def test_epochs_are_counted_by_the_first(make: Callable[..., Recipe], run: RunFolder) -> None:
    recipe = make()
    in_epochs = replace(recipe, training=replace(recipe.training, updates=None, epochs=3))
    assert train(in_epochs, run)
    assert read_json(run.training)["epochs"] == pytest.approx(3, abs=0.5)


def test_a_rehearsal_tells_the_lengths_of_the_first_epoch(make: Callable[..., Recipe]) -> None:
    found = rehearse(make(), updates=2)
    assert found.source_lengths.sum() > 1.1 * found.cleaning["tokenizer"]["source_tokens"]
    assert "in the first epoch of BPE-dropout 0.3)" in describe(found)


@pytest.mark.parametrize("rate", [1.0, -0.1, float("nan")])
def test_an_impossible_rate_is_refused(make: Callable[..., Recipe], rate: float) -> None:
    with pytest.raises(ValueError, match=r"`bpe_dropout` must lie between 0 and 1"):
        make(rate)


def test_another_kind_of_tokenizer_is_refused(make: Callable[..., Recipe], run: RunFolder) -> None:
    run.path.mkdir(parents=True)
    PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"a": 0}, unk_token="a"))).save_pretrained(run.tokenizer)
    with pytest.raises(ValueError, match="this tokenizer is another kind"):
        prepare_data(make(), run)
