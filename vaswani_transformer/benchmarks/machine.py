"""On what and with what a benchmark ran."""

import os
from collections.abc import Iterable
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from ..training.cost import hardware, versions

_MATRIX_INSTRUCTIONS = (
    *("avx2", "avx512f", "avx_vnni", "avx512_vnni", "avx512_bf16", "avx512_fp16"),
    *("amx_tile", "amx_int8", "amx_bf16", "amx_fp16", "asimddp", "bf16", "i8mm", "sve", "sve2"),
)
"""What decides how fast a CPU multiplies matrices, as Linux names it on x86 and on Arm."""


def machine(device: torch.device) -> dict[str, Any]:
    """Names and numbers of the machine, and how busy it was as this was called."""
    return {
        **hardware(device, processes=1),
        "cores": os.cpu_count(),
        "instructions": instructions(Path("/proc/cpuinfo")),
        "load_average": round(os.getloadavg()[0], 2),
    }


def instructions(cpuinfo: Path) -> list[str]:
    """Those of the processor's instruction sets that matter here; none on a system that does not list them."""
    if not cpuinfo.is_file():
        return []
    lines = cpuinfo.read_text(encoding="utf-8").splitlines()
    listed = {flag for line in lines if line.startswith(("flags", "Features")) for flag in line.split()}
    return [name for name in _MATRIX_INSTRUCTIONS if name in listed]


def software(packages: Iterable[str]) -> dict[str, str]:
    """Versions of Python, of what the package stands on, and of those of `packages` that are installed."""
    return versions() | {name: version(name) for name in packages if find_spec(name) is not None}
