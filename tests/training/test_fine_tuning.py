"""Whole trainings that start from another model, a second each."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_transformer.files.json_files import read_json
from vaswani_transformer.recipe import FineTuningSettings, Recipe
from vaswani_transformer.run_folder import RunFolder
from vaswani_transformer.training.building import adapt, build_model
from vaswani_transformer.training.engine import train
from vaswani_transformer.training.optimization import build_optimizer, set_learning_rate
from vaswani_transformer.training.preparation import prepare_data

MakeRecipe = Callable[..., Recipe]


@pytest.fixture
def origin(make_recipe: MakeRecipe, tmp_path: Path) -> Path:
    run = RunFolder(tmp_path / "origin")
    assert train(make_recipe(updates=2, validate_every=2, checkpoint_every=2, average_checkpoints=1), run)
    return run.averaged


def _fine(origin: Path, method: str = "keep", **fine_tuning: Any) -> dict[str, Any]:
    tokenizer = {"method": method} if method == "keep" else {"method": method, "vocab_size": 290}
    return {
        "init_from": str(origin),
        "model": {"dropout": 0.2},
        "tokenizer": tokenizer,
        "fine_tuning": fine_tuning,
    }


def _weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


@pytest.mark.parametrize("method", ["keep", "train", "extend"])
def test_it_begins_where_the_other_ended(make_recipe: MakeRecipe, run: RunFolder, origin: Path, method: str) -> None:
    assert train(make_recipe(fine=_fine(origin, method), updates=4), run)
    config = VaswaniForConditionalGeneration.from_pretrained(run.averaged).config
    assert (config.d_model, config.dropout) == (16, 0.2)
    search = [read_json(folder / "generation_config.json") for folder in (origin, run.averaged)]
    assert search[0] == search[1]  # so no dropout among the settings of the search
    before, initial = _weights(origin), _weights(run.initial)
    layers = [name for name in before if "layers" in name]
    assert all(torch.equal(before[name], initial[name]) for name in layers)
    assert not any(torch.equal(before[name], _weights(run.averaged)[name]) for name in layers if "q_proj" in name)


def test_a_changed_corpus_makes_the_initial_model_anew(make_recipe: MakeRecipe, run: RunFolder, origin: Path, corpus: Path) -> None:
    """Its vocabulary is that of the sentences."""
    recipe = make_recipe(fine=_fine(origin, "train"))
    prepare_data(recipe, run)
    before = _weights(run.initial)
    for suffix in ("en", "de"):
        path = corpus / f"train.{suffix}"
        path.write_text(path.read_text(encoding="utf-8").upper(), encoding="utf-8")
    tokenizer = prepare_data(recipe, run).tokenizer
    after = _weights(run.initial)
    assert len(after["model.shared.weight"]) == len(tokenizer)
    assert not torch.equal(before["model.shared.weight"][-9:], after["model.shared.weight"][-9:])


@pytest.mark.parametrize(
    ("part", "frozen"),
    [("encoder", "encoder.layers"), ("decoder", "decoder.layers"), ("embeddings", "shared")],
)
def test_what_is_frozen_stays(make_recipe: MakeRecipe, run: RunFolder, origin: Path, part: str, frozen: str) -> None:
    assert train(make_recipe(fine=_fine(origin, freeze=[part]), updates=4), run)
    before, after = _weights(origin), _weights(run.averaged)
    for name in before:
        assert torch.equal(before[name], after[name]) is (frozen in name), name


def test_lora_trains_adapters_that_peft_reads_and_that_are_merged(make_recipe: MakeRecipe, run: RunFolder, origin: Path) -> None:
    assert train(make_recipe(fine=_fine(origin, lora={"rank": 2}), updates=4, average_checkpoints=1), run)
    ids = torch.tensor([[5, 6, 7, 2]])
    merged = VaswaniForConditionalGeneration.from_pretrained(run.averaged).eval()
    initial = VaswaniForConditionalGeneration.from_pretrained(run.initial).eval()
    plain = initial(input_ids=ids, decoder_input_ids=ids).logits
    adapted = PeftModel.from_pretrained(initial, run.checkpoint(4) / "adapter").eval()
    expected = adapted(input_ids=ids, decoder_input_ids=ids).logits
    torch.testing.assert_close(merged(input_ids=ids, decoder_input_ids=ids).logits, expected, atol=1e-5, rtol=0)
    assert not torch.allclose(plain, expected, atol=1e-5)
    assert _weights(run.averaged).keys() == _weights(origin).keys()


def test_freezing_all_of_a_translator_is_refused() -> None:
    model = VaswaniForConditionalGeneration(VaswaniConfig.from_preset("tiny", vocab_size=300))
    with pytest.raises(ValueError, match=r"`fine_tuning.freeze: \[encoder, decoder, embeddings\]` leaves nothing to train"):
        adapt(model, FineTuningSettings(freeze=("encoder", "decoder", "embeddings")))


@pytest.mark.parametrize("settings", [{"lora": {"rank": 2}}, {"layer_decay": 0.5}, {"freeze": ["encoder"]}])
def test_resuming_changes_no_bit(
    make_recipe: MakeRecipe,
    origin: Path,
    settings: dict[str, Any],
    assert_resuming_changes_no_bit: Callable[[Recipe], None],
) -> None:
    assert_resuming_changes_no_bit(make_recipe(fine=_fine(origin, **settings)))


def test_lower_layers_learn_more_slowly(make_recipe: MakeRecipe) -> None:
    recipe = make_recipe(fine={"model": {"preset": "tiny", "d_model": 16, "encoder_layers": 3, "decoder_layers": 2}})
    model = build_model(recipe, 280, torch.device("cpu"))
    adam = build_optimizer(model, recipe.training, layer_decay=0.5)
    set_learning_rate(adam, 1.0)
    rates = {id(parameter): group["lr"] for group in adam.param_groups for parameter in group["params"]}
    found = {name: rates[id(parameter)] for name, parameter in model.named_parameters()}
    encoder, decoder = ([f"model.{stack}.layers.{i}.fc1.weight" for i in range(n)] for stack, n in (("encoder", 3), ("decoder", 2)))
    assert [found[name] for name in encoder] == [0.25, 0.5, 1.0]
    assert [found[name] for name in decoder] == [0.5, 1.0]
    assert found["model.shared.weight"] == 0.125
    assert len(rates) == len(list(model.parameters()))


def test_modules_that_are_not_there_get_no_adapter(make_recipe: MakeRecipe) -> None:
    recipe = make_recipe()
    settings = make_recipe(fine={"init_from": "x", "model": {}, "fine_tuning": {"lora": {"target_modules": ["query"]}}})
    with pytest.raises(ValueError, match="query"):
        adapt(build_model(recipe, 280, torch.device("cpu")), settings.fine_tuning)


@pytest.mark.parametrize("name", ["lm_head", "embed_tokens", "shared"])
def test_a_matrix_that_modules_share_gets_no_adapter(make_recipe: MakeRecipe, name: str) -> None:
    """Merging it would change modules that trained without it, and the loss reads the softmax's matrix past its adapter."""
    recipe = make_recipe()
    settings = make_recipe(fine={"init_from": "x", "model": {}, "fine_tuning": {"lora": {"target_modules": ["q_proj", name]}}})
    with pytest.raises(
        ValueError, match=rf"`fine_tuning\.lora\.target_modules` names `.*{name}`, which cannot have an adapter.*leave it out"
    ):
        adapt(build_model(recipe, 280, torch.device("cpu")), settings.fine_tuning)


def test_an_embedding_of_its_own_may_have_an_adapter_and_its_softmax_may_not(make_recipe: MakeRecipe) -> None:
    recipe = make_recipe(fine={"model": {"preset": "tiny", "tie_word_embeddings": False, "target_vocab_size": 280}})
    for name, is_possible in (("encoder.embed_tokens", True), ("lm_head", False)):
        settings = make_recipe(fine={"init_from": "x", "model": {}, "fine_tuning": {"lora": {"target_modules": [name]}}})
        with nullcontext() if is_possible else pytest.raises(ValueError, match="cannot have an adapter"):
            adapt(build_model(recipe, 280, torch.device("cpu")), settings.fine_tuning)


def test_a_damaged_model_is_not_begun_with(make_recipe: MakeRecipe, run: RunFolder, origin: Path) -> None:
    content = bytearray((origin / "model.safetensors").read_bytes())
    content[-16:] = bytes(16)
    (origin / "model.safetensors").write_bytes(content)
    with pytest.raises(ValueError, match=r"averaged.model\.safetensors is damaged: its SHA-256 is not .*; put back a good copy"):
        prepare_data(make_recipe(fine=_fine(origin)), run)
    assert not run.initial.exists() and not run.tokenizer.exists()
