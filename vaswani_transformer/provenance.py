"""How a result was made, as its file records it: the command, the software, the machine."""

import platform
import shlex
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

_COMMAND = "vaswani"

_MATRIX_INSTRUCTIONS = (
    *("avx2", "avx512f", "avx_vnni", "avx512_vnni", "avx512_bf16", "avx512_fp16"),
    *("amx_tile", "amx_int8", "amx_bf16", "amx_fp16", "asimddp", "bf16", "i8mm", "sve", "sve2"),
)
"""What decides how fast a CPU multiplies matrices, as Linux names it on x86 and on Arm."""


def command_line() -> str:
    """The command line as one can type it again, without the program's path on this machine."""
    program = Path(sys.argv[0]).absolute()
    if program.name == _COMMAND or program == Path(__file__).with_name("__main__.py"):
        return shlex.join([_COMMAND, *sys.argv[1:]])
    shown = program.relative_to(Path.cwd()) if program.is_relative_to(Path.cwd()) else Path(program.name)
    return shlex.join(["python", str(shown), *sys.argv[1:]])


def versions(*packages: str) -> dict[str, str]:
    """Versions of Python and of `packages`; "checkout" for a package that is not installed."""
    return {"python": platform.python_version(), **{package: _version(package) for package in packages}}


def hardware(device: torch.device, processes: int) -> dict[str, Any]:
    """Names and counts of the hardware that this rank runs on."""
    facts: dict[str, Any] = {"cpu": _cpu_name(), "threads": torch.get_num_threads(), "processes": processes}
    if device.type == "cuda":
        facts["gpu"] = torch.cuda.get_device_name(device)
    return facts


def instructions(cpuinfo: Path = Path("/proc/cpuinfo")) -> list[str]:
    """The processor's instruction sets that matter here; empty on a system that does not list them."""
    if not cpuinfo.is_file():
        return []
    lines = cpuinfo.read_text(encoding="utf-8").splitlines()
    listed = {flag for line in lines if line.startswith(("flags", "Features")) for flag in line.split()}
    return [name for name in _MATRIX_INSTRUCTIONS if name in listed]


def _cpu_name() -> str:
    """The processor's name if Linux lists it, else at least its architecture."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _version(package: str) -> str:
    if package == __package__:
        return str(sys.modules[package].__version__)  # the metadata of an editable installation stays as it was when that was made
    try:
        return version(package)
    except PackageNotFoundError:  # a checkout that was never installed has no metadata
        return "checkout"
