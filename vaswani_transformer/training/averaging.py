"""The mean of the last checkpoints' weights (paper section 6.1), which translates better than any one of them."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from ..configuration_vaswani import VaswaniConfig
from ..data.shortlisting import keep_shortlist
from ..files.atomic_folder import atomic_folder
from ..files.checksums import CHECKSUMS, find_damage, write_checksums
from ..files.json_files import read_json

_WEIGHTS, _CONFIG = "model.safetensors", "config.json"
_NO_PART_OF_THE_FUNCTION = ("transformers_version", "_name_or_path", "dropout", "attention_dropout", "activation_dropout", "use_cache")
"""Settings that may differ between checkpoints without changing the meaning of their weights."""


def average_checkpoints(checkpoints: Sequence[Path], output: Path) -> None:
    """Write the model folder `output`: weights are the mean of `checkpoints`, every other file comes from the last of them.

    A shortlist that `output` already had stays, since it depends on the vocabulary and the training pairs alone.

    Sums are float64, and only one tensor of one checkpoint is in memory beside them. The file's bytes depend on the weights alone.

    Raises:
        FileNotFoundError: there is no checkpoint, or one has no weights.
        ValueError: a checkpoint is damaged, or architectures differ; the sentence names the checkpoint and the file, setting or tensor.
    """
    if not checkpoints:
        raise FileNotFoundError(f"There are no checkpoints to average into {output}; train first, or name other folders.")
    for checkpoint in checkpoints:
        if not (checkpoint / _WEIGHTS).is_file():
            raise FileNotFoundError(f"{checkpoint / _WEIGHTS} is missing; average complete checkpoint folders only.")
        if damage := find_damage(checkpoint, [_WEIGHTS]):
            raise ValueError(
                f"{damage}; put back a good copy, or delete {checkpoint} and run the same command again, which then averages the others."
            )
    _check_configs(checkpoints)
    averaged = {name: _mean(checkpoints, name) for name in _common_names(checkpoints)}
    with atomic_folder(output) as unfinished:
        for file in checkpoints[-1].iterdir():
            if file.is_file() and file.name not in (_WEIGHTS, CHECKSUMS):
                shutil.copyfile(file, unfinished / file.name)
        save_file(averaged, unfinished / _WEIGHTS, metadata={"format": "pt"})
        keep_shortlist(output, unfinished)
        write_checksums(unfinished)


def _check_configs(checkpoints: Sequence[Path]) -> None:
    """Refuse weights of equal shape but different meaning, as when activation or number of heads differ."""
    first = _architecture(checkpoints[0])
    for checkpoint in checkpoints[1:]:
        other = _architecture(checkpoint)
        for key in sorted(first.keys() | other.keys()):
            if first.get(key) != other.get(key):
                raise ValueError(
                    f"{checkpoint} cannot be averaged with {checkpoints[0]}: `{key}` is {other.get(key)!r} in the one and "
                    f"{first.get(key)!r} in the other; average checkpoints of one run only."
                )


def _architecture(checkpoint: Path) -> dict[str, Any]:
    """The settings of `config.json`; one that an old checkpoint lacks has its default."""
    settings = VaswaniConfig.from_dict(read_json(checkpoint / _CONFIG)).to_dict()
    return {key: value for key, value in settings.items() if key not in _NO_PART_OF_THE_FUNCTION}


def _common_names(checkpoints: Sequence[Path]) -> list[str]:
    first = _shapes(checkpoints[0])
    for checkpoint in checkpoints[1:]:
        shapes = _shapes(checkpoint)
        for name in sorted(first.keys() | shapes.keys()):
            if first.get(name) != shapes.get(name):
                raise ValueError(
                    f"{checkpoint} cannot be averaged with {checkpoints[0]}: `{name}` is {_describe(shapes.get(name))} in the one and "
                    f"{_describe(first.get(name))} in the other; average checkpoints of one run only."
                )
    return sorted(first)


def _shapes(checkpoint: Path) -> dict[str, list[int]]:
    with safe_open(checkpoint / _WEIGHTS, "pt") as weights:
        return {name: weights.get_slice(name).get_shape() for name in weights.keys()}  # noqa: SIM118 (not a mapping)


def _mean(checkpoints: Sequence[Path], name: str) -> Tensor:
    first = _tensor(checkpoints[0], name)
    total = first.double()
    for checkpoint in checkpoints[1:]:
        total += _tensor(checkpoint, name)
    return (total / len(checkpoints)).to(first.dtype)


def _tensor(checkpoint: Path, name: str) -> Tensor:
    with safe_open(checkpoint / _WEIGHTS, "pt") as weights:
        tensor: Tensor = weights.get_tensor(name)
    return tensor


def _describe(shape: list[int] | None) -> str:
    return "missing" if shape is None else f"of shape {shape}"
