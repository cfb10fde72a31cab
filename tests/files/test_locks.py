"""A lock belongs to one user at a time, and goes with him."""

import errno
import multiprocessing
import os
import signal
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from vaswani_transformer.files.locks import lock

TAKEN = ValueError("somebody else has it")


def _hold(path: Path, connection: Connection, fork: bool) -> None:
    with lock(path, TAKEN):
        helper = os.fork() if fork else os.getpid()
        if helper:
            connection.send(helper)
        signal.pause()


@pytest.mark.parametrize("fork", [False, True])
def test_a_process_that_is_killed_takes_its_lock_along_though_a_forked_helper_lives_on(fork: bool, tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    holder = context.Process(target=_hold, args=(tmp_path / "lock", there, fork))
    holder.start()
    helper = here.recv()
    try:
        with pytest.raises(ValueError, match="somebody else"), lock(tmp_path / "lock", TAKEN):
            pass
        holder.kill()
        holder.join()
        with lock(tmp_path / "lock", TAKEN):
            pass
    finally:
        if fork:
            os.kill(helper, signal.SIGKILL)


def test_one_process_has_a_lock_once(tmp_path: Path) -> None:
    with lock(tmp_path / "lock", TAKEN):
        with pytest.raises(ValueError, match="somebody else"), lock(tmp_path / "lock", TAKEN):
            pass
        with pytest.raises(ValueError, match="somebody else"), lock(tmp_path / "lock", TAKEN):
            pass  # nor did the refusal let go of it
    with lock(tmp_path / "lock", TAKEN):
        pass


def test_where_there_are_no_locks_nobody_is_kept_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(descriptor: int, operation: int) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("fcntl.flock", unknown)
    with lock(tmp_path / "lock", TAKEN), lock(tmp_path / "lock", TAKEN):
        pass


def test_a_folder_that_cannot_be_written_is_told_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, *arguments: int) -> int:
        raise OSError(errno.EROFS, "Read-only file system", str(path))

    monkeypatch.setattr("vaswani_transformer.files.locks.os.open", refuse)
    with pytest.raises(OSError, match="lock could not be written, nothing else changed"), lock(tmp_path / "lock", TAKEN):
        pass
