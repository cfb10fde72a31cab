"""A training in both directions first: what it reads and when, that it resumes to the same bits, and where it is refused."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from vaswani_transformer import VaswaniConfig
from vaswani_transformer.recipe import Recipe
from vaswani_transformer.run_folder import RunFolder
from vaswani_transformer.training import update as update_module
from vaswani_transformer.training.engine import train
from vaswani_transformer.training.preparation import open_prepared_data, prepare_data
from vaswani_transformer.training.update import drawn_corpus

TARGET_WORDS = {"null", "eins", "zwei", "drei", "vier", "fuenf", "sechs", "sieben", "acht", "neun"}


@pytest.mark.parametrize("bpe_dropout", [0.0, 0.3])
def test_sources_are_of_both_languages_first_and_of_one_then(
    make_recipe: Callable[..., Recipe], run: RunFolder, monkeypatch: pytest.MonkeyPatch, bpe_dropout: float
) -> None:
    batches, load = [], update_module.load_batch

    def watched(*arguments: Any) -> Any:
        batches.append(load(*arguments))
        return batches[-1]

    monkeypatch.setattr(update_module, "load_batch", watched)
    recipe = make_recipe(batching={"micro_batches": 1}, epochs=4, updates=None, both_directions_epochs=2)
    recipe = dataclasses.replace(recipe, tokenizer=dataclasses.replace(recipe.tokenizer, bpe_dropout=bpe_dropout))
    train(recipe, run)
    tokenizer = open_prepared_data(run).tokenizer
    read: list[list[bool]] = [[]]
    for batch in batches:
        if len(read[-1]) == 60:
            read.append([])
        for source in tokenizer.batch_decode(batch["input_ids"], skip_special_tokens=True):
            words = set(source.split())
            assert words <= TARGET_WORDS or not words & TARGET_WORDS
            read[-1].append(words <= TARGET_WORDS)
    turned = [sum(epoch) for epoch in read]
    assert 0 < turned[0] < 60 and turned[0] + turned[1] == 60
    assert turned[2:4] == [0, 0]


def test_resuming_changes_no_bit(make_recipe: Callable[..., Recipe], assert_resuming_changes_no_bit: Callable[[Recipe], None]) -> None:
    assert_resuming_changes_no_bit(make_recipe(both_directions_epochs=2))


def test_two_vocabularies_are_refused(make_recipe: Callable[..., Recipe], run: RunFolder) -> None:
    recipe = make_recipe(both_directions_epochs=2)
    data = prepare_data(recipe, run)
    with pytest.raises(ValueError, match="makes sources of targets, and the model has a vocabulary for each"):
        drawn_corpus(recipe, VaswaniConfig(target_vocab_size=280), data.train, data.tokenizer, 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"fine": {"target_language": "en"}}, "turns the pairs of two languages, and this recipe does not translate between just two"),
        ({"batching": {"target_tokens": 128}}, "`batching.source_tokens` and `batching.target_tokens` must be equal, .* are 256 and 128"),
        ({"parallel_heads": 3, "fine": {"init_from": "folder", "model": {}}}, "`training.parallel_heads` learn to propose"),
    ],
)  # fmt: skip
def test_what_has_no_way_back_is_refused(make_recipe: Callable[..., Recipe], changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_recipe(both_directions_epochs=2, **changes)
