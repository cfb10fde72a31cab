"""A folder is there as a whole or not at all."""

import errno
from pathlib import Path

import pytest

from vaswani_transformer.atomic_folder import atomic_folder


def test_a_failed_block_leaves_the_old_folder_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "state"
    with atomic_folder(target) as folder:
        (folder / "a").write_text("old", encoding="utf-8")
    with pytest.raises(RuntimeError), atomic_folder(target) as folder:
        (folder / "a").write_text("new", encoding="utf-8")
        raise RuntimeError
    assert (target / "a").read_text(encoding="utf-8") == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_a_good_block_replaces_the_old_folder(tmp_path: Path) -> None:
    target = tmp_path / "state"
    for content in ("old", "new"):
        with atomic_folder(target) as folder:
            (folder / content).write_text(content, encoding="utf-8")
    assert [path.name for path in target.iterdir()] == ["new"]
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_what_a_crash_left_behind_is_swept_away(tmp_path: Path) -> None:
    (tmp_path / ".state.unfinished").mkdir()
    (tmp_path / ".state.unfinished" / "half").write_text("", encoding="utf-8")
    with atomic_folder(tmp_path / "state"):
        pass
    assert list((tmp_path / "state").iterdir()) == []


def test_a_full_disk_is_one_sentence(tmp_path: Path) -> None:
    with (
        pytest.raises(OSError, match=r"disk is full: .*state could not be written") as caught,
        atomic_folder(tmp_path / "state"),
    ):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert caught.value.errno == errno.ENOSPC
    assert list(tmp_path.iterdir()) == []
