"""The files of a run: their names, and that a reader sees a whole one or none."""

import os
from pathlib import Path

import pytest

from vaswani_transformer.files.atomic_file import write_text
from vaswani_transformer.files.checksums import file_sha256
from vaswani_transformer.files.json_files import read_json, read_json_lines, write_json
from vaswani_transformer.run_folder import RunFolder


def test_every_file_lies_in_the_folder_under_a_name_of_its_own(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    names = [name for name, member in vars(RunFolder).items() if isinstance(member, property)]
    paths = [getattr(run, name) for name in names]
    assert all(path.parent == tmp_path for path in paths)
    assert len(set(paths)) == len(names) > 10
    assert run.checkpoint(40) == tmp_path / "checkpoints" / "step-40"


def test_json_comes_back_as_it_was(tmp_path: Path) -> None:
    content = {"größe": [1, 2.5, None], "leer": {}}
    write_json(tmp_path / "deep" / "facts.json", content)
    assert read_json(tmp_path / "deep" / "facts.json") == content
    assert "größe" in (tmp_path / "deep" / "facts.json").read_text(encoding="utf-8")


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "facts.json"
    write_text(path, "old")

    def fail(descriptor: int) -> None:
        raise OSError("the disk is gone")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="the disk is gone"):
        write_text(path, "new and longer")
    assert path.read_text(encoding="utf-8") == "old"


def test_broken_json_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "facts.json"
    path.write_text('{\n"a": 1,\n"b": }\n', encoding="utf-8")
    with pytest.raises(ValueError, match=r"facts\.json:3 is not valid JSON .*run again what wrote it"):
        read_json(path)
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "absent.json")


def test_lines_of_json_are_read_up_to_the_broken_one(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"update": 1}\n{"upda', encoding="utf-8")
    records = iter(read_json_lines(path))
    assert next(records) == {"update": 1}
    with pytest.raises(ValueError, match=r"log\.jsonl:2 is not valid JSON .*remove that line"):
        next(records)


def test_a_line_that_is_being_written_is_left_for_later(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes('{"update": 1}\n{"update": 2, "samples": "ä'.encode()[:-1])
    assert list(read_json_lines(path, growing=True)) == [{"update": 1}]
    path.write_bytes(b'{"update": 1}\n{"upda\n{"update": 3}\n')
    with pytest.raises(ValueError, match=r"log\.jsonl:2 is not valid JSON"):
        list(read_json_lines(path, growing=True))


def test_the_hash_of_a_file_is_the_published_one(tmp_path: Path) -> None:
    """FIPS 180-2, appendix B.1: the SHA-256 of "abc"."""
    (tmp_path / "abc").write_bytes(b"abc")
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert file_sha256(tmp_path / "abc") == expected
