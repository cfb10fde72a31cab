"""Runs of other machines: known by what decides their outcome, and by nothing else."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks import levers
from benchmarks.known_runs import FINGERPRINT, fingerprint, known_runs
from benchmarks.levers import Plan, compare_levers
from vaswani_transformer.files.json_files import write_json
from vaswani_transformer.recipe import load_recipe
from vaswani_transformer.shipped_recipes import find_recipe

RECIPE = find_recipe("multi30k_en_de")


def _fingerprint(*overrides: str) -> str:
    return fingerprint(load_recipe(RECIPE, ["data.root=absent", *overrides]))


@pytest.mark.parametrize("override", ["data.root=elsewhere", "name=other", "data.licence=other", "training.r_drop=0.0", "training.seed=1"])
def test_place_name_and_defaults_do_not_count(override: str) -> None:
    assert _fingerprint(override) == _fingerprint()


@pytest.mark.parametrize(
    "override",
    ["training.seed=2", "training.updates=7999", "model.dropout=0.2", "tokenizer.vocab_size=4000", "data.cleaning.max_words=30"],
)
def test_what_decides_the_outcome_counts(override: str) -> None:
    assert _fingerprint(override) != _fingerprint()


@pytest.mark.parametrize("other", [{"format": "disk"}, {"path": "y"}])
def test_other_texts_count(other: dict[str, str]) -> None:
    """The same settings in another class of corpus are other data."""
    corpus = {"format": "hub", "path": "x", "split": "train"}
    assert _fingerprint(f"data.train={[corpus]}") != _fingerprint(f"data.train={[corpus | other]}")


def test_the_texts_themselves_count(tmp_path: Path) -> None:
    def found(folder: str, text: str) -> str:
        (tmp_path / folder).mkdir()
        for language in ("en", "de"):
            (tmp_path / folder / f"train.lc.norm.tok.{language}.gz").write_text(text, encoding="utf-8")
        return _fingerprint(f"data.root={tmp_path / folder}")

    assert found("one", "ein Hund") == found("two", "ein Hund") != found("three", "ein Hut")


def _plan(folder: Path, **settings: Any) -> Plan:
    return Plan(str(RECIPE), {"plain": [], "decay": ["training.weight_decay=0.5"]}, 8192, (1,), folder, **settings)


def test_what_another_machine_has_made_is_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = _plan(tmp_path / "own", known=(tmp_path / "results.json",))
    known = {"variant": "there", "seed": 9, "bleu": 30.0, FINGERPRINT: fingerprint(plan.recipe_of("decay", 1))}
    write_json(tmp_path / "results.json", {"runs": [known]})
    monkeypatch.setattr(levers, "result_of", lambda recipe, run: {"bleu": 20.0, "folder": run.path.parent.name})
    *_, results = compare_levers(plan)
    # By the names of this queue, whatever the other one called it
    assert [(run["variant"], run["seed"], run["bleu"]) for run in results["runs"]] == [("plain", 1, 20.0), ("decay", 1, 30.0)]
    write_json(tmp_path / "results.json", results)
    monkeypatch.setattr(levers, "result_of", lambda *arguments: pytest.fail("trained again"))
    assert list(compare_levers(plan))[-1] == results


@pytest.mark.parametrize("content", [{}, [], {"runs": []}, {"runs": [{"variant": "plain", "seed": 1}]}])
def test_results_without_fingerprints_are_refused(tmp_path: Path, content: Any) -> None:
    file = tmp_path / "results.json"
    write_json(file, content)
    with pytest.raises(ValueError, match=r"results\.json has no runs with a 'recipe_sha256'; name the results\.json of a queue"):
        known_runs([file])
    with pytest.raises(FileNotFoundError):
        known_runs([tmp_path / "absent.json"])
