"""`heads.json`, its pictures and its table, from a small run."""

from pathlib import Path

import pytest
from matplotlib.figure import Figure
from PIL import Image
from safetensors.torch import load_file, save_file

from tests.finished_run import REFERENCES, SOURCES
from vaswani_transformer.evaluation.scores import text_sha256
from vaswani_transformer.files.checksums import file_sha256
from vaswani_transformer.files.json_files import read_json, write_json
from vaswani_transformer.inspection import head_report
from vaswani_transformer.inspection.head_picture import draw_heads
from vaswani_transformer.inspection.head_report import HeadText, heads_table, report_heads, report_heads_of_run, validation_text
from vaswani_transformer.inspection.head_worth import HeadWorth, Worth
from vaswani_transformer.inspection.heads import KINDS, MEASURES, HeadName
from vaswani_transformer.recipe import parse_recipe
from vaswani_transformer.run_folder import RunFolder


@pytest.fixture
def empty_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes longer than all else."""
    for name in ("draw_heads", "small_multiples"):
        monkeypatch.setattr(head_report, name, lambda *_: Figure())


def test_a_run_is_measured_on_its_validation_set(run: RunFolder) -> None:
    report = report_heads_of_run(run, progress=False)
    assert read_json(run.heads) == report
    assert report["weights_sha256"] == {"model.safetensors": file_sha256(run.averaged / "model.safetensors")}
    assert (report["text"]["name"], report["text"]["pairs"], report["text"]["languages"]) == ("validation", 12, ["en", "de"])
    assert (report["text"]["source_sha256"], report["text"]["reference_sha256"]) == (text_sha256(SOURCES), text_sha256(REFERENCES))
    assert [(head["kind"], head["layer"], head["head"]) for head in report["heads"]] == [(k, 0, h) for k in KINDS for h in range(2)]
    assert all(set(head["measures"]) == set(MEASURES) and head["worth"] is None for head in report["heads"])
    assert report["bleu"] is None and report["layers"] == [] and report["frequencies"] == "this text"
    for path in (run.heads_picture, run.attention_picture):
        with Image.open(path) as picture:
            assert picture.format == "PNG" and picture.width > 400
    assert run.heads_picture.with_suffix(".svg").read_text(encoding="utf-8").startswith("<?xml")


@pytest.mark.usefixtures("empty_pictures")
def test_the_example_is_the_first_sentence_of_median_length(run: RunFolder) -> None:
    pairs = [("The old dog sees the small cats.", "Ja."), ("The dog sees cats.", "Ja."), ("Dogs.", "Ja."), ("The dog sees dogs.", "Ja.")]
    report = report_heads(run.averaged, HeadText("some", pairs, ("en", "de")), run, progress=False)
    assert (report["example"]["sentence"], report["example"]["source"]) == (1, "The dog sees cats.")


@pytest.mark.usefixtures("empty_pictures")
def test_worth_is_found_once(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped in the middle, the same call goes on; called again, it measures nothing twice."""
    asked: list[tuple[HeadName, ...]] = []
    score = HeadWorth.without

    def without(self: HeadWorth, *heads: HeadName) -> Worth:
        if len(asked) == 4:
            raise KeyboardInterrupt
        asked.append(heads)
        return score(self, *heads)

    monkeypatch.setattr(HeadWorth, "without", without)
    with pytest.raises(KeyboardInterrupt):
        report_heads_of_run(run, worth=True, progress=False)
    assert [head["worth"] is None for head in read_json(run.heads)["heads"]] == [False] * 4 + [True] * 2

    monkeypatch.setattr(HeadWorth, "without", score)
    report = report_heads_of_run(run, worth=True, progress=False)
    assert report["bleu"]["score"] == 0 and all(head["worth"]["difference"] == 0 for head in report["heads"])  # it knows nothing
    assert [(best["kind"], best["layer"]) for best in report["layers"]] == [(kind, 0) for kind in KINDS]
    monkeypatch.setattr(HeadWorth, "without", lambda *_: pytest.fail("it was measured again"))
    assert report_heads_of_run(run, worth=True, progress=False)["heads"] == report["heads"]
    assert report_heads_of_run(run, progress=False)["bleu"] == report["bleu"]


@pytest.mark.usefixtures("empty_pictures")
def test_what_was_found_with_other_weights_or_text_is_not_kept(run: RunFolder) -> None:
    report = report_heads_of_run(run, progress=False)
    known = {**report, "bleu": {"score": 12.5, "signature": "s", "resamples": 1000}, "layers": [], "heads": [
        {**head, "worth": {"bleu": 12.0, "difference": -0.5, "p": 0.001}} for head in report["heads"]
    ]}  # fmt: skip
    write_json(run.heads, known)
    assert report_heads_of_run(run, progress=False)["bleu"]["score"] == 12.5
    assert report_heads_of_run(run, sentences=7, progress=False)["bleu"] is None
    write_json(run.heads, known)
    weights = run.averaged / "model.safetensors"
    save_file({name: tensor + 1 for name, tensor in load_file(weights).items()}, weights, metadata={"format": "pt"})
    again = report_heads_of_run(run, progress=False)
    assert again["bleu"] is None and again["heads"][0]["worth"] is None


@pytest.mark.usefixtures("empty_pictures")
def test_the_table_counts_from_1_and_marks_what_is_sure(run: RunFolder) -> None:
    report = report_heads_of_run(run, progress=False)
    plain = heads_table(report)
    assert "BLEU" not in plain and plain.count("even attention") == 3 and "  layer 1, head 2 " in plain
    for head, p in zip(report["heads"], (0.001, 0.5, 0.5, 0.5, 0.5, 0.5), strict=True):
        head["worth"] = {"bleu": 20.0, "difference": -1.25, "p": p}
    report["bleu"] = {"score": 21.25, "signature": "nrefs:1"}
    report["layers"] = [{"kind": "cross", "layer": 0, "head": 1, "bleu": 3.0, "difference": -18.25, "p": 0.001}]
    lines = heads_table(report).splitlines()
    assert [line.endswith("  20.00   -1.25*") for line in lines if "-1.25" in line] == [True] + [False] * 5
    assert lines[-2:] == [
        "BLEU with all heads: 21.25 (nrefs:1). * p < 0.01 (paired bootstrap).",
        "Only head 2 of layer 1, cross-attention: 3.00 -18.25*",
    ]
    panels = draw_heads(report).axes
    assert len(panels) == 6 and [len(panel.patches) for panel in panels[1::2]] == [2, 2, 2]


def test_a_run_that_has_not_finished_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no averaged checkpoint .*; finish the training of this run first"):
        report_heads_of_run(RunFolder(tmp_path))


@pytest.mark.parametrize(("task", "corpus"), [("classification", "labelled_lines"), ("summarization", "table")])
def test_a_run_of_another_task_is_refused(task: str, corpus: str, run: RunFolder) -> None:
    spec = {"format": corpus, "path": "text.jsonl"}
    data = {"train": [spec], "validation": spec, "test": {}}
    recipe = {"name": "toy", "task": task, "source_language": "en", "data": data, "tokenizer": {"vocab_size": 300}}
    run.recipe.write_text(parse_recipe(recipe | {"training": {"updates": 1}}).to_yaml(), encoding="utf-8")
    sentence = rf"measured on pairs of sentences, and .*recipe\.yaml has `task: {task}`; name the run of a translator, or a model with a"
    for measure in (report_heads_of_run, validation_text):
        with pytest.raises(ValueError, match=sentence):
            measure(run)
