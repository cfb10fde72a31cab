"""The queue: which recipe each run has, nothing trained twice, and a failure that ends no other run."""

from collections.abc import Callable
from dataclasses import replace
from math import sqrt
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, AutoModelForSequenceClassification

from benchmarks.transfer import runs
from benchmarks.transfer.report import table
from benchmarks.transfer.runs import Plan, Run, budget, compare_starts, forget_states, plan_of
from benchmarks.transfer.starts import Start, initial_folder
from vaswani_transformer import VaswaniEncoderModel
from vaswani_transformer.files.json_files import read_json
from vaswani_transformer.recipe import TrainingSettings


def plan(*recipes: Path, models: Path, **settings: Any) -> Plan:
    starts = tuple(Start(name, models / name) for name in ("masking", "translator"))
    defaults = {"starts": starts, "shares": (1.0,), "seeds": (1,), "output": models / "out", "overrides": ()}
    given = {**defaults, **settings}
    return plan_of([str(recipe) for recipe in recipes], given.pop("overrides"), **given)


def peak(settings: TrainingSettings) -> float:
    return settings.learning_rate_scale / sqrt(settings.warmup_updates)


def test_a_share_has_the_root_of_the_updates_and_the_same_peak() -> None:
    whole = TrainingSettings(updates=1200, warmup_updates=200, validate_every=100, checkpoint_every=50, learning_rate_scale=0.16)
    few = budget(whole, Run("a", "scratch", 0.01, seed=7, rate=0.5))
    assert (few.updates, few.warmup_updates, few.validate_every, few.checkpoint_every, few.seed) == (120, 20, 10, 10, 7)
    assert peak(few) == pytest.approx(0.5 * peak(whole))
    assert budget(whole, Run("a", "scratch", 0.1, seed=1)).updates == 379
    assert (few.average_checkpoints, few.keep_best_checkpoints) == (1, 1)


def test_the_recipes_of_a_task(colours: Path, models: Path) -> None:
    planned = plan(colours, models=models, shares=(1.0, 0.5))
    scratch, masking = (planned.recipe_of(Run("colours", start, 0.5, 1)) for start in ("scratch", "masking"))
    assert scratch.init_from is None and scratch.tokenizer.vocab_size == 280 and scratch.model["d_model"] == 16
    assert masking.init_from == str(models / "masking") and masking.tokenizer.method == "keep"
    assert masking.model == {"dropout": 0.1}
    # All else is one: the same examples, updates and search
    assert replace(masking, init_from=None, tokenizer=scratch.tokenizer, model=scratch.model) == scratch
    assert planned.recipe_of(Run("colours", "scratch", 1.0, 1)).data == planned.recipes["colours"].data


def test_a_recipe_that_fine_tunes_gets_the_shape_of_the_first_start(english_german: Path, models: Path) -> None:
    planned = plan(english_german, models=models, overrides=("model.dropout=0.2", "pairs:training.updates=6"))
    scratch, masking = (planned.recipe_of(Run("pairs", start, 1.0, 1)) for start in ("scratch", "masking"))
    assert scratch.init_from is None and scratch.model_config(vocab_size=280).d_model == 16
    assert scratch.model["encoder_layers"] == 1 and scratch.model["dropout"] == 0.2 and masking.model == {"dropout": 0.2}
    assert masking.tokenizer == scratch.tokenizer  # learnt anew: English alone is not the vocabulary of a pair
    assert scratch.training.updates == masking.training.updates == 6


def test_a_decoder_is_drawn_where_a_text_is_to_be_written(english_german: Path, colours: Path, models: Path) -> None:
    planned = plan(english_german, colours, models=models)
    start = planned.starts[0]
    assert initial_folder(start, planned.recipes["colours"], models / "made") == start.folder
    made = initial_folder(start, planned.recipes["pairs"], models / "made")
    model, original = AutoModelForSeq2SeqLM.from_pretrained(made), VaswaniEncoderModel.from_pretrained(start.folder)
    ours, theirs = model.get_encoder().state_dict(), original.state_dict()
    assert all(ours[name.removeprefix("encoder.")].equal(value) for name, value in theirs.items() if name.startswith("encoder.layers"))
    assert model.config.decoder_layers == 1 and model.config.is_encoder_decoder
    pairs = planned.recipe_of(Run("pairs", "scratch", 1.0, 1))
    halved = replace(pairs, training=replace(pairs.training, initial_scale=0.5))
    half = AutoModelForSeq2SeqLM.from_pretrained(initial_folder(start, halved, models / "made"))  # what is drawn begins as `scratch` does
    assert half.get_encoder().layers[0].fc1.weight.equal(model.get_encoder().layers[0].fc1.weight)
    assert half.get_decoder().layers[0].fc1.weight.equal(0.5 * model.get_decoder().layers[0].fc1.weight)
    fresh = replace(start, name="fresh_masking", is_fresh=True)
    other = AutoModelForSeq2SeqLM.from_pretrained(initial_folder(fresh, planned.recipes["colours"], models / "made"))
    assert not other.get_encoder().layers[0].fc1.weight.equal(model.get_encoder().layers[0].fc1.weight)
    colours_recipe = planned.recipes["colours"]
    scaled = replace(colours_recipe, training=replace(colours_recipe.training, initial_scale=0.5, initial_embedding_scale=0.25))
    small = AutoModelForSeq2SeqLM.from_pretrained(initial_folder(fresh, scaled, models / "made"))  # as `scratch` begins
    assert small.get_input_embeddings().weight.equal(0.25 * other.get_input_embeddings().weight)
    assert small.get_encoder().layers[0].fc1.weight.equal(0.5 * other.get_encoder().layers[0].fc1.weight)
    deep = replace(colours_recipe, training=replace(colours_recipe.training, initial_scale="deepnorm"))
    alone = AutoModelForSeq2SeqLM.from_pretrained(initial_folder(fresh, deep, models / "made"))
    factor = (8 * alone.config.encoder_layers) ** -0.25  # of an encoder alone
    torch.testing.assert_close(alone.get_encoder().layers[0].fc1.weight, factor * other.get_encoder().layers[0].fc1.weight)
    with_fresh = plan(english_german, colours, models=models, starts=(start, fresh))
    long = replace(with_fresh, seeds=(1, 2), first_seed_only=("pairs",))
    assert [(run.task, run.seed) for run in long.runs()] == [("pairs", 1)] * 2 + [("colours", 1)] * 3 + [("colours", 2)] * 3
    assert [run.start for run in with_fresh.runs()] == ["scratch", "masking", "scratch", "masking", "fresh_masking"]
    large = replace(with_fresh, shares=(1.0, 0.1), seeds=(1, 2), first_seed_only=("pairs", "colours:1"))
    assert [(run.share, run.seed) for run in large.runs() if run.task == "colours"] == [(1.0, 1)] * 3 + [(0.1, 1)] * 3 + [(0.1, 2)] * 3
    assert next(compare_starts(large))["tasks"]["colours"]["seeds"] == {"1": 1, "0.1": 2}


