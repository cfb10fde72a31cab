"""Texts of the lengths that were asked for, no test text from training sentences, and each class scored once."""

from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from benchmarks import longer_texts
from benchmarks.known_runs import FINGERPRINT
from benchmarks.levers import Plan
from benchmarks.longer_texts import POSITIONS, Lengths, compare_lengths, draw, table, texts, write_corpus
from vaswani_transformer.files.json_files import read_json, write_json
from vaswani_transformer.run_folder import RunFolder

SMALL = Lengths(train_words=8, edges=(8, 14), train_texts=60, test_texts=4)


@pytest.mark.parametrize(("shortest", "longest"), [(3, 8), (17, 24)])
def test_texts_have_the_lengths_asked_for(shortest: int, longest: int) -> None:
    found = list(islice(texts("train", shortest, longest, seed=1), 60))
    words = [len(english.split()) for english, _ in found]
    assert min(words) >= shortest and max(words) == longest and len(set(words)) > 3
    assert found == list(islice(texts("train", shortest, longest, seed=1), 60))
    assert all(german.count(".") + german.count("?") + german.count("!") >= 1 for _, german in found)


def test_classes_touch_and_nonsense_is_refused() -> None:
    assert Lengths(edges=(8, 16, 24)).classes == [(3, 8), (9, 16), (17, 24)]
    with pytest.raises(ValueError, match="`--edges` must ascend"):
        Lengths(edges=(16, 8))
    with pytest.raises(ValueError, match="name 12 among the `--edges`"):
        Lengths(train_words=12, edges=(8, 24))
    with pytest.raises(ValueError, match="there must be a training and a test text"):
        Lengths(test_texts=0)


def test_each_class_is_translated_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = write_corpus(SMALL, 7, tmp_path / "corpus")
    tests = read_json(recipe.parent / "tests.json")["tests"]
    run = RunFolder(tmp_path / "sinusoids" / "seed-1")
    run.path.mkdir(parents=True)
    monkeypatch.setattr(longer_texts, "compare_levers", lambda plan: iter([_levers(plan)]))
    monkeypatch.setattr(longer_texts, "load_checkpoint", lambda folder: (None, None))
    answers = {source: german for chosen in tests for source, german in chosen[:3]}  # one of four is wrong
    monkeypatch.setattr(longer_texts, "translate", lambda model, tokenizer, sources: [answers.get(each, "Nein") for each in sources])
    plan = Plan(str(recipe), POSITIONS, 100, (1,), tmp_path)
    (results,) = compare_lengths(plan, SMALL)
    assert [(row["shortest"], row["longest"], row["exact"]) for row in results["runs"][0]["classes"]] == [(3, 8, 0.75), (9, 14, 0.75)]
    monkeypatch.setattr(longer_texts, "translate", lambda *arguments: pytest.fail("translated again"))
    assert list(compare_lengths(plan, SMALL)) == [results]
    monkeypatch.setattr(longer_texts, "compare_levers", lambda plan: iter([_levers(plan, trained_on="another text")]))
    with pytest.raises(pytest.fail.Exception, match="translated again"):
        list(compare_lengths(plan, SMALL))
    assert "| 3 to 8 | sinusoids | 4 |" in table(results) and "| *9 to 14* | sinusoids | 4 |" in table(results)
    draw(results, tmp_path / "table.png")
    assert (tmp_path / "table.png").stat().st_size > 1000


def _levers(plan: Plan, trained_on: str = "a text") -> dict[str, Any]:
    return {"variants": plan.variants, "runs": [{"variant": "sinusoids", "seed": 1, "updates": 7, FINGERPRINT: trained_on}]}


def test_the_corpus_is_written_once(tmp_path: Path) -> None:
    recipe = write_corpus(SMALL, 7, tmp_path)
    plan = Plan(str(recipe), POSITIONS, 7 * 2048, (1,), tmp_path)
    assert plan.recipe_of("learned", 1).training.updates == 7
    assert plan.recipe_of("learned", 1).model["position_embedding_type"] == "learned"
    known = read_json(tmp_path / "tests.json")
    assert all(len(english.split()) <= 8 for english in (tmp_path / "train.en").read_text(encoding="utf-8").splitlines())
    write_json(tmp_path / "tests.json", known | {"tests": []})
    assert read_json(write_corpus(SMALL, 9, tmp_path).parent / "tests.json")["tests"] == []  # it was not written again
    write_corpus(Lengths(8, (8, 14), 60, 3), 9, tmp_path)
    assert [len(chosen) for chosen in read_json(tmp_path / "tests.json")["tests"]] == [3, 3]
