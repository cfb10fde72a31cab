"""Zip files of OPUS, read as they were downloaded."""

import zipfile
from pathlib import Path

import pytest

from vaswani_transformer.data.sources.corpus import SentencePair
from vaswani_transformer.data.sources.moses import MosesCorpus

FILES = {
    "README": b"about",
    "Books.en-pt_br.en": b"One.\nTwo\xe2\x80\xa8lines.\n",
    "Books.en-pt_br.pt_br": b"Um.\r\nDois.\r\n",
    "Books.en-pt_br.xml": b"<xml/>",
}


def write(folder: Path, files: dict[str, bytes]) -> MosesCorpus:
    with zipfile.ZipFile(folder / "en-pt_br.txt.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return MosesCorpus(path="en-pt_br.txt.zip")


def test_the_two_languages_are_found_in_the_archive(tmp_path: Path) -> None:
    corpus = write(tmp_path, FILES)
    pairs = [SentencePair("One.", "Um.", corpus.path, 1), SentencePair("Two\u2028lines.", "Dois.", corpus.path, 2)]
    assert list(corpus.pairs(tmp_path, ("en", "pt-BR"))) == pairs
    assert [pair.source for pair in corpus.pairs(tmp_path, ("pt_br", "en"))] == ["Um.", "Dois."]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a.en": b"x\n"}, r"zip holds no file that ends in \.pt-BR, only a\.en; set source_language"),
        ({**FILES, "b.en": b"x\n"}, r"zip holds several files that end in \.en \(README, .*\); unpack it, and name one pair"),
        ({"a.en": b"x\ny\n", "a.pt_br": b"x\n"}, r"zip/a\.pt_br has 1 lines but .*zip/a\.en has 2"),
        ({"a.en": b"x\n", "a.pt_br": b"\xff\n"}, r"zip/a\.pt_br:1 is not valid UTF-8"),
    ],
)
def test_an_archive_that_does_not_fit_is_told(tmp_path: Path, files: dict[str, bytes], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        list(write(tmp_path, files).pairs(tmp_path, ("en", "pt-BR")))


def test_a_damaged_archive_is_told(tmp_path: Path) -> None:
    corpus = write(tmp_path, {**FILES, "Books.en-pt_br.en": b"One.\n" * 5000, "Books.en-pt_br.pt_br": b"Um.\n" * 5000})
    path = tmp_path / corpus.path
    whole = path.read_bytes()
    path.write_bytes(whole[:-40])
    with pytest.raises(ValueError, match=r"cannot be unpacked .*fetch it again"):
        list(corpus.pairs(tmp_path, ("en", "pt-BR")))
    flipped = bytearray(whole)
    flipped[whole.index(b"Books.en-pt_br.en") + 40] ^= 0xFF
    path.write_bytes(flipped)
    with pytest.raises(ValueError, match="fetch it again"):
        list(corpus.pairs(tmp_path, ("en", "pt-BR")))
