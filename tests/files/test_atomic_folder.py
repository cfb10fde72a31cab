"""A folder is there as a whole or not at all."""

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from vaswani_transformer.files.atomic_file import write_text
from vaswani_transformer.files.atomic_folder import atomic_folder, explained, make_folder, new_folder, remove_folder, sweep


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


@pytest.mark.parametrize(
    ("number", "sentence"),
    [
        (errno.EDQUOT, "The quota is used up: .*state could not be written, nothing else changed; free some"),
        (errno.EFBIG, "The file is larger than this system lets it be: .*state could not be written"),
        (errno.EROFS, "The file system is read-only: .*state could not be written"),
    ],
)
def test_what_the_system_refuses_is_one_sentence(tmp_path: Path, number: int, sentence: str) -> None:
    with pytest.raises(OSError, match=sentence), explained(tmp_path / "state"):
        raise OSError(number, "as the system says it")
    with pytest.raises(OSError, match=sentence), explained(tmp_path / "state"):
        raise RuntimeError(f"a library's own words (os error {number})")


def test_only_what_may_not_be_written_is_told_so(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "one" / "recipe.yaml"
    for forbidden in (path.parent, path.parent.parent, path.with_name(".recipe.yaml.unfinished")):
        with pytest.raises(PermissionError, match=r"may not be written to: .*recipe"), explained(path):
            raise PermissionError(errno.EACCES, "Permission denied", str(forbidden))
    with pytest.raises(PermissionError, match=r"Permission denied: .*train\.en"), explained(path):
        raise PermissionError(errno.EACCES, "Permission denied", str(tmp_path / "train.en"))


def test_a_folder_goes_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "step-1").mkdir()
    (tmp_path / "step-1" / "a").write_text("", encoding="utf-8")
    seen = []
    monkeypatch.setattr("shutil.rmtree", lambda path, **_: seen.append([path.name for path in tmp_path.iterdir()]))
    remove_folder(tmp_path / "step-1")
    assert seen[-1] == [".step-1.unfinished"]


def test_sweeping_clears_what_crashes_left(tmp_path: Path) -> None:
    for name in ("state", ".half.unfinished", ".state.replaced", "deep/.half.unfinished"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / ".half.unfinished" / ".facts.json.unfinished").write_text("{", encoding="utf-8")
    (tmp_path / ".recipe.yaml.unfinished").write_text("na", encoding="utf-8")
    sweep(tmp_path)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["deep", "state"]


def test_sweeping_puts_back_what_was_about_to_be_replaced(tmp_path: Path) -> None:
    """The kill came when the old folder had made room, and the new one had not yet taken its place."""
    target = tmp_path / "averaged"
    with atomic_folder(target) as folder:
        (folder / "a").write_text("old", encoding="utf-8")
    target.rename(tmp_path / ".averaged.replaced")
    (tmp_path / ".averaged.unfinished").mkdir()
    sweep(tmp_path)
    assert (target / "a").read_text(encoding="utf-8") == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["averaged"]


def test_the_names_of_new_folders_are_on_the_disk_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed = []
    monkeypatch.setattr("vaswani_transformer.files.atomic_folder.flush_to_disk", flushed.append)
    make_folder(tmp_path / "a" / "b")
    assert flushed == [tmp_path, tmp_path / "a"]


def test_a_folder_in_use_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with new_folder(tmp_path / "empty") as unfinished:
        (unfinished / "file").write_text("mine")
    with pytest.raises(FileExistsError, match="exists and is not empty"), new_folder(tmp_path / "empty"):
        pass
    assert (tmp_path / "empty" / "file").read_text() == "mine"


def test_nothing_is_left_of_an_export_that_failed(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), new_folder(tmp_path / "out") as unfinished:
        (unfinished / "file").write_text("half")
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Path]:
    """A folder of somebody's, which links point to; it must be as it was in the end."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "precious").write_text("kept", encoding="utf-8")
    yield folder
    assert [(file.name, file.read_text(encoding="utf-8")) for file in folder.iterdir()] == [("precious", "kept")]


def _make(path: Path) -> None:
    with atomic_folder(path) as folder:
        (folder / "a").write_text("new", encoding="utf-8")


@pytest.mark.parametrize(
    ("work", "linked"),
    [
        *((_make, name) for name in ("step-1", ".step-1.unfinished", ".step-1.replaced")),
        *((remove_folder, name) for name in ("step-1", ".step-1.unfinished")),
    ],
)
def test_a_link_goes_and_what_it_points_to_stays(tmp_path: Path, elsewhere: Path, work: Callable[[Path], None], linked: str) -> None:
    runs = tmp_path / "runs"
    (runs / "step-1").mkdir(parents=True)
    if linked == "step-1":
        (runs / "step-1").rmdir()
    (runs / linked).symlink_to(elsewhere)
    work(runs / "step-1")
    sweep(runs)
    assert [path.name for path in runs.iterdir()] == (["step-1"] if work is _make else [])
    assert not any(path.is_symlink() for path in runs.rglob("*"))


def test_sweeping_follows_no_link(tmp_path: Path, elsewhere: Path) -> None:
    runs = tmp_path / "runs"
    (runs / "one").mkdir(parents=True)
    for name in (".half.unfinished", ".one.replaced", "one/.file.unfinished"):
        (runs / name).symlink_to(elsewhere)
    sweep(runs)
    assert [str(path.relative_to(runs)) for path in runs.rglob("*")] == ["one"]


def test_a_file_is_not_written_through_a_link(tmp_path: Path, elsewhere: Path) -> None:
    (tmp_path / ".facts.json.unfinished").symlink_to(elsewhere / "precious")
    write_text(tmp_path / "facts.json", "{}")
    assert (tmp_path / "facts.json").read_text(encoding="utf-8") == "{}"
    assert not (tmp_path / "facts.json").is_symlink()


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o027, 0o640), (0o077, 0o600)])
def test_files_have_the_mode_that_the_umask_asks_for(tmp_path: Path, umask: int, mode: int) -> None:
    """Also the private ones of libraries that write weights."""
    before = os.umask(umask)
    try:
        with atomic_folder(tmp_path / "averaged") as folder:
            (folder / "adapter").mkdir()
            for name in ("weights", "adapter/weights"):
                os.close(os.open(folder / name, os.O_CREAT | os.O_WRONLY, 0o600))
    finally:
        os.umask(before)
    assert {(tmp_path / "averaged" / name).stat().st_mode & 0o777 for name in ("weights", "adapter/weights")} == {mode}
