"""Every format gives the same pairs, and every kind of damage has its sentence."""

import csv
import gzip
import hashlib
import json
import lzma
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from vaswani_transformer.data.cleaning import clean
from vaswani_transformer.data.sources.builtin import BuiltinCorpus
from vaswani_transformer.data.sources.corpus import Corpus, SentencePair
from vaswani_transformer.data.sources.hub import HubCorpus
from vaswani_transformer.data.sources.lines import LinesCorpus
from vaswani_transformer.data.sources.table import TableCorpus
from vaswani_transformer.recipe import CleaningSettings

LANGUAGES = ("en", "de")
TEXTS = [
    ("A house.", "Ein Haus."),
    ("A break\u2028inside, and\x0b\x0c\x1c\x85 more.", "Ein Umbruch\u2029darin."),
    ('He says "yes", they say', 'Er sagt "ja", sagen sie'),
    ("", "Leer."),
    ("Nul \0 here 家 ", " Null \0 hier 👩‍👩‍👧"),
]
WRITERS: dict[str, Callable[[Path, bytes], Any]] = {
    "": Path.write_bytes,
    ".gz": lambda path, content: path.write_bytes(gzip.compress(content)),
    ".xz": lambda path, content: path.write_bytes(lzma.compress(content)),
}


def lines_spec(folder: Path, source: bytes, target: bytes, ending: str = "") -> LinesCorpus:
    WRITERS[ending](folder / f"t.en{ending}", source)
    WRITERS[ending](folder / f"t.de{ending}", target)
    return LinesCorpus(source=f"t.en{ending}", target=f"t.de{ending}")


def as_lines(side: int, end: str = "\n") -> bytes:
    return "".join(pair[side] + end for pair in TEXTS).encode()


def read(spec: Corpus, root: Path, languages: tuple[str, str] = LANGUAGES) -> list[SentencePair]:
    return list(spec.pairs(root, languages))


def texts(pairs: list[SentencePair]) -> list[tuple[str, str]]:
    return [pair[:2] for pair in pairs]


@pytest.mark.parametrize("ending", WRITERS)
def test_lines(tmp_path: Path, ending: str) -> None:
    pairs = read(lines_spec(tmp_path, as_lines(0), as_lines(1), ending), tmp_path)
    assert texts(pairs) == TEXTS
    assert pairs[2] == SentencePair(*TEXTS[2], f"t.en{ending}", 3)


def test_line_ends_of_windows_a_byte_order_mark_and_a_missing_last_end(tmp_path: Path) -> None:
    spec = lines_spec(tmp_path, b"\xef\xbb\xbf" + as_lines(0, "\r\n"), as_lines(1)[:-1])
    assert texts(read(spec, tmp_path)) == TEXTS


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("ending", WRITERS)
def test_wide_encodings_are_known_by_their_mark(tmp_path: Path, encoding: str, ending: str) -> None:
    mark = "\ufeff" if encoding.endswith("be") else ""  # the others write it by themselves
    sides = [(mark + as_lines(side, "\r\n").decode()).encode(encoding) for side in (0, 1)]
    assert texts(read(lines_spec(tmp_path, sides[0], as_lines(1), ending), tmp_path)) == TEXTS
    assert texts(read(lines_spec(tmp_path, sides[0], sides[1], ending), tmp_path)) == TEXTS


def test_a_wide_file_that_breaks_off_is_told(tmp_path: Path) -> None:
    spec = lines_spec(tmp_path, "one\ntwo\nthree".encode("utf-16")[:-1], b"1\n2\n3\n")
    with pytest.raises(ValueError, match=r"t\.en begins with the mark of UTF-16, but is not valid UTF-16 somewhere behind line \d"):
        read(spec, tmp_path)


def test_a_limit_reads_no_further(tmp_path: Path) -> None:
    spec = lines_spec(tmp_path, b"a\nb\n\xff\n", b"c\nd\n")
    limited = LinesCorpus(source=spec.source, target=spec.target, limit=2)
    assert texts(read(limited, tmp_path)) == [("a", "c"), ("b", "d")]


def test_different_line_counts_are_told_with_both_counts(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"t\.de has 2 lines but .*t\.en has 4: line-aligned.*fetch both again"):
        read(lines_spec(tmp_path, b"1\n2\n3\n4\n", b"1\n2\n"), tmp_path)
    with pytest.raises(ValueError, match=r"t\.en has 1 lines but .*t\.de has 2:"):
        read(lines_spec(tmp_path, b"1\n", b"1\n2"), tmp_path)


