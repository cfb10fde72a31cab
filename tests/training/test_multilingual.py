"""One model for several target languages, from two made-up ones: whole trainings, seconds each."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import AutoTokenizer, pipeline

from vaswani_transformer.evaluation.scores import evaluate_run
from vaswani_transformer.files.json_files import read_json_lines
from vaswani_transformer.languages import target_languages
from vaswani_transformer.recipe import Recipe
from vaswani_transformer.run_folder import RunFolder
from vaswani_transformer.training.engine import train
from vaswani_transformer.training.preparation import prepare_data
from vaswani_transformer.translation.translate import translate

from .conftest import SOURCE, TARGET

MakeRecipe = Callable[..., Recipe]
FRENCH = ["nul", "un", "deux", "trois", "quatre", "cinq", "six", "sept", "huit", "neuf"]


@pytest.fixture
def world(corpus: Path) -> dict[str, Any]:
    """The numbers in German, and a third of them in French: sections of a recipe."""
    for name, share in (("train", 3), ("validation", 1)):
        sides = [(corpus / f"{name}.{code}").read_text(encoding="utf-8").splitlines() for code in ("en", "de")]
        chosen = list(zip(*sides, strict=True))[::share]
        french = [" ".join(FRENCH[SOURCE.index(word)] for word in english.split()) for english, _ in chosen]
        for code, lines in (("x.en", [english for english, _ in chosen]), ("x.fr", french)):
            (corpus / f"{name}.{code}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    german = {"format": "lines", "source": "{}.en", "target": "{}.de", "target_language": "de"}
    french_ = {"format": "lines", "source": "{}.x.en", "target": "{}.x.fr", "target_language": "fr"}

    def both(split: str) -> list[dict[str, str]]:
        return [{key: value.format(split) for key, value in spec.items()} for spec in (german, french_)]

    tests = dict(zip(("german", "french"), both("validation"), strict=True))
    data = {"root": str(corpus), "train": both("train"), "validation": both("validation"), "test": tests}
    return {"target_language": "mul", "data": data, "tokenizer": {"vocab_size": 330, "min_frequency": 1}}


@pytest.fixture
def make(make_recipe: MakeRecipe, world: dict[str, Any]) -> MakeRecipe:
    def build(fine: dict[str, Any] | None = None, **settings: Any) -> Recipe:
        return make_recipe(fine={**world, **(fine or {})}, **settings)

    return build


def test_the_token_decides_the_language(make: MakeRecipe, run: RunFolder, corpus: Path) -> None:
    """Learnt by heart is enough: the same sources with one token or the other."""
    model = {"preset": "tiny", "d_model": 64, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0}
    schedule = {"updates": 150, "warmup_updates": 60, "learning_rate_scale": 0.3, "log_every": 50}
    every = {"validate_every": 150, "checkpoint_every": 150, "average_checkpoints": 1}
    assert train(
        make(
            fine={"model": model, "search": {"num_beams": 2}},
            batching={"temperature": 5.0},
            **schedule,
            **every,
        ),
        run,
    )
    sources = (corpus / "train.x.en").read_text(encoding="utf-8").splitlines()
    for code, words in (("de", TARGET), ("fr", FRENCH)):
        translator = pipeline("translation", model=str(run.averaged), tgt_lang=code)
        found = [output["translation_text"] for output in translator(sources)]
        expected = [" ".join(words[SOURCE.index(word)] for word in source.split()) for source in sources]
        assert sum(map(str.__eq__, found, expected)) >= 0.9 * len(sources)
        assert translate(translator.model, translator.tokenizer, sources, target_language=code) == found
    pytest.importorskip("ctranslate2", reason="the extra `ctranslate2` is not installed")
    from vaswani_transformer.interop.ctranslate2 import CTranslate2Model
    from vaswani_transformer.interop.ctranslate2_export import export_ctranslate2

    exported = CTranslate2Model.from_pretrained(export_ctranslate2(run.averaged, run.path / "exported"))
    translator = pipeline("translation", model=exported, tokenizer=translator.tokenizer, device="cpu")
    assert [output["translation_text"] for output in translator(sources, tgt_lang="fr")] == found


def test_resuming_changes_no_bit(make: MakeRecipe, assert_resuming_changes_no_bit: Callable[[Recipe], None]) -> None:
    assert_resuming_changes_no_bit(make(batching={"temperature": 2.0}))


def test_each_language_is_scored_by_itself(make: MakeRecipe, run: RunFolder) -> None:
    recipe = make(fine={"validation": {"sentences": 2, "samples": 1}})
    assert train(recipe, run)
    record = next(record for record in read_json_lines(run.log) if record["kind"] == "validation")
    for metric in ("bleu", "chrf"):
        assert record[metric] == pytest.approx((record[f"{metric}_de"] + record[f"{metric}_fr"]) / 2)
    assert [sample["reference"] for sample in record["samples"]] == ["neun eins null", "neuf un nul"]
    evaluation = evaluate_run(run, progress=False, num_beams=1)
    assert [test_set["tgt_lang"] for test_set in evaluation["test_sets"]] == ["de", "fr"]
    signatures = [test_set["metrics"]["paper_bleu"]["signature"] for test_set in evaluation["test_sets"]]
    assert "moses-de" in signatures[0] and "moses-fr" in signatures[1]


def test_the_pairs_carry_their_token(make: MakeRecipe, run: RunFolder) -> None:
    data = prepare_data(make(), run)
    tokens = target_languages(data.tokenizer)
    assert list(tokens) == data.train.target_languages == ["de", "fr"]
    assert data.train.languages is not None
    assert np.bincount(data.train.languages).tolist() == [60, 20]
    for number, language in enumerate(data.train.languages):
        source = data.train.pair(number)[0]
        assert source[0] == list(tokens.values())[language]
        assert set(source[1:]).isdisjoint(tokens.values())
    validation = data.validation.pair(0)[0]
    assert data.tokenizer.decode(validation, skip_special_tokens=True) == "nine one zero"


@pytest.fixture
def origin(make_recipe: MakeRecipe, tmp_path: Path) -> Path:
    """A model of one target language."""
    run = RunFolder(tmp_path / "origin")
    assert train(make_recipe(updates=2, validate_every=2, checkpoint_every=2, average_checkpoints=1), run)
    return run.averaged


def test_a_model_of_one_language_learns_others(make: MakeRecipe, run: RunFolder, origin: Path) -> None:
    start = {"init_from": str(origin), "model": {}}
    with pytest.raises(ValueError, match=r"no token for the target language de, fr; set `tokenizer.method`"):
        prepare_data(make(fine={**start, "tokenizer": {"method": "keep"}}), run)
    assert train(make(fine={**start, "tokenizer": {"method": "extend", "vocab_size": 290}}, updates=4), run)
    old, new = (AutoTokenizer.from_pretrained(folder) for folder in (origin, run.averaged))
    assert target_languages(new) == {"de": len(old), "fr": len(old) + 1}
    assert new("one two </s>")["input_ids"][-1] == new.eos_token_id


def test_a_model_of_several_languages_is_not_taken_for_one_of_one(
    make: MakeRecipe, make_recipe: MakeRecipe, run: RunFolder, tmp_path: Path
) -> None:
    settings = {"updates": 2, "validate_every": 2, "checkpoint_every": 2, "average_checkpoints": 1}
    origin = RunFolder(tmp_path / "origin")
    assert train(make(**settings), origin)
    start = {"init_from": str(origin.averaged), "model": {}, "tokenizer": {"method": "keep"}}
    with pytest.raises(ValueError, match=r"chooses among several target languages \(de, fr\)"):
        prepare_data(make_recipe(fine=start), run)
