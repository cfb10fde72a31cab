import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import SENTENCES
from tests.demo.conftest import Folders
from vaswani_transformer.demo.file_translation import FileState, translate_upload
from vaswani_transformer.demo.limits import Limits
from vaswani_transformer.demo.translator import Request, Translator
from vaswani_transformer.translation.translate import translate


@pytest.fixture(scope="module")
def translator(folders: Folders) -> Translator:
    return Translator("ours", folders.ours, Limits(tokens=200, megabytes=1))


def translated(translator: Translator, upload: Path, column: str = "", **settings: Any) -> tuple[list[FileState], str]:
    out = upload.parent / "out"
    out.mkdir()
    states = list(translate_upload(translator, upload, out, Request("", **settings), column))
    assert states[-1].result is not None and states[-1].result.parent == out
    return states, states[-1].result.read_text(encoding="utf-8")


def test_lines_become_what_the_command_makes_of_them(translator: Translator, tmp_path: Path) -> None:
    (upload := tmp_path / "in.TXT").write_text("\n".join(SENTENCES) + "\n", encoding="utf-8")
    states, text = translated(translator, upload, search={"num_beams": 2, "num_return_sequences": 2})
    assert text.split("\n") == [*translate(translator.model, translator.tokenizer, SENTENCES, num_beams=2), ""]
    assert states[-1].done == len(SENTENCES) and states[-1].failed == 0
    assert states[-1].result is not None and states[-1].result.name == "in.translated.txt"


def test_a_field_is_translated_and_a_long_line_fails_alone(translator: Translator, tmp_path: Path) -> None:
    (upload := tmp_path / "in.jsonl").write_text("".join(json.dumps({"en": text}) + "\n" for text in ("Yes.", "x" * 300)))
    states, text = translated(translator, upload, "en")
    first, second = map(json.loads, text.splitlines())
    assert translate(translator.model, translator.tokenizer, ["Yes."])[0] in first.values()
    assert states[-1].failed == 1 and translate(translator.model, translator.tokenizer, ["Yes."])[0] not in second.values()


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("in.docx", b"x", r"ends in '\.docx'; give one that ends in \.txt, \.tsv, \.csv, \.jsonl"),
        ("in", b"x", "ends in 'nothing'"),
        ("in.txt", b"", "The file is empty"),
        ("in.txt", b"x" * 1_000_001, "larger than 1 MB"),
    ],
)
def test_a_file_that_cannot_be_translated_is_one_sentence(
    translator: Translator, tmp_path: Path, name: str, content: bytes, sentence: str
) -> None:
    (upload := tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=sentence) as error:
        translated(translator, upload)
    assert "\n" not in str(error.value)


def test_a_column_that_is_not_there_is_named(translator: Translator, tmp_path: Path) -> None:
    (upload := tmp_path / "in.csv").write_bytes(b"a,b\nYes.,No.\n")
    with pytest.raises(ValueError, match="nope"):
        translated(translator, upload, "nope")


def test_whoever_leaves_frees_the_model(translator: Translator, tmp_path: Path) -> None:
    (upload := tmp_path / "in.txt").write_text("A man reads.\n" * 5000)
    states = translate_upload(translator, upload, tmp_path, Request(""), None)
    assert next(iter(states)).result is None
    states.close()  # type: ignore[attr-defined]  # it is a generator
    assert translator.lock.acquire(timeout=10)
    translator.lock.release()
