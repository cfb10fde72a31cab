"""Variants of a recipe: equal compute, nothing trained twice, and means that are means."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import levers
from benchmarks.levers import Plan, compare_levers, main, parse, table
from vaswani_transformer.data.builtin.corpus import builtin_pairs
from vaswani_transformer.evaluation.bleu import score
from vaswani_transformer.files.json_files import read_json
from vaswani_transformer.translation.loading import load_checkpoint
from vaswani_transformer.translation.translate import translate

RECIPE = """
name: small
source_language: en
target_language: de
data:
  train: [{format: lines, source: train.en, target: train.de}]
  validation: {format: lines, source: dev.en, target: dev.de}
  test: {}
tokenizer: {vocab_size: 280}
model:
  {preset: tiny, encoder_layers: 1, decoder_layers: 1, d_model: 16, encoder_ffn_dim: 16, decoder_ffn_dim: 16, dropout: 0.1,
   encoder_attention_heads: 2, decoder_attention_heads: 2}
batching: {source_tokens: 400, target_tokens: 400, micro_batches: 2}
training: {updates: 8, warmup_updates: 2, validate_every: 4, checkpoint_every: 2, average_checkpoints: 2}
search: {num_beams: 2, extra_length: 5}
validation: {sentences: 1, samples: 0}
"""
VARIANTS = {"plain": [], "r_drop": ["training.r_drop=2.5"]}


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    pairs = list(builtin_pairs("train", 60))
    for name, chosen in (("train", pairs[:50]), ("dev", pairs[50:])):
        for side, texts in zip(("en", "de"), zip(*chosen, strict=True), strict=True):
            (tmp_path / f"{name}.{side}").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    file = tmp_path / "small.yaml"
    file.write_text(RECIPE, encoding="utf-8")
    return file


def plan(recipe: Path, **settings: Any) -> Plan:
    return Plan(**{"recipe": str(recipe), "variants": VARIANTS, "target_tokens": 1600, "seeds": (1, 2), "output": recipe.parent} | settings)


def test_the_budget_decides_how_long_each_trains(recipe: Path) -> None:
    variants = {**VARIANTS, "large": ["batching.target_tokens=800"], "long": ["training.updates=9", "training.validate_every=3"]}
    planned = {name: plan(recipe, variants=variants).recipe_of(name, 3) for name in variants}
    # 1,600 tokens are 4 updates of 400, 2 where each token is computed twice, and 2 of 800
    assert {name: each.training.updates for name, each in planned.items()} == {"plain": 4, "r_drop": 2, "large": 2, "long": 9}
    # The recipe validates twice in its 8 updates and saves four times
    assert {name: each.training.validate_every for name, each in planned.items()} == {"plain": 2, "r_drop": 1, "large": 1, "long": 3}
    assert {name: each.training.checkpoint_every for name, each in planned.items()} == {"plain": 1, "r_drop": 1, "large": 1, "long": 2}
    assert {each.training.seed for each in planned.values()} == {3}
    assert planned["r_drop"].training.r_drop == 2.5


@pytest.mark.parametrize("overrides", [(), ("training.r_drop=2.5",), ("batching.target_tokens=100",)])
def test_a_budget_in_updates(recipe: Path, overrides: tuple[str, ...]) -> None:
    budget = levers.budget_of(recipe, 7, overrides)
    assert plan(recipe, target_tokens=budget, overrides=overrides).recipe_of("plain", 1).training.updates == 7


def scores_by_hand(texts: Path, folder: Path) -> dict[str, Any]:
    """Of all ten validation pairs, one after the other for the loss."""
    model, tokenizer = load_checkpoint(folder)
    sources, references = ((texts / f"dev.{side}").read_text(encoding="utf-8").splitlines() for side in ("en", "de"))
    found = score(translate(model, tokenizer, sources, num_beams=2), references, target_language="de", tokenized=False)
    nats = []
    for source, reference in zip(sources, references, strict=True):
        inputs, labels = (tokenizer(text, return_tensors="pt")["input_ids"] for text in (source, reference))
        with torch.no_grad():
            nats.append((model(input_ids=inputs, labels=labels).loss.item() * labels.numel(), labels.numel()))
    total, tokens = map(sum, zip(*nats, strict=True))
    losses = {"nll": pytest.approx(total / tokens, rel=1e-5), "nll_of_a_sentence": pytest.approx(total / len(sources), rel=1e-5)}
    return {"bleu": found["sacrebleu"].score, "chrf": found["chrf"].score, **losses}


def test_each_is_trained_once_and_scored_as_published(
    recipe: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    *_, results = compare_levers(plan(recipe))
    assert [(run["variant"], run["seed"], run["updates"]) for run in results["runs"]] == [
        ("plain", 1, 4), ("r_drop", 1, 2), ("plain", 2, 4), ("r_drop", 2, 2),
    ]  # fmt: skip
    plain, r_drop = results["runs"][:2]
    assert r_drop["flops"] == pytest.approx(plain["flops"], rel=0.4)
    assert r_drop["target_tokens"] < plain["target_tokens"]
    assert plain == {**plain, **scores_by_hand(recipe.parent, recipe.parent / "plain" / "seed-1" / "averaged")}
    monkeypatch.setattr(levers, "train", lambda *arguments: pytest.fail("trained again"))
    assert list(compare_levers(plan(recipe)))[-1] == results
    shutil.rmtree(recipe.parent / "r_drop")
    done = list(compare_levers(plan(recipe, done_only=True)))[-1]
    assert [(run["variant"], run["seed"]) for run in done["runs"]] == [("plain", 1), ("plain", 2)]
    with pytest.raises(ValueError, match=r"No run of this plan is done, .* leave out `--done-only`"):
        list(compare_levers(plan(recipe, output=recipe.parent / "elsewhere", done_only=True)))
    monkeypatch.setattr(levers, "train", lambda *arguments: None)
    with pytest.raises(InterruptedError, match=r"r_drop/seed-1 was stopped; the same command goes on"):
        list(compare_levers(plan(recipe)))


def _run(variant: str, seed: int, bleu: float, nll: float) -> dict[str, Any]:
    facts = {"updates": 4, "target_tokens": 1200, "flops": 2e9, "precision": "bfloat16" if seed == 1 else "float32"}
    return {"variant": variant, "seed": seed, "bleu": bleu, "nll": nll, "nll_of_a_sentence": 10 * nll, **facts}


def test_means_and_differences_by_hand() -> None:
    runs = [_run("plain", 1, 30.0, 2.0), _run("other", 1, 33.0, 1.5), _run("plain", 2, 32.0, 1.0)]
    variants = {"plain": [], "other": ["a.b=1"]}
    shared = {"recipe": "small", "overrides": [], "target_tokens": 1600, "seeds": [1, 2], "variants": variants}
    lines = table({**shared, "runs": runs}).splitlines()
    assert lines[-2] == "| plain | - | 31.00 | 30.00, 32.00 | - | 1.500 | 2.000, 1.000 | 15.00 | 4 | 1,200 | 2e+09 | bfloat16 and float32 |"
    # Beside the same seed of the first variant
    assert lines[-1] == "| other | `a.b=1` | 33.00 | 33.00 | +3.00 | 1.500 | 1.500 | 15.00 | 4 | 1,200 | 2e+09 | bfloat16 |"


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"target_tokens": 0}, "budget must be 1 target token or more"),
        ({"seeds": (1, 1)}, "name each seed once"),
        ({"variants": {}}, "There is no variant"),
        ({"variants": {"../x": []}}, "gives its folder a name"),
        ({"variants": {"x": "training.r_drop=1"}}, "must be a list of settings such as"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(recipe: Path, settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        plan(recipe, **settings)


def test_a_mistake_in_the_last_variant_comes_before_any_training(recipe: Path) -> None:
    with pytest.raises(ValueError, match="did you mean `r_drop`"):
        next(compare_levers(plan(recipe, variants={**VARIANTS, "wrong": ["training.r_dorp=1"]})))
    recipe.write_text(RECIPE.replace("updates: 8", "epochs: 2"), encoding="utf-8")
    with pytest.raises(ValueError, match="number of epochs, and the budget decides how long"):
        next(compare_levers(plan(recipe)))


def test_the_command_writes_both_files(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "levers.yaml").write_text("plain: []\n", encoding="utf-8")
    words = [
        str(recipe),
        "--variants",
        str(tmp_path / "levers.yaml"),
        "--target-tokens",
        "800",
        "--seeds",
        "1",
        "--output",
        str(tmp_path / "out"),
    ]
    monkeypatch.setattr("sys.argv", ["levers", *words])
    main(parse())
    text = (tmp_path / "out" / "table.md").read_text(encoding="utf-8")
    assert text in capsys.readouterr().out
    assert read_json(tmp_path / "out" / "results.json")["runs"][0]["updates"] == 2
