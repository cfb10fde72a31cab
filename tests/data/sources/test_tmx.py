"""Translation memories: languages by code, foreign mark-up left out, damage told."""

import gzip
import tracemalloc
from pathlib import Path

import pytest

from vaswani_transformer.data.sources.corpus import SentencePair
from vaswani_transformer.data.sources.tmx import TmxCorpus

HEADER = """<?xml version="1.0" encoding="{encoding}"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"{namespace}>
<header segtype="sentence"/>
"""
UNITS = """<body>
<tu tuid="1"><tuv xml:lang="EN-US"><seg>A house &amp; a <hi>garden</hi>.</seg></tuv><tuv xml:lang="DE"><seg>Haus 家.</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>Only English.</seg></tuv><tuv xml:lang="fr"><seg>Non.</seg></tuv></tu>
<tu><prop type="x">y</prop><tuv lang="de"><seg>Klick <bpt i="1">&lt;b&gt;</bpt>hier<ept i="1">&lt;/b&gt;</ept> <ph>x</ph>jetzt</seg></tuv>
<tuv lang="en-GB"><seg>Click here</seg></tuv><tuv lang="en-US"><seg>Second</seg></tuv></tu>
</body></tmx>"""
PAIRS = [("A house & a garden.", "Haus 家.", 1), ("Click here", "Klick hier jetzt", 3)]


def write(path: Path, encoding: str = "utf-8", namespace: str = "") -> TmxCorpus:
    content = (HEADER.format(encoding=encoding, namespace=namespace) + UNITS).encode(encoding)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return TmxCorpus(path=path.name)


@pytest.mark.parametrize(
    ("name", "encoding", "namespace"),
    [("t.tmx", "utf-8", ""), ("t.tmx", "utf-16", ""), ("t.tmx.gz", "utf-8", ""), ("t.tmx", "utf-8", ' xmlns="http://www.lisa.org/tmx14"')],
)
def test_units_in_both_languages_are_pairs(tmp_path: Path, name: str, encoding: str, namespace: str) -> None:
    corpus = write(tmp_path / name, encoding, namespace)
    assert list(corpus.pairs(tmp_path, ("en", "de"))) == [SentencePair(source, target, name, line) for source, target, line in PAIRS]
    backwards = list(corpus.pairs(tmp_path, ("de", "en")))
    assert [(pair.target, pair.source, pair.line) for pair in backwards] == PAIRS


def test_a_region_chooses_among_variants(tmp_path: Path) -> None:
    corpus = write(tmp_path / "t.tmx")
    assert [pair.source for pair in corpus.pairs(tmp_path, ("en_us", "de"))] == ["A house & a garden.", "Second"]


def test_other_languages_are_told(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no translation unit in both en and sv, but units in DE, EN-US, de, en, en-GB, en-US, fr; set"):
        list(write(tmp_path / "t.tmx").pairs(tmp_path, ("en", "sv")))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.tmx", HEADER.format(encoding="utf-8", namespace="").encode(), r"t\.tmx is not valid TMX \(.*line \d+, column \d+\); repair"),
        ("t.tmx", b"", "is not valid TMX"),
        ("t.tmx.gz", b"no archive", r"t\.tmx\.gz cannot be decompressed"),
        ("t.tmx", b"<tmx><body></body></tmx>", "no translation unit in both en and de, but units in no language"),
    ],
)  # fmt: skip
def test_damage_is_told(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        list(TmxCorpus(path=name).pairs(tmp_path, ("en", "de")))


def test_what_was_read_does_not_stay_in_memory(tmp_path: Path) -> None:
    unit = '<tu><tuv xml:lang="en"><seg>{0} words</seg></tuv><tuv xml:lang="de"><seg>{0} Wörter</seg></tuv></tu>\n'
    with open(tmp_path / "t.tmx", "w", encoding="utf-8") as stream:
        stream.write("<tmx><header/><body>" + "".join(unit.format(number) for number in range(20_000)) + "</body></tmx>")
    tracemalloc.start()
    count = sum(1 for _ in TmxCorpus(path="t.tmx").pairs(tmp_path, ("en", "de")))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 20_000
    assert peak < 2_000_000
