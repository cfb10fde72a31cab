"""From two text files to a recipe that trains, and what stands in it."""

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from vaswani_transformer import proposal
from vaswani_transformer.data.builtin.corpus import builtin_pairs
from vaswani_transformer.data.sources.lines import LinesCorpus
from vaswani_transformer.data.sources.table import TableCorpus
from vaswani_transformer.new_recipe import Files, write_new_recipe
from vaswani_transformer.recipe import load_recipe

PAIRS = list(builtin_pairs("train", 300))


def write_lines(folder: Path, name: str, pairs: list[tuple[str, str]]) -> Files:
    for side, language in enumerate(("en", "de")):
        content = "".join(f"{pair[side]}\n" for pair in pairs).encode()
        (folder / f"{name}.{language}.gz").write_bytes(gzip.compress(content))
    return Files(f"{name}.en.gz", f"{name}.de.gz")


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def test_two_files_become_a_recipe_with_sets_of_its_own(tmp_path: Path) -> None:
    train = write_lines(tmp_path, "a", [*PAIRS, *PAIRS[:50], ("", "nichts")])
    path, _, found = write_new_recipe("my", train, folder=tmp_path)
    recipe = load_recipe(path)
    assert (recipe.name, recipe.languages) == ("my", ("en", "de"))
    assert recipe.data.train == (LinesCorpus(source="a.en.gz", target="a.de.gz"),)
    assert recipe.data.validation == LinesCorpus(source="my.validation.en", target="my.validation.de")
    assert recipe.data.test == {"my_test": LinesCorpus(source="my.test.en", target="my.test.de")}
    sets = [list(zip(*(lines_of(tmp_path / f"my.{part}.{code}") for code in ("en", "de")), strict=True)) for part in ("validation", "test")]
    assert [len(pairs) for pairs in sets] == [11, 11]
    assert {*sets[0], *sets[1]} <= set(PAIRS) and not {s for s, _ in sets[0]} & {s for s, _ in sets[1]}
    text = path.read_text(encoding="utf-8")
    assert "# 351 pairs were read. Cleaning keeps 300, of which 22 are held out" in text
    assert "drops 1 empty side, 50 duplicate." in text
    assert found.pairs == 278


def test_two_files_of_one_language_keep_their_sides_apart(tmp_path: Path) -> None:
    write_lines(tmp_path, "a", PAIRS)
    for name, code in (("complex", "en"), ("simple", "de")):
        (tmp_path / f"{name}.en.gz").write_bytes((tmp_path / f"a.{code}.gz").read_bytes())
    path, _, _ = write_new_recipe("my", Files("complex.en.gz", "simple.en.gz"), folder=tmp_path)
    validation = load_recipe(path).data.validation
    assert validation == LinesCorpus(source="my.validation.source.en", target="my.validation.target.en")
    assert set(zip(lines_of(tmp_path / validation.source), lines_of(tmp_path / validation.target), strict=True)) <= set(PAIRS)


def test_given_sets_are_taken_and_kept_out_of_training(tmp_path: Path) -> None:
    train = write_lines(tmp_path, "a", PAIRS)
    dev, test = write_lines(tmp_path, "dev", PAIRS[:20]), write_lines(tmp_path, "test", PAIRS[20:30])
    path, _, found = write_new_recipe("my", train, validation=dev, test=test, folder=tmp_path)
    assert found.cleaning.dropped["held_out"] == 30 and found.held_out == []
    data = load_recipe(path).data
    assert data.validation == LinesCorpus(source="dev.en.gz", target="dev.de.gz")
    assert sorted(file.name for file in tmp_path.glob("my*")) == ["my.yaml", "my_distilled.yaml"]


def test_a_second_recipe_goes_on_with_the_first_ones_model_and_its_corpora(tmp_path: Path) -> None:
    first, second, _ = write_new_recipe("my", write_lines(tmp_path, "a", PAIRS), folder=tmp_path, licence="cc0-1.0")
    assert second == tmp_path / "my_distilled.yaml"
    text, (one, two) = second.read_text(encoding="utf-8"), (yaml.safe_load(path.read_text(encoding="utf-8")) for path in (first, second))
    assert two["data"].pop("distillation") == {
        "teacher": "runs/my/averaged", "num_beams": 5, "best": 5, "closest": True, "keep_original": True, "dtype": "bfloat16",
    }  # fmt: skip
    assert (two["name"], two["init_from"], two["tokenizer"]) == ("my_distilled", "runs/my/averaged", {"method": "keep"})
    assert [two[key] for key in ("source_language", "target_language", "data", "batching", "validation")] == [
        one[key] for key in ("source_language", "target_language", "data", "batching", "validation")
    ]
    assert "initial_scale" in one["training"] and "initial_scale" not in two["training"]
    assert "# First `vaswani train my.yaml`" in text and "{" not in text.replace("{format: lines", "").replace("cc0-1.0", "")


def test_a_corpus_without_a_second_run_leaves_the_name_of_its_recipe_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proposal, "_SIZES", [proposal._SIZES[1]._replace(pairs=0)])  # what 100,000 pairs get
    (tmp_path / "my_distilled.yaml").write_text("mine", encoding="utf-8")
    path, second, _ = write_new_recipe("my", write_lines(tmp_path, "a", PAIRS), folder=tmp_path)
    assert (path.name, second) == ("my.yaml", None)
    assert (tmp_path / "my_distilled.yaml").read_text(encoding="utf-8") == "mine"


