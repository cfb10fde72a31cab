"""Two machines, as far as one can have them: two network namespaces, a cable between them, and someone who pulls it."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from vaswani_transformer.recipe import Recipe
from vaswani_transformer.run_folder import RunFolder

ROOT = Path(__file__).parents[2]
HOSTS = {f"vaswani-{os.getpid()}-{side}": f"10.213.77.{number}" for number, side in enumerate("ab", start=1)}
"""Name and address of each."""
SCRIPT = """
import runpy, sys
from vaswani_transformer.training import watch
watch.SILENT_SIGNS = 3
runpy.run_module("vaswani_transformer", run_name="__main__")
"""
"""Less patience with the silent than in a real training."""


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


@pytest.fixture
def hosts() -> Iterator[list[str]]:
    """The names of two namespaces, which are gone afterwards whatever happens."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces are made by root")
    if shutil.which("ip") is None:
        pytest.skip("there is no `ip`; it comes with iproute2")
    names = list(HOSTS)
    try:
        try:
            for name in names:
                ip("netns", "add", name)
            ip("-n", names[0], "link", "add", "cable", "type", "veth", "peer", "cable", "netns", names[1])
        except subprocess.CalledProcessError as error:
            pytest.skip(f"this machine makes no network namespaces: {error.stderr.strip()}")
        for name, address in HOSTS.items():
            ip("-n", name, "address", "add", f"{address}/24", "dev", "cable")
            for device in ("lo", "cable"):
                ip("-n", name, "link", "set", device, "up")
        yield names
    finally:
        for name in names:
            with contextlib.suppress(subprocess.CalledProcessError):
                ip("netns", "delete", name)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[str, Path, Path], "subprocess.Popen[bytes]"]]:
    """Start one host's part of a training; all is killed in the end."""
    script = tmp_path / "train.py"
    script.write_text(SCRIPT, encoding="utf-8")
    started: list[subprocess.Popen[bytes]] = []

    def start_host(host: str, recipe: Path, run: Path) -> "subprocess.Popen[bytes]":
        elastic = ["--nnodes", "2", "--nproc-per-node", "1", "--rdzv-backend", "c10d", "--rdzv-id", run.name]
        # The names of machines mean nothing here; and the launcher, too, should not wait a minute for what is gone
        is_first = host == next(iter(HOSTS))
        here = ["--local-addr", HOSTS[host], "--rdzv-conf", f"read_timeout=15,is_host={is_first}"]
        meeting = ["--rdzv-endpoint", f"{next(iter(HOSTS.values()))}:29511"]
        arguments = [script, "train", recipe, "--run-folder", run]
        command = [
            sys.executable,
            "-m",
            "torch.distributed.run",
            *elastic,
            *here,
            *meeting,
            *map(str, arguments),
        ]
        interface = {"GLOO_SOCKET_IFNAME": "cable", "TP_SOCKET_IFNAME": "cable"}
        with open(tmp_path / f"{host[-1]}.txt", "wb") as words:
            started.append(
                subprocess.Popen(
                    ["ip", "netns", "exec", host, *command],
                    env={**os.environ, **interface, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
                    stdout=words,
                    stderr=words,
                    start_new_session=True,
                )
            )
        return started[-1]

    yield start_host
    for process in started:
        kill(process)


def kill(process: "subprocess.Popen[bytes]") -> None:
    """With all its children."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def files(run: RunFolder) -> list[bytes]:
    names = [run.state / "update-60" / f"{name}.safetensors" for name in ("model", "optimizer")]
    return [name.read_bytes() for name in (*names, run.averaged / "model.safetensors")]


def test_a_cut_cable_ends_the_training_and_it_resumes_to_the_same_bits(
    make_recipe: Callable[..., Recipe],
    hosts: list[str],
    start: Callable[[str, Path, Path], "subprocess.Popen[bytes]"],
    tmp_path: Path,
) -> None:
    """First the second host is lost to the first one, then, after both went on, the first to the second.

    It is the rank that must end in time. Where the machine is lost at which the hosts met, PyTorch's launcher itself is stuck for as long
    as the system goes on sending.
    """
    recipe = tmp_path / "recipe.yaml"
    settings = make_recipe(updates=60, checkpoint_every=10, validate_every=60)
    recipe.write_text(settings.to_yaml(), encoding="utf-8")
    run, undisturbed = RunFolder(tmp_path / "cut"), RunFolder(tmp_path / "undisturbed")
    for survivor, lost in ((0, 1), (1, 0)):
        known = set(run.state.glob("update-*"))
        processes = [start(host, recipe, run.path) for host in hosts]
        wait_until(lambda: bool(set(run.state.glob("update-*")) - known), processes, tmp_path)  # noqa: B023
        ip("-n", hosts[0], "link", "set", "cable", "down")
        kill(processes[lost])
        sentence = f"error: Rank {survivor} ends because rank {lost} has given no sign of life for 3 s"
        wait_until(lambda: sentence in words(tmp_path, survivor), processes[survivor:][:1], tmp_path)  # noqa: B023
        if survivor == 0:
            assert processes[0].wait(timeout=60) == 1
        kill(processes[survivor])
        ip("-n", hosts[0], "link", "set", "cable", "up")
    assert not (run.state / "update-60").exists()
    for again in (run, undisturbed):
        processes = [start(host, recipe, again.path) for host in hosts]
        assert [process.wait(timeout=600) for process in processes] == [0, 0], words(tmp_path, 0)
    assert files(run) == files(undisturbed)


def wait_until(condition: Callable[[], bool], processes: list["subprocess.Popen[bytes]"], folder: Path) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        ended = [process for process in processes if process.poll() is not None]
        assert time.monotonic() < deadline and not (ended and not condition()), words(folder, 0) + words(folder, 1)
        time.sleep(0.02)


def words(folder: Path, rank: int) -> str:
    return (folder / f"{'ab'[rank]}.txt").read_text(encoding="utf-8")
