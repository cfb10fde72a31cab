"""The four measurements of a run, from its folder to its card, with a model that knows nothing."""

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.limits.__main__ import chosen_measure, main, measure_models, parse
from benchmarks.limits.noise_curves import draw_noise
from benchmarks.limits.subject import Form, Subject, Wanted
from tests.finished_run import REFERENCES, SOURCES
from vaswani_transformer.files.atomic_file import write_text
from vaswani_transformer.files.json_files import read_json, write_json
from vaswani_transformer.recipe import load_recipe
from vaswani_transformer.report.model_card import render_card
from vaswani_transformer.run_folder import RunFolder

WINOMT = ["female\t2\tThe old dog sees 3 cats | *now*.\tdog", "male\t2\tThe cook sees 3 cats | *now*.\tcook"]


@pytest.fixture
def local_run(run: RunFolder, tmp_path: Path) -> RunFolder:
    """Trained on nothing but files that lie here."""
    recipe = load_recipe(run.recipe, ["data.train=[{format: lines, source: text.en, target: text.de}]"], in_run_folder=True)
    write_text(run.recipe, recipe.to_yaml())
    write_text(tmp_path / "noise", "small smal\nsees sess\n")
    write_text(tmp_path / "text.fr", "".join(f"Le chien voit {number} chats.\n" for number in range(12)))
    for name, lines in (("en", WINOMT), ("en_pro", WINOMT[:1]), ("en_anti", WINOMT[1:])):
        write_text(tmp_path / f"{name}.txt", "".join(f"{line}\n" for line in lines))
    write_text(tmp_path / "en-de.key.txt", "1\tted\tdog\thund\tkatzen\n2\tted\tbank\tbank\tufer\n")
    write_text(tmp_path / "en-de.text.txt", "The old dog\nThe bank.\n")
    return run


def measured(run: RunFolder, tmp_path: Path, *words: str) -> dict[str, Any]:
    a = parse([words[0], str(run.path), *words[1:], "--output", str(tmp_path / "out")])
    main(a)
    result = read_json(run.limit(a.name))
    assert read_json(tmp_path / "out" / f"{a.name}.json") == {"models": [result]}
    assert str(run.path) in (tmp_path / "out" / f"{a.name}.md").read_text(encoding="utf-8")
    return result


def says_the_reference(_: Subject, sentences: Sequence[str]) -> list[str]:
    """The translations of a model that knows its own text by heart, and repeats all else as it stands."""
    known = dict(zip(SOURCES, REFERENCES, strict=True))
    return [known.get(sentence, sentence) for sentence in sentences]


