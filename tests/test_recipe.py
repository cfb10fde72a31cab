"""Recipes: what is read is what was written, and a mistake is answered with the remedy."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from vaswani_transformer.data.sources.builtin import BuiltinCorpus
from vaswani_transformer.data.sources.hub import HubCorpus
from vaswani_transformer.data.sources.lines import LinesCorpus
from vaswani_transformer.data.sources.table import TableCorpus
from vaswani_transformer.recipe import Recipe, load_recipe, parse_recipe

MINIMAL: dict[str, Any] = {
    "name": "example",
    "source_language": "en",
    "target_language": "de",
    "data": {
        "train": [{"format": "builtin", "split": "train"}],
        "validation": {"format": "builtin", "split": "validation"},
        "test": {"builtin": {"format": "builtin", "split": "test"}},
    },
    "tokenizer": {"vocab_size": 500},
    "training": {"updates": 10},
}


@pytest.fixture
def recipe_file(tmp_path: Path) -> Path:
    path = tmp_path / "example.yaml"
    path.write_text(yaml.safe_dump(MINIMAL), encoding="utf-8")
    return path


def test_a_minimal_recipe_has_the_papers_defaults(recipe_file: Path) -> None:
    recipe = load_recipe(recipe_file)
    assert (recipe.training.adam_betas, recipe.training.adam_epsilon) == ((0.9, 0.98), 1e-9)
    assert (recipe.training.label_smoothing, recipe.training.warmup_updates) == (0.1, 4000)
    assert recipe.training.max_gradient_norm is None
    assert (recipe.batching.source_tokens, recipe.batching.target_tokens) == (25_000, 25_000)
    assert (recipe.search.num_beams, recipe.search.length_penalty, recipe.search.extra_length) == (4, 0.6, 50)
    assert recipe.model_config().d_model == 512
    assert recipe.languages == ("en", "de")


def test_to_yaml_is_read_back_to_an_equal_recipe(recipe_file: Path) -> None:
    overrides = ["training.trackers=[tensorboard]", "model.dropout=0.2", "data.licence=CC-BY-4.0 ©"]
    recipe = load_recipe(recipe_file, overrides)
    assert parse_recipe(yaml.safe_load(recipe.to_yaml())) == recipe


def test_overrides_reach_nested_and_absent_settings(recipe_file: Path) -> None:
    overrides = [
        "training.updates=7",
        "batching.micro_batches=2",
        "search.length_penalty_type=null",
        "name=other",
    ]
    recipe = load_recipe(recipe_file, overrides)
    assert (recipe.training.updates, recipe.batching.micro_batches) == (7, 2)
    assert recipe.search.length_penalty_type is None
    assert recipe.name == "other"


def test_scientific_notation_is_a_number(recipe_file: Path) -> None:
    assert load_recipe(recipe_file, ["training.adam_epsilon=1e-8"]).training.adam_epsilon == 1e-8


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("trainin.updates=1", "Unknown key `trainin`; did you mean `training`?"),
        ("training.update=1", "Unknown key `training.update`; did you mean `updates`?"),
        ("model.d_modle=64", "Unknown key `model.d_modle`; did you mean `d_model`?"),
        ("model.preset=bigg", "`model.preset` cannot be 'bigg'; did you mean `big`?"),
        ("training.precision=bf16", "`training.precision` cannot be 'bf16'; did you mean `bfloat16`?"),
        (
            "data.validation.format=builtn",
            "`data.validation.format` cannot be 'builtn'; did you mean `builtin`?",
        ),
        ("data.validation={format: lines, source: a.en}", "`data.validation`: .* needs `target`"),
        ("data.train={format: builtin}", "`data.train` must be a list"),
        ("data.train=[{format: builtin}]", r"`data.train\[0\]`: .* needs `split`"),
        ("training={}", "`training.updates` is missing"),
        ("training={epochs: 0}", "`training`: `epochs` must be above 0"),
        ("training.epochs=3", "`training`: give `updates` or `epochs`, not both"),
        ("training.updates=many", "`training.updates` must be of type int, not 'many'"),
        ("training.updates=true", "`training.updates` must be of type int, not True"),
        ("training.updates=0", "`training`: `updates` must be at least 1, not 0"),
        ("training.patience=0", "`patience` must be at least 1"),
        ("training.label_smoothing=1.0", "`label_smoothing` must lie between 0 and 1"),
        ("training.adam_betas=[0.9]", "`training.adam_betas` must hold 2 values, not 1"),
        ("training.adam_betas=[0.9, 1.0]", "`adam_betas` must lie between 0 and 1"),
        ("training.learning_rate_scale=.nan", "`learning_rate_scale` must be above 0, not nan"),
        ("training.learning_rate_scale=fast", "`training.learning_rate_scale` must be a number, not 'fast'"),
        ("training.weight_decay=-0.1", "`weight_decay` must be at least 0, not -0.1"),
        ("training.both_directions_epochs=-2", "`both_directions_epochs` must be at least 0, not -2"),
        ("training.r_drop=-1", "`r_drop` must be at least 0, not -1"),
        ("training.ema_decay=1", r"`ema_decay` must lie between 0 and 1 \(both excluded\), not 1.0"),
        ("training.ema_decay=.nan", "`ema_decay` must lie between 0 and 1"),
        ("training.initial_scale=0", "`initial_scale` must be above 0, not 0"),
        ("training.initial_embedding_scale=0", "`initial_embedding_scale` must be above 0, not 0"),
        ("training.initial_scale=deepnrm", "`training.initial_scale` must be a number or deepnorm, not 'deepnrm'"),
        ("training={updates: 1, initial_scale: true}", "`training.initial_scale` must be a number or deepnorm, not True"),
        ("batching={micro_batches: 1, mixed_lengths: true}", "`mixed_lengths` gives an update .* and `micro_batches` is 1; raise it to 2"),
        ("batching.micro_batches=0", "`batching`: `micro_batches` must be at least 1"),
        ("search.num_beams=0", "`search`: `num_beams` must be at least 1"),
        ("data.test=[]", "`data.test` must be a mapping"),
        ("fine_tuning={lora: {dropout: 1}}", r"`dropout` must be a number between 0 and 1 \(excluded\), not 1\.0"),
        ("model.dropout=1.5", r"`model\.dropout` must be a number between 0 and 1 \(excluded\), not 1\.5"),
        ("model.dropout=high", r"`model\.dropout` must be a number .*, not 'high'"),
        ("model.encoder_attention_heads=7", "set `head_dim`"),
        ("model.attention_score=additve", "`model.attention_score` must be one of .*additive, not 'additve'"),
        ("model.attention_window=0", "`attention_window` must be at least 1, not 0"),
        ("name=../x", r"`name` is that of the run's folder below runs/ and cannot be '../x'; choose one without / and"),
        ("name=..", r"`name` is .* cannot be '\.\.'"),
        ("name=/x", r"`name` is .* cannot be '/x'"),
        ('name=""', r"`name` is .* cannot be ''"),
        ("name.first=x", "goes below `name`, which is not a mapping"),
        ("training.max_epochs=3", "Unknown key `training.max_epochs`; here it is `training.epochs`"),
        ("training.batch_size=64", "Unknown key `training.batch_size`; here it is `batching.source_tokens` and `batching.target_tokens`"),
        ("training.lr=1e-4", "here it is `training.learning_rate_scale`, which multiplies the paper's schedule"),
        ("learning_rate=1e-4", "here it is `training.learning_rate_scale`"),
        ("seed=3", "Unknown key `seed`; did you mean `training.seed`?"),
        ("training.max_sentence_tokens=3", "did you mean `batching.max_sentence_tokens`?"),
        ("model.vocab_size=3", "`model.vocab_size` is decided by the tokenizer; set `tokenizer.vocab_size`"),
        ("target_language=no", '`target_language` must be text, but YAML reads the words "no".*quote it'),
        ("source_language=english", "`source_language` must be a language's code, not 'english'; did you mean en?"),
        ("target_language=Klingon", "`target_language` must be a language's code, not 'Klingon'; such as fr, sw or pt-BR"),
        ("name", "An override reads key=value"),
        ("name=[1", "is not valid YAML"),
    ],
)
def test_a_mistake_is_named_with_its_remedy(recipe_file: Path, override: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        load_recipe(recipe_file, [override])


@pytest.mark.parametrize("start", ["null", "runs/other/averaged"])
@pytest.mark.parametrize(
    ("setting", "choices"),
    [
        ("attention_score=cosine", "scaled_dot_product, dot_product, additive, not 'cosine'"),
        ("position_embedding_type=null", "sinusoidal, learned, not None"),
        ("sinusoidal_layout=[interleaved]", "interleaved, concatenated, tensor2tensor, not "),
    ],
)
def test_an_unknown_choice_is_told_wherever_a_model_starts(recipe_file: Path, start: str, setting: str, choices: str) -> None:
    with pytest.raises(ValueError, match=f"`model.{setting.split('=')[0]}` must be one of {choices}"):
        load_recipe(recipe_file, [f"init_from={start}", f"model.{setting}"])


@pytest.mark.parametrize("name", ["dropout", "attention_dropout", "activation_dropout", "classifier_dropout"])
@pytest.mark.parametrize("rate", ["1.5", "-0.1", "0,3", "true", ".nan"])
@pytest.mark.parametrize("start", ["null", "runs/other/averaged"])
def test_a_wrong_rate_of_dropout_is_told_wherever_a_model_starts(recipe_file: Path, start: str, rate: str, name: str) -> None:
    with pytest.raises(ValueError, match=rf"`model\.{name}` must be a number between 0 and 1 \(excluded\), not "):
        load_recipe(recipe_file, ["task=classification", "target_language=en", f"init_from={start}", f"model.{name}={rate}"])


def test_r_drop_needs_dropout(recipe_file: Path) -> None:
    overrides = ["training.r_drop=2.5", "model.dropout=0"]
    with pytest.raises(ValueError, match=r"`training\.r_drop` compares two passes with different dropout, and there is none"):
        load_recipe(recipe_file, overrides)
    assert load_recipe(recipe_file, [*overrides, "model.activation_dropout=0.1"]).training.r_drop == 2.5


def test_an_error_names_the_file(recipe_file: Path) -> None:
    with pytest.raises(ValueError, match=r"example\.yaml: Unknown key `nam`; did you mean `name`"):
        load_recipe(recipe_file, ["nam=x"])


def _root(path: Path, root: str | None, *overrides: str, **settings: Any) -> str:
    path.parent.mkdir(exist_ok=True)
    data = MINIMAL["data"] if root is None else {**MINIMAL["data"], "root": root}
    path.write_text(yaml.safe_dump({**MINIMAL, "data": data}), encoding="utf-8")
    return load_recipe(path, overrides, **settings).data.root


def test_a_relative_root_starts_at_the_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = Path("project") / "my.yaml"
    assert (_root(file, None), _root(file, "text"), _root(file, "../text")) == ("project", "project/text", "project/../text")
    assert _root(Path("my.yaml"), "text") == "text"
    assert _root(tmp_path / file, "text") == f"{tmp_path}/project/text"
    assert _root(file, "/elsewhere") == "/elsewhere"
    assert _root(file, "text", "data.root=mine") == "mine"  # typed in the working directory
    assert _root(file, "text", in_run_folder=True) == "text"
    of_a_run = file.rename(file.with_name("recipe.yaml"))
    assert _root(of_a_run, "text") != "text"
    (file.parent / "training.lock").touch()
    assert _root(of_a_run, "text") == "text"


def test_a_missing_file_says_where_recipes_are(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no recipe file .*absent\.yaml; `vaswani recipes` lists"):
        load_recipe(tmp_path / "absent.yaml")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"name: [", "is not valid YAML"),
        (b"- name", "must hold a mapping of settings, not list"),
        (b"", "must hold a mapping of settings, not NoneType"),
        (b"name: \xff", "is not valid YAML"),
        (b"name: a\ntraining: {updates: 1}\nname: b\n", "is not valid YAML: the key `name` stands in line 1 and again in line 3"),
    ],
)
def test_a_file_that_is_no_recipe_is_refused(tmp_path: Path, content: bytes, sentence: str) -> None:
    path = tmp_path / "broken.yaml"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"broken\.yaml {sentence}"):
        load_recipe(path)


def test_a_recipe_cannot_be_changed_after_it_was_read(recipe_file: Path) -> None:
    recipe: Any = load_recipe(recipe_file)
    with pytest.raises(AttributeError):
        recipe.name = "another"
    assert isinstance(recipe, Recipe)


def test_the_keys_of_another_format_are_refused() -> None:
    lines = {"format": "lines", "source": "a.en", "target": "a.de"}
    for key, value in (("streaming", True), ("split", "train"), ("path", "a.tsv")):
        with pytest.raises(ValueError, match=rf"`data\.train\[0\]\.{key}` does not belong to format 'lines', whose keys are .*source"):
            parse_recipe({**MINIMAL, "data": {**MINIMAL["data"], "train": [{**lines, key: value}]}})


OF_AN_EARLIER_VERSION = """
name: builtin_tiny
source_language: en
target_language: de
data:
  train:
  - {format: builtin, source: null, target: null, path: null, name: null, split: train, source_column: null, target_column: null,
     streaming: false, limit: null, tokenized: false, target_language: null}
  validation:
    {format: lines, source: dev.en, target: dev.de, path: null, name: null, split: null, source_column: null, target_column: null,
     streaming: false, limit: 500, tokenized: true, target_language: null}
  test:
    one: {format: table, source: null, target: null, path: t.tsv, name: null, split: null, source_column: '1', target_column: '2',
     streaming: false, limit: null, tokenized: false, target_language: de}
    two: {format: hub, source: null, target: null, path: a/b, name: de-en, split: test, source_column: null, target_column: null,
     streaming: true, limit: null, tokenized: false, target_language: null}
  root: .
  licence: apache-2.0
