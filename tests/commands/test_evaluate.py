"""`vaswani evaluate` tells a run from a model, and refuses options that would be ignored."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from vaswani_transformer.__main__ import app
from vaswani_transformer.data.sources.lines import LinesCorpus
from vaswani_transformer.evaluation import scores
from vaswani_transformer.evaluation.scores import PublishedScore
from vaswani_transformer.recipe import load_recipe
from vaswani_transformer.shipped_recipes import find_recipe

SCORES = {"test_sets": [{"name": "toy", "metrics": {"chrf": {"score": 12.5, "signature": "nrefs:1"}}}]}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "run" / "averaged").mkdir(parents=True)
    return tmp_path / "run"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The calls of the two functions, which both find the same scores."""
    calls: list[tuple[Any, ...]] = []
    for name in ("evaluate_run", "evaluate_model"):
        monkeypatch.setattr(scores, name, lambda *arguments, **settings: calls.append((*arguments, settings)) or SCORES)
    return calls


def test_a_run_is_scored_on_its_own_test_sets(run: Path, asked: list[tuple[Any, ...]]) -> None:
    others = "newstest2014; Vaswani et al. (2017), base; paper_bleu; 27.3"
    told = CliRunner().invoke(app, ["evaluate", str(run), "--published", others, "--num-beams", "2", "--output", str(run / "all.json")])
    assert told.exit_code == 0, told.stderr
    assert told.stdout == "toy  chrf         12.50  nrefs:1\n"
    ((found, settings),) = asked
    assert found.path == run
    assert settings == {"published": [PublishedScore("newstest2014", "Vaswani et al. (2017), base", "paper_bleu", 27.3)], "num_beams": 2}
    assert json.loads((run / "all.json").read_text(encoding="utf-8")) == SCORES


def test_a_model_is_scored_on_files(asked: list[tuple[Any, ...]]) -> None:
    files = ["--source", "x/t.en", "--reference", "t.sv", "--target-language", "sv"]
    told = CliRunner().invoke(app, ["evaluate", "a/b", *files, "--lowercase", "--length-penalty", "1.5"])
    assert told.exit_code == 0, told.stderr
    ((model, test_sets, settings),) = asked
    assert (model, test_sets) == ("a/b", {"t.en": LinesCorpus(source="x/t.en", target="t.sv")})
    assert settings == {"published": [], "languages": ("en", "sv"), "lowercase": True, "length_penalty": 1.5}


def test_nothing_is_ignored(run: Path, asked: list[tuple[Any, ...]]) -> None:
    wrong = {
        "--source, --tokenized: a run's test sets are in its recipe": [str(run), "--source", "t.en", "--tokenized"],
        "a model needs --source and --reference": ["a/b", "--source", "t.en"],
        "must read 'SET; SYSTEM; METRIC; SCORE'": [str(run), "--published", "newstest2014; 27.3"],
        "must read 'SET; SYSTEM; METRIC; SCORE', such as": [str(run), "--published", "a; b; c; much"],
    }
    for sentence, arguments in wrong.items():
        told = CliRunner().invoke(app, ["evaluate", *arguments])
        assert told.exit_code == 2 and not asked
        assert told.stderr.startswith("error: ") and sentence in told.stderr and told.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("recipe", "remedy"), [("builtin_tiny", "name the model itself, {}/averaged,"), ("scitldr", "change `data.test` in {}")]
)
def test_a_task_is_scored_on_the_test_sets_of_its_recipe(recipe: str, remedy: str, run: Path, asked: list[tuple[Any, ...]]) -> None:
    (run / "recipe.yaml").write_text(load_recipe(find_recipe(recipe)).to_yaml(), encoding="utf-8")
    told = CliRunner().invoke(app, ["evaluate", str(run), "--source", "t.en"])
    assert told.exit_code == 2 and not asked
    assert remedy.format(run) in told.stderr and told.stderr.count("\n") == 1
