"""`vaswani look`: what it writes, what it opens, and one sentence for what cannot be shown."""

import json
import sys
import webbrowser
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from transformers import GPT2Config, GPT2LMHeadModel, MarianMTModel, PreTrainedTokenizerBase
from typer.testing import CliRunner

from vaswani_transformer.__main__ import app
from vaswani_transformer.inspection.maps import candidate_maps
from vaswani_transformer.inspection.page import attention_data

SENTENCE = "A man reads."


@pytest.fixture
def folder(model: MarianMTModel, tokenizer: PreTrainedTokenizerBase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model's; the test is in an empty folder beside it, and has no display."""
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    return tmp_path / "model"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Addresses that a browser was asked to show."""
    addresses: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda address: addresses.append(address) or True)
    return addresses


def look(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["look", *map(str, arguments)])


def data_of(page: Path) -> Any:
    return json.loads(page.read_text().split('id="data">')[1].split("</script>")[0])


def test_the_page_has_the_candidates_and_their_maps(
    folder: Path, model: MarianMTModel, tokenizer: PreTrainedTokenizerBase, opened: list[str]
) -> None:
    told = look(folder, SENTENCE, "--n-best", 2, "--level", "subword", "--num-beams", 3, "--set", "length_penalty=0.5")
    assert told.exit_code == 0, told.output
    maps = candidate_maps(model, tokenizer, SENTENCE, 2, num_beams=3, length_penalty=0.5)
    assert data_of(Path("attention.html")) == {**attention_data(maps, level="subword"), "remarks": []}
    assert told.stdout == (
        f"{maps[0].target_text}\nThe page is in attention.html; there is no display here to open it on.\n"
    )  # fmt: skip
    assert opened == [] and [path.name for path in Path().iterdir()] == ["attention.html"]


def test_a_given_translation_is_looked_at(folder: Path) -> None:
    told = look(folder, SENTENCE, "--target", "The house is old.", "--output", "new/page.html", "--no-open")
    assert told.stdout == "The house is old.\nThe page is in new/page.html.\n"
    (candidate,) = data_of(Path("new/page.html"))["candidates"]
    assert candidate["words"]["target"] == ["The", "house", "is", "old", ".", "</s>"] and candidate["score"] is None


def test_where_there_is_a_display_it_is_opened_unless_not_wanted(folder: Path, opened: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISPLAY", ":0")
    assert look(folder, SENTENCE, "--no-open").exit_code == 0
    assert opened == []
    assert look(folder, SENTENCE).stdout.endswith("\nThe page is in attention.html.\n")
    assert opened == [Path("attention.html").resolve().as_uri()]


@pytest.mark.parametrize("options", [["--layer", "all"], ["--layer", 1, "--head", 2, "--kind", "encoder"], ["--head", "mean"]])
def test_pictures_alone(folder: Path, options: list[object]) -> None:
    told = look(folder, SENTENCE, "--png", "a.png", "--svg", "a.svg", *options)
    assert told.stdout.endswith("The picture is in a.png.\nThe picture is in a.svg.\n"), told.output
    assert sorted(path.name for path in Path().iterdir()) == ["a.png", "a.svg"]
    assert Path("a.png").read_bytes().startswith(b"\x89PNG") and ">reads</text>" in Path("a.svg").read_text()


def test_a_picture_of_what_words_come_from(folder: Path) -> None:
    told = look(folder, SENTENCE, "--svg", "a.svg", "--attribution", "value_zeroing", "--num-beams", 1)
    assert told.stdout.endswith("The picture is in a.svg.\n"), told.output
    assert [path.name for path in Path().iterdir()] == ["a.svg"]
    assert ">reads</text>" in Path("a.svg").read_text() and "Value zeroing" in Path("a.svg").read_text()


@pytest.mark.parametrize("text", ["שלום עולם", "😀 👩‍👩‍👧", "</script><img src=x onerror=alert(1)>", "x" * 100])
def test_any_text_is_shown(folder: Path, text: str) -> None:
    assert look(folder, text, "--target", text).exit_code == 0
    assert data_of(Path("attention.html"))["candidates"][0]["source_text"] == text


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([""], "The source is empty"),
        ([" \t"], "The source is only white space"),
        (["word " * 10_000], "The text has {tokens} tokens, and at most 1,024 can be shown; look at one sentence at a time."),
        (["x" * 5000], "The text has {tokens} tokens, and at most 1,024 can be shown; look at one sentence at a time."),
        (["a", "--target", "x" * 5000], "The target has {tokens} tokens, and at most 1,024 can be shown; look at one sentence at a time."),
        (["a", "--layer", "3", "--png", "a.png"], "There is no layer 3: this model has 1."),
        (["a", "--head", "9", "--png", "a.png"], "There is no head 9: this model has 2."),
        (["a", "--png", "a.gif"], "A picture is written as .png or .svg; a.gif has another ending."),
        (["a", "--output", "a.txt"], "An attention page is written as .html; a.txt has another ending."),
        (["a", "--attribution", "magic", "--png", "a.png"], "There is no attribution method 'magic'; choose saliency, "),
        (["a", "--set", "num_beams"], "An override reads key=value"),
    ],
)
def test_what_cannot_be_shown_is_one_sentence(
    folder: Path, tokenizer: PreTrainedTokenizerBase, arguments: list[str], sentence: str
) -> None:
    told = look(folder, *arguments)
    sentence = sentence.replace("{tokens}", f"{max(len(tokenizer(text).input_ids) for text in arguments):,}")
    assert told.exit_code == 1
    assert told.stderr.splitlines()[-1].startswith(f"error: {sentence}"), told.stderr
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize(
    "options",
    [
        *("--layer 0", "--head first", "--target b --n-best 2", "--layer all --head 2", "--attribution saliency"),
        *("--attribution saliency --png a.png --layer 1", "--attribution saliency --png a.png --head mean"),
        *("--attribution saliency --png a.png --kind encoder", "--layer 1", "--head mean", "--kind decoder"),
    ],
)
def test_a_wrong_command_line(options: str) -> None:
    told = look("model", SENTENCE, *options.split())
    assert told.exit_code == 2 and told.stderr.count("\n") == 1


def test_a_model_with_a_decoder_only(tokenizer: PreTrainedTokenizerBase, tmp_path: Path) -> None:
    GPT2LMHeadModel(GPT2Config(vocab_size=len(tokenizer), n_embd=16, n_layer=1, n_head=2)).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    told = look(tmp_path, SENTENCE)
    assert told.exit_code == 1
    assert told.stderr == f"error: {tmp_path} holds a model of the type 'gpt2', which has no encoder and decoder; give a translator.\n"
