"""The ways to start a training on many devices: Accelerate's configurations and the Slurm script."""

import argparse
import os
import signal
import socket
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.utils.launch import prepare_multi_gpu_env

from vaswani_transformer.recipe import load_recipe

ROOT = Path(__file__).parents[1]
CONFIGS = ROOT / "scripts" / "accelerate"
SLURM = ROOT / "scripts" / "slurm" / "train.sbatch"


def understood(config: Path, *options: str) -> tuple[argparse.Namespace, dict[str, str]]:
    """What `accelerate launch` makes of a configuration: its settings, and the environment of the ranks."""
    command = [
        "--config_file",
        str(config),
        "--main_process_port",
        "0",
        *options,
        "-m",
        "vaswani_transformer",
        "train",
        "RECIPE",
    ]
    settings, _, _ = _validate_launch_command(launch_command_parser().parse_args(command))
    distributed = settings.multi_gpu or settings.use_fsdp
    return settings, prepare_multi_gpu_env(settings) if distributed else {}


@pytest.mark.parametrize(
    ("name", "processes", "machines", "on_cpu"),
    [
        ("cpu", 2, 1, True),
        ("one_gpu", 1, 1, False),
        ("eight_gpus", 8, 1, False),
        ("multi_node", 16, 2, False),
        ("fsdp", 8, 1, False),
    ],
)
def test_accelerate_reads_each_configuration(name: str, processes: int, machines: int, on_cpu: bool) -> None:
    settings, environment = understood(CONFIGS / f"{name}.yaml", "--main_process_ip", "10.0.0.1")
    assert (settings.num_processes, settings.num_machines, settings.use_cpu) == (processes, machines, on_cpu)
    assert settings.multi_gpu == (processes > 1 and name != "fsdp")
    if processes > 1:
        assert int(settings.nproc_per_node) == processes // machines
    assert (environment.get("ACCELERATE_USE_FSDP") == "true") == (name == "fsdp")


def test_every_configuration_is_looked_at() -> None:
    assert {path.stem for path in CONFIGS.iterdir()} == {"cpu", "one_gpu", "eight_gpus", "multi_node", "fsdp"}


def test_fsdp_is_the_second_version() -> None:
    _, environment = understood(CONFIGS / "fsdp.yaml")
    assert (environment["FSDP_VERSION"], environment["FSDP_RESHARD_AFTER_FORWARD"]) == ("2", "true")
    assert environment["FSDP_OFFLOAD_PARAMS"] == "false"


def test_machines_meet_at_the_address_that_is_named() -> None:
    with socket.socket() as free:  # Accelerate looks whether it is
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    options = ("--rdzv_backend", "c10d", "--main_process_ip", "10.0.0.1", "--main_process_port", port)
    settings, _ = understood(CONFIGS / "multi_node.yaml", *options, "--max_restarts", "3")
    assert (settings.rdzv_backend, settings.rdzv_endpoint) == ("c10d", f"10.0.0.1:{port}")
    assert (settings.nnodes, settings.max_restarts) == ("2", 3)


COMMANDS = {
    "scontrol": """[ "$1" = show ] && printf 'node1\\nnode2\\n' || echo "scontrol $*" >> calls""",
    "scancel": """echo "scancel $*" >> calls; kill -TERM $(cat pid)""",
    # srun's own options, then the launcher, which trains until it is told to stop
    "srun": """while [ "${1#--}" != "$1" ]; do shift; done; exec "$@" """,
    "accelerate": """echo "accelerate $*" >> calls; echo $$ > pid; $TRAINING""",
}
STOPPED_ON_TIME = """trap 'exit 130' TERM; touch started; while true; do sleep 0.05; done"""


def submit(folder: Path, training: str) -> subprocess.Popen[bytes]:
    """The Slurm script with commands in place of a cluster's."""
    for name, body in COMMANDS.items():
        script = folder / name
        script.write_text(f"#!/usr/bin/env bash\n{body.replace('$TRAINING', training)}\n", encoding="utf-8")
        script.chmod(0o755)
    job = {
        "PATH": f"{folder}:{os.environ['PATH']}", "SLURM_GPUS_PER_NODE": "h200:8", "SLURM_JOB_NODELIST": "node[1-2]",
        "SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_ID": "41207", "SLURM_CPUS_PER_TASK": "32",
    }  # fmt: skip
    command = ["bash", str(SLURM), "RECIPE", "--run-folder", "runs/big"]
    return subprocess.Popen(command, cwd=folder, env={**os.environ, **job})


def test_slurm_starts_a_launcher_per_machine(tmp_path: Path) -> None:
    assert submit(tmp_path, "exit 0").wait(timeout=30) == 0
    (call,) = (tmp_path / "calls").read_text(encoding="utf-8").splitlines()
    words = call.split()
    options = dict(pairwise(words))
    assert (options["--num_machines"], options["--num_processes"]) == ("2", "16")
    assert (options["--main_process_ip"], options["--main_process_port"]) == ("node1", "21207")
    assert (ROOT / options["--config_file"]).is_file() and options["--rdzv_backend"] == "c10d"
    assert call.endswith("-m vaswani_transformer train RECIPE --run-folder runs/big")
    launch_command_parser().parse_args(words[2:])  # knows every option


def test_the_commands_of_the_documentation_can_share_an_update() -> None:
    page = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
    (sbatch,) = (line for line in page.splitlines() if line.startswith("sbatch "))
    (launch,) = (line for line in page.splitlines() if line.startswith("accelerate launch --config_file"))
    header = dict(
        line.removeprefix("#SBATCH --").split("=", 1) for line in SLURM.read_text("utf-8").splitlines() if "=" in line and "#SBATCH" in line
    )
    gpus = int(header["nodes"]) * int(header["gpus-per-node"])
    for command, processes in ((sbatch, gpus), (launch, understood(CONFIGS / "eight_gpus.yaml")[0].num_processes)):
        words = command.split()
        (recipe,) = (word for word in words if word.startswith("scripts/recipes/"))
        settings = [setting for word, setting in pairwise(words) if word == "--set"]
        micro_batches = load_recipe(ROOT / recipe, settings).batching.micro_batches
        assert micro_batches is not None and micro_batches % processes == 0, command


def test_slurm_requeues_a_training_that_ran_out_of_time(tmp_path: Path) -> None:
    job = submit(tmp_path, STOPPED_ON_TIME)
    while not (tmp_path / "started").exists():
        assert job.poll() is None
    job.send_signal(signal.SIGUSR1)  # what `--signal=B:USR1@600` sends
    assert job.wait(timeout=30) == 130
    calls = (tmp_path / "calls").read_text(encoding="utf-8").splitlines()
    assert calls[1:] == ["scancel --signal=TERM 41207", "scontrol requeue 41207"]


def test_slurm_does_not_requeue_a_training_that_failed(tmp_path: Path) -> None:
    assert submit(tmp_path, "exit 1").wait(timeout=30) == 1
    assert "requeue" not in (tmp_path / "calls").read_text(encoding="utf-8")


def test_slurm_script_parses() -> None:
    subprocess.run(["bash", "-n", str(SLURM)], check=True)
