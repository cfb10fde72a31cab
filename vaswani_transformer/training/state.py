"""What a run must remember to go on as if it had never stopped.

No random state is here: batches and dropout are functions of the recipe's seed and the update's number.
"""

import re
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from ..atomic_folder import atomic_folder
from ..run_folder import file_sha256, read_json, write_json

_WEIGHTS, _OPTIMIZER, _STATE = "model.safetensors", "optimizer.safetensors", "state.json"


@dataclass
class Totals:
    """What a number of updates amounted to; `positions` are tokens of both sides with padding."""

    smoothed_loss: float = 0.0
    plain_loss: float = 0.0
    source_tokens: int = 0
    target_tokens: int = 0
    positions: int = 0
    flops: float = 0.0
    seconds: float = 0.0

    def add(self, other: "Totals") -> None:
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


@dataclass
class TrainState:
    """All of a run that changes, apart from weights and optimizer."""

    update: int = 0
    """Updates done."""
    total: Totals = field(default_factory=Totals)
    interval: Totals = field(default_factory=Totals)
    """Since the last record in the log."""
    seconds: float = 0.0
    """Wall time of the training, validation and saving included."""
    best_score: float | None = None
    validations_without_gain: int = 0

    def state_dict(self) -> dict[str, Any]:
        return asdict(self)

    def load_state_dict(self, content: dict[str, Any]) -> None:
        for name, value in content.items():
            setattr(self, name, Totals(**value) if name in ("total", "interval") else value)


def save_state(
    folder: Path,
    state: TrainState,
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    loss_scaler: dict[str, Any],
) -> Path:
    """Write `folder/update-N`, then remove the state before it.

    Args:
        folder: the run's `state` folder.
        state: saved as JSON together with the SHA-256 of the two other files.
        module: its parameters and persistent buffers are saved, each once, in their own precision.
        optimizer: built over the trainable parameters of `module`, in their order.
        loss_scaler: state of float16's loss scaling; empty without it.
    """
    path = folder / f"update-{state.update}"
    with atomic_folder(path) as unfinished:
        save_file(_weights(module), unfinished / _WEIGHTS)
        save_file(_moments(module, optimizer), unfinished / _OPTIMIZER)
        hashes = {name: file_sha256(unfinished / name) for name in (_WEIGHTS, _OPTIMIZER)}
        write_json(
            unfinished / _STATE, {"state": state.state_dict(), "loss_scaler": loss_scaler, "sha256": hashes}
        )
    for older in folder.iterdir():
        if older != path and older.name.lstrip(".").startswith("update-"):
            shutil.rmtree(older)
    return path


def newest_state(folder: Path) -> Path | None:
    """The folder of the latest saved state, or `None` where nothing has been saved yet."""
    found = [
        (int(match[1]), path)
        for path in folder.glob("update-*")
        if (match := re.fullmatch(r"update-(\d+)", path.name))
    ]
    return max(found)[1] if found else None


def load_state(
    path: Path, state: TrainState, module: nn.Module, optimizer: torch.optim.Optimizer
) -> dict[str, Any]:
    """Fill `state`, `module` and `optimizer` from a folder that `save_state` wrote; returns the loss scaler's state.

    Raises:
        ValueError: a file is missing, damaged, or belongs to another architecture; the sentence names it and the remedy.
    """
    for name in (_STATE, _WEIGHTS, _OPTIMIZER):
        if not (path / name).is_file():
            raise ValueError(_damaged(path / name, "is missing"))
    content = read_json(path / _STATE)
    for name, expected in content["sha256"].items():
        if file_sha256(path / name) != expected:
            raise ValueError(
                _damaged(path / name, "is damaged: its SHA-256 is not the one it was saved with")
            )
    _load_weights(module, _read(path / _WEIGHTS), path / _WEIGHTS)
    _load_moments(module, optimizer, _read(path / _OPTIMIZER))
    state.load_state_dict(content["state"])
    return dict(content["loss_scaler"])


def _weights(module: nn.Module) -> dict[str, Tensor]:
    """Parameters (tied ones once) and persistent buffers."""
    parameters = dict(module.named_parameters())
    stored = module.state_dict(keep_vars=True)
    buffers = {name: buffer for name, buffer in module.named_buffers() if name in stored}
    return {name: tensor.detach().contiguous() for name, tensor in {**parameters, **buffers}.items()}


def _moments(module: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Adam's tensors by the name of their parameter: `exp_avg.model.shared.weight`."""
    return {
        f"{kind}.{name}": tensor.contiguous()
        for name, parameter in _trainable(module)
        for kind, tensor in optimizer.state.get(parameter, {}).items()
    }


def _load_weights(module: nn.Module, saved: dict[str, Tensor], path: Path) -> None:
    current = _weights(module)
    wrong = [
        name for name in sorted(current.keys() | saved.keys()) if _shape(current, name) != _shape(saved, name)
    ]
    if wrong:
        raise ValueError(
            _damaged(path, f"does not fit the model of this recipe (first difference: {wrong[0]})")
        )
    with torch.no_grad():
        for name, tensor in current.items():
            tensor.copy_(saved[name])


def _load_moments(module: nn.Module, optimizer: torch.optim.Optimizer, saved: dict[str, Tensor]) -> None:
    by_parameter: dict[str, dict[str, Tensor]] = {}
    for key, tensor in saved.items():
        kind, _, name = key.partition(".")
        by_parameter.setdefault(name, {})[kind] = tensor
    state = {
        index: by_parameter[name]
        for index, (name, _) in enumerate(_trainable(module))
        if name in by_parameter
    }
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def _trainable(module: nn.Module) -> list[tuple[str, nn.Parameter]]:
    return [(name, parameter) for name, parameter in module.named_parameters() if parameter.requires_grad]


def _read(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except SafetensorError as error:
        raise ValueError(_damaged(path, f"is damaged ({error})")) from error


def _shape(tensors: dict[str, Tensor], name: str) -> torch.Size | None:
    return tensors[name].shape if name in tensors else None


def _damaged(path: Path, what: str) -> str:
    return f"{path} {what}; put back a good copy, or delete {path.parent} and start the training again from the first update."
