"""Several ranks: the same result however many there are, whole or in parts, and no rank that waits for ever."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tests.training.test_distillation import write_teacher
from vaswani_transformer.data.batching import BatchStream
from vaswani_transformer.data.encoding import EncodedCorpus
from vaswani_transformer.data.sources.plain_lines import PlainLinesCorpus
from vaswani_transformer.files.json_files import read_json
from vaswani_transformer.recipe import DistillationSettings, Recipe, SearchSettings
from vaswani_transformer.run_folder import RunFolder

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}

Launch = Callable[..., list[RunFolder]]
"""Train one recipe as several jobs of `in_ranks.py`, named by their run folders."""


@pytest.fixture(scope="module")
def launcher() -> Iterator["subprocess.Popen[str]"]:
    """PyTorch is loaded once for all jobs of this file."""
    command = [sys.executable, str(ROOT / "tests" / "training" / "in_ranks.py")]
    with subprocess.Popen(command, env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process


@pytest.fixture
def launch(launcher: "subprocess.Popen[str]", tmp_path: Path) -> Launch:
    def launch_jobs(**jobs: dict[str, Any]) -> list[RunFolder]:
        runs = [RunFolder(tmp_path / name) for name in jobs]
        for (name, job), run in zip(jobs.items(), runs, strict=True):
            recipe = tmp_path / f"{name}.yaml"
            recipe.write_text(job["recipe"].to_yaml(), encoding="utf-8")
            described = {**job, "recipe": str(recipe), "run": str(run.path)}
            print(json.dumps(described), file=launcher.stdin, flush=True)
            assert launcher.stdout is not None and launcher.stdout.readline() == "done\n"
        return runs

    return launch_jobs


def words(run: RunFolder, rank: int) -> str:
    return (run.path / f"rank-{rank}.txt").read_text(encoding="utf-8")


def assert_all_ended_well(*runs: RunFolder) -> None:
    for run in runs:
        ends = read_json(run.path / "ends.json")
        told = "\n".join(words(run, rank) for rank in range(len(ends)))
        assert [status for status, _ in ends] == [0] * len(ends), told


def saved(run: RunFolder, update: int) -> dict[str, torch.Tensor]:
    folder = run.state / f"update-{update}"
    return load_file(folder / "model.safetensors") | load_file(folder / "optimizer.safetensors")


def files(run: RunFolder, update: int) -> list[bytes]:
    names = [run.state / f"update-{update}" / f"{name}.safetensors" for name in ("model", "optimizer")]
    return [name.read_bytes() for name in (*names, run.checkpoint(update) / "model.safetensors")]


def test_the_processes_of_a_job_train_once(make_recipe: Callable[..., Recipe], launch: Launch) -> None:
    (run,) = launch(twice={"ranks": 2, "recipe": make_recipe(updates=2), "twice": True})
    assert [status for status, _ in read_json(run.path / "ends.json")] == [1, 1]
    for rank in (0, 1):
        assert "error: A job of several processes trains once, and this one has" in words(run, rank)
    assert run.averaged.is_dir()


def test_ranks_share_the_translating_of_a_teacher(make_recipe: Callable[..., Recipe], launch: Launch, tmp_path: Path) -> None:
    recipe = make_recipe(updates=2)
    settings = DistillationSettings(str(write_teacher(tmp_path / "teacher")), best=2)
    taught = replace(recipe, data=replace(recipe.data, distillation=settings))
    runs = launch(alone={"ranks": 1, "recipe": taught}, together={"ranks": 2, "recipe": taught})
    assert_all_ended_well(*runs)
    one, two = ({file.name: file.read_bytes() for file in run.distilled.iterdir()} for run in runs)
    assert one == two
    again = launch(together={"ranks": 2, "recipe": replace(taught, training=replace(taught.training, updates=4))})
    assert_all_ended_well(*again)
    assert words(again[0], 0).count("translates the training sources") == 0


def test_ranks_accumulation_and_sharding_give_the_same_parameters(make_recipe: Callable[..., Recipe], launch: Launch) -> None:
    """Four micro-batches, by one rank in four steps, by two in two, by four in one; after 20 updates in float64.

    The corpus ends in the middle of an update, so that the ranks' shares of an epoch are not of the same size.
    """
    batching = {"source_tokens": 208, "target_tokens": 208, "micro_batches": 4}
    settings = {"learning_rate_scale": 0.05, "validate_every": 20, "checkpoint_every": 20}
    recipe = make_recipe(batching, updates=20, **settings)
    ranks = {"one": 1, "two": 2, "four": 4, "two_sharded": 2, "four_sharded": 4}
    jobs = {name: {"recipe": recipe, "ranks": count, "float64": True, "sharded": "sharded" in name} for name, count in ranks.items()}
    one, *others = launch(**jobs)
    assert_all_ended_well(one, *others)
    corpus = EncodedCorpus.open(one.encoded / "train")
    stream = BatchStream(corpus.source_lengths, corpus.target_lengths, **batching)
    assert round(4 / stream.epoch_of(1)) % 4  # micro-batches of an epoch
    expected = saved(one, 20)
    assert {tensor.dtype for name, tensor in expected.items() if "step" not in name} == {torch.float64}
    for run in others:
        found = saved(run, 20)
        assert found.keys() == expected.keys()
        for name, tensor in expected.items():
            torch.testing.assert_close(found[name], tensor, rtol=0, atol=1e-12)
    two, _, two_sharded, _ = others
    assert files(two_sharded, 20) == files(two, 20)


@pytest.mark.parametrize("kind", ["marked answers", "masking"])
def test_an_encoder_trains_in_parts_too(
    kind: str, make_recipe: Callable[..., Recipe], make_answers: Callable[..., Recipe], launch: Launch
) -> None:
    settings = {"updates": 4, "learning_rate_scale": 0.05, "r_drop": 1.0}
    recipe = make_answers(**settings)
    if kind == "masking":
        plain = make_recipe(**settings)
        side = [PlainLinesCorpus(path=f"{name}.en") for name in ("train", "validation")]
        data, training = replace(plain.data, train=(side[0],), validation=side[1]), replace(plain.training, best_checkpoint_metric=None)
        recipe = replace(plain, task="pretraining", target_language="", data=data, training=training, search=SearchSettings())
    runs = launch(whole={"recipe": recipe, "ranks": 2}, parts={"recipe": recipe, "ranks": 2, "sharded": True})
    assert_all_ended_well(*runs)
    assert files(runs[1], 4) == files(runs[0], 4)


def test_ranks_cut_words_alike(make_recipe: Callable[..., Recipe], launch: Launch) -> None:
    """With BPE-dropout no rank knows what another one draws, and an epoch ends inside an update."""
    batching = {"source_tokens": 400, "target_tokens": 400, "micro_batches": 4}
    tokenizer = {"vocab_size": 290, "bpe_dropout": 0.3}
    settings = {"updates": 8, "learning_rate_scale": 0.05, "validate_every": 8, "checkpoint_every": 8}
    recipe = make_recipe(batching, fine={"tokenizer": tokenizer}, **settings)
    one, two = launch(**{f"cut_by_{ranks}": {"recipe": recipe, "ranks": ranks, "float64": True} for ranks in (1, 2)})
    assert_all_ended_well(one, two)
    expected, found = saved(one, 8), saved(two, 8)
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, rtol=0, atol=1e-12)
    facts = [read_json(run.training) for run in (one, two)]
    assert facts[0]["target_tokens"] == facts[1]["target_tokens"] and facts[0]["epochs"] == facts[1]["epochs"] > 2


@pytest.mark.parametrize("first_sharded", [False, True])
def test_a_state_goes_on_whole_or_in_parts(first_sharded: bool, make_recipe: Callable[..., Recipe], launch: Launch, tmp_path: Path) -> None:
    """To the same bits as if nothing had changed, in float32 and with the norm of the gradients clipped."""
    settings = {"checkpoint_every": 3, "validate_every": 3, "max_gradient_norm": 1e9, "ema_decay": 0.75, "weight_decay": 0.1}
    whole = {"recipe": make_recipe(updates=6, **settings), "ranks": 2}
    begun = {"recipe": make_recipe(updates=3, **settings), "ranks": 2, "sharded": first_sharded}
    runs = launch(undisturbed=whole, changed=begun)
    runs += launch(changed={**whole, "sharded": not first_sharded})
    assert_all_ended_well(*runs)
    assert "Resuming after update 3" in words(runs[2], 0)
    assert files(runs[2], 6) == files(runs[0], 6)


@pytest.mark.parametrize("settings", [{"precision": "bfloat16"}, {"gradient_checkpointing": True, "r_drop": 2.5}, {"optimizer": "muon"}])
def test_options_train_in_parts_too(settings: dict[str, Any], make_recipe: Callable[..., Recipe], launch: Launch) -> None:
    recipe = make_recipe(updates=4, learning_rate_scale=0.05, **settings)
    runs = launch(whole={"recipe": recipe, "ranks": 2}, parts={"recipe": recipe, "ranks": 2, "sharded": True})
    assert_all_ended_well(*runs)
    assert {tensor.dtype for tensor in saved(runs[1], 4).values()} == {torch.float32}
    assert files(runs[1], 4) == files(runs[0], 4)


FAULTS = {
    "out of memory": (
        "error: Rank 0 ends because rank 1 failed: Update 3 ran out of memory in a micro-batch of",
        "error: Update 3 ran out of memory in a micro-batch of",
    ),
    "not a number": (
        "error: The loss of update 3 is not finite, so the update was not made",
        "error: The loss of update 3 is not finite, so the update was not made",
    ),
    "killed": ("error: Rank 0 ends because another rank ended without a word, as one does that is killed.", ""),
    "first killed": ("", "error: Rank 1 ends because rank 0, or its machine, is gone."),
    "frozen": ("error: Rank 0 ends because rank 1 has given no sign of life for 4 s, so that its machine", ""),
    "disk full": ("The disk is full: the checkpoint", "error: Rank 1 ends because rank 0 failed: [Errno 28] The disk is full"),
}  # fmt: skip
"""What happens, and what the two ranks say to it."""


def test_no_rank_waits_for_one_that_failed(make_recipe: Callable[..., Recipe], launch: Launch) -> None:
    recipe = make_recipe(updates=6, checkpoint_every=2, validate_every=6)
    jobs = {fault.replace(" ", "_"): {"recipe": recipe, "ranks": 2, "fault": fault} for fault in FAULTS}
    for run, (fault, sentences) in zip(launch(**jobs), FAULTS.items(), strict=True):
        for rank, sentence in enumerate(sentences):
            status, seconds = read_json(run.path / "ends.json")[rank]
            assert sentence in words(run, rank), f"{fault}, rank {rank}: {words(run, rank)}"
            assert seconds < 30
            assert status == (1 if sentence else -signal.SIGKILL), f"{fault}, rank {rank}"
        assert "Traceback" not in words(run, 0) + words(run, 1)
        saved_before = [] if fault == "disk full" else ["update-2"]
        assert [path.name for path in run.state.glob("*")] == saved_before, fault


def test_ranks_that_cannot_share_evenly_are_refused_by_all(make_recipe: Callable[..., Recipe], launch: Launch) -> None:
    (run,) = launch(three={"recipe": make_recipe({"micro_batches": 4}), "ranks": 3})
    for rank in range(3):
        assert "3 processes cannot share 4 micro-batches equally" in words(run, rank)
        assert read_json(run.path / "ends.json")[rank][0] == 1


def test_a_recipe_without_micro_batches_starts_on_any_number_of_ranks(make_recipe: Callable[..., Recipe], launch: Launch) -> None:
    settings = {"updates": 2, "checkpoint_every": 2, "validate_every": 2}
    named, left_open = (make_recipe({"micro_batches": number}, **settings) for number in (2, None))
    two, as_many = launch(two={"recipe": named, "ranks": 2}, as_many={"recipe": left_open, "ranks": 2})
    assert_all_ended_well(two, as_many)
    assert files(as_many, 2) == files(two, 2)


def test_a_first_rank_that_cannot_prepare_the_data_tells_the_others(
    make_recipe: Callable[..., Recipe], launch: Launch, corpus: Path
) -> None:
    recipe = make_recipe()
    (corpus / "train.de").unlink()
    (run,) = launch(lacking={"recipe": recipe, "ranks": 2})
    assert "train.de" in words(run, 0) and "Traceback" not in words(run, 0)
    assert "error: Rank 1 ends because rank 0 failed: There is no file" in words(run, 1)


def _rank_of_torchrun(launcher: int, rank: int) -> int:
    """The process id of one rank."""
    for child in Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split():
        if f"LOCAL_RANK={rank}".encode() in Path(f"/proc/{child}/environ").read_bytes().split(b"\0"):
            return int(child)
    raise AssertionError(f"no rank {rank} under {launcher}")


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the ranks in /proc")
def test_torchrun_restarts_after_a_rank_was_killed(make_recipe: Callable[..., Recipe], launch: Launch, tmp_path: Path) -> None:
    recipe = make_recipe(updates=60, checkpoint_every=10, validate_every=60)
    (undisturbed,) = launch(undisturbed={"recipe": recipe, "ranks": 2})
    run = RunFolder(tmp_path / "killed")
    elastic = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--max-restarts", "1"]
    training = ["-m", "vaswani_transformer", "train", tmp_path / "undisturbed.yaml", "--run-folder", run.path]
    command = [sys.executable, *map(str, [*elastic, *training])]
    with open(tmp_path / "words.txt", "w", encoding="utf-8") as stream:
        # Without this PyTorch 2.13 shows the restarted ranks the addresses of the dead ones
        environment = {**ENVIRONMENT, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
        launcher = subprocess.Popen(command, env=environment, stdout=stream, stderr=stream)
        try:
            deadline = time.monotonic() + 120
            while not list(run.state.glob("update-*")):
                assert launcher.poll() is None and time.monotonic() < deadline
                time.sleep(0.02)
            os.kill(_rank_of_torchrun(launcher.pid, 1), signal.SIGKILL)
            assert launcher.wait(timeout=120) == 0, (tmp_path / "words.txt").read_text(encoding="utf-8")
        finally:
            launcher.kill()
    assert "Resuming after update" in (tmp_path / "words.txt").read_text(encoding="utf-8")
    assert files(run, 60) == files(undisturbed, 60)
