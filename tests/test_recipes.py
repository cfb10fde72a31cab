"""The recipes that come with the project load, and have the paper's numbers (Table 3, sections 5 and 6.1)."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from vaswani_transformer import VaswaniForConditionalGeneration
from vaswani_transformer.configuration_vaswani import VaswaniConfig
from vaswani_transformer.recipe import DistillationSettings, Recipe, load_recipe, parse_recipe

FOLDER = Path(__file__).parents[1] / "scripts" / "recipes"
NAMES = sorted(path.stem for path in FOLDER.glob("*.yaml"))
WMT14 = [f"{size}_wmt14_en_{target}" for size in ("base", "big") for target in ("de", "fr")]


def shipped(name: str) -> Recipe:
    return load_recipe(FOLDER / f"{name}.yaml")


def parameters(config: VaswaniConfig) -> int:
    """The closed form of Table 3's last column, from the paper's equations alone."""
    d, inner, layers = config.d_model, config.encoder_ffn_dim, config.encoder_layers
    attention = 4 * d * d
    feed_forward = 2 * d * inner + inner + d
    norm = 2 * d
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    return config.vocab_size * d + layers * (encoder_layer + decoder_layer)


def test_all_promised_recipes_are_there() -> None:
    assert {"builtin_tiny", "multi30k_en_de", "multi30k_en_de_raw", "multi30k_en_mul", *WMT14} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_recipe_loads_and_survives_its_own_yaml(name: str) -> None:
    recipe = shipped(name)
    assert recipe.name == name
    assert parse_recipe(yaml.safe_load(recipe.to_yaml())) == recipe


@pytest.mark.parametrize("name", NAMES)
def test_the_average_takes_checkpoints_that_the_run_writes(name: str) -> None:
    training = shipped(name).training
    assert training.updates // training.checkpoint_every >= training.average_checkpoints


@pytest.mark.parametrize("name", WMT14)
def test_wmt14_recipes_have_the_papers_numbers(name: str) -> None:
    recipe = shipped(name)
    big, french = name.startswith("big"), name.endswith("fr")
    assert recipe.training.updates == (300_000 if big else 100_000)
    assert recipe.training.average_checkpoints == (20 if big else 5)
    assert (recipe.training.warmup_updates, recipe.training.learning_rate_scale) == (4000, 1.0)
    assert (recipe.training.label_smoothing, recipe.training.max_gradient_norm) == (0.1, None)
    assert (recipe.batching.source_tokens, recipe.batching.target_tokens) == (25_000, 25_000)
    assert recipe.tokenizer.vocab_size == (32_000 if french else 37_000)
    assert (recipe.search.num_beams, recipe.search.length_penalty) == (4, 0.6)
    assert (recipe.search.length_penalty_type, recipe.search.extra_length) == ("gnmt", 50)
    assert recipe.languages == ("en", "fr" if french else "de")
    assert recipe.data.train[0].name == ("fr-en" if french else "de-en")
    assert [
        *(spec.split for spec in recipe.data.validations),
        *(spec.split for spec in recipe.data.test.values()),
    ] == [
        "validation",
        "test",
    ]


@pytest.mark.parametrize("name", WMT14)
def test_wmt14_models_are_rows_of_table_3(name: str) -> None:
    recipe = shipped(name)
    config = recipe.model_config(vocab_size=recipe.tokenizer.vocab_size)
    big = name.startswith("big")
    heads = {config.encoder_attention_heads, config.decoder_attention_heads}
    assert (config.encoder_layers, config.decoder_layers, config.d_model) == (6, 6, 1024 if big else 512)
    assert {config.encoder_ffn_dim, config.decoder_ffn_dim} == {4096 if big else 2048}
    assert (heads, config.head_dim, config.value_head_dim) == ({16 if big else 8}, 64, 64)
    assert config.dropout == {"big_wmt14_en_de": 0.3}.get(name, 0.1)


@pytest.mark.parametrize(("name", "printed"), [("base_wmt14_en_de", 65e6), ("big_wmt14_en_de", 213e6)])
def test_sizes_are_those_that_table_3_prints(name: str, printed: float) -> None:
    recipe = shipped(name)
    config = recipe.model_config(vocab_size=recipe.tokenizer.vocab_size)
    assert parameters(config) == pytest.approx(printed, rel=0.07)


@pytest.mark.parametrize(("name", "dropout"), [("multi30k_en_de", 0.3), ("multi30k_en_de_raw", 0.2)])
def test_multi30k_is_the_published_tiny_transformer(name: str, dropout: float) -> None:
    recipe = shipped(name)
    config = recipe.model_config()
    assert (config.encoder_layers, config.decoder_layers, config.d_model) == (4, 4, 128)
    assert (config.encoder_ffn_dim, config.encoder_attention_heads, config.dropout) == (256, 4, dropout)
    assert (recipe.tokenizer.vocab_size, recipe.search.num_beams) == (10_000, 5)
    corpora = [*recipe.data.train, *recipe.data.validations, *recipe.data.test.values()]
    assert {corpus.tokenized for corpus in corpora} == {name == "multi30k_en_de"}


def test_the_best_captions_need_no_more_target_tokens_than_the_plain_ones() -> None:
    """And begin as those do: only the optimiser, the dropout and the number of updates differ, and then the model goes on by itself."""
    plain, first, second = (shipped(f"multi30k_en_de{suffix}") for suffix in ("", "_muon", "_distilled"))
    training = replace(plain.training, optimizer="muon", updates=first.training.updates)
    assert replace(plain, name=first.name, model={**plain.model, "dropout": 0.2}, training=training) == first
    teacher = f"runs/{first.name}/averaged"
    assert second.data.distillation == DistillationSettings(
        teacher, num_beams=5, best=5, closest=True, keep_original=True, dtype="bfloat16"
    )
    assert (second.init_from, replace(second.data, distillation=None), second.search) == (teacher, first.data, first.search)
    assert second.batching == first.batching == plain.batching
    assert first.training.updates + second.training.updates < plain.training.updates


@pytest.mark.parametrize(("plain", "tokenized"), [("raw", "muon"), ("raw_distilled", "distilled")])
def test_captions_as_people_write_them_are_trained_as_tokenised_ones(plain: str, tokenized: str) -> None:
    ours, theirs = shipped(f"multi30k_en_de_{plain}"), shipped(f"multi30k_en_de_{tokenized}")
    for part in ("model", "tokenizer", "batching", "training", "search"):
        assert getattr(ours, part) == getattr(theirs, part)
    if theirs.data.distillation is not None:
        teacher = "runs/multi30k_en_de_raw/averaged"
        assert (ours.init_from, ours.data.distillation) == (teacher, replace(theirs.data.distillation, teacher=teacher))


def test_multi30k_in_three_languages_begins_with_the_model_of_one() -> None:
    recipe, single = shipped("multi30k_en_mul"), shipped("multi30k_en_de_raw")
    assert recipe.target_languages == ("de", "fr", "cs")
    assert [recipe.languages_of(spec)[1] for spec in recipe.data.validations] == ["de", "fr", "cs"]
    assert (recipe.init_from, recipe.tokenizer) == (f"runs/{single.name}/averaged", single.tokenizer)
    peaks = [r.training.learning_rate_scale * r.training.warmup_updates**-0.5 for r in (recipe, single)]
    assert peaks[0] == pytest.approx(peaks[1] / 2, rel=0.01)


def test_the_recipe_of_documentation_says_what_its_parts_are() -> None:
    recipe = shipped("docs_en_de")
    licences = recipe.data.licences
    assert [part.title for part in licences.unstated] == ["multi30k/train.en.gz"]
    assert licences.stated == ["cc-by-4.0", "cc-by-2.0", "cc-by-3.0"] and all(part.attribution for part in licences.parts)
    assert [name for name, spec in recipe.data.test.items() if spec.remark] == ["newstest2013"]
    assert recipe.data.validation not in recipe.data.test.values()
    assert parameters(recipe.model_config(vocab_size=recipe.tokenizer.vocab_size)) == pytest.approx(14.1e6, rel=0.01)


def test_the_default_recipe_needs_no_download() -> None:
    data = shipped("builtin_tiny").data
    assert {corpus.format for corpus in (*data.train, *data.validations, *data.test.values())} == {"builtin"}


@pytest.mark.parametrize(("name", "layers"), [("docs_en_de_deep_8_2", (8, 2)), ("docs_en_de_deep_10_1", (10, 1))])
def test_shallow_decoders_have_their_teachers_size_and_text(name: str, layers: tuple[int, int]) -> None:
    student, teacher = shipped(name), shipped("docs_en_de")
    config, full = (recipe.model_config(vocab_size=recipe.tokenizer.vocab_size) for recipe in (student, teacher))
    assert (config.encoder_layers, config.decoder_layers) == layers
    sizes = [VaswaniForConditionalGeneration(each).num_parameters() for each in (config, full)]
    assert sizes[0] == pytest.approx(sizes[1], rel=0.02)
    assert student.data.distillation == DistillationSettings(f"runs/{teacher.name}/averaged", dtype="bfloat16")
    untaught = replace(student, name=teacher.name, model=teacher.model, data=replace(student.data, distillation=None))
    assert untaught == teacher


def test_the_heads_of_documentation_learn_from_the_model_that_they_serve() -> None:
    heads, model = shipped("docs_en_de_heads"), shipped("docs_en_de")
    folder = f"runs/{model.name}/averaged"
    assert heads.init_from == folder
    assert heads.data.distillation == DistillationSettings(folder, num_beams=1, dtype="bfloat16")
    assert {part.source for part in heads.data.train} < {part.source for part in model.data.train}
    assert heads.data.validation == model.data.validation and heads.fine_tuning.freeze == ("backbone",)