def test_everything_is_measured_and_shown_in_the_card(local_run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = render_card(local_run)
    assert "Limits, measured" not in before and "This has not been measured." in before
    noise = measured(local_run, tmp_path, "noise", "--misspellings", str(tmp_path / "noise"), "--shares", "10", "20")
    assert [kind["kind"] for kind in noise["kinds"]] == ["misspelling", "swap", "case", "punctuation"]
    assert noise["clean"]["bleu"] == read_json(local_run.evaluation)["test_sets"][0]["metrics"]["sacrebleu"]
    assert [point["reached"] for point in noise["kinds"][1]["points"]] == pytest.approx([0.1, 0.2], abs=0.01)
    assert (tmp_path / "out" / "noise.png").read_bytes().startswith(b"\x89PNG")

    monkeypatch.setattr(Subject, "translate", says_the_reference)
    odd = measured(local_run, tmp_path, "sources", "--foreign", f"fr={tmp_path / 'text.fr'}")
    rows = {row["kind"]: row for row in odd["kinds"]}
    assert [rows[kind]["unrelated"] for kind in ("sentence", "copied", "foreign (fr)")] == [0, 0, 1]
    assert rows["copied"]["copied_words"] == rows["foreign (fr)"]["copied_words"] == 1 > rows["sentence"]["copied_words"]
    assert (rows["empty"]["hallucinated"], rows["empty"]["examples"][0]) == (0, {"source": "", "output": ""})
    assert odd["check"]["oscillating"] == {"pairs": 12, "found": 1, "false_alarms": 0} and odd["agreement"]["unrelated"] == 12
    assert {check["measure"] for check in odd["check"]["detached"]} == {"ignored", "unaligned"}

    bias = measured(local_run, tmp_path, "gender", "--winomt", str(tmp_path))
    assert bias["coverage"] == {"sentences": 2, "person_known": 1, "all_words_known": 1} and bias["all"]["sentences"] == 1
    senses = measured(local_run, tmp_path, "senses", "--mucow", str(tmp_path))
    assert senses["coverage"] == {"sentences": 2, "both_senses_known": 1, "judged_with_all_words_known": 1}

    section = render_card(local_run).split("### Limits, measured")[1].split("## Versions")[0]
    swap = noise["kinds"][1]["points"][1]
    assert f"| swap | 20.0% | {swap['reached']:.1%} | {swap['changed_sentences']:.1%} | {swap['bleu']['score']:.2f} |" in section
    assert "| foreign (fr): the same sentences in fr | 12 |" in section and "| empty:" in section
    assert "all words of 1 of its 2 sentences" in section and "| pro-stereotypical | 1 |" in section
    assert "in two senses: 1 of\n2." in section and "This has not been measured." not in render_card(local_run)
    assert "{{" not in section and "\n\n\n" not in section
    for table in re.findall(r"(?:^\|.*\n)+", section, flags=re.MULTILINE):
        assert len({row.count("|") for row in table.splitlines()}) == 1, table


def test_limits_of_other_weights_make_no_card(run: RunFolder) -> None:
    write_json(run.limit("noise"), {"weights_sha256": {"model.safetensors": "0" * 64}})
    with pytest.raises(ValueError, match=r"noise\.json was made with other weights than \S+; measure it again .*, or remove that file"):
        render_card(run)


def test_several_models_stand_side_by_side(local_run: RunFolder, tmp_path: Path) -> None:
    """A model's folder without a run is measured on files, and writes nothing beside itself."""
    wanted = Wanted(source=str(tmp_path / ".." / tmp_path.name / "source"), target=str(tmp_path / "target"), tokenized=True)
    write_text(tmp_path / "source", "".join(f"{line}\n" for line in SOURCES[:4]))
    write_text(tmp_path / "target", "".join(f"{line}\n" for line in REFERENCES[:4]))
    places = [str(local_run.path), str(local_run.averaged)]
    files = sorted(local_run.averaged.iterdir())
    measure = chosen_measure(parse(["noise", *places, "--shares", "20"]))
    first, second = measure_models("noise", places, wanted, measure, tmp_path / "out")
    assert first["kinds"] == second["kinds"] and len(first["kinds"]) == 3 and first["text"]["sentences"] == 4
    assert sorted(local_run.averaged.iterdir()) == files
    draw_noise([second, first], tmp_path / "again.png")
    assert (tmp_path / "again.png").is_file()


def test_text_is_brought_into_the_models_own_form() -> None:
    assert Form().prepare(["It's  A dog."], "en") == ["It's  A dog."]
    assert Form(tokenized=True, lowercase=True).prepare(["It's “A” dog."], "en") == ["it &apos;s &quot; a &quot; dog ."]


def test_what_is_missing_is_said(local_run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for words, error, message in [
        (["noise", str(local_run.averaged)], ValueError, "no run's folder, so there is no test set of its own; give --source"),
        (["noise", str(tmp_path / "absent")], ValueError, "no run's folder"),
        (["noise", str(local_run.path), "--source", "text.en"], ValueError, "--source and --target belong together"),
        (["noise", str(local_run.path), "--tokenized"], ValueError, "--tokenized and --languages describe the files of --source"),
        (["senses", str(local_run.path), "--mucow", "x", "--languages", "en", "fr"], ValueError, "--tokenized and --languages describe"),
        (["noise", str(local_run.path), "--sentences", "-1"], ValueError, "--sentences must be 1 or more, not -1"),
        (["sources", str(local_run.path), "--foreign", "fr"], ValueError, "--foreign takes the code of a language and a file"),
        (["sources", str(local_run.path), "--foreign", f"fr={tmp_path / 'noise'}"], ValueError, "has 2 lines and the text 12 sentences"),
        (["gender", str(local_run.path), "--winomt", str(tmp_path / "no")], FileNotFoundError, r"There is no file \S+en_pro.txt"),
        (["noise", str(local_run.path), "--root", str(tmp_path / "no")], FileNotFoundError, "text.en"),
    ]:
        with pytest.raises(error, match=message):
            main(parse([*words, "--output", str(tmp_path / "out")]))
    assert not (tmp_path / "out").exists() and not local_run.limits.exists()
    monkeypatch.setattr(sys, "argv", ["limits"])
    with pytest.raises(SystemExit):
        parse()
    write_text(tmp_path / "en.txt", "male\t1\tThe chef.\tchef\n")
    with pytest.raises(ValueError, match="all words of no sentence of WinoMT"):
        main(parse(["gender", str(local_run.path), "--winomt", str(tmp_path)]))
    subject = Subject(str(local_run.averaged), Wanted(source=str(tmp_path / "noise"), target=str(tmp_path / "noise")))
    with pytest.raises(ValueError, match="nobody knows what it was trained on"):
        _ = subject.training_words