def test_a_fresh_start_writes_text_only_where_its_model_does(write_recipe: Callable[..., Path], models: Path) -> None:
    mails = {"format": "table", "path": "mails.jsonl"}
    summaries = write_recipe("summaries", {"train": [mails], "validation": mails, "test": {}}, task="summarization")
    starts = tuple(Start(f"fresh_{name}", models / name, is_fresh=True) for name in ("masking", "translator"))
    assert [run.start for run in plan(summaries, models=models, starts=starts).runs()] == ["scratch", "fresh_translator"]


def test_everything_is_trained_once_and_a_failure_is_told(
    colours: Path, english_german: Path, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = (Start("masking", models / "masking"),)
    planned = plan(
        colours, english_german, models=models, starts=starts, overrides=("pairs:data.train=[{format: plain_lines, path: no.txt}]",)
    )
    *_, results = compare_starts(planned)
    assert [(run["task"], run["start"], "failed" in run) for run in results["runs"]] == [
        ("colours", "scratch", False), ("colours", "masking", False), ("pairs", "scratch", True), ("pairs", "masking", True),
    ]  # fmt: skip
    text = table(results)
    assert "- `pairs`, 100 %, seed 1, masking: no.txt: `format: plain_lines` is for `task: pretraining`" in text
    first = results["runs"][1]
    assert first["kept"] == first["examples"] == 60 and first["updates"] == 8 and first["vocab_size"] == 300
    assert set(first["scores"]) == {"accuracy", "macro_f1"}
    folder = planned.output / "colours" / "masking" / "share-1" / "seed-1"
    best = read_json(folder / "training.json")["best_checkpoint"]["name"]
    scored, kept = (
        AutoModelForSequenceClassification.from_pretrained(folder / place) for place in ("best/averaged", f"checkpoints/{best}")
    )
    assert all(value.equal(kept.state_dict()[name]) for name, value in scored.state_dict().items())
    forget_states(planned)
    assert not (folder / "state").exists() and (folder / "best" / "averaged").is_dir()
    monkeypatch.setattr(runs, "train", lambda *arguments: pytest.fail("trained again"))
    again = plan(colours, models=models, starts=starts)
    (known,) = compare_starts(again)
    assert known["runs"] == results["runs"][:2]
    changed = plan(colours, models=models, starts=starts, overrides=("model.dropout=0.2",))
    *_, other = compare_starts(changed)
    assert all("holds the result of another recipe" in run["failed"] for run in other["runs"])
    for corpus in again.recipes["colours"].data.test.values():
        (file,) = corpus.files(Path(again.recipes["colours"].data.root)).values()
        file.write_text(file.read_text(encoding="utf-8").replace("red", "blue"), encoding="utf-8")
    *_, rewritten = compare_starts(plan(colours, models=models, starts=starts))
    assert all("of other texts" in run["failed"] for run in rewritten["runs"])


def test_a_translation_has_bleu_and_chrf_and_a_stopped_one_goes_on_later(
    english_german: Path, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = plan(english_german, models=models, starts=(Start("masking", models / "masking"),), overrides=("training.updates=4",))
    *_, results = compare_starts(planned)
    assert [set(run["scores"]) >= {"sacrebleu", "chrf"} for run in results["runs"]] == [True, True]
    monkeypatch.setattr(runs, "train", lambda *arguments: None)
    stopped = replace(planned, seeds=(2,))
    with pytest.raises(InterruptedError, match=r"share-1/seed-2 was stopped; the same command goes on"):
        list(compare_starts(stopped))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"shares": (1.0, 1.0)}, "name each value once"),
        ({"shares": (1.5,)}, "above 0 and be at most 1"),
        ({"overrides": ("other:training.updates=3",)}, "which is none of the recipes"),
        ({"overrides": ("training.updates=null", "training.epochs=2")}, "for a number of epochs"),
    ],
)
def test_nonsense_is_refused_before_any_training(colours: Path, models: Path, settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        plan(colours, models=models, **settings)
    with pytest.raises(FileNotFoundError):
        plan(colours, models=models, starts=(Start("absent", models / "absent"),))


def test_two_recipes_of_one_name_are_refused(colours: Path, write_recipe: Callable[..., Path], models: Path) -> None:
    with pytest.raises(ValueError, match="Two recipes have the name colours"):
        plan(colours, colours, models=models)
