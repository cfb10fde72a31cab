"""The verbs that hand one folder on: card, report, compare, publish, export, convert."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from vaswani_transformer import VaswaniConfig
from vaswani_transformer.__main__ import app
from vaswani_transformer.interop import conversion
from vaswani_transformer.report import model_card, run_comparison
from vaswani_transformer.run_folder import RunFolder

MISSING = [
    ["card", "nothing"],
    ["report", "nothing"],
    ["compare", "a=nothing"],
    ["evaluate", "nothing", "--source", "t.en", "--reference", "t.de"],
    ["publish", "nothing", "--dry-run"],
    ["export", "nothing", "out", "--to", "ctranslate2"],
    ["export", "nothing", "out", "--to", "marian"],
    ["export", "nothing", "out", "--to", "onnx"],
    ["convert", "marian", "nothing", "out"],
    ["convert", "fairseq", "nothing", "out", "--dictionary", "d.txt", "--bpe-codes", "codes"],
]


@pytest.mark.parametrize("words", MISSING, ids=" ".join)
def test_a_folder_that_is_not_there_is_one_line(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    told = CliRunner().invoke(app, words)
    assert told.exit_code == 1, told.output
    assert told.stderr.startswith("error: ") and told.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_card_says_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(model_card, "write_card", lambda *arguments: asked.append(arguments) or Path("cards/x.md"))
    told = CliRunner().invoke(app, ["card", "runs/x", "--card", "cards/x.md", "--model-id", "me/x"])
    assert (told.exit_code, told.stdout) == (0, "cards/x.md\n")
    assert asked == [(RunFolder(Path("runs/x")), Path("cards/x.md"), "me/x")]


def test_compare_groups_runs_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(run_comparison, "compare_runs", lambda *arguments: asked.append(arguments) or "| table |")
    told = CliRunner().invoke(app, ["compare", "fine-tuned=runs/a,runs/b", "runs/c", "--picture", "p.png"])
    assert (told.exit_code, told.stdout) == (0, "| table |\n")
    groups = {"fine-tuned": [RunFolder(Path("runs/a")), RunFolder(Path("runs/b"))], "runs/c": [RunFolder(Path("runs/c"))]}
    assert asked == [(groups, Path("p.png"))]
    told = CliRunner().invoke(app, ["compare", "a=runs/a", "b=runs/b", "a=runs/c"])
    assert told.exit_code == 2 and "'a' is given twice; several runs of one name are written a=X,Y." in told.stderr
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--to marian --quantization int8", "A Marian model is stored in float32; leave out --quantization."),
        ("--to onnx --quantization int8", "An ONNX model is stored in float32; leave out --quantization."),
        ("--to marian --optimum-python python3", "--optimum-python is for onnx; leave it out."),
    ],
)
def test_what_an_export_would_ignore_is_refused(words: str, sentence: str) -> None:
    told = CliRunner().invoke(app, ["export", "model", "out", *words.split()])
    assert told.exit_code == 2
    assert sentence in told.stderr


@pytest.mark.parametrize(
    ("words", "module", "function", "settings"),
    [
        ("--to ctranslate2 --quantization int8", "ctranslate2_export", "export_ctranslate2", ("int8", None)),
        ("--to marian", "marian", "export_marian", (None, None)),
        ("--to onnx --optimum-python my/python", "onnx", "export_onnx", (None, Path("my/python"))),
    ],
)
def test_each_export_is_one_call(
    words: str, module: str, function: str, settings: tuple[str | None, Path | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def export(folder: Path, out: Path, quantization: str | None = None, *, python: Path | None = None) -> None:
        asked.append((folder, out, (quantization, python)))
        out.mkdir()
        (out / "model").write_bytes(b"12345")

    monkeypatch.setattr(f"vaswani_transformer.interop.{module}.{function}", export)
    VaswaniConfig().save_pretrained(tmp_path / "model")
    told = CliRunner().invoke(app, ["export", str(tmp_path / "model"), str(tmp_path / "out"), *words.split()])
    assert told.exit_code == 0, told.output
    assert asked == [(tmp_path / "model", tmp_path / "out", settings)]
    assert (
        told.stdout.startswith(f"{tmp_path / 'out'} (5 bytes) is ready. Use it:\n")
        and str(tmp_path / "out") in told.stdout.split("\n", 1)[1]
    )


def test_convert_hands_over_what_was_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(conversion, "convert_fairseq", lambda *arguments, **settings: asked.append((arguments, settings)))
    (tmp_path / "some.en").write_text("A man reads.\nYes.\n", encoding="utf-8")
    words = ["model.pt", "out", "--dictionary", "en.txt", "--dictionary", "de.txt", "--bpe-codes", "codes", "--languages", "en", "de"]
    told = CliRunner().invoke(app, ["convert", "fairseq", *words, "--licence", "mit", "--sentences", str(tmp_path / "some.en")])
    assert told.exit_code == 0, told.stderr
    assert told.stdout.startswith("out is ready; how it was checked")
    expected = {"languages": ("en", "de"), "lowercase": False, "origin": None, "licence": "mit", "sentences": ["A man reads.", "Yes."]}
    assert asked == [(("model.pt", ["en.txt", "de.txt"], "codes", Path("out")), expected)]
