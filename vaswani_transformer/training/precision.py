"""The precision in which a training multiplies: the recipe's, where the hardware has it."""

import torch
from accelerate import Accelerator

from ..packing import has_bfloat16
from ..recipe import Precision

_ACCELERATES: dict[Precision, str] = {"float32": "no", "bfloat16": "bf16", "float16": "fp16"}


def settle_precision(wanted: Precision, on_cpu: bool) -> Precision:
    """What `training.precision: wanted` means on this machine: float32 in place of bfloat16 where the hardware has no products in it.

    The weights are in float32 either way, so that a training may go on with another of the two.

    Raises:
        ValueError: float16 on a CPU.
    """
    if on_cpu and wanted == "float16":
        raise ValueError("`training.precision: float16` needs a GPU; on a CPU set bfloat16 or float32.")
    return "float32" if wanted == "bfloat16" and emulates_bfloat16(on_cpu) else wanted


def emulates_bfloat16(on_cpu: bool) -> bool:
    """Whether products in bfloat16 would be emulated.

    On an AMD EPYC with AVX2 that takes 40 to 260 times as long as float32. NVIDIA's GPUs before Ampere (T4, V100) emulate it as well, and
    transformers and Accelerate take them for GPUs that have it.
    """
    if on_cpu:
        return not has_bfloat16()
    return torch.cuda.is_available() and not torch.cuda.is_bf16_supported(including_emulation=False)


def in_float32_instead(who: str, on_cpu: bool) -> str:
    """The sentences that tell it; `who` computes."""
    if on_cpu:
        why = "This processor has no products in bfloat16, and PyTorch's emulation is at least 40 times as slow."
        return f"{why} {who} computes in float32."
    return f"This GPU has no products in bfloat16, which PyTorch would emulate. {who} computes in float32; float16 may be faster here."


def accelerates_name(precision: Precision) -> str:
    """What Accelerate calls it."""
    return _ACCELERATES[precision]


def precision_of(accelerator: Accelerator) -> Precision:
    """What the training of `accelerator` computes in."""
    return next(ours for ours, name in _ACCELERATES.items() if name == accelerator.mixed_precision)
