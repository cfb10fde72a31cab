"""What runs share: made once, the same for all, and never half of it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from vaswani_transformer.data import cache
from vaswani_transformer.data.cache import provide
from vaswani_transformer.files.atomic_folder import atomic_folder
from vaswani_transformer.files.checksums import CHECKSUMS, find_damage, write_checksums

FACTS = {"hashes": {"train.en": "12"}, "max_tokens": 256}


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VASWANI_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def maker(folder: Path, content: bytes = b"ids") -> Callable[[], None]:
    def make() -> None:
        with atomic_folder(folder) as unfinished:
            (unfinished / "source.bin").write_bytes(content)
            (unfinished / "index.json").write_text("{}", encoding="utf-8")
            write_checksums(unfinished)

    return make


def never() -> None:
    raise AssertionError("it is in the cache")


def content(folder: Path) -> dict[str, bytes]:
    assert find_damage(folder) is None
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.name != CHECKSUMS}


MADE = {"source.bin": b"ids", "index.json": b"{}"}


def entries(folder: Path) -> list[Path]:
    return sorted(path.parent for path in folder.rglob("index.json"))


def test_what_one_run_made_another_takes(tmp_path: Path, cache_folder: Path) -> None:
    provide(tmp_path / "a", "encoded", FACTS, maker(tmp_path / "a"))
    provide(tmp_path / "b", "encoded", dict(reversed(FACTS.items())), never)
    assert content(tmp_path / "a") == content(tmp_path / "b") == MADE
    assert len(entries(cache_folder)) == 1


@pytest.mark.parametrize("other", [{**FACTS, "max_tokens": 255}, {**FACTS, "hashes": {"train.en": "13"}}])
def test_other_facts_are_other_content(tmp_path: Path, cache_folder: Path, other: dict[str, object]) -> None:
    provide(tmp_path / "a", "encoded", FACTS, maker(tmp_path / "a"))
    provide(tmp_path / "b", "encoded", other, maker(tmp_path / "b", b"other"))
    assert content(tmp_path / "b")["source.bin"] == b"other"
    assert len(entries(cache_folder)) == 2


def test_other_code_may_give_other_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    provide(tmp_path / "a", "encoded", FACTS, maker(tmp_path / "a"))
    monkeypatch.setattr(cache, "version", lambda package: "99")
    provide(tmp_path / "b", "encoded", FACTS, maker(tmp_path / "b", b"other"))
    assert content(tmp_path / "b")["source.bin"] == b"other"


def test_every_file_of_the_code_counts_where_two_have_one_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "data"
    for name in ("cache.py", "__init__.py", "sources/__init__.py"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text("", encoding="utf-8")
    monkeypatch.setattr(cache, "__file__", str(package / "cache.py"))
    provide(tmp_path / "a", "encoded", FACTS, maker(tmp_path / "a"))
    (package / "__init__.py").write_text("changed = True\n", encoding="utf-8")
    provide(tmp_path / "b", "encoded", FACTS, maker(tmp_path / "b", b"other"))
    assert content(tmp_path / "b")["source.bin"] == b"other"


def test_a_run_folder_outlives_the_cache_and_the_other_way_round(tmp_path: Path, cache_folder: Path) -> None:
    for name, make in (("a", maker(tmp_path / "a")), ("b", never)):
        provide(tmp_path / name, "encoded", FACTS, make)
    for file in (tmp_path / "a").iterdir():
        file.unlink()
    assert content(tmp_path / "b") == MADE
    (entry,) = entries(cache_folder)
    for file in entry.iterdir():
        file.unlink()
    assert content(tmp_path / "b") == MADE


@pytest.mark.parametrize("shares_blocks", [True, False])
def test_a_change_in_one_run_reaches_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shares_blocks: bool) -> None:
    """Also where the system cannot copy within the file system."""

    def refuse(*arguments: object) -> int:
        raise OSError(18, "Invalid cross-device link")

    if not shares_blocks:
        monkeypatch.setattr(os, "copy_file_range", refuse)
    provide(tmp_path / "a", "encoded", FACTS, maker(tmp_path / "a"))
    provide(tmp_path / "b", "encoded", FACTS, never)
    for name in MADE:  # in place, as an editor of bytes does it
        with open(tmp_path / "a" / name, "r+b") as stream:
            stream.write(b"!")
    provide(tmp_path / "c", "encoded", FACTS, never)
    assert content(tmp_path / "b") == content(tmp_path / "c") == MADE


def test_a_user_has_a_folder_of_their_own(tmp_path: Path, cache_folder: Path) -> None:
    provide(tmp_path / "a", "encoded", FACTS, maker(tmp_path / "a"))
    (entry,) = entries(cache_folder)
    own = entry.parents[1]
    assert own.name == f"user-{os.getuid()}"
    assert own.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o750])
def test_a_folder_that_others_may_enter_is_not_used(tmp_path: Path, cache_folder: Path, mode: int) -> None:
    """Whoever can write data can write checksums that fit."""
    provide(tmp_path / "a", "encoded", FACTS, maker(tmp_path / "a", b"forged"))
    (entry,) = entries(cache_folder)
    entry.parents[1].chmod(mode)
    with pytest.warns(UserWarning, match="is not a folder of yours alone: remove it, or give it back"):
        provide(tmp_path / "b", "encoded", FACTS, maker(tmp_path / "b"))
    assert content(tmp_path / "b") == MADE


def test_a_folder_of_another_user_is_not_used(tmp_path: Path, cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    provide(tmp_path / "a", "encoded", FACTS, maker(tmp_path / "a", b"forged"))
    (entry,) = entries(cache_folder)
    entry.parents[1].rename(entry.parents[2] / "user-99999")
    monkeypatch.setattr(os, "getuid", lambda: 99999)
    with pytest.warns(UserWarning, match="user-99999 is not a folder of yours alone"):
        provide(tmp_path / "b", "encoded", FACTS, maker(tmp_path / "b"))
    assert content(tmp_path / "b") == MADE


def test_a_link_to_a_folder_is_not_used(tmp_path: Path, cache_folder: Path) -> None:
    provide(tmp_path / "a", "encoded", FACTS, maker(tmp_path / "a", b"forged"))
    (entry,) = entries(cache_folder)
    own = entry.parents[1]
    own.rename(tmp_path / "elsewhere")
    own.symlink_to(tmp_path / "elsewhere")
    with pytest.warns(UserWarning, match="is not a folder of yours alone"):
        provide(tmp_path / "b", "encoded", FACTS, maker(tmp_path / "b"))
    assert content(tmp_path / "b") == MADE


@pytest.mark.parametrize("damage", [b"idz", b"id", None])
def test_damaged_content_is_made_anew(tmp_path: Path, cache_folder: Path, damage: bytes | None) -> None:
    provide(tmp_path / "a", "encoded", FACTS, maker(tmp_path / "a"))
    (entry,) = entries(cache_folder)
    (entry / "source.bin").unlink()
    if damage is not None:
        (entry / "source.bin").write_bytes(damage)
    with pytest.warns(UserWarning, match=r"source\.bin is .*made again"):
        provide(tmp_path / "b", "encoded", FACTS, maker(tmp_path / "b"))
    provide(tmp_path / "c", "encoded", FACTS, never)
    assert content(tmp_path / "c") == MADE


@pytest.mark.parametrize("step", ["shutil.copytree", "os.copy_file_range", "os.rename", "discard"])
def test_a_crash_while_keeping_leaves_nothing_that_is_used(
    tmp_path: Path, cache_folder: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Nor is what a kill leaves behind taken for content."""

    def stop(*arguments: object, **settings: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(f"vaswani_transformer.data.cache.{step}", stop)
        with pytest.raises(KeyboardInterrupt):
            cache._keep(_made(tmp_path / "a"), cache._entry("encoded", FACTS))
    provide(tmp_path / "b", "encoded", FACTS, maker(tmp_path / "b", b"other"))
    assert content(tmp_path / "b")["source.bin"] == b"other"


def _made(folder: Path) -> Path:
    maker(folder)()
    return folder


def test_a_failure_while_making_keeps_nothing(tmp_path: Path, cache_folder: Path) -> None:
    def fail() -> None:
        raise ValueError("no pairs")

    with pytest.raises(ValueError, match="no pairs"):
        provide(tmp_path / "a", "encoded", FACTS, fail)
    assert not entries(cache_folder)


def test_unknown_content_and_a_cache_that_is_off_share_nothing(tmp_path: Path, cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    provide(tmp_path / "a", "encoded", None, maker(tmp_path / "a"))
    monkeypatch.setenv("VASWANI_CACHE", "off")
    provide(tmp_path / "b", "encoded", FACTS, maker(tmp_path / "b"))
    assert content(tmp_path / "b") == MADE
    assert not cache_folder.exists()


def test_a_cache_that_cannot_be_written_is_told_and_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VASWANI_CACHE", "/proc/nowhere")
    with pytest.warns(UserWarning, match=r"not shared with other runs: .*Set VASWANI_CACHE to"):
        provide(tmp_path / "a", "encoded", FACTS, maker(tmp_path / "a"))
    assert content(tmp_path / "a") == MADE
