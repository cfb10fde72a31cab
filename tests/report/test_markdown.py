"""Whatever others wrote shows in a card as they wrote it, and changes nothing about the card: read with a real Markdown renderer."""

import dataclasses
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import ModelCard
from markdown_it import MarkdownIt
from markdown_it.token import Token

from vaswani_transformer.files.json_files import read_json, write_json
from vaswani_transformer.recipe import Recipe, load_recipe
from vaswani_transformer.report import model_card
from vaswani_transformer.report.converted_card import Conversion, write_converted_card
from vaswani_transformer.report.markdown import Markdown, code, python, text, visible
from vaswani_transformer.report.model_card import Pictures, render_card
from vaswani_transformer.report.run_comparison import compare_runs
from vaswani_transformer.run_folder import RunFolder

HOSTILE = [
    "<script>alert(1)</script> <img src=x onerror=y> <!-- hidden",
    "*all* **of** _it_ __is__ a__b__ snake_case_name _a_b_ ~~text~~ $x$ `code` ``more`",
    "[link](https://evil.example) ![picture](x) [ref]: x <https://a.example> [^1]",
    "https://evil.example www.evil.example evil.com me@evil.example mailto:me@evil.com //localhost ftp://x.example:1/|a|`b`",
    "# heading",
    "- item",
    "+ item",
    "1. item",
    "2) item",
    "> quote",
    "---",
    "===",
    "***",
    "~~~ fence",
    "a | b \\| c \\\\| d \\",
    "one\n\n# two\n---\n- three\n```\n",
    "&lt;b&gt; &#60;i&#62; &copy;",
    "back\u202eward \u2066isolated\u2069 zero\u200bwidth \x07bell \ufeffmark end\x85next\u2028line",
    "`www.evil.com`` `https://x`|`",
    "\\` \\* \\[x](https://evil.example)",
    ": no: `true` {% raw %} {{ evaluation }} %}",
    "text.de: 3.14 z.B. 'quotes' \"and\" more, (so) on; done!",
]

INVISIBLE = re.compile("[\u202e\u2066\u200b\x07\ufeff\x85\u2028]")


def _parse(markdown: str) -> list[Token]:
    """With everything on that a renderer may make of a card: HTML, tables, strikethrough and links for whatever looks like one."""
    reader = MarkdownIt("commonmark", {"linkify": True, "html": True}).enable(["table", "strikethrough", "linkify"])
    return [token for outer in reader.parse(markdown) for token in (outer, *(outer.children or []))]


def _structure(markdown: str) -> Counter[str]:
    """How often there is what, apart from the running text itself."""
    return Counter(token.type for token in _parse(markdown) if token.type not in ("text", "code_inline", "text_special"))


def _shown(markdown: str) -> str:
    """What a reader sees."""
    return "".join(token.content for token in _parse(markdown) if token.type in ("text", "code_inline"))


def _same(shown: str, expected: str) -> bool:
    """But for blanks, which Markdown takes away at the ends of a cell or a line."""
    return shown.replace(" ", "") == expected.replace(" ", "")


@pytest.mark.parametrize("hostile", HOSTILE)
def test_text_shows_as_itself_in_a_paragraph_a_cell_a_heading_and_a_list(hostile: str) -> None:
    for frame in ("{}", "x {} y", "# {}", "- {}", "| a | b |\n|---|---|\n| {} | z |"):
        markdown = frame.format(text(hostile))
        assert _structure(markdown) == _structure(frame.format("word")), markdown
        assert _same(_shown(markdown), _shown(frame.format("\0")).replace("\ufffd", visible(hostile))), markdown


@pytest.mark.parametrize("hostile", HOSTILE)
def test_code_shows_as_itself(hostile: str) -> None:
    for frame, in_table in (("x {} y", False), ("- {}", False), ("| a | b |\n|---|---|\n| {} | z |", True)):
        markdown = frame.format(code(hostile, in_table))
        assert _structure(markdown) == _structure(frame.format("word")), markdown
        assert _same(_shown(markdown), _shown(frame.format("\0")).replace("\ufffd", visible(hostile))), markdown


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_literal_of_python_is_one_line_that_hides_nothing(hostile: str) -> None:
    assert eval(python(hostile)) == hostile
    assert visible(python(hostile)) == python(hostile)


def test_plain_text_stays_as_it_is() -> None:
    for plain in (
        "Zwei Hunde - z. B. Möpse - spielen (am 3.5.) um 12.50 Euro.",
        "می‌خواهم",
        "👩‍👩‍👧",
        "-1",
        "a - b",
        "12 h 3 min",
        "q_proj",
    ):
        assert text(plain) == plain


