"""The torture of a training: one run that nothing disturbs, then run after run with a fault, each of which must end at the same bits."""

import json
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.torture import faults
from tests.torture.faults import Fault, Missed, NotSurvived, World
from tests.torture.outcome import differences, outcome
from tests.torture.processes import STAGES, counting_lines, module
from vaswani_transformer.data.builtin.corpus import builtin_pairs
from vaswani_transformer.data.cache import CACHE
from vaswani_transformer.files.atomic_file import write_text
from vaswani_transformer.recipe import Recipe, parse_recipe
from vaswani_transformer.run_folder import RunFolder

KILLS: tuple[Fault, ...] = (faults.killed_at_a_line, faults.killed_at_an_instant)
OTHERS: tuple[Fault, ...] = (
    faults.sigterm, faults.sigint, faults.disk_full, faults.read_only, faults.out_of_memory, faults.not_a_number,
    faults.damaged_state, faults.damaged_checkpoint, faults.second_training,
)  # fmt: skip


_MOST_ATTEMPTS = 5
"""How often a fault may miss its training before it is given up."""
_DIFFERENCES_TOLD = 3


@dataclass(frozen=True)
class TortureSettings:
    """How often, and with which luck.

    Attributes:
        kills: processes to kill, half of them at lines of code and half at instants.
        others: how often each other fault is done.
        seed: of when and where.
        grace: seconds that a process has to leave after a signal.
    """

    kills: int = 60
    others: int = 4
    seed: int = 1
    grace: float = 10.0


def tiny_recipe() -> Recipe:
    """Twelve updates on just enough of the built-in corpus for several processes to prepare it, with everything that a training writes."""
    return parse_recipe({
        "name": "tortured",
        "source_language": "en",
        "target_language": "de",
        "data": {
            "train": [{"format": "builtin", "split": "train", "limit": 1200}],
            "validation": {"format": "builtin", "split": "validation", "limit": 4},
            "test": {},
        },
        "tokenizer": {"vocab_size": 300},
        "model": {
            "preset": "tiny", "d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
            "decoder_attention_heads": 2, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "dropout": 0.1,
        },
        "batching": {"source_tokens": 1024, "target_tokens": 1024, "micro_batches": 2},
        "training": {
            "updates": 12, "warmup_updates": 4, "log_every": 2, "validate_every": 6, "checkpoint_every": 3,
            "average_checkpoints": 3,
        },
        "search": {"num_beams": 2, "extra_length": 5},
    })  # fmt: skip


def torture(recipe: Recipe, folder: Path, settings: TortureSettings) -> bool:
    """Do every fault to a training of its own, tell on the standard output how each ended, and how many were survived.

    A fault is survived if the training said what had to be said, and then, going on with the same command, left what the undisturbed one
    left: the same files with the same bytes, apart from seconds and rates in the log. Where one is not, its folder stays.

    Args:
        recipe: short, for it is trained over and over, yet with several states and at least one checkpoint that is averaged in the end.
        folder: where the trainings take place.
        settings: see there.

    Returns:
        Whether all faults were survived.

    Raises:
        RuntimeError: processes cannot be forked here, or two undisturbed trainings are not equal.
    """
    for path in (folder / "reference", folder / "faults"):
        shutil.rmtree(path, ignore_errors=True)
    write_text(folder / "recipe.yaml", recipe.to_yaml())
    next(builtin_pairs("train", 1))  # once, for all children

    def program(run: RunFolder, *overrides: str) -> Callable[[], Any]:
        changes = [part for override in overrides for part in ("--set", override)]
        arguments = ("train", folder / "recipe.yaml", "--run-folder", run.path, *changes)
        # Each training prepares its data itself, and those who go on find what was cached before
        return module("vaswani_transformer", *arguments, environment={CACHE: str(run.path.parent.with_name("cache"))})

    blank = World(
        program, folder / "reference", seconds=60.0, size=0, largest=0, lines={}, grace=settings.grace, number=0,
        random=random.Random(settings.seed), micro_batches=recipe.training.updates * recipe.batching.micro_batches,
    )  # fmt: skip
    expected, world = _undisturbed(blank)
    print(f"Undisturbed: {world.seconds:.1f} s, {world.size:,} bytes, {sum(world.lines.values()):,} lines of code.")
    survived, done = _survive_all(world, expected, folder / "faults", settings)
    print("\nsurvived  of  fault")
    for name, count in done.items():
        print(f"{survived[name]:8d} {count:3d}  {name}")
    print(f"{survived.total():8d} {done.total():3d}  in all")
    return survived == done