def test_one_file_with_both_languages(tmp_path: Path) -> None:
    rows = "".join(f"{source};{target}\n" for source, target in [("en", "de"), *PAIRS[:60]])
    (tmp_path / "pairs.csv").write_text(rows, encoding="utf-8")
    path, *_ = write_new_recipe("my", Files("pairs.csv"), ("en", "de"), folder=tmp_path)
    assert load_recipe(path).data.train == (TableCorpus(path="pairs.csv"),)


def test_the_licence_goes_into_the_recipe(tmp_path: Path) -> None:
    path, *_ = write_new_recipe("my", write_lines(tmp_path, "a", PAIRS), folder=tmp_path, licence="CC BY: mine")
    assert load_recipe(path).data.licences.stated == ["CC BY: mine"]


def test_text_in_tokens_is_marked(tmp_path: Path) -> None:
    apart = [tuple(side.replace(".", " .").replace(",", " ,") for side in pair) for pair in PAIRS]
    path, *_ = write_new_recipe("my", write_lines(tmp_path, "a", [(s, t) for s, t in apart]), folder=tmp_path)
    data = load_recipe(path).data
    assert all(corpus.tokenized for corpora in data.by_split.values() for corpus in corpora)


@pytest.mark.parametrize(
    ("name", "train", "error", "message"),
    [
        ("second", Files("a.en.gz", "a.de.gz"), FileExistsError, r"second_distilled\.yaml is there already; choose another name"),
        ("../my", Files("a.en.gz", "a.de.gz"), ValueError, "is no name for a recipe"),
        ("taken", Files("a.en.gz", "a.de.gz"), FileExistsError, r"taken\.yaml is there already; choose another name"),
        ("my", Files("a.en.gz"), ValueError, r"ending of a\.en\.gz tells no format that holds both languages; give --target"),
        ("my", Files("a.txt", "b.txt"), ValueError, "do not end in their languages' codes"),
        ("my", Files("no.en", "no.de"), FileNotFoundError, r"There is no file .*no\.en"),
        ("my", Files("few.en.gz", "few.de.gz"), ValueError, r"leaves \d+ pairs of few\.en\.gz to train on .*too few"),
    ],
)
def test_what_cannot_become_a_recipe_is_told(tmp_path: Path, name: str, train: Files, error: type[Exception], message: str) -> None:
    write_lines(tmp_path, "a", PAIRS)
    write_lines(tmp_path, "few", PAIRS[:10])
    for file in ("taken.yaml", "second_distilled.yaml"):
        (tmp_path / file).touch()
    before = sorted(tmp_path.iterdir())
    with pytest.raises(error, match=message):
        write_new_recipe(name, train, folder=tmp_path)
    assert sorted(tmp_path.iterdir()) == before


def test_an_ending_that_tells_no_format_is_told(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"ending of pairs\.doc tells no format .* give --target"):
        write_new_recipe("my", Files("pairs.doc"), ("en", "de"), folder=tmp_path)


@pytest.mark.parametrize(("part", "option"), [("validation", "--dev-target"), ("test", "--test-target")])
def test_a_set_without_its_other_file_is_told_by_its_own_option(tmp_path: Path, part: str, option: str) -> None:
    train = write_lines(tmp_path, "a", PAIRS)
    with pytest.raises(ValueError, match=rf"ending of a\.en\.gz tells no format .* give {option}, the file of the other\.$"):
        write_new_recipe("my", train, folder=tmp_path, **{part: Files("a.en.gz")})


def test_two_files_lead_to_a_model_that_taught_itself_and_translates(tmp_path: Path, run_python: Callable[..., None]) -> None:
    write_lines(tmp_path, "a", PAIRS)
    run_python(tmp_path, "-m", "vaswani_transformer", "new", "my", "--source", "a.en.gz", "--target", "a.de.gz")
    short = _settings(
        "batching.source_tokens=512", "batching.target_tokens=512", "batching.micro_batches=2",
        "training.updates=60", "training.warmup_updates=20", "training.learning_rate_scale=1",
        "training.checkpoint_every=30", "training.validate_every=60", "training.precision=float32",
    )  # fmt: skip
    small = _settings("model.d_model=32", "model.encoder_layers=1", "model.decoder_layers=1", "model.dropout=0")
    run_python(tmp_path, "-m", "vaswani_transformer", "train", "my.yaml", *short, *small)
    teacher = _settings(*(f"data.distillation.{setting}" for setting in ("num_beams=1", "best=1", "closest=false")))
    run_python(tmp_path, "-m", "vaswani_transformer", "train", "my_distilled.yaml", *short, *teacher)
    (tmp_path / "in.txt").write_text("The dog sleeps.\n", encoding="utf-8")
    run_python(tmp_path, "-m", "vaswani_transformer", "translate", "runs/my_distilled/averaged", "--input", "in.txt", "--output", "out.txt")
    assert [bool(line.strip()) for line in (tmp_path / "out.txt").read_text(encoding="utf-8").splitlines()] == [True]


def _settings(*settings: str) -> list[str]:
    return [word for setting in settings for word in ("--set", setting)]
