"""Whole trainings of a second each: resuming, stopping, refusing, several processes."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoTokenizer, GenerationConfig
from typer.testing import CliRunner

from vaswani_transformer.__main__ import app
from vaswani_transformer.files.checksums import find_damage, write_checksums
from vaswani_transformer.files.json_files import read_json, read_json_lines, write_json
from vaswani_transformer.modeling_vaswani import VaswaniForConditionalGeneration
from vaswani_transformer.recipe import Recipe, SearchSettings
from vaswani_transformer.run_folder import RunFolder
from vaswani_transformer.training import engine
from vaswani_transformer.training import update as update_module
from vaswani_transformer.training import validation as validation_module
from vaswani_transformer.training.engine import train
from vaswani_transformer.training.update import Updater

ROOT = Path(__file__).parents[2]
_CLOCK = ("seconds", "tokens_per_second")


class Killed(BaseException):
    """Nobody catches it on the way."""


def kill(*arguments: Any) -> None:
    raise Killed


def _log(run: RunFolder) -> list[dict[str, Any]]:
    """The log without what the clock decides."""
    return [{key: value for key, value in record.items() if key not in _CLOCK} for record in read_json_lines(run.log)]


def _checkpoints(run: RunFolder) -> list[str]:
    return sorted(path.name for path in run.checkpoints.iterdir())


def _bits(run: RunFolder, update: int) -> list[bytes]:
    files = [run.state / f"update-{update}" / name for name in ("model.safetensors", "optimizer.safetensors")]
    return [file.read_bytes() for file in [*files, run.averaged / "model.safetensors"]]


def _at_update(number: int, act: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let something happen while update `number` loads its first batch."""
    load, seen = update_module.load_batch, []

    def load_and_act(*arguments: Any) -> Any:
        seen.append(1)
        if len(seen) == 2 * (number - 1) + 1:
            act()
        return load(*arguments)

    monkeypatch.setattr(update_module, "load_batch", load_and_act)


@pytest.fixture
def finished(make_recipe: Callable[..., Recipe], tmp_path: Path) -> RunFolder:
    """A training of 8 updates that nothing disturbed."""
    run = RunFolder(tmp_path / "undisturbed")
    assert train(make_recipe(), run)
    return run


