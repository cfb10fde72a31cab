"""The linear model: what words decide it learns, pairs of words too, and only tasks of one label a text have it."""

from pathlib import Path

from benchmarks.transfer.linear import LINEAR, fits, train_linear
from benchmarks.transfer.report import table
from benchmarks.transfer.runs import Plan, compare_starts, plan_of
from benchmarks.transfer.shares import training_pairs
from vaswani_transformer.recipe import load_recipe


def write(file: Path, lines: list[str]) -> None:
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def test_words_and_pairs_of_words_decide(colours: Path) -> None:
    """Of `good`, `not good`, `bad` and `not bad`, no single word tells the label; a pair with the mark after it does."""
    texts = [("yes", "good {}."), ("no", "not good {}."), ("no", "bad {}."), ("yes", "not bad {}.")]
    write(colours.parent / "train.txt", [f"{label} {text.format(i)}" for i in range(20) for label, text in texts])
    write(colours.parent / "dev.txt", [f"{label} {text.format('Pears')}" for label, text in texts])
    recipe = load_recipe(colours)
    found = train_linear(recipe, training_pairs(recipe), "accuracy")
    assert found["scores"] == found["test_sets"]["dev"] == {"accuracy": 100.0, "macro_f1": 100.0}
    assert found["validation"] == 100.0 and found["kept"] == 80 and found["chosen"]["C"] in (1.0, 3.0, 10.0, 30.0, 100.0)
    assert "accuracy_score" in found["signatures"]["accuracy"]
    write(colours.parent / "dev.txt", [f"{'no' if label == 'yes' else 'yes'} {text.format('Pears')}" for label, text in texts])
    assert train_linear(recipe, training_pairs(recipe), "accuracy")["scores"]["accuracy"] == 0.0


def test_it_stands_beside_the_others_and_runs_once(colours: Path, english_german: Path, models: Path) -> None:
    def plan(**settings: object) -> Plan:
        return plan_of([str(colours)], (), starts=(), shares=(1.0,), seeds=(1,), output=models / "out", with_linear=True, **settings)

    assert [(run.start, run.rate) for run in plan(rates=(1.0, 0.3)).runs()] == [(LINEAR, 1.0), ("scratch", 1.0), ("scratch", 0.3)]
    *_, results = compare_starts(plan())
    assert [run["start"] for run in results["runs"]] == [LINEAR, "scratch"]
    assert results["runs"][0]["examples"] == 60 and results["runs"][0]["scores"]["accuracy"] > 0
    text = table(results)
    assert "| examples | share | seeds | linear | scratch |" in text and "a logistic regression of words" in text
    (known,) = compare_starts(plan())
    assert known["runs"] == results["runs"]
    assert not fits(load_recipe(english_german))


def test_one_label_alone_is_a_failed_run(colours: Path, models: Path) -> None:
    plan = plan_of([str(colours)], (), starts=(), shares=(0.01,), seeds=(1,), output=models / "out", with_linear=True)
    *_, results = compare_starts(plan)
    assert "2 classes" in results["runs"][0]["failed"]