tokenizer: {vocab_size: 1500, min_frequency: 2, method: train}
training: {updates: 1000}
"""


def test_the_recipe_of_a_run_of_an_earlier_version_is_read() -> None:
    data = parse_recipe(yaml.safe_load(OF_AN_EARLIER_VERSION)).data
    assert data.train == (BuiltinCorpus(split="train"),)
    assert data.validation == LinesCorpus(source="dev.en", target="dev.de", limit=500, tokenized=True)
    assert data.test["one"] == TableCorpus(path="t.tsv", source_column="1", target_column="2", target_language="de")
    assert data.test["two"] == HubCorpus(path="a/b", name="de-en", split="test", streaming=True)


def test_reading_a_recipe_imports_no_corpus_and_no_data_set_library(recipe_file: Path) -> None:
    recipe_file.write_text(OF_AN_EARLIER_VERSION.replace("format: builtin", "format: hub").replace("path: null", "path: x", 1))
    heavy = "vaswani_transformer.data.builtin.corpus", "datasets", "pyarrow"
    program = f"import sys; from vaswani_transformer.recipe import load_recipe; load_recipe({str(recipe_file)!r}); "
    program += f"sys.exit(', '.join(set({heavy}) & set(sys.modules)) or 0)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True)
    assert done.returncode == 0, done.stderr


def _in(language: str | None, split: str = "train") -> dict[str, Any]:
    return {"format": "builtin", "split": split, "target_language": language}


def _several(**data: Any) -> dict[str, Any]:
    validation = [_in("de", "validation"), _in("fr", "validation")]
    both = {"train": [_in("de"), _in("fr"), _in("de")], "validation": validation, "test": {}}
    return {**MINIMAL, "target_language": "mul", "data": {**both, **data}}


def test_the_training_corpora_name_the_target_languages() -> None:
    recipe = parse_recipe(_several())
    assert recipe.target_languages == recipe.translates_into == ("de", "fr")
    assert [recipe.languages_of(spec)[1] for spec in recipe.data.validations] == ["de", "fr"]
    assert parse_recipe(yaml.safe_load(recipe.to_yaml())) == recipe
    single = parse_recipe(MINIMAL)
    assert (single.target_languages, single.translates_into) == ((), ("de",))
    assert single.data.validations == (single.data.validation,)


def test_a_corpus_that_names_none_is_in_the_recipes_language() -> None:
    recipe = parse_recipe({**_several(train=[_in(None), _in("fr")]), "target_language": "de"})
    assert recipe.target_languages == ("de", "fr")


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        (_several(train=[_in("de"), _in(None)]), "`mul` is no language"),
        (_several(test={"x": _in("it", "test")}), "`data.test.x` has a corpus in it, .* are de, fr"),
        (_several(validation=_in(None, "validation")), "`data.validation` has a corpus in mul"),
        (_several(validation=[]), "`train` and `validation` need a corpus each"),
        (_several(train=[_in("d e")]), "must be a language's code"),
        ({**MINIMAL, "batching": {"temperature": 2}}, "`batching.temperature` is for several"),
        ({**_several(), "batching": {"temperature": 0.5}}, "`temperature` must be at least 1"),
    ],
)
def test_languages_that_do_not_fit_are_refused(tree: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_recipe(tree)