def test_what_is_told_reads_well_in_a_file(make_recipe: Callable[..., Recipe], run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    train(make_recipe(), run)
    told = capsys.readouterr()
    assert "\r" not in told.out + told.err
    intervals = re.findall(r"^(\d)/8  epoch .* left \(until .*\)$", told.out, flags=re.MULTILINE)
    assert intervals == ["3", "6", "8"]
    validations = re.findall(r"^Update (\d): BLEU \d+\.\d\d \(the best ", told.out, flags=re.MULTILINE)
    assert validations == ["4", "8"] and told.out.count("\n  translation ") == 2 * 3
    assert read_json(run.state / "update-8" / "state.json")["state"]["saving_seconds"] > 0


def test_a_training_leaves_what_it_promises(finished: RunFolder) -> None:
    records = _log(finished)
    assert [(record["kind"], record["update"]) for record in records] == [
        ("train", 3), ("validation", 4), ("train", 6), ("train", 8), ("validation", 8),
    ]  # fmt: skip
    assert records[0]["loss"] > records[3]["loss"]
    assert len(records[1]["samples"]) == 3
    assert _checkpoints(finished) == ["step-4", "step-8"]
    facts = read_json(finished.training)
    assert facts["updates"] == 8
    assert facts["averaged_checkpoints"] == ["step-4", "step-8"]
    assert facts["target_tokens"] == records[3]["target_tokens"]
    assert facts["flops"] > 6 * 1e3 * facts["target_tokens"]
    cleaning = read_json(finished.cleaning)
    assert (cleaning["pairs_in"], cleaning["kept"]) == (60, 60)
    assert len(cleaning["file_hashes"]["train"]) == len(cleaning["file_hashes"]["validation"]) == 2


def test_the_average_is_a_model_that_loads(finished: RunFolder) -> None:
    model = VaswaniForConditionalGeneration.from_pretrained(finished.averaged)
    tokenizer = AutoTokenizer.from_pretrained(finished.averaged)
    assert model.config.vocab_size == len(tokenizer)
    search = GenerationConfig.from_pretrained(finished.averaged)
    assert (search.num_beams, search.length_penalty, search.length_penalty_type, search.extra_length) == (
        2,
        0.6,
        "gnmt",
        5,
    )
    weights = [load_file(path / "model.safetensors") for path in (finished.checkpoint(4), finished.checkpoint(8))]
    averaged = load_file(finished.averaged / "model.safetensors")
    name = "model.shared.weight"
    expected = ((weights[0][name].double() + weights[1][name].double()) / 2).float()
    assert averaged[name].equal(expected)


def test_a_finished_run_takes_another_search(
    finished: RunFolder, make_recipe: Callable[..., Recipe], capsys: pytest.CaptureFixture[str]
) -> None:
    files = {file: file.read_bytes() for file in finished.averaged.iterdir()}
    settings = finished.averaged / "generation_config.json"
    write_json(settings, {**read_json(settings), "mine": 1})  # as `vaswani shortlist` adds one
    write_checksums(finished.averaged)
    search = SearchSettings(num_beams=4, length_penalty=0.6, length_penalty_type="gnmt", extra_length=5, copy_items=("url",))
    capsys.readouterr()
    assert train(replace(make_recipe(), search=search), finished)
    assert "It searches with num_beams=4, copy_items=['url'] now, as the recipe says.\n" in capsys.readouterr().out
    changed = GenerationConfig.from_pretrained(finished.averaged)
    assert (changed.num_beams, changed.copy_items, changed.length_penalty, changed.mine) == (4, ["url"], 0.6, 1)
    assert find_damage(finished.averaged, ["generation_config.json", "model.safetensors"]) is None

    assert train(make_recipe(), finished)
    assert "It searches with num_beams=2, copy_items=None now" in capsys.readouterr().out
    restored = read_json(settings)
    assert restored.pop("mine") == 1
    write_json(settings, restored)
    write_checksums(finished.averaged)
    assert {file: file.read_bytes() for file in finished.averaged.iterdir()} == files
    assert train(make_recipe(), finished)
    assert "It searches" not in capsys.readouterr().out


def test_a_killed_training_resumes_to_the_same_bits(
    finished: RunFolder, make_recipe: Callable[..., Recipe], run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        _at_update(7, kill, patch)
        with pytest.raises(Killed):
            train(make_recipe(), run)
    assert [path.name for path in run.state.iterdir()] == ["update-4"]
    assert _log(run)[-1]["update"] == 6
    assert train(make_recipe(), run)
    assert _bits(run, 8) == _bits(finished, 8)
    assert _log(run) == _log(finished)


def test_sigterm_finishes_the_update_saves_and_resumes_to_the_same_bits(
    finished: RunFolder,
    make_recipe: Callable[..., Recipe],
    run: RunFolder,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with monkeypatch.context() as patch:
        _at_update(5, lambda: os.kill(os.getpid(), signal.SIGTERM), patch)
        assert not train(make_recipe(), run)
    assert "Stopped after update 5 of 8" in capsys.readouterr().out
    assert sorted(path.name for path in run.state.iterdir()) == ["update-4", "update-5"]
    assert train(make_recipe(), run)
    assert _bits(run, 8) == _bits(finished, 8)
    assert _log(run) == _log(finished)


def test_more_updates_go_on_where_the_training_ended(finished: RunFolder, make_recipe: Callable[..., Recipe]) -> None:
    assert train(make_recipe(updates=10, log_every=1), finished)
    assert [record["update"] for record in _log(finished) if record["kind"] == "train"] == [3, 6, 8, 9, 10]
    assert read_json(finished.training)["averaged_checkpoints"] == ["step-8", "step-10"]


def test_a_finished_training_is_left_as_it_is(finished: RunFolder, make_recipe: Callable[..., Recipe]) -> None:
    before = _bits(finished, 8), _log(finished)
    assert train(make_recipe(), finished)
    assert (_bits(finished, 8), _log(finished)) == before


def test_a_finished_training_tells_of_the_machine_that_did_it(
    finished: RunFolder, make_recipe: Callable[..., Recipe], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = read_json(finished.training)
    monkeypatch.setattr(engine, "hardware", lambda *arguments: "another machine")
    monkeypatch.setattr(engine, "versions", lambda *names: {})
    monkeypatch.setattr(engine, "peak_memory", lambda: 1)
    assert train(make_recipe(), finished) and read_json(finished.training) == before
    assert train(make_recipe(updates=10), finished)
    assert (found := read_json(finished.training))["hardware"] == "another machine" and found["peak_memory_bytes"] == 1


def test_another_recipe_is_refused_by_name(finished: RunFolder, make_recipe: Callable[..., Recipe]) -> None:
    with pytest.raises(ValueError, match=r"holds another run.*`training\.label_smoothing` \(0\.1 there, 0\.2 now\)"):
        train(make_recipe(label_smoothing=0.2), finished)


def test_changed_data_are_refused_once_training_has_begun(finished: RunFolder, make_recipe: Callable[..., Recipe], corpus: Path) -> None:
    with open(corpus / "train.en", "a", encoding="utf-8") as stream:
        stream.write("nine\n")
    with pytest.raises(ValueError, match=r"train\.en changed since the training"):
        train(make_recipe(), finished)


def test_the_state_before_a_damaged_one_goes_on_to_the_same_bits(finished: RunFolder, make_recipe: Callable[..., Recipe]) -> None:
    before = _bits(finished, 8), _log(finished)
    path = finished.state / "update-8" / "optimizer.safetensors"
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(ValueError, match=r"optimizer\.safetensors is damaged.*resumes from .*update-4"):
        train(make_recipe(), finished)
    shutil.rmtree(path.parent)
    assert train(make_recipe(), finished)
    assert (_bits(finished, 8), _log(finished)) == before


def test_a_damaged_checkpoint_is_not_averaged(finished: RunFolder, make_recipe: Callable[..., Recipe]) -> None:
    path = finished.checkpoint(8) / "config.json"
    path.write_bytes(path.read_bytes().replace(b"0.1", b"0.3"))
    with pytest.raises(ValueError, match=r"step-8.config\.json is damaged"):
        train(make_recipe(updates=10), finished)
    shutil.rmtree(path.parent)
    assert train(make_recipe(updates=10), finished)
    assert read_json(finished.training)["averaged_checkpoints"] == ["step-10"]


def test_a_lost_state_is_not_begun_anew(finished: RunFolder, make_recipe: Callable[..., Recipe]) -> None:
    shutil.rmtree(finished.state)
    with pytest.raises(ValueError, match=r"there is no state in .* put it back, or choose another"):
        train(make_recipe(), finished)
    assert _checkpoints(finished) == ["step-4", "step-8"]


def test_fewer_updates_than_were_done_end_with_what_there_is(
    finished: RunFolder, make_recipe: Callable[..., Recipe], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checkpoint 8 had been saved, and its state had not, when the run was killed; then it is told to end after 6."""
    shutil.rmtree(finished.state / "update-8")
    assert train(make_recipe(updates=6), finished)
    assert _checkpoints(finished) == ["step-4", "step-6"]
    assert read_json(finished.training)["averaged_checkpoints"] == ["step-4", "step-6"]


@pytest.mark.parametrize("updates", [5, 8])
def test_a_signal_breaks_a_validation_off_and_it_is_made_up_for(
    updates: int,
    make_recipe: Callable[..., Recipe],
    run: RunFolder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Whether it is the validation of some update, or that of the last."""
    settings = {"updates": updates, "validate_every": 3, "checkpoint_every": 4}
    undisturbed = RunFolder(tmp_path / "undisturbed")
    train(make_recipe(**settings), undisturbed)
    translate, seen = validation_module.translate, []

    def translate_and_signal(*arguments: Any, **named: Any) -> Any:
        seen.append(1)
        if len(seen) == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        return translate(*arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(validation_module, "translate", translate_and_signal)
        assert not train(make_recipe(**settings), run)
    stopped = min(updates, 6)
    assert f"Stopped after update {stopped} of {updates}" in capsys.readouterr().out
    assert (run.state / f"update-{stopped}").exists()
    assert [record["update"] for record in _log(run) if record["kind"] == "validation"] == [3]
    assert train(make_recipe(**settings), run)
    assert _bits(run, updates) == _bits(undisturbed, updates)
    assert _log(run) == _log(undisturbed)
    assert _checkpoints(run) == _checkpoints(undisturbed)


def test_a_kill_after_a_validation_was_made_up_for_does_not_log_it_twice(
    finished: RunFolder, make_recipe: Callable[..., Recipe], run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        _at_update(4, lambda: os.kill(os.getpid(), signal.SIGTERM), patch)
        assert not train(make_recipe(), run)
    with monkeypatch.context() as patch:
        patch.setattr("vaswani_transformer.training.engine.Training._save", lambda self: kill())
        with pytest.raises(Killed):
            train(make_recipe(), run)
    assert _log(run)[-1]["kind"] == "validation"
    assert train(make_recipe(), run)
    assert _bits(run, 8) == _bits(finished, 8)
    assert _log(run) == _log(finished)


def test_a_kill_between_the_average_and_its_record_is_made_up_for(
    make_recipe: Callable[..., Recipe], run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first state of the run is its last one, so that nothing has been recorded before."""

    with monkeypatch.context() as patch:
        patch.setattr("vaswani_transformer.training.engine.Training.write_facts", kill)
        with pytest.raises(Killed):
            train(make_recipe(checkpoint_every=8), run)
        with pytest.raises(Killed):
            train(make_recipe(checkpoint_every=8), run)
    assert run.averaged.exists() and not run.training.exists()
    assert train(make_recipe(checkpoint_every=8), run)
    assert read_json(run.training)["averaged_checkpoints"] == ["step-8"]


def test_the_best_checkpoint_stays_and_is_named(
    make_recipe: Callable[..., Recipe],
    run: RunFolder,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    scores = iter([(10.0, 2.0), (40.0, 3.0), (30.0, 1.0), (20.0, 5.0)])
    record = {"nll": 1.0, "perplexity": 2.7, "chrf": 1.0, "samples": []}
    monkeypatch.setattr(
        validation_module.Validator,
        "run",
        lambda self, loss: {**record, **dict(zip(("bleu", "loss"), next(scores), strict=True))},
    )
    settings = {"updates": 8, "validate_every": 2, "checkpoint_every": 2, "average_checkpoints": 1}
    assert train(make_recipe(**settings), run)
    assert _checkpoints(run) == ["step-4", "step-8"]
    assert read_json(run.training)["best_checkpoint"] == {"name": "step-4", "bleu": 40.0, "loss": 3.0}
    assert "best single checkpoint is" in capsys.readouterr().out
    assert read_json(run.training)["averaged_checkpoints"] == ["step-8"]
    # Judged by loss, the best one was that after update 6, which is gone
    assert train(make_recipe(**settings, best_checkpoint_metric="loss", patience=9), run)
    assert read_json(run.training)["best_checkpoint"]["name"] == "step-4"


def test_training_stops_when_bleu_no_longer_rises(
    make_recipe: Callable[..., Recipe], run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = iter([10.0, 30.0, 20.0, 30.0, 99.0])
    record = {"loss": 1.0, "nll": 1.0, "perplexity": 2.7, "chrf": 1.0, "samples": []}
    monkeypatch.setattr(validation_module.Validator, "run", lambda self, loss: {**record, "bleu": next(scores)})
    assert train(make_recipe(updates=50, validate_every=2, patience=2), run)
    facts = read_json(run.training)
    assert (facts["updates"], facts["stopped_early"]) == (8, True)
    assert facts["best_checkpoint"] == {"name": "step-4", "bleu": 30.0, "loss": 1.0}
    assert _checkpoints(run) == ["step-4", "step-8"]


def test_a_loss_that_is_not_finite_keeps_the_last_state(
    make_recipe: Callable[..., Recipe], run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    updates = Updater._backward

    def poisoned(self: Updater, plan: Any, update: int, target_tokens: int) -> Any:
        return updates(self, plan, update, target_tokens) * (float("nan") if update == 6 else 1.0)

    with monkeypatch.context() as patch:
        patch.setattr(Updater, "_backward", poisoned)
        with pytest.raises(FloatingPointError, match=r"update 6 is not finite.*train\.en:\d+"):
            train(make_recipe(), run)
    assert [path.name for path in run.state.iterdir()] == ["update-4"]
    assert train(make_recipe(), run)


@pytest.mark.parametrize("settings", [{"precision": "bfloat16"}, {"gradient_checkpointing": True}, {"trackers": ["tensorboard"]}])
def test_options_train_too(make_recipe: Callable[..., Recipe], run: RunFolder, settings: dict[str, Any]) -> None:
    assert train(make_recipe(updates=4, validate_every=2, checkpoint_every=2, **settings), run)
    weights = load_file(run.averaged / "model.safetensors")
    assert {str(tensor.dtype) for tensor in weights.values()} == {"torch.float32"}
    if "trackers" in settings:
        assert list(run.path.rglob("events.out.tfevents.*"))


def test_gradient_checkpointing_changes_nothing(make_recipe: Callable[..., Recipe], tmp_path: Path) -> None:
    runs = [RunFolder(tmp_path / "plain"), RunFolder(tmp_path / "checkpointed")]
    for run, checkpointing in zip(runs, (False, True), strict=True):
        train(make_recipe(updates=3, gradient_checkpointing=checkpointing), run)
    assert _log(runs[0]) == _log(runs[1])


def test_a_tracker_that_is_not_there_is_named(make_recipe: Callable[..., Recipe], run: RunFolder) -> None:
    with pytest.raises(ValueError, match=r"tracker 'notebook' of `training\.trackers` is not installed"):
        train(make_recipe(trackers=["notebook"]), run)


@pytest.mark.skipif(torch.accelerator.is_available(), reason="there is a device for float16")
def test_float16_without_a_gpu_is_refused(make_recipe: Callable[..., Recipe], run: RunFolder) -> None:
    with pytest.raises(ValueError, match="float16` needs a GPU; on a CPU set bfloat16 or float32"):
        train(make_recipe(precision="float16"), run)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """The order of a sum depends on the threads that share it."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("one_thread")
def test_two_processes_go_on_where_one_stopped(make_recipe: Callable[..., Recipe], tmp_path: Path) -> None:
    """Equal to the last bit: of two addends the order does not matter, and averaging two doubled gradients is exact."""
    settings = {"log_every": 1, "validate_every": 3, "checkpoint_every": 3}
    recipe = make_recipe({"micro_batches": 2}, updates=6, **settings)
    alone, together = RunFolder(tmp_path / "alone"), RunFolder(tmp_path / "together")
    train(recipe, alone)
    train(make_recipe({"micro_batches": 2}, updates=3, **settings), together)
    (tmp_path / "recipe.yaml").write_text(recipe.to_yaml(), encoding="utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    config = ROOT / "scripts" / "accelerate" / "cpu.yaml"
    launcher = ["-m", "accelerate.commands.launch", "--config_file", config, "--main_process_port", port]
    command = ["-m", "vaswani_transformer", "train", tmp_path / "recipe.yaml", "--run-folder", together.path]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *map(str, [*launcher, *command])],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert read_json(together.training)["world_size"] == 2
    assert _log(alone) == _log(together)
    weights = [load_file(run.averaged / "model.safetensors") for run in (alone, together)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("training.update=3", r"error: .*: Unknown key `training\.update`; did you mean `updates`\?"),
        (
            "data.root=nowhere",
            r"error: There is no file nowhere/train\.en; check its name and `data\.root`.*",
        ),
    ],
)
def test_the_command_answers_wrong_input_with_one_line(
    override: str, sentence: str, make_recipe: Callable[..., Recipe], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recipe.yaml").write_text(make_recipe().to_yaml(), encoding="utf-8")
    told = CliRunner().invoke(app, ["train", "recipe.yaml", "--set", override, "--run-folder", "run"])
    assert told.exit_code == 1
    assert re.fullmatch(sentence, told.stderr.strip())
