"""Stages are done once, done again when their input changed, and refuse what does not fit."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from vaswani_transformer.recipe import Recipe
from vaswani_transformer.run_folder import RunFolder, read_json
from vaswani_transformer.training import preparation
from vaswani_transformer.training.preparation import claim_run_folder, prepare_data


def test_what_is_there_is_not_done_again(
    make_recipe: Callable[..., Recipe], run: RunFolder, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = prepare_data(make_recipe(), run)
    for name in ("train_tokenizer", "encode_corpus", "clean"):
        monkeypatch.delattr(preparation, name)
    for file in corpus.glob("*.??"):  # prepared data do not need the text they came from
        file.unlink()
    second = prepare_data(make_recipe(), run)
    assert len(first.train) == len(second.train) == 60
    assert second.tokenizer.get_vocab() == first.tokenizer.get_vocab()


def test_a_changed_corpus_is_prepared_anew(
    make_recipe: Callable[..., Recipe], run: RunFolder, corpus: Path
) -> None:
    prepare_data(make_recipe(), run)
    for side, word in (("en", "ten"), ("de", "zehn")):
        with open(corpus / f"train.{side}", "a", encoding="utf-8") as stream:
            stream.write(f"{word}\n")
    assert len(prepare_data(make_recipe(), run).train) == 61
    assert read_json(run.cleaning)["kept"] == 61


def test_an_interrupted_preparation_goes_on(
    make_recipe: Callable[..., Recipe], run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*arguments: object, **settings: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(preparation, "encode_corpus", interrupt)
        with pytest.raises(KeyboardInterrupt):
            prepare_data(make_recipe(), run)
    assert run.tokenizer.exists()
    assert not run.encoded.exists()
    assert len(prepare_data(make_recipe(), run).train) == 60


def test_the_report_counts_pairs_that_only_tokens_show_to_be_long(
    make_recipe: Callable[..., Recipe], run: RunFolder
) -> None:
    recipe = make_recipe({"max_sentence_tokens": 9})
    kept = len(prepare_data(recipe, run).train)
    report = read_json(run.cleaning)
    assert 0 < kept == report["kept"] < 60
    assert report["dropped"]["too_many_tokens"] == 60 - kept
    assert report["tokenizer"]["vocab_size"] == 280


def test_a_learned_table_of_positions_limits_the_length(
    make_recipe: Callable[..., Recipe], run: RunFolder
) -> None:
    recipe = make_recipe()
    positions = {"position_embedding_type": "learned", "max_position_embeddings": 12}
    data = prepare_data(replace(recipe, model={**recipe.model, **positions}), run)
    assert max(data.train.source_lengths.max(), data.train.target_lengths.max()) == 12


def test_settings_that_decide_nothing_so_far_may_change(
    make_recipe: Callable[..., Recipe], run: RunFolder
) -> None:
    claim_run_folder(make_recipe(), run)
    claim_run_folder(make_recipe(updates=99, log_every=1, patience=3), run)
    assert "updates: 99" in run.recipe.read_text(encoding="utf-8")


def test_every_difference_is_named(make_recipe: Callable[..., Recipe], run: RunFolder) -> None:
    claim_run_folder(make_recipe(), run)
    other = make_recipe({"micro_batches": 4}, seed=7)
    with pytest.raises(
        ValueError, match=r"`batching\.micro_batches` \(2 there, 4 now\), `training\.seed` \(1 there, 7 now\)"
    ):
        claim_run_folder(other, run)
    assert "seed: 1" in run.recipe.read_text(encoding="utf-8")