def _undisturbed(world: World) -> tuple[dict[str, Any], World]:
    """Train twice, once with lines counted; what comes out, and the world with what was measured."""
    program, counts = world.program(world.run), world.folder / "lines.json"
    world.disk.mkdir(parents=True)
    _train(world, counting_lines(program, counts))
    counted = outcome(world.run)
    shutil.rmtree(world.run.path)
    shutil.rmtree(world.folder / "cache")
    started = time.monotonic()
    _train(world, program)
    seconds = time.monotonic() - started
    expected = outcome(world.run)
    if told := differences(expected, counted):
        raise RuntimeError(f"Two undisturbed trainings are not equal: {'; '.join(told)}")
    lines = json.loads(counts.read_text(encoding="utf-8"))
    if missing := STAGES.keys() - lines.keys():
        raise RuntimeError(f"The training never came by {', '.join(sorted(missing))}.")
    sizes = [path.stat().st_size for path in world.run.path.rglob("*") if path.is_file()]
    return expected, replace(world, seconds=seconds, size=sum(sizes), largest=max(sizes), lines=lines)


def _train(world: World, program: Callable[[], Any]) -> None:
    status, words = world.finish(program)
    if status:
        raise RuntimeError(f"The undisturbed training ended with status {status}: {words}")


def _survive_all(world: World, expected: dict[str, Any], folder: Path, settings: TortureSettings) -> tuple[Counter[str], Counter[str]]:
    """How many faults of each kind were survived, and how many there were."""
    survived: Counter[str] = Counter()
    done: Counter[str] = Counter()
    wanted = {**dict.fromkeys(KILLS, settings.kills // len(KILLS)), **dict.fromkeys(OTHERS, settings.others)}
    for fault, count in wanted.items():
        for attempt in range(_MOST_ATTEMPTS * count):
            if done[_name(fault)] >= count:
                break
            name = f"{fault.__name__}_{attempt:03d}"
            chance = random.Random(f"{settings.seed} {name}")
            own = replace(world, folder=folder / name, number=attempt, random=chance)
            # Who is killed may be killed again while he goes on
            again = (own.random.choice(KILLS),) if fault in KILLS and attempt % 3 == 0 else ()
            struck, lost = _survive((fault, *again), own, expected)
            done.update(kind for kind, _ in struck)
            survived.update([] if lost else (kind for kind, _ in struck))
            if struck:
                told = "; then ".join(f"{kind}: {where}" for kind, where in struck)
                verdict = f"NOT SURVIVED, see {own.folder}: {lost}" if lost else "survived"
                print(f"{done.total():4d}  {told}: {verdict}", flush=True)
    return survived, done


def _survive(faults: Sequence[Fault], world: World, expected: dict[str, Any]) -> tuple[list[tuple[str, str]], str]:
    """The names of the faults that struck with where they did, and what was lost, if anything."""
    world.disk.mkdir(parents=True)
    struck: list[tuple[str, str]] = []
    lost = ""
    try:
        for fault in faults:
            struck.append((_name(fault), "somewhere"))
            try:
                struck[-1] = (_name(fault), fault(world))
            except Missed:
                struck.pop()
        world.go_on()
        lost = "; ".join(differences(expected, outcome(world.run))[:_DIFFERENCES_TOLD])
    except (NotSurvived, ValueError) as error:
        lost = str(error)
    if not lost:
        shutil.rmtree(world.folder)
    return struck, lost


def _name(fault: Fault) -> str:
    return str(fault.__doc__)
