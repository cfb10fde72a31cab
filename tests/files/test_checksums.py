"""Whatever happens to a folder's files or to their list is found, and `sha256sum` agrees."""

import shutil
import subprocess
from pathlib import Path

import pytest

from vaswani_transformer.files.checksums import CHECKSUMS, find_damage, verify, write_checksums


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "abc").write_bytes(b"abc")
    (tmp_path / "empty").write_bytes(b"")
    write_checksums(tmp_path)
    return tmp_path


def test_the_hashes_are_the_published_ones(folder: Path) -> None:
    """FIPS 180-2, appendix B.1, and the hash of nothing."""
    assert (folder / CHECKSUMS).read_text(encoding="utf-8") == (
        "# 2 files\n"
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  abc\n"
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  empty\n"
    )
    assert find_damage(folder, ["abc", "empty"]) is None


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="there is no sha256sum here")
def test_sha256sum_reads_the_list(folder: Path) -> None:
    subprocess.run(["sha256sum", "--check", "--strict", CHECKSUMS], cwd=folder, check=True)


@pytest.mark.parametrize("name", ["abc", CHECKSUMS])
def test_every_flipped_bit_and_every_cut_is_found(folder: Path, name: str) -> None:
    good = (folder / name).read_bytes()
    for position in range(len(good)):
        (folder / name).write_bytes(good[:position])
        assert find_damage(folder, ["abc"]) is not None
        for bit in range(8):
            flipped = bytearray(good)
            flipped[position] ^= 1 << bit
            (folder / name).write_bytes(flipped)
            assert find_damage(folder, ["abc"]) is not None, (position, bit)


def test_what_is_missing_is_named(folder: Path) -> None:
    assert find_damage(folder, ["def"]) == f"{folder / 'def'} is missing"
    (folder / "def").write_bytes(b"")
    assert find_damage(folder, ["def"]) == f"{folder / CHECKSUMS} is damaged: def is not in it"
    (folder / "empty").unlink()
    assert find_damage(folder, ["abc"]) == f"{folder / 'empty'} is missing"
    (folder / CHECKSUMS).unlink()
    assert find_damage(folder, ["abc"]) == f"{folder / CHECKSUMS} is missing"


def test_files_that_came_later_do_not_matter(folder: Path) -> None:
    (folder / "README.md").write_text("mine", encoding="utf-8")
    assert find_damage(folder, ["abc"]) is None


def test_a_folder_without_a_list_passes_and_a_damaged_one_is_told(folder: Path) -> None:
    verify(folder)
    (folder / "abc").write_bytes(b"abd")
    with pytest.raises(
        ValueError, match=r"abc is damaged: .*; put back a good copy, or, if you changed it yourself, delete .*SHA256SUMS\.$"
    ):
        verify(folder)
    (folder / CHECKSUMS).unlink()
    verify(folder)


def test_weights_that_are_not_in_the_list_are_told(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"")
    with pytest.raises(ValueError, match=r"SHA256SUMS is damaged: model\.safetensors is not in it"):
        verify(folder)


def test_a_list_that_is_a_dead_link_does_not_pass(folder: Path) -> None:
    (folder / CHECKSUMS).unlink()
    (folder / CHECKSUMS).symlink_to(folder / "nowhere")
    with pytest.raises(ValueError, match="SHA256SUMS is missing"):
        verify(folder)
