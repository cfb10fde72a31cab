"""The faults that a training must survive. Each does its harm and checks what the training says about it; going on to the end, and
comparing with a training that nothing disturbed, is left to the caller.
"""

import os
import random
import resource
import shutil
import signal
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tests.torture.processes import STAGES, Child, killing_itself
from vaswani_transformer.run_folder import RunFolder
from vaswani_transformer.training.loss import Losses, TranslationLoss
from vaswani_transformer.training.state import newest_state

Program = Callable[..., Callable[[], Any]]
"""`program(run, *settings)` is the whole training, to be done by a child."""


class NotSurvived(AssertionError):
    """A training did not answer a fault as it should; the sentence says how it did."""


class Missed(Exception):
    """The training never came to where the fault lay in wait, or had ended before: nothing has been tried."""


@dataclass(frozen=True)
class World:
    """What a fault works with.

    Attributes:
        program: the training.
        folder: for this fault alone; everything is left in it.
        seconds: how long an undisturbed training takes.
        size: bytes that it leaves.
        largest: bytes of the largest file among them.
        micro_batches: how many it computes.
        lines: how many lines of code each stage of it executes.
        grace: seconds within which a training that is told to stop must be gone.
        number: counts the faults of one kind.
        random: decides when and where.
    """

    program: Program
    folder: Path
    seconds: float
    size: int
    largest: int
    micro_batches: int
    lines: dict[str, int]
    grace: float
    number: int
    random: random.Random

    @property
    def disk(self) -> Path:
        """What the run folder lies in, alone."""
        return self.folder / "disk"

    @property
    def run(self) -> RunFolder:
        return RunFolder(self.disk / "run")

    @property
    def patience(self) -> float:
        """Seconds after which a training hangs."""
        return 60 + 20 * self.seconds

    def start(self, program: Callable[[], Any]) -> Child:
        return Child(program, self.folder / "said")

    def finish(self, program: Callable[[], Any]) -> tuple[int, str]:
        """Exit status and words of a child that is left alone."""
        child = self.start(program)
        return self.await_end(child, self.patience), child.words

    def await_end(self, child: Child, seconds: float) -> int:
        status = child.wait(seconds)
        if status is None:
            child.send(signal.SIGKILL)
            child.wait(seconds)
            raise NotSurvived(f"it still ran {seconds:.0f} s later and had said: {child.words}")
        return status

    def go_on(self, *settings: str) -> None:
        """Run the training to its end."""
        status, words = self.finish(self.program(self.run, *settings))
        if status != 0:
            raise NotSurvived(f"going on ended with status {status}: {words}")

    def refuses(self, program: Callable[[], Any], *expected: str) -> None:
        """Run a child that must end with one sentence, in which all of `expected` occur."""
        status, words = self.finish(program)
        sentence = words.strip().splitlines()[-1] if words.strip() else ""
        if status != 1 or "Traceback" in words or not sentence.startswith("error: "):
            raise NotSurvived(f"not one sentence, but status {status} and: {words}")
        if missing := [part for part in expected if part not in sentence]:
            raise NotSurvived(f"{missing} should be in the sentence: {sentence}")


Fault = Callable[[World], str]
"""Does the harm and returns a phrase that says where it struck."""


def killed_at_a_line(world: World) -> str:
    """kill -9 at a line of code"""
    stage = list(STAGES)[world.number % len(STAGES)]
    number = world.random.randint(1, world.lines[stage])
    place = world.folder / "place"
    status, words = world.finish(killing_itself(world.program(world.run), stage, number, place))
    if status == 0:
        raise Missed
    if status != -signal.SIGKILL:
        raise NotSurvived(f"not killed at line {number} of {STAGES[stage]}, but status {status}: {words}")
    return f"{STAGES[stage]}, {place.read_text(encoding='utf-8')}"


def killed_at_an_instant(world: World) -> str:
    """kill -9 at an instant"""
    moment = world.random.uniform(0, world.seconds)
    child = world.start(world.program(world.run))
    if child.wait(moment) is not None:
        raise Missed
    child.send(signal.SIGKILL)
    world.await_end(child, world.patience)
    return f"after {moment:.2f} s"


def told_to_stop(world: World, number: signal.Signals) -> str:
    """Send a signal at a random instant; within the grace time the process must have saved and gone."""
    moment = world.random.uniform(0.1, 1) * world.seconds
    child = world.start(world.program(world.run))
    if child.wait(moment) is not None:
        raise Missed
    child.send(number)
    status = world.await_end(child, world.grace)
    if "Stopped after update" in child.words:
        update = child.words.rpartition("Stopped after update ")[2].split()[0]
        newest = newest_state(world.run.state)
        if status != 130 or newest is None or newest.name != f"update-{update}":
            raise NotSurvived(f"status {status}, the newest state is {newest}, and it said: {child.words}")
        return f"after {moment:.2f} s, saved update {update}"
    # Before the first update and after the last nothing has to be saved, and SIGTERM may end the process as it always does
    if status not in (0, 130, -number) or "Traceback" in child.words:
        raise NotSurvived(f"status {status} and: {child.words}")
    return f"after {moment:.2f} s, nothing to save"


def sigterm(world: World) -> str:
    """SIGTERM"""
    return told_to_stop(world, signal.SIGTERM)


def sigint(world: World) -> str:
    """SIGINT"""
    return told_to_stop(world, signal.SIGINT)


