import csv
import io
import json
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vaswani_transformer.files import lines
from vaswani_transformer.translation.records import BadLine, Layout, Records, make_records
from vaswani_transformer.translation.translate import Failure, Translation

ONE = [Translation("eins", -0.5)]
TWO = [Translation("eins", -0.5), Translation("zwei", -1.25)]
BLANK = [Translation("", None)]
FAILED = Failure("too bad")


def records(kind: str, column: str | None = None, first: bytes = b"a\tb", *, nbest: int = 1, scores: bool = False) -> Records:
    return make_records(kind, column, Layout(nbest, scores), first)


@pytest.mark.parametrize(
    ("nbest", "scores", "outcome", "cells"),
    [
        (1, False, ONE, "eins"),
        (1, True, ONE, "eins\t-0.500000"),
        (2, False, TWO, "eins\tzwei"),
        (2, True, TWO, "eins\t-0.500000\tzwei\t-1.250000"),
        (1, False, FAILED, ""),
        (2, True, FAILED, "\t\t\t"),
        (1, True, BLANK, "\t"),
    ],
)
def test_columns(nbest: int, scores: bool, outcome: Any, cells: str) -> None:
    layout = {"nbest": nbest, "scores": scores}
    assert records("text", **layout).render(b"whatever", outcome) == cells.encode()
    assert records("tsv", **layout).render(b"a\tb", outcome) == b"a\tb\t" + cells.encode()


@pytest.mark.parametrize(
    ("nbest", "scores", "outcome", "added"),
    [
        (1, False, ONE, {"translation": "eins"}),
        (1, True, ONE, {"translation": "eins", "score": -0.5}),
        (1, True, BLANK, {"translation": "", "score": None}),
        (2, False, TWO, {"translations": [{"translation": "eins"}, {"translation": "zwei"}]}),
        (1, False, FAILED, {"translation": "", "error": "too bad"}),
        (2, True, FAILED, {"translations": [], "error": "too bad"}),
    ],
)
def test_fields(nbest: int, scores: bool, outcome: Any, added: dict[str, Any]) -> None:
    made = records("jsonl", nbest=nbest, scores=scores)
    assert json.loads(made.render(b'{"text": "one", "id": 7}', outcome)) == {"text": "one", "id": 7, **added}
    assert json.loads(made.render(b" {} ", outcome)) == added
    assert json.loads(made.render(b"no json", outcome)) == added


@pytest.mark.parametrize("text", ["a\nb", "a\r\nb", "a\u2028b", "a\x0bb", "a\x85b"])
def test_no_line_break_in_a_translation_reaches_a_line(text: str) -> None:
    assert records("text").render(b"", [Translation(text, None)]) == b"a b"
    assert records("tsv").render(b"a\tb", [Translation(text, None)]) == b"a\tb\ta b"
    line = records("jsonl").render(b"{}", [Translation(text, None)])
    assert b"\n" not in line and json.loads(line) == {"translation": text}


def test_a_tab_in_a_translation_reaches_no_column() -> None:
    tabbed = [Translation("a\tb", -1.0)]
    assert records("text").render(b"", tabbed) == b"a\tb"
    assert records("text", scores=True).render(b"", tabbed) == b"a b\t-1.000000"
    assert records("tsv").render(b"a\tb", tabbed) == b"a\tb\ta b"


def test_a_column_by_name_or_number() -> None:
    named = records("tsv", "source", b"id\tsource")
    assert named.header == b"id\tsource\ttranslation"
    assert named.source(b"7\tEin Satz") == "Ein Satz"
    assert records("tsv", "source", b"id\tsource", nbest=2, scores=True).header == (
        b"id\tsource\ttranslation_1\tscore_1\ttranslation_2\tscore_2"
    )
    numbered = records("tsv", "2", b"7\tEin Satz")
    assert numbered.header is None
    assert numbered.source(b"7\tEin Satz") == "Ein Satz"
    assert records("tsv", "1", b"one column").source(b"") == ""
    for column in ("target", "3", "0"):
        with pytest.raises(ValueError, match=rf"no column {column}: the first line has 2 \(id, source\)"):
            records("tsv", column, b"id\tsource")


def test_other_cells_are_copied_byte_by_byte() -> None:
    row = b'\xff"\tEin Satz\r'
    made = records("tsv", "2", b"x\ty")
    assert made.source(row) == "Ein Satz\r"
    assert made.render(row, ONE) == row + b"\teins"


def test_blank_lines_stay_as_they_are() -> None:
    assert records("text").source(b"  ") == "  " and records("text").render(b"  ", BLANK) == b""
    assert records("tsv").source(b"") == "" and records("tsv").render(b"", BLANK) == b""
    assert records("jsonl").source(b" ") == "" and records("jsonl").render(b" ", BLANK) == b""