def test_broken_utf8_is_told_with_file_and_line(tmp_path: Path) -> None:
    spec = lines_spec(tmp_path, b"fine\n", "naïve\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"t\.de:1 is not valid UTF-8 \(byte 0xef at position 3\).*iconv"):
        read(spec, tmp_path)


@pytest.mark.parametrize("ending", [".gz", ".xz"])
def test_damaged_archives_are_told(tmp_path: Path, ending: str) -> None:
    many = b"".join(hashlib.sha256(bytes([i])).hexdigest().encode() + b"\n" for i in range(250))
    spec = lines_spec(tmp_path, many, many, ending)
    path = tmp_path / f"t.de{ending}"
    path.write_bytes(path.read_bytes()[:-500])
    with pytest.raises(ValueError, match=rf"t\.de{ending} cannot be decompressed beyond line \d+ .*fetch it again"):
        read(spec, tmp_path)
    path.write_bytes(b"this is no archive")
    with pytest.raises(ValueError, match=rf"t\.de{ending} cannot be decompressed beyond line 0 "):
        read(spec, tmp_path)


def test_a_corrupt_byte_inside_an_archive_is_told(tmp_path: Path) -> None:
    spec = lines_spec(tmp_path, as_lines(0) * 50, as_lines(1) * 50, ".gz")
    content = bytearray((tmp_path / "t.de.gz").read_bytes())
    content[len(content) // 2] ^= 0xFF
    (tmp_path / "t.de.gz").write_bytes(content)
    with pytest.raises(ValueError, match=r"t\.de\.gz"):
        read(spec, tmp_path)


@pytest.mark.parametrize(
    "spec",
    [
        LinesCorpus(source="no.en", target="no.de"),
        TableCorpus(path="no.tsv"),
        TableCorpus(path="no.parquet"),
    ],
)
def test_a_missing_file_is_named(tmp_path: Path, spec: Corpus) -> None:
    with pytest.raises(FileNotFoundError, match=r"There is no file .*no\..*data\.root") as caught:
        read(spec, tmp_path)
    assert f"looked for in {tmp_path}" in str(caught.value)
    with pytest.raises(FileNotFoundError, match="There is no file"):
        spec.hashes(tmp_path, LANGUAGES)


def test_an_empty_corpus_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"t\.en holds no sentence pairs"):
        read(lines_spec(tmp_path, b"", b""), tmp_path)


def write_table(path: Path, columns: tuple[str, str]) -> None:
    """TEXTS below `columns`, with one column more, in the format of the file's name."""
    rows = [dict(zip(("id", *columns), (str(i), *pair), strict=True)) for i, pair in enumerate(TEXTS)]
    suffix = path.suffixes[0]
    if suffix == ".parquet":
        parquet.write_table(pyarrow.Table.from_pylist(rows), path)
        return
    plain = path.with_suffix("") if path.suffix in (".gz", ".xz") else path
    if suffix == ".jsonl":
        plain.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    elif suffix == ".tsv":
        lines = ["\t".join(row) for row in (rows[0], *(row.values() for row in rows))]
        plain.write_bytes("".join(f"{line}\n" for line in lines).encode())
    else:
        with open(plain, "w", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    if plain != path:
        WRITERS[path.suffix](path, plain.read_bytes())


TABLES = ["t.tsv", "t.csv", "t.jsonl", "t.parquet", "t.tsv.gz", "t.csv.xz", "t.jsonl.gz"]


@pytest.mark.parametrize("name", TABLES)
def test_tables(tmp_path: Path, name: str) -> None:
    write_table(tmp_path / name, ("en", "de"))
    pairs = read(TableCorpus(path=name), tmp_path)
    assert texts(pairs) == TEXTS
    header = 0 if "jsonl" in name or "parquet" in name else 1
    assert (pairs[1].origin, pairs[1].line) == (name, 2 + header)
    backwards = read(TableCorpus(path=name), tmp_path, ("de", "en"))
    assert texts(backwards) == [(target, source) for source, target in TEXTS]


@pytest.mark.parametrize("name", TABLES[:4])
def test_tables_with_columns_of_other_names(tmp_path: Path, name: str) -> None:
    write_table(tmp_path / name, ("english", "german"))
    spec = TableCorpus(path=name, source_column="english", target_column="german")
    assert texts(read(spec, tmp_path)) == TEXTS
    with pytest.raises(ValueError, match=rf"{name}:\d has no column `en`; available are `id`, `english`, `german`"):
        read(TableCorpus(path=name), tmp_path)


def test_a_tsv_without_header_has_numbered_columns(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("Go.\tGeh.\tCC-BY\n\nHi.\tHallo.\tCC-BY\n")
    spec = TableCorpus(path="t.tsv", source_column="2", target_column="1")
    assert read(spec, tmp_path) == [
        SentencePair("Geh.", "Go.", "t.tsv", 1),
        SentencePair("Hallo.", "Hi.", "t.tsv", 3),
    ]


def test_csv_with_line_breaks_in_a_cell_and_a_cell_of_a_megabyte(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('en,de\n"a\nb",c\n' + "x" * 1_000_000 + ",y\n")
    pairs = read(TableCorpus(path="t.csv"), tmp_path)
    assert pairs[0] == SentencePair("a\nb", "c", "t.csv", 3)
    assert len(pairs[1].source) == 1_000_000


@pytest.mark.parametrize("delimiter", [";", "\t", "|", ","])
def test_csv_with_other_delimiters(tmp_path: Path, delimiter: str) -> None:
    rows = [("en", "de"), ("He said, yes; or no.", 'Er sagte "ja".'), ("a", "b")]
    with open(tmp_path / "t.csv", "w", encoding="utf-8", newline="") as stream:
        csv.writer(stream, delimiter=delimiter).writerows(rows)
    assert texts(read(TableCorpus(path="t.csv"), tmp_path)) == rows[1:]


def test_jsonl_in_translation_format_and_with_missing_values(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"translation": {"en": "a", "de": null}}\n\n{"en": "b", "de": "c"}\n')
    pairs = read(TableCorpus(path="t.jsonl"), tmp_path)
    assert pairs == [SentencePair("a", "", "t.jsonl", 1), SentencePair("b", "c", "t.jsonl", 3)]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.tsv", b"en\tde\na\tb\nc\n", r"t\.tsv:3 has 1 columns, but 2 belong there"),
        ("t.tsv", b"en\tde\na\tb\tc\n", r"t\.tsv:2 has 3 columns, but 2 belong there"),
        ("t.tsv", b"en\tde\n", "holds no sentence pairs"),
        ("t.csv", b"en,de\na,b,c\n", r"t\.csv:2 has 3 columns, but 2 belong there"),
        ("t.csv", b'en,de\na,b\n"open,c\n', r"t\.csv:3 is not valid CSV"),
        ("t.csv", b"en,de\na,\xff\n", r"t\.csv:2 is not valid UTF-8"),
        ("t.jsonl", b'{"en": "a", "de": "b"}\n{"en": \n', r"t\.jsonl:2 is not valid JSON"),
        ("t.jsonl", b'["a", "b"]\n', r"t\.jsonl:1 holds list instead of an object"),
        ("t.jsonl", b'{"en": "a", "de": 5}\n', r"t\.jsonl:1: column `de` must hold text, not 5"),
        (
            "t.jsonl",
            b'{"en": "a\\ud83d", "de": "b"}\n',
            r"t\.jsonl:1: column `en` holds half a surrogate pair",
        ),
        ("t.parquet", b"no parquet", r"t\.parquet cannot be read as Parquet.*fetch it again"),
        ("t.xlsx", b"", r"t\.xlsx is of no known kind of table.*\.tsv, \.csv, \.jsonl, \.parquet"),
    ],
)
def test_damaged_tables_are_told_with_the_row(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read(TableCorpus(path=name), tmp_path)


@pytest.fixture
def hub_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data set in `translation` format that `load_dataset` finds on disk, and no cache outside the test."""
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    folder = tmp_path / "pairs" / "data"
    folder.mkdir(parents=True)
    rows = [json.dumps({"translation": {"en": source, "de": target}}) + "\n" for source, target in TEXTS]
    (folder / "train.jsonl").write_text("".join(rows), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("streaming", [False, True])
def test_hub_data_sets(hub_folder: Path, streaming: bool) -> None:
    spec = HubCorpus(path="pairs", split="train", streaming=streaming)
    pairs = read(spec, hub_folder)
    assert texts(pairs) == TEXTS
    assert (pairs[2].origin, pairs[2].line) == ("pairs train", 3)


def test_hub_data_sets_name_the_languages_they_have(hub_folder: Path) -> None:
    spec = HubCorpus(path="pairs", split="train")
    with pytest.raises(ValueError, match="pairs train:1 has no column `fr`; available are `en`, `de`"):
        read(spec, hub_folder, ("en", "fr"))


def test_hub_data_sets_with_a_wrong_split(hub_folder: Path) -> None:
    with pytest.raises(ValueError, match=r"data set pairs tain cannot be loaded; check path, name and split.*tain"):
        read(HubCorpus(path="pairs", split="tain"), hub_folder)


@pytest.mark.parametrize(("path", "on_the_hub"), [
    ("wmt/wmt14", True), ("squad", True), ("/data/wmt14", False), ("./wmt14", False), ("../wmt14", False), ("a/b/c", False),
])  # fmt: skip
def test_only_what_can_be_on_the_hub_gets_a_link(path: str, on_the_hub: bool) -> None:
    spec = HubCorpus(path=path, split="train")
    link = f"data set [<{path}>](https://huggingface.co/datasets/{path}), split <train>"
    assert spec.describe(lambda name: f"<{name}>") == (link if on_the_hub else f"data set in the folder <{path}>, split <train>")
    assert spec.dataset_name.repository == (path if on_the_hub else None)


def test_the_built_in_corpus_in_both_directions(tmp_path: Path) -> None:
    spec = BuiltinCorpus(split="validation", limit=5)
    forth, back = read(spec, tmp_path), read(spec, tmp_path, ("de", "en"))
    assert [(pair.target, pair.source) for pair in back] == texts(forth)
    assert forth[4].origin == "builtin validation"
    assert forth[4].line == 5
    with pytest.raises(ValueError, match="English-German, not en-fr"):
        read(spec, tmp_path, ("en", "fr"))


def test_file_hashes_are_those_of_the_bytes(tmp_path: Path) -> None:
    spec = lines_spec(tmp_path, as_lines(0), as_lines(1), ".gz")
    expected = {name: hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() for name in ("t.en.gz", "t.de.gz")}
    assert spec.hashes(tmp_path, LANGUAGES) == expected


def test_hashes_without_files_are_those_of_the_text(hub_folder: Path) -> None:
    expected = hashlib.sha256("".join(f"{source}\n{target}\n" for source, target in TEXTS).encode()).hexdigest()
    spec = HubCorpus(path="pairs", split="train")
    assert spec.hashes(hub_folder, LANGUAGES) == {"pairs:train": expected}
    streamed = HubCorpus(path="pairs", split="train", streaming=True)
    assert streamed.hashes(hub_folder, LANGUAGES) == {}
    pairs, report = clean(streamed.pairs(hub_folder, LANGUAGES), CleaningSettings())
    assert report.text_sha256 is None
    assert len(list(pairs)) == 4
    assert report.text_sha256 == expected


def test_of_a_streamed_data_set_one_file_is_in_memory_at_a_time(hub_folder: Path) -> None:
    """18 MB of text in 15 files, as the Hub keeps large data sets in files of some hundred; Arrow buffers one as a whole."""
    folder, text, rows = hub_folder / "pairs" / "data", "word " * 60, 2000
    (folder / "train.jsonl").unlink()
    for file in range(15):
        pairs = [{"en": f"{file} {row} {text}", "de": f"{file} {row} {text}"} for row in range(rows)]
        table = pyarrow.table({"translation": pairs})
        parquet.write_table(table, folder / f"train-{file:05}-of-00015.parquet", compression="none")
    del pairs, table
    spec = HubCorpus(path="pairs", split="train", streaming=True)
    next(spec.pairs(hub_folder, LANGUAGES))  # imports
    before, count, arrow = pyarrow.total_allocated_bytes(), 0, 0
    tracemalloc.start()
    for count, _ in enumerate(spec.pairs(hub_folder, LANGUAGES), start=1):  # noqa: B007
        arrow = max(arrow, pyarrow.total_allocated_bytes() - before)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 15 * rows
    assert peak + arrow < 7_000_000
