"""The page tells what the files of the run tell, whatever of them is there, and nothing of it is taken for markup."""

import base64
import io
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from typer.testing import CliRunner

from vaswani_transformer.__main__ import app
from vaswani_transformer.files.json_files import read_json, write_json
from vaswani_transformer.report.run_report import collect_samples, write_report
from vaswani_transformer.run_folder import RunFolder

EVIL = "<script>alert('&')</script>"


class _Page(HTMLParser):
    """What a browser makes of it: the tags in their order, and the text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.text: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.text.append(data.strip())

    def fact(self, name: str) -> str:
        return self.text[self.text.index(name) + 1]


def _report(run: RunFolder, page: Path) -> _Page:
    assert write_report(run, page) is None
    return _Page(page.read_text(encoding="utf-8"))


def _append(run: RunFolder, *records: dict[str, Any]) -> None:
    with open(run.log, "a", encoding="utf-8") as log:
        log.writelines(json.dumps(record) + "\n" for record in records)


def _validation(update: int, *translations: str) -> dict[str, Any]:
    samples = [{"source": f"s{i}", "reference": f"r{i}", "translation": text} for i, text in enumerate(translations)]
    return {"kind": "validation", "update": update, "bleu": 1.0, "samples": samples}


def test_the_head_is_what_the_files_say(run: RunFolder, tmp_path: Path) -> None:
    page = _report(run, tmp_path / "page.html")
    assert page.text.count("toy_en_de: en to de") == 2  # the title and the heading
    assert page.fact("Updates") == "1,200 of 1,200 (100%), stopped early"
    assert page.fact("Epochs") == "17.25"
    assert page.fact("Tokens seen") == "6,543,210 source, 7,654,321 target"
    assert page.fact("Training time") == "1 h 2 min"
    assert page.fact("Best BLEU") == "30.00 after update 1,200 (chrF 50.00)"
    assert page.fact("Parameters") == "9,999"
    assert page.fact("Hardware") == "A processor, threads: 2, processes: 1"
    score = next(t for t in read_json(run.evaluation)["test_sets"] if t["name"] == "toy_test")["metrics"]["sacrebleu"]
    assert f"{score['score']:.2f}" in page.text and score["signature"] in page.text


def test_the_page_needs_no_other_file(run: RunFolder, tmp_path: Path) -> None:
    page = _report(run, tmp_path / "page.html")
    (picture,) = page.links
    kind, _, content = picture.partition(",")
    assert kind == "data:image/png;base64"
    with Image.open(io.BytesIO(base64.b64decode(content))) as image:
        assert image.format == "PNG" and image.width > 1000
    assert [file.name for file in tmp_path.glob("*page*")] == ["page.html"]


def test_a_training_at_work_is_told_by_its_log(run: RunFolder, tmp_path: Path) -> None:
    """`training.json` is as old as the last state; before the first one there is none."""
    training = {**read_json(run.training), "updates": 1000, "source_tokens": 100, "stopped_early": False}
    write_json(run.training, training)
    _append(
        run,
        {"kind": "train", "update": 1250, "nll": 2.0, "source_tokens": 150, "epoch": 18.5, "seconds": 7300.0},
    )
    page = _report(run, tmp_path / "page.html")
    assert page.fact("Updates") == "1,250 of 1,200 (104%)" and page.fact("Epochs") == "18.50"
    assert page.fact("Tokens seen").startswith("150 source") and page.fact("Training time") == "2 h 1 min"
    run.training.unlink()
    run.evaluation.unlink()
    page = _report(run, tmp_path / "page.html")
    assert page.fact("Training time") == "2 h 1 min" and "Hardware" not in page.text and "Test sets" not in page.text
    run.recipe.unlink()
    assert _report(run, tmp_path / "page.html").fact("Updates") == "1,250"


def test_text_is_never_markup(run: RunFolder, tmp_path: Path) -> None:
    before = _report(run, tmp_path / "page.html").tags
    assert "script" not in before
    _append(run, _validation(1200, EVIL))
    name = EVIL.replace("/", "")  # a name may hold no slash
    recipe = run.recipe.read_text(encoding="utf-8")
    run.recipe.write_text(recipe.replace("name: toy_en_de", f"name: {json.dumps(name)}", 1), encoding="utf-8")
    page = _report(run, tmp_path / "page.html")
    assert "script" not in page.tags and EVIL in page.text
    assert f"{name}: en to de" in page.text


def test_samples_are_followed_over_time() -> None:
    records = [_validation(update, f"t{update}", "x") for update in range(100, 2100, 100)]
    first, second = collect_samples([{"kind": "train", "update": 1}, *records])
    assert (first.source, first.reference, second.source) == ("s0", "r0", "s1")
    updates = [update for update, _ in first.translations]
    assert len(updates) == 8 and (updates[0], updates[-1]) == (100, 2000) and updates == sorted(updates)
    assert all(text == f"t{update}" for update, text in first.translations)
    assert collect_samples([{"kind": "validation", "update": 1, "bleu": 1.0}]) == []


def test_a_picture_alone(run: RunFolder, tmp_path: Path) -> None:
    """Six panels where there is everything, two rows of two where nothing was validated."""
    more = {
        "loss": 3.0,
        "nll": 2.0,
        "learning_rate": 1e-3,
        "tokens_per_second": 50.0,
        "gradient_norm": float("inf"),
    }
    _append(run, *({"kind": "train", "update": u, **more, "gradient_norm": 1.0 / u} for u in (1300, 1400)))
    _append(run, {"kind": "train", "update": 1500, **more}, {**_validation(1500), "perplexity": 9.0})
    write_report(run, tmp_path / "all.png")
    lines = run.log.read_text(encoding="utf-8").splitlines(keepends=True)
    run.log.write_text("".join(line for line in lines if "validation" not in line), encoding="utf-8")
    write_report(run, tmp_path / "some.png")
    with Image.open(tmp_path / "all.png") as six, Image.open(tmp_path / "some.png") as four:
        assert six.height == four.height and six.width == 1.5 * four.width


def _absent(run: RunFolder) -> None:
    run.path.rename(run.path.with_name("elsewhere"))


def _foreign(run: RunFolder) -> None:
    run.log.unlink()
    run.recipe.unlink()


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (_absent, r"There is no run folder \S+/run; name one"),
        (_foreign, r"\S+/run is not a run folder: it has neither recipe\.yaml nor log\.jsonl"),
        (lambda run: run.log.unlink(), r"There is no training log \S+ yet; begin the training first\."),
        (lambda run: run.log.write_text(""), r"\S+log\.jsonl holds no record yet; wait"),
        (lambda run: run.log.write_text('{"kind": "tr'), r"\S+log\.jsonl holds only part of a record yet; wait"),
        (lambda run: run.log.write_text("{}\n"), r"\S+log\.jsonl:1 is not a record of a training log"),
        (lambda run: run.log.write_text('[1]\n'), r"\S+log\.jsonl:1 is not a record of a training log"),
        (lambda run: run.log.write_text('oh\n{"kind": "train", "update": 1}\n'), r"\S+log\.jsonl:1 is not valid JSON"),
        (lambda run: run.log.write_text('{"kind": "train", "update": 1}\n'), "The training log holds nothing that could be drawn"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence(run: RunFolder, tmp_path: Path, spoil: Callable[[RunFolder], Any], sentence: str) -> None:
    page = tmp_path / "page.html"
    page.write_text("as it was", encoding="utf-8")
    spoil(run)
    with pytest.raises((ValueError, FileNotFoundError)) as raised:
        write_report(run, page)
    assert re.match(sentence, str(raised.value)) and "\n" not in str(raised.value)
    assert page.read_text(encoding="utf-8") == "as it was"


def test_other_formats_are_refused(run: RunFolder, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"written as \.html or \.png; \S+page\.pdf has another ending"):
        write_report(run, tmp_path / "page.pdf")


def test_the_command_tells_what_it_left_out(run: RunFolder, tmp_path: Path) -> None:
    with open(run.log, "a", encoding="utf-8") as log:
        log.write('{"kind": "train", "upd')
    page = tmp_path / "deep" / "page.html"
    told = CliRunner().invoke(app, ["report", str(run.path), "--output", str(page)])
    assert told.stdout == f"The report is in {page}.\n" and told.exit_code == 0
    assert told.stderr.startswith("The last line of log.jsonl is cut off and was left out")
    assert "cut off and was left out" in page.read_text(encoding="utf-8")
    refused = CliRunner().invoke(app, ["report", str(tmp_path / "nowhere")])
    assert re.fullmatch(r"error: There is no run folder \S+nowhere; name one that `vaswani train` wrote\.\n", refused.stderr)
    assert refused.exit_code == 1