@pytest.mark.parametrize(
    ("kind", "line", "reason"),
    [
        ("text", b"ab\xff", "not valid UTF-8 (byte 0xff at position 3)"),
        ("tsv", b"ab\xff\tb", "not valid UTF-8 (byte 0xff at position 3)"),
        ("tsv", b"a", "1 columns, but the first line has 2"),
        ("tsv", b"a\tb\tc", "3 columns, but the first line has 2"),
        ("csv", b"ab\xff,b", "not valid UTF-8 (byte 0xff at position 3)"),
        ("csv", b"a,b", "1 columns, but the first line has 2"),
        ("csv", b'"a" b', "not valid CSV ('\t' expected after '\"')"),
        ("csv", b'"a', "not valid CSV (unexpected end of data)"),
        ("jsonl", b"{", "not valid JSON (Expecting property name enclosed in double quotes at character 2)"),
        ("jsonl", b'{"text": "\xff"}', "not valid UTF-8 (byte 0xff at position 11)"),
        ("jsonl", b"[1]", "a list instead of a JSON object"),
        ("jsonl", b"3", "a number instead of a JSON object"),
        ("jsonl", b'{"texts": "a"}', 'no field "text"'),
        ("jsonl", b'{"text": 3}', "the field text holds a number instead of a string"),
        ("jsonl", b'{"text": null}', "the field text holds null instead of a string"),
        ("jsonl", b'{"text": {}}', "the field text holds an object instead of a string"),
        ("jsonl", b'{"text": "a\\ud800"}', "half a surrogate pair at character 2 of the field text"),
    ],
)
def test_bad_lines_say_what_is_wrong(kind: str, line: bytes, reason: str) -> None:
    with pytest.raises(BadLine) as error:
        records(kind).source(line)
    assert str(error.value) == reason
    assert b"\n" not in records(kind).render(line, FAILED)


@pytest.mark.parametrize("line", [b"[" * 100_000, b'{"text": ' + b"1" * 10_000 + b"}"])
def test_json_that_python_cannot_read_is_a_bad_line(line: bytes) -> None:
    with pytest.raises(BadLine, match="JSON"):
        records("jsonl").source(line)


@pytest.mark.parametrize("kind", ["text", "tsv", "csv", "jsonl"])
def test_a_line_that_was_cut_is_bad(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (lines, sys.modules["vaswani_transformer.translation.records"]):
        monkeypatch.setattr(module, "LONGEST_LINE", 10)
    with pytest.raises(BadLine, match="longer than 10 bytes"):
        records(kind).source(b"x" * 12)


def test_an_object_keeps_its_own_text() -> None:
    line = b'{"text":"a",  "big": 1e400, "long": 0.10000000000000000001, "half": "\\ud800"}'
    assert records("jsonl").render(line, ONE) == line[:-1] + b', "translation": "eins"}'


def test_a_field_that_is_written_replaces_one_of_its_name() -> None:
    line = '{"text": "ä", "translation": {"de": "x"}, "half": "\\ud800"}'.encode()
    written = records("jsonl").render(line, ONE)
    assert written == '{"text": "ä", "translation": "eins", "half": "\\ud800"}'.encode()


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_csv_has_quotes_and_any_delimiter(delimiter: str) -> None:
    first, row = (delimiter.join(cells).encode() for cells in (["id", '"the, source"'], ["7", '"a ""b""; c\nd"']))
    made = records("csv", "the, source", first)
    assert made.header == first + f"{delimiter}translation".encode()
    assert made.source(row) == 'a "b"; c\nd'
    translated = made.render(row, [Translation(f'x{delimiter}"y"', None)])
    (read,) = csv.reader(io.StringIO(translated.decode(), newline=""), delimiter=delimiter)
    assert read == ["7", 'a "b"; c\nd', f'x{delimiter}"y"']
    assert made.render(row, FAILED) == row + delimiter.encode()
    assert made.source(b"") == "" and made.render(b"", BLANK) == b""
    assert records("csv", "2", row).source(row) == 'a "b"; c\nd'


def test_a_first_row_that_is_no_csv_is_refused() -> None:
    with pytest.raises(ValueError, match=r"The first line is not valid CSV \(.*\); repair it"):
        records("csv", "1", b'a,"b')


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(ValueError, match="choose one of text, tsv, csv, jsonl"):
        records("xml")


json_values = st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=2))


@given(st.dictionaries(st.text(), json_values), st.text())
def test_any_object_comes_back_with_its_translation(record: dict[str, Any], translation: str) -> None:
    line = json.dumps({**record, "text": "a"}).encode()
    made = records("jsonl")
    assert made.source(line) == "a"
    try:
        translation.encode()
    except UnicodeEncodeError:
        return
    written = json.loads(made.render(line, [Translation(translation, None)]))
    assert written == {**record, "text": "a", "translation": translation}