def disk_full(world: World) -> str:
    """disk full"""
    share = world.random.uniform(0.02, 0.9)
    if may_mount():
        place = f"size={int(share * world.size)}"
        with _mounted(world.disk, "-t", "tmpfs", "-o", place, "tmpfs"):
            world.refuses(world.program(world.run), "disk is full", "could not be written")
            # What is there goes on on a larger disk: the one below
            shutil.copytree(world.disk, world.folder / "saved", dirs_exist_ok=True)
        shutil.copytree(world.folder / "saved", world.disk, dirs_exist_ok=True)
        return f"with {share:.0%} of the place that it needs"
    largest = int(share * world.largest)

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, resource.RLIM_INFINITY))
        world.program(world.run)()

    world.refuses(limited, "larger than this system lets it be", "could not be written")
    return f"with files of {largest} bytes at most"


def read_only(world: World) -> str:
    """read-only output"""
    _interrupt_late(world)
    before = _looks(world.run.path)
    with _read_only(world.disk):
        world.refuses(world.program(world.run), "could not be written")
    if _looks(world.run.path) != before:
        raise NotSurvived("files changed in a folder that may not be written")
    return "when it was gone on with"


def out_of_memory(world: World) -> str:
    """out of memory in one batch"""
    number = world.random.randint(1, world.micro_batches)

    def allocate(losses: Losses) -> Losses:
        torch.empty(2**62, dtype=torch.uint8)  # refused by the allocator itself
        return losses

    remedies = "training.gradient_checkpointing", "batching.micro_batches", "batching.source_tokens"
    program = _at_micro_batch(world.program(world.run), number, allocate)
    world.refuses(program, "ran out of memory in a micro-batch of", "pairs", "target tokens", *remedies)
    world.go_on("training.gradient_checkpointing=true")
    return f"in micro-batch {number}, gone on with gradient checkpointing"


def not_a_number(world: World) -> str:
    """loss not finite"""
    number = world.random.randint(1, world.micro_batches)

    def spoil(losses: Losses) -> Losses:
        return losses._replace(smoothed=losses.smoothed * float("nan"))

    program = _at_micro_batch(world.program(world.run), number, spoil)
    world.refuses(program, "is not finite", "the last saved state is kept")
    return f"in micro-batch {number}"


def damaged_state(world: World) -> str:
    """damaged state"""
    _interrupt_late(world)
    newest = newest_state(world.run.state)
    assert newest is not None
    what = _damage(newest, world.random)
    world.refuses(world.program(world.run), f"delete {newest} and run the same command", "resumes from")
    shutil.rmtree(newest)
    return what


def damaged_checkpoint(world: World) -> str:
    """damaged checkpoint"""
    _interrupt_late(world)
    newest = max(world.run.checkpoints.iterdir(), key=lambda path: path.stat().st_mtime_ns)
    good = shutil.copytree(newest, world.folder / "good")
    what = _damage(newest, world.random)
    world.refuses(world.program(world.run), str(newest), "put back a good copy")
    shutil.rmtree(newest)
    shutil.copytree(good, newest)
    return what


def second_training(world: World) -> str:
    """a second training in the same folder"""
    first = world.start(world.program(world.run))
    while not world.run.recipe.exists() and first.wait(0.01) is None:
        pass
    first.send(signal.SIGSTOP)
    try:
        second = Child(world.program(world.run), world.folder / "said by the second")
        status = world.await_end(second, world.patience)
    finally:
        first.send(signal.SIGCONT)
    if status != 1 or "Another process is training" not in second.words:
        raise NotSurvived(f"the second began: status {status} and: {second.words}")
    if world.await_end(first, world.patience):
        raise NotSurvived(f"the first did not end well: {first.words}")
    return "which is refused"


def may_mount() -> bool:
    return os.geteuid() == 0 and shutil.which("mount") is not None


def _interrupt_late(world: World) -> None:
    """Kill the training in one of its last updates, when it has saved more than once."""
    stage, place = "Updater.run", world.folder / "place"
    number = int(world.lines[stage] * world.random.uniform(0.8, 0.95))
    world.finish(killing_itself(world.program(world.run), stage, number, place))


def _at_micro_batch(program: Callable[[], Any], number: int, harm: Callable[[Losses], Losses]) -> Callable[[], Any]:
    """`program`, in which `harm` befalls the losses of one micro-batch of the training, counted from 1."""
    forward, seen = TranslationLoss.forward, 0

    def harmed(self: TranslationLoss, *arguments: Any, **named: Any) -> Losses:
        nonlocal seen
        losses = forward(self, *arguments, **named)
        seen += self.training
        return harm(losses) if self.training and seen == number else losses

    def run() -> None:
        TranslationLoss.forward = harmed  # type: ignore[method-assign]
        program()

    return run


def _damage(folder: Path, chance: random.Random) -> str:
    """Flip a bit of a file, or cut the file off; returns what was done."""
    file = chance.choice(sorted(folder.iterdir()))
    content = bytearray(file.read_bytes())
    position = chance.randrange(len(content))
    if chance.random() < 0.5:
        file.write_bytes(content[:position])
        return f"{file.name} cut off after {position} of {len(content)} bytes"
    content[position] ^= 1 << chance.randrange(8)
    file.write_bytes(content)
    return f"{file.name} with a bit flipped in byte {position}"


@contextmanager
def _mounted(place: Path, *arguments: str) -> Iterator[None]:
    subprocess.run(["mount", *arguments, str(place)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(place)], check=True)


@contextmanager
def _read_only(place: Path) -> Iterator[None]:
    """The superuser may write whatever the mode says, so for him the folder is mounted onto itself."""
    if may_mount():
        with _mounted(place, "--bind", str(place)):
            subprocess.run(["mount", "-o", "remount,bind,ro", str(place)], check=True)
            yield
        return
    modes = {path: path.stat().st_mode for path in place.rglob("*")}
    for path, mode in modes.items():
        path.chmod(mode & ~(stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH))
    try:
        yield
    finally:
        for path, mode in modes.items():
            path.chmod(mode)


def _looks(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
