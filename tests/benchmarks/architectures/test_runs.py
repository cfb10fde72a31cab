"""Which runs are made, from which files, and what is done when the command comes again."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.architectures import runs
from benchmarks.architectures.runs import Plan, best_peak, compare_systems, length_edges, rates_to_try
from benchmarks.report import Results
from tests.benchmarks.test_levers import RECIPE
from vaswani_transformer.data.builtin.corpus import builtin_pairs
from vaswani_transformer.files.json_files import read_json

SCORES = {"nll_as_it_comes": 9.0, "validation_tokens": 100, "width": 18, "vocabulary": 280, "matrices": {"encoder": 10, "decoder": 20}}


def written_recipe(folder: Path) -> Path:
    pairs = list(builtin_pairs("train", 60))
    for name, chosen in (("train", pairs[:50]), ("dev", pairs[50:])):
        for side, texts in zip(("en", "de"), zip(*chosen, strict=True), strict=True):
            (folder / f"{name}.{side}").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    file = folder / "small.yaml"
    file.write_text(RECIPE, encoding="utf-8")
    return file


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    return written_recipe(tmp_path)


def eole(jobs: list[dict[str, Any]], nats: dict[float, float]) -> Any:
    """A stand-in for eole's program: it repeats the source's pieces, and its loss is that of its learning rate."""

    def run(python: Path, module: str, arguments: list[str], log: Path) -> None:
        job = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
        jobs.append(job)
        Path(job["translations"]).write_text(Path(job["sources"]).read_text(encoding="utf-8"), encoding="utf-8")
        positions = {"source_positions": 3, "target_positions": 4, "pairs": 12, "target_tokens": job["target_tokens"]}
        result = {**SCORES, "parameters": job["parameters"], "updates": 5, "counted": positions, "curve": [], "nll": nats[job["peak"]]}
        (Path(job["folder"]) / "result.json").write_text(json.dumps(result), encoding="utf-8")

    return run


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Plan, Results]:
    """A plan whose runs are made, and what it found."""
    recipe = written_recipe(tmp_path_factory.mktemp("done"))
    plan = Plan(str(recipe), 4, (0.002,), (1,), recipe.parent / "out", Path("python"), systems=("transformer", "rnn"))
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(runs, "run_in", eole([], {0.001: 3.0, 0.002: 2.0, 0.004: 2.5}))
        *_, found = compare_systems(plan)
    return plan, found


def test_each_system_chooses_its_rate_and_repeats_it(recipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs: list[dict[str, Any]] = []
    monkeypatch.setattr(runs, "run_in", eole(jobs, {0.001: 3.0, 0.002: 2.0, 0.004: 2.5}))
    plan = Plan(str(recipe), 4, (0.001, 0.002), (1, 2), recipe.parent / "out", Path("python"), systems=("transformer", "rnn"))
    *_, results = compare_systems(plan)
    made = [(run["system"], run["peak"], run["seed"]) for run in results["runs"]]
    # The larger of two was better, so a larger one was tried, too
    assert [run[1:] for run in made if run[0] == "rnn"] == [(0.001, 1), (0.002, 1), (0.004, 1), (0.002, 2)]
    assert [run[1:] for run in made if run[0] == "transformer"][:2] == [(0.001, 1), (0.002, 1)] and made[-5][::2] == ("transformer", 2)
    ours, rnn = results["runs"][0], results["runs"][-1]
    assert rnn["target_tokens"] == ours["target_tokens"] and rnn["parameters"] == ours["parameters"]
    assert ours["cpu_seconds"] > 0 and len(ours["curve"]) == 1
    # Pieces are our tokenizer's, and joined again they are the source itself
    sources = (recipe.parent / "dev.en").read_text(encoding="utf-8")
    assert (plan.folder("rnn", 0.001, 1) / "translations.txt").read_text(encoding="utf-8") == sources
    pieces = Path(jobs[0]["settings"]["data"]["valid"]["path_tgt"]).read_text(encoding="utf-8").splitlines()
    entries = set(Path(jobs[0]["settings"]["src_vocab"]).read_text(encoding="utf-8").replace("\t1", "").splitlines())
    assert len(pieces) == 10 and {piece for line in pieces for piece in line.split()} <= entries
    monkeypatch.setattr(runs, "run_in", lambda *arguments: pytest.fail("run again"))
    monkeypatch.setattr(runs, "train", lambda *arguments: pytest.fail("trained again"))
    assert list(compare_systems(plan))[-1] == results
    _refuses_other_settings(plan)


def test_runs_of_another_machine_are_not_made_again(done: tuple[Plan, Results], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs, found = done
    file = tmp_path / "results.json"
    file.write_text(json.dumps(found), encoding="utf-8")
    monkeypatch.setattr(runs, "train", lambda *arguments: pytest.fail("trained again"))
    monkeypatch.setattr(runs, "run_in", lambda *arguments: pytest.fail("run again"))
    ours = replace(theirs, output=tmp_path / "ours", known=(file,))
    assert list(compare_systems(ours))[-1] == found
    assert list(compare_systems(replace(ours, systems=("rnn",), done_only=True)))[-1]["runs"] == [
        run for run in found["runs"] if run["system"] == "rnn"
    ]
    # A run of eole that they have not made gets the budget of our first run, which they have
    jobs: list[dict[str, Any]] = []
    monkeypatch.setattr(runs, "run_in", eole(jobs, {0.001: 3.0, 0.002: 2.0, 0.004: 2.5}))
    *_, more = compare_systems(replace(ours, systems=("rnn",), seeds=(1, 2)))
    first = found["runs"][0]
    assert [(job["settings"]["seed"], job["target_tokens"], job["parameters"]) for job in jobs] == [
        (2, first["target_tokens"], first["parameters"])
    ]
    assert more["runs"][-1]["seed"] == 2 and more["runs"][-1]["target_tokens"] == first["target_tokens"]


def test_what_is_done_is_told_without_training(done: tuple[Plan, Results], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, found = done
    with pytest.raises(ValueError, match="No run of this plan is done"):
        list(compare_systems(replace(plan, output=tmp_path / "none", done_only=True)))
    monkeypatch.setattr(runs, "train", lambda *arguments: pytest.fail("trained again"))
    monkeypatch.setattr(runs, "run_in", lambda *arguments: pytest.fail("run again"))
    # Of a seed and a system that are not done, nothing is told
    asked = replace(plan, seeds=(1, 2), systems=("transformer", "rnn", "cnn"), done_only=True)
    assert list(compare_systems(asked))[-1]["runs"] == found["runs"]


def _refuses_other_settings(plan: Plan) -> None:
    job = plan.folder("rnn", 0.001, 1) / "job.json"
    job.write_text(json.dumps(read_json(job) | {"validations": 3}), encoding="utf-8")
    with pytest.raises(ValueError, match="holds a run with other settings"):
        list(compare_systems(plan))


def test_without_ours_there_is_no_budget(recipe: Path) -> None:
    plan = Plan(str(recipe), 4, (0.001,), (1,), recipe.parent / "out", Path("python"), systems=("rnn",))
    with pytest.raises(ValueError, match="name `transformer` among the systems"):
        list(compare_systems(plan))


def test_a_run_that_diverged_is_never_the_best() -> None:
    nats = [("a", 0.1, float("nan")), ("a", 0.2, 5.0), ("b", 0.1, 1.0)]
    assert best_peak([dict(zip(("system", "peak", "nll"), run, strict=True)) for run in nats], "a") == 0.2


@pytest.mark.parametrize(("best", "wanted"), [
    (0.002, [0.001, 0.002, 0.004]),
    (0.001, [0.001, 0.002, 0.0005]),
    (0.008, [0.001, 0.002, 0.004, 0.008, 0.016]),
    (1.0, [0.001, 0.002, 0.004, 0.008, 0.016, 0.032]),  # four beyond, and no more
])  # fmt: skip
def test_rates_are_tried_until_the_best_lies_between_two(best: float, wanted: list[float]) -> None:
    found: list[dict[str, Any]] = []
    for peak in rates_to_try(found, "a", (0.001, 0.002)):
        found.append({"system": "a", "peak": peak, "nll": abs(math.log(peak / best))})
    assert [run["peak"] for run in found] == wanted


def test_a_single_rate_gets_neighbours() -> None:
    found: list[dict[str, Any]] = []
    for peak in rates_to_try(found, "a", (0.002,)):
        found.append({"system": "a", "peak": peak, "nll": abs(math.log(peak / 0.002))})
    assert [run["peak"] for run in found] == [0.002, 0.004, 0.001]


def test_classes_of_length_hold_about_as_many_each() -> None:
    assert length_edges(list(range(5, 25))) == [(5, 9), (10, 14), (15, 19), (20, 24)]
    assert length_edges([7, 7, 7, 7, 9]) == [(7, 7), (8, 9)]


def test_the_peak_is_reached_and_nothing_is_used_that_eole_lacks(recipe: Path) -> None:
    more = "average_checkpoints: 2, cooldown_share: 0.5, word_dropout: 0.3}"
    recipe.write_text(RECIPE.replace("average_checkpoints: 2}", more), encoding="utf-8")
    plan = Plan(str(recipe), 40, (0.003,), (5,), recipe.parent / "out", Path("python"))
    found = plan.recipe_of(0.003, 5)
    warmup, width = found.training.warmup_updates, found.model_config().d_model
    assert found.training.learning_rate_scale * width**-0.5 * warmup**-0.5 == pytest.approx(0.003)
    assert (found.training.updates, found.training.seed, found.training.average_checkpoints) == (40, 5, 5)
    assert (found.training.validate_every, found.training.checkpoint_every) == (4, 1)
    assert (found.training.cooldown_share, found.training.word_dropout, found.training.precision) == (0, 0, "float32")
    asked = replace(plan, overrides=("training.word_dropout=0.2",)).recipe_of(0.003, 5)
    assert asked.training.word_dropout == 0.2  # by whoever asks for it