def _poison(value: Any, hostile: str, keep: tuple[str, ...] = ()) -> Any:
    """Every text of a JSON file is hostile, except below the names in `keep`."""
    if isinstance(value, dict):
        return {key: item if key in keep else _poison(item, hostile, keep) for key, item in value.items()}
    if isinstance(value, list):
        return [_poison(item, hostile, keep) for item in value]
    return hostile if isinstance(value, str) else value


_KEPT = ("corpus", "weights_sha256", "metric")


def _poisoned_recipe(recipe: Recipe, hostile: str) -> Recipe:
    """Past the checks of a recipe, so that the card does not rest on them."""
    for name in ("name", "source_language", "target_language"):
        object.__setattr__(recipe, name, hostile)
    object.__setattr__(recipe.data, "licence", hostile)
    for spec in (*recipe.data.train, *recipe.data.validations, *recipe.data.test.values()):
        for field in dataclasses.fields(spec):
            if field.name != "format" and isinstance(getattr(spec, field.name), str):
                object.__setattr__(spec, field.name, hostile)
    object.__setattr__(recipe.data, "test", {f"{hostile}{i}": spec for i, spec in enumerate(recipe.data.test.values())})
    return recipe


def _poisoned(run: RunFolder, hostile: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A card of a run in whose files every name, path, sentence and setting is `hostile`."""
    monkeypatch.setattr(model_card, "load_recipe", lambda path, **where: _poisoned_recipe(load_recipe(path, **where), hostile))
    names = {run.evaluation: (*_KEPT, "averaged_checkpoints"), run.cleaning: (), run.training: ("averaged_checkpoints",)}
    for path, keep in names.items():
        write_json(path, _poison(read_json(path), hostile, keep))
    cleaning, training, evaluation = map(read_json, (run.cleaning, run.training, run.evaluation))
    cleaning["dropped"] = {f"{hostile}{i}": number for i, number in enumerate(cleaning["dropped"].values())}
    cleaning["file_hashes"] = {hostile: {hostile: hostile, f"{hostile}2": hostile}}
    training["hardware"] = {f"{hostile}{i}": hostile for i in range(len(training["hardware"]))}
    for facts in (training, evaluation):
        facts["versions"] = {f"{hostile}{i}": hostile for i in range(len(facts["versions"]))}
    evaluation["decoding"] = {f"{hostile}{i}": [hostile] for i in range(len(evaluation["decoding"]))}
    for path, content in ((run.cleaning, cleaning), (run.training, training), (run.evaluation, evaluation)):
        write_json(path, content)
    picture = Path(f"{hostile.replace('/', '|')}.png")  # the name of a file has no slash
    return render_card(run, model_id=hostile, pictures=Pictures(picture, picture, picture))


def _body(card: str) -> str:
    return card.split("\n---\n", 1)[1]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_card_of_hostile_files_is_built_like_any_other(run: RunFolder, monkeypatch: pytest.MonkeyPatch, hostile: str) -> None:
    card = _poisoned(run, hostile, monkeypatch)
    assert not INVISIBLE.search(card)
    counts = _structure(_body(card))
    assert not counts.keys() & {"html_inline", "html_block", "s_open", "hr", "ordered_list_open", "blockquote_open", "code_block"}
    assert (counts["em_open"], counts["image"], counts["heading_open"], counts["fence"]) == (1, 1, 13, 3)
    assert not [token for token in _parse(_body(card)) if token.type == "link_open"]  # no such name can be on the Hub
    data = ModelCard(card).data
    assert data.language == [hostile] and data.eval_results[0].dataset_name == hostile


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_converted_card_takes_nothing_for_markup(run: RunFolder, hostile: str) -> None:
    def card(word: str) -> str:
        conversion = Conversion(
            "Marian", word, word, word, (word, f"{word}2"), Markdown("`MarianMTModel` itself"), "the same tokens", 0.1, [(word, word)] * 2
        )
        for name in ("config.json", "generation_config.json", "tokenizer_config.json"):
            old = {k: v for k, v in read_json(run.averaged / name).items() if isinstance(v, str)}
            write_json(run.averaged / name, read_json(run.averaged / name) | dict.fromkeys(old, word))
        write_converted_card(run.averaged, word, conversion)
        return (run.averaged / "README.md").read_text(encoding="utf-8")

    plain, poisoned = card("word"), card(hostile)
    assert _structure(_body(poisoned)) == _structure(_body(plain))
    assert ModelCard(poisoned).data.language == [hostile, f"{hostile}2"]
    assert not INVISIBLE.search(poisoned)


def test_names_of_compared_runs_are_text(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    lines = [{"kind": "train", "update": 1, "target_tokens": 9}, {"kind": "validation", "update": 1, "bleu": 1.0, "chrf": 2.0}]
    run.log.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    for hostile in HOSTILE:
        assert _structure(compare_runs({hostile: [run]})) == _structure(compare_runs({"word": [run]}))
    compare_runs({"costs $5 or $x_{$": [run]}, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").is_file()
