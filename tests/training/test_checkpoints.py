"""Checkpoints are complete folders; the last ones stay, and the best."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer

from vaswani_transformer.configuration_vaswani import VaswaniConfig
from vaswani_transformer.data.bpe import train_tokenizer
from vaswani_transformer.files.checksums import find_damage
from vaswani_transformer.files.json_files import read_json
from vaswani_transformer.modeling_vaswani import VaswaniForConditionalGeneration
from vaswani_transformer.recipe import Recipe, SearchSettings, TrainingSettings
from vaswani_transformer.run_folder import RunFolder
from vaswani_transformer.search_settings import OF_DRAFTS
from vaswani_transformer.training.averaging import average_checkpoints
from vaswani_transformer.training.checkpoints import (
    best_checkpoints,
    prune_checkpoints,
    renew_search,
    save_checkpoint,
    set_longest_text,
    set_search,
    validations_without_gain,
    window_to_average,
)
from vaswani_transformer.training.state import TrainState, Validation


@pytest.fixture
def model() -> VaswaniForConditionalGeneration:
    sizes = {"d_model": 8, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8}
    return VaswaniForConditionalGeneration(VaswaniConfig.from_preset("tiny", vocab_size=259, **sizes))


def test_only_what_must_be_cut_has_a_limit(make_recipe: Callable[..., Recipe]) -> None:
    recipe = make_recipe(batching={"max_sentence_tokens": 9})
    settings = replace(recipe.training, best_checkpoint_metric=None)
    summaries = replace(recipe, task="summarization", target_language="", training=settings)
    sinusoids = VaswaniConfig.from_preset("tiny", vocab_size=259)
    learned = VaswaniConfig.from_preset("tiny", vocab_size=259, position_embedding_type="learned", max_position_embeddings=8)
    for given, config, expected in ((recipe, sinusoids, None), (recipe, learned, 8), (summaries, sinusoids, 9), (summaries, learned, 8)):
        tokenizer = train_tokenizer(["a dog", "a cat"] * 4, 261)
        tokenizer.model_max_length = 7  # that of the model it began with
        set_longest_text(tokenizer, given, config)
        found = tokenizer("a dog " * 50, truncation=True, verbose=False)["input_ids"]
        assert len(found) == expected or (expected is None and len(found) > 100)


def _keep(run: RunFolder, state: TrainState, **settings: Any) -> list[str]:
    """What is left of the checkpoints when they have been pruned."""
    prune_checkpoints(run, state, TrainingSettings(updates=100, **settings))
    return sorted((path.name for path in run.checkpoints.iterdir()), key=lambda name: int(name[5:]))


@pytest.fixture
def state(run: RunFolder) -> TrainState:
    """Five checkpoints, all validated; the first is best by BLEU, the third by loss. A sixth came after the state was saved."""
    for update in (8, 9, 10, 11, 12, 13):
        run.checkpoint(update).mkdir(parents=True)
    scores = [(8, 30.0, 3.0), (9, 20.0, 2.5), (10, 25.0, 2.0), (11, 25.0, float("nan")), (12, 10.0, 2.5)]
    return TrainState(
        12, validations=[Validation(update, {"bleu": bleu, "loss": loss}) for update, bleu, loss in scores], checkpoints=[8, 9, 10, 11, 12]
    )


def test_the_last_and_the_best_stay(run: RunFolder, state: TrainState) -> None:
    assert _keep(run, state, average_checkpoints=2) == ["step-8", "step-11", "step-12"]


def test_the_best_by_loss_stay(run: RunFolder, state: TrainState) -> None:
    kept = _keep(run, state, average_checkpoints=1, keep_best_checkpoints=2, best_checkpoint_metric="loss")
    assert kept == ["step-9", "step-10", "step-12"]  # 9 and 12 are equal: the earlier one is the better


def test_more_stay_than_are_averaged(run: RunFolder, state: TrainState) -> None:
    kept = _keep(run, state, average_checkpoints=1, keep_last_checkpoints=3, keep_best_checkpoints=0)
    assert kept == ["step-10", "step-11", "step-12"]
    with pytest.raises(ValueError, match="`keep_last_checkpoints` must be at least 5, not 3"):
        TrainingSettings(updates=1, keep_last_checkpoints=3)


def test_the_best_one_is_not_in_the_window_for_that(run: RunFolder, state: TrainState) -> None:
    """Even when the window is made larger afterwards, which finds the middle ones gone."""
    assert _keep(run, state, average_checkpoints=2) == ["step-8", "step-11", "step-12"]
    assert [path.name for path in window_to_average(run, state, 4)] == ["step-11", "step-12"]


def test_only_checkpoints_that_are_there_and_were_validated_are_best(run: RunFolder, state: TrainState) -> None:
    run.checkpoint(8).rmdir()
    del state.validations[2]
    assert [validation.update for validation in best_checkpoints(run, state, "bleu")] == [11, 9, 12]


def test_validations_since_the_best(state: TrainState) -> None:
    """Also a validation without checkpoint counts; of 25 and 25 the first is the best of the last four."""
    assert validations_without_gain(state.validations, "bleu") == 4
    assert validations_without_gain(state.validations[1:], "bleu") == 2
    assert validations_without_gain(state.validations, "loss") == 2
    assert validations_without_gain([], "loss") == 0


def test_a_checkpoint_loads_with_weights_search_and_tokenizer(run: RunFolder, model: VaswaniForConditionalGeneration) -> None:
    set_search(model, SearchSettings(num_beams=3, length_penalty=0.8, length_penalty_type="gnmt", extra_length=7))
    tokenizer = train_tokenizer(["a b", "c d"], 259)
    path = save_checkpoint(run, 1, model, tokenizer)
    assert find_damage(path, ["model.safetensors", "config.json", "tokenizer.json"]) is None
    loaded = VaswaniForConditionalGeneration.from_pretrained(path)
    for name, tensor in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor)
    search = loaded.generation_config
    assert (search.num_beams, search.length_penalty) == (3, 0.8)
    assert (search.length_penalty_type, search.extra_length) == ("gnmt", 7)
    assert AutoTokenizer.from_pretrained(path)("a b")["input_ids"] == tokenizer("a b")["input_ids"]
    assert not list(path.rglob("*.bin"))


@pytest.mark.parametrize(
    "search",
    [
        SearchSettings(),
        SearchSettings(num_beams=1, length_penalty=1.0, length_penalty_type=None, extra_length=0),
        SearchSettings(copy_items=True),
        SearchSettings(copy_items=("url", "path")),
        SearchSettings(num_beams=1, length_penalty=1.0, draft="source"),
        SearchSettings(num_beams=1, length_penalty=1.0, draft="heads", draft_tokens=2),
    ],
)
def test_the_search_of_the_recipe_is_renewed_only_if_it_is_another(
    search: SearchSettings, run: RunFolder, model: VaswaniForConditionalGeneration
) -> None:
    set_search(model, search)
    path = save_checkpoint(run, 1, model, train_tokenizer(["a b", "c d"], 259))
    assert renew_search(path, search) == {}
    saved = read_json(path / "generation_config.json")
    asked = {name: value for name in OF_DRAFTS if (value := getattr(search, name, None)) is not None}
    assert {name: saved[name] for name in OF_DRAFTS if name in saved} == asked
    assert ("copy_items" in saved) is bool(search.copy_items)
    other = SearchSettings(num_beams=7, length_penalty=0.3)
    assert renew_search(path, other).items() >= {("num_beams", 7), ("length_penalty", 0.3)}
    assert renew_search(path, other) == {}
    (path / "model.safetensors").write_bytes(b"")
    with pytest.raises(ValueError, match=r"model\.safetensors is damaged"):
        renew_search(path, search)


def test_no_checkpoints_yet(run: RunFolder) -> None:
    assert not run.checkpoints.exists()
    prune_checkpoints(run, TrainState(), TrainingSettings(updates=1))
    assert window_to_average(run, TrainState(), 5) == []


def test_a_checkpoint_that_became_a_link_goes_and_what_it_points_to_stays(run: RunFolder, state: TrainState, tmp_path: Path) -> None:
    """As where a disk was full and somebody moved the folder to another."""
    elsewhere = tmp_path / "elsewhere"
    run.checkpoint(9).rename(elsewhere)
    (elsewhere / "weights").write_text("kept", encoding="utf-8")
    run.checkpoint(9).symlink_to(elsewhere)
    assert _keep(run, state, average_checkpoints=2) == ["step-8", "step-11", "step-12"]
    assert (elsewhere / "weights").read_text(encoding="utf-8") == "kept"


def test_weights_have_the_mode_that_the_umask_asks_for(run: RunFolder, model: VaswaniForConditionalGeneration) -> None:
    before = os.umask(0o022)
    try:
        path = save_checkpoint(run, 1, model, train_tokenizer(["a b", "c d"], 259))
        average_checkpoints([path], run.averaged)
    finally:
        os.umask(before)
    for folder in (path, run.averaged):
        assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o644}, folder
