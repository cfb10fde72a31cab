"""Folders that `save_to_disk` wrote."""

import hashlib
from pathlib import Path

import datasets
import pytest

from vaswani_transformer.data.sources.corpus import SentencePair
from vaswani_transformer.data.sources.disk import DiskCorpus

ROWS = {"en": ["One.", "Two."], "de": ["Eins.", "Zwei."]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = datasets.Dataset.from_dict(ROWS)
    rows.save_to_disk(tmp_path / "single")
    datasets.DatasetDict(train=rows, dev=rows.select([1])).save_to_disk(tmp_path / "several")
    return tmp_path


def test_a_data_set_with_and_without_splits(folder: Path) -> None:
    pairs = list(DiskCorpus(path="single").pairs(folder, ("en", "de")))
    assert pairs == [SentencePair("One.", "Eins.", "single", 1), SentencePair("Two.", "Zwei.", "single", 2)]
    assert list(DiskCorpus(path="several", split="dev").pairs(folder, ("de", "en"))) == [SentencePair("Zwei.", "Two.", "several dev", 1)]


def test_hashes_are_those_of_the_arrow_files(folder: Path) -> None:
    (file,) = (folder / "several" / "train").glob("*.arrow")
    hashes = DiskCorpus(path="several", split="train").hashes(folder, ("en", "de"))
    assert hashes == {f"several/train/{file.name}": hashlib.sha256(file.read_bytes()).hexdigest()}


def test_a_folder_outside_the_root_has_the_name_that_the_recipe_gives_it(folder: Path) -> None:
    (file,) = (folder / "several" / "train").glob("*.arrow")
    corpus = DiskCorpus(path=str(folder / "several"), split="train")
    assert corpus.files(Path()) == {str(file): file}
    assert DiskCorpus(path="./several/", split="train").files(folder) == {f"several/train/{file.name}": file}


@pytest.mark.parametrize(
    ("corpus", "error", "message"),
    [
        (DiskCorpus(path="several"), ValueError, "several has the splits train, dev; set `split`"),
        (DiskCorpus(path="several", split="test"), ValueError, "has the splits train, dev"),
        (DiskCorpus(path="single", split="train"), ValueError, "single is a data set without splits; leave out `split: train`"),
        (DiskCorpus(path="none"), FileNotFoundError, r"There is no folder .*none; check `path` and `data\.root`"),
        (DiskCorpus(path="."), ValueError, "holds no data set that `save_to_disk` wrote"),
        (DiskCorpus(path="single", source_column="sv"), ValueError, "single:1 has no column `sv`"),
    ],
)
def test_what_does_not_fit_is_told(folder: Path, corpus: DiskCorpus, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        list(corpus.pairs(folder, ("en", "de")))
