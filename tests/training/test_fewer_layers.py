"""A model out of some layers of another, and trainings that begin with one."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration, VaswaniForSequenceClassification
from vaswani_transformer.files.json_files import read_json
from vaswani_transformer.recipe import Recipe
from vaswani_transformer.run_folder import TRANSFER, RunFolder
from vaswani_transformer.training.engine import train
from vaswani_transformer.training.fewer_layers import described, evenly_spaced, with_fewer_layers

MakeRecipe = Callable[..., Recipe]


def model(kind: Any = VaswaniForConditionalGeneration) -> Any:
    torch.manual_seed(0)
    return kind(VaswaniConfig(
        vocab_size=30, d_model=16, encoder_layers=4, decoder_layers=3, encoder_attention_heads=2, decoder_attention_heads=2,
        encoder_ffn_dim=24, decoder_ffn_dim=24)).eval()  # fmt: skip


@pytest.mark.parametrize(
    ("layers", "kept", "numbers"),
    [(6, 1, [0]), (6, 2, [0, 5]), (6, 3, [0, 2, 5]), (12, 4, [0, 4, 7, 11]), (3, 3, [0, 1, 2]), (1, 1, [0])],
)
def test_which_layers_are_kept(layers: int, kept: int, numbers: list[int]) -> None:
    assert evenly_spaced(layers, kept) == numbers


def test_it_computes_what_the_larger_one_does_without_the_other_layers() -> None:
    larger = model()
    smaller = with_fewer_layers(larger, {"encoder_layers": 3, "decoder_layers": 2})
    assert (smaller.config.encoder_layers, smaller.config.decoder_layers) == (3, 2)
    without = copy.deepcopy(larger)
    for stack, places in ((without.get_encoder(), [0, 2, 3]), (without.get_decoder(), [0, 2])):
        stack.layers = nn.ModuleList([stack.layers[place] for place in places])
    source, target = torch.randint(3, 30, (2, 7)), torch.randint(3, 30, (2, 5))
    found, expected = (each(input_ids=source, decoder_input_ids=target, use_cache=False).logits for each in (smaller, without))
    assert torch.equal(found, expected)
    assert not torch.equal(found, larger(input_ids=source, decoder_input_ids=target).logits)
    cached, whole = (smaller.generate(source, num_beams=1, max_new_tokens=6, use_cache=use) for use in (True, False))
    assert torch.equal(cached, whole)


def test_an_encoder_alone_may_have_fewer_layers_and_a_whole_one_stays() -> None:
    encoder = model(VaswaniForSequenceClassification)
    smaller = with_fewer_layers(encoder, {"encoder_layers": 2})
    assert torch.equal(smaller.get_encoder().layers[1].fc1.weight, encoder.get_encoder().layers[3].fc1.weight)
    assert with_fewer_layers(encoder, {"encoder_layers": 4}) is encoder


@pytest.mark.parametrize(
    ("kept", "text"),
    [
        ({"decoder_layers": 1}, "1 of the decoder's 3"),
        ({"encoder_layers": 4, "decoder_layers": 1}, "1 of the decoder's 3"),
        ({"encoder_layers": 4}, ""),
        ({"encoder_layers": 3, "decoder_layers": 2}, "1, 3 and 4 of the encoder's 4, and 1 and 3 of the decoder's 3"),
    ],
)
def test_how_they_are_named(kept: dict[str, int], text: str) -> None:
    assert described(model().config, kept) == text


@pytest.fixture
def origin(make_recipe: MakeRecipe, tmp_path: Path) -> Path:
    run = RunFolder(tmp_path / "origin")
    deeper = {"model": {**make_recipe().model, "encoder_layers": 2, "decoder_layers": 2}}
    assert train(make_recipe(fine=deeper, updates=2, validate_every=2, checkpoint_every=2, average_checkpoints=1), run)
    return run.averaged


def fine(origin: Path, **layers: Any) -> dict[str, Any]:
    return {"init_from": str(origin), "model": layers, "tokenizer": {"method": "keep"}, "fine_tuning": {}}


def test_a_training_begins_with_some_layers_of_another_model_and_resumes(
    make_recipe: MakeRecipe, run: RunFolder, origin: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    layers = {"encoder_layers": 2, "decoder_layers": 1}  # the encoder keeps all it has, which is not worth a word
    two, four = (make_recipe(fine=fine(origin, **layers), updates=updates, checkpoint_every=2) for updates in (2, 4))
    assert train(four, run)
    assert "Of its layers, 1 of the decoder's 2 are kept." in capsys.readouterr().out
    assert read_json(run.initial / TRANSFER)["layers"] == "1 of the decoder's 2"
    trained = VaswaniForConditionalGeneration.from_pretrained(run.averaged)
    assert (trained.config.encoder_layers, trained.config.decoder_layers) == (2, 1)
    before, initial = load_file(origin / "model.safetensors"), load_file(run.initial / "model.safetensors")
    assert len(initial) < len(before) and all(torch.equal(before[name], tensor) for name, tensor in initial.items())
    again = RunFolder(tmp_path / "again")
    assert train(two, again) and train(four, again)
    weights = [load_file(each.averaged / "model.safetensors") for each in (run, again)]
    assert all(torch.equal(tensor, weights[1][name]) for name, tensor in weights[0].items())


@pytest.mark.parametrize(
    ("layers", "sentence"),
    [
        (
            {"decoder_layers": 3},
            r"`model.decoder_layers` is 3, and the model of `init_from` has 2 of them; keep 2 or fewer",
        ),
        ({"decoder_layers": 0}, r"`model.decoder_layers` must be a whole number from 1 on, not 0\.$"),
        ({"encoder_layers": True}, r"`model.encoder_layers` must be a whole number from 1 on, not True\.$"),
        (
            {"d_model": 8},
            r"`model.d_model` is that of the checkpoint `init_from`; only dropout, .* decoder_layers may be set",
        ),
    ],
)
def test_layers_that_cannot_be_kept(make_recipe: MakeRecipe, run: RunFolder, origin: Path, layers: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        train(make_recipe(fine=fine(origin, **layers)), run)
    assert not run.initial.exists()
