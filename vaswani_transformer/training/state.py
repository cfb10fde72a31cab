"""The state from which a run resumes as if it had never stopped.

It has no random state: batches and dropout are functions of the recipe's seed and the update's number.
"""

import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from ..files.atomic_folder import atomic_folder, remove_folder
from ..files.checksums import find_damage, write_checksums
from ..files.json_files import read_json, write_json
from .sharding import gather, part_of
from .weight_average import WeightAverage

_WEIGHTS, _OPTIMIZER, _AVERAGE, _STATE = "model.safetensors", "optimizer.safetensors", "average.safetensors", "state.json"
_STATES_KEPT = 2
"""The newest, and the previous one in case the newest is damaged."""


@dataclass
class Totals:
    """Sums over a number of updates; `positions` are the tokens of both sides, with padding, that were computed: R-Drop's twice."""

    smoothed_loss: float = 0.0
    plain_loss: float = 0.0
    source_tokens: int = 0
    target_tokens: int = 0
    positions: int = 0
    flops: float = 0.0
    seconds: float = 0.0

    def add(self, other: "Totals") -> None:
        """Add every sum of `other` to the one of the same name."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


@dataclass(frozen=True)
class Validation:
    """The scores after an update that decisions depend on: the metrics of the task, and `loss`."""

    update: int
    scores: dict[str, float]

    @classmethod
    def read(cls, content: dict[str, Any]) -> "Validation":
        """From plain data; those of earlier versions hold BLEU and loss side by side."""
        update = content["update"]
        return cls(update, content.get("scores") or {"bleu": content["bleu"], "loss": content["loss"]})


@dataclass
class TrainState:
    """Everything in a run that changes, apart from weights and optimizer."""

    update: int = 0
    """Updates done."""
    learning_rate: float | None = None
    """That of the last update; `None` before the first, and in states from before it was saved."""
    total: Totals = field(default_factory=Totals)
    interval: Totals = field(default_factory=Totals)
    """Sums since the last record in the log."""
    seconds: float = 0.0
    """Wall time of the updates and validations."""
    validations: list[Validation] = field(default_factory=list)
    """All of them, oldest first."""
    checkpoints: list[int] = field(default_factory=list)
    """The updates after which a checkpoint was saved, oldest first; most are removed by now."""
    records: int = 0
    """Lines of the log."""
    epoch_starts: list[int] = field(default_factory=list)
    """The first micro-batch of each epoch, so that a resumed run need not plan earlier epochs again."""
    saving_seconds: float = 0.0
    """Wall time of all saves before this one."""

    def state_dict(self) -> dict[str, Any]:
        """Everything as plain data."""
        return asdict(self)

    def load_state_dict(self, content: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        for name, value in content.items():
            if name in ("total", "interval"):
                value = Totals(**value)
            elif name == "validations":
                value = [Validation.read(validation) for validation in value]
            setattr(self, name, value)


def save_state(
    folder: Path,
    state: TrainState,
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    loss_scaler: dict[str, Any],
    writer: bool = True,
    average: WeightAverage | None = None,
) -> Path:
    """Write `folder/update-N`; of the earlier states, keep only the latest.

    Args:
        folder: the run's `state` folder.
        state: saved as JSON.
        module: its parameters and persistent buffers are saved, each once, in their own precision.
        optimizer: built over the trainable parameters of `module`, in their order.
        loss_scaler: state of float16's loss scaling; empty without it.
        writer: false on the ranks that only contribute their parts of a sharded module.
        average: that of the weights of `module`, if the run keeps one.
    """
    path = folder / f"update-{state.update}"
    weights, moments = gather(_weights(module), writer), gather(_moments(module, optimizer), writer)
    means = None if average is None else gather(average.means, writer)
    if not writer:
        return path
    with atomic_folder(path) as unfinished:
        save_file(weights, unfinished / _WEIGHTS)
        save_file(moments, unfinished / _OPTIMIZER)
        if means is not None:
            save_file(means, unfinished / _AVERAGE)
        write_json(unfinished / _STATE, {"state": state.state_dict(), "loss_scaler": loss_scaler})
        write_checksums(unfinished)
    for older in _states(folder)[:-_STATES_KEPT]:
        remove_folder(older)
    return path


def newest_state(folder: Path) -> Path | None:
    """The folder of the latest saved state, or `None` where nothing has been saved yet."""
    return next(reversed(_states(folder)), None)


def load_state(
    path: Path,
    state: TrainState,
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    average: WeightAverage | None = None,
) -> dict[str, Any]:
    """Fill `state`, `module`, `optimizer` and `average` from a folder that `save_state` wrote; returns the loss scaler's state.

    Raises:
        ValueError: a file is missing, damaged, or belongs to another architecture. The sentence names it, and the previous state as the
            one to resume from. Nothing has been loaded then.
    """
    files = (_STATE, _WEIGHTS, _OPTIMIZER) if average is None else (_STATE, _WEIGHTS, _OPTIMIZER, _AVERAGE)
    if damage := find_damage(path, files):
        raise ValueError(f"{damage}; {_remedy(path)}")
    content = read_json(path / _STATE)
    _load_weights(module, load_file(path / _WEIGHTS), path / _WEIGHTS)
    _load_moments(module, optimizer, load_file(path / _OPTIMIZER))
    if average is not None:
        _load_means(average, load_file(path / _AVERAGE))
    state.load_state_dict(content["state"])
    return dict(content["loss_scaler"])


def _states(folder: Path) -> list[Path]:
    """Oldest first."""
    found = [(int(match[1]), path) for path in folder.glob("update-*") if (match := re.fullmatch(r"update-(\d+)", path.name))]
    return [path for _, path in sorted(found)]


def _weights(module: nn.Module) -> dict[str, Tensor]:
    """Parameters (tied ones once) and persistent buffers."""
    parameters = dict(module.named_parameters())
    stored = module.state_dict(keep_vars=True)
    buffers = {name: buffer for name, buffer in module.named_buffers() if name in stored}
    return {name: tensor.detach() for name, tensor in {**parameters, **buffers}.items()}


def _moments(module: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Adam's tensors by the name of their parameter: `exp_avg.model.shared.weight`."""
    return {
        f"{kind}.{name}": tensor for name, parameter in _trainable(module) for kind, tensor in optimizer.state.get(parameter, {}).items()
    }


def _load_weights(module: nn.Module, saved: dict[str, Tensor], path: Path) -> None:
    current = _weights(module)
    wrong = [name for name in sorted(current.keys() | saved.keys()) if _shape(current, name) != _shape(saved, name)]
    if wrong:
        raise ValueError(f"{path} does not fit the model of this recipe (first difference: {wrong[0]}); choose another run folder.")
    with torch.no_grad():
        for name, tensor in current.items():
            tensor.copy_(part_of(saved[name], tensor))


def _load_moments(module: nn.Module, optimizer: torch.optim.Optimizer, saved: dict[str, Tensor]) -> None:
    by_parameter: dict[str, dict[str, Tensor]] = {}
    for key, tensor in saved.items():
        kind, _, name = key.partition(".")
        by_parameter.setdefault(name, {})[kind] = tensor
    state = {
        index: {
            kind: part_of(tensor, parameter) if tensor.shape == parameter.shape else tensor for kind, tensor in by_parameter[name].items()
        }
        for index, (name, parameter) in enumerate(_in_order(module, optimizer))
        if name in by_parameter
    }
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def _load_means(average: WeightAverage, saved: dict[str, Tensor]) -> None:
    for name, mean in average.means.items():
        mean.copy_(part_of(saved[name], mean))


def _in_order(module: nn.Module, optimizer: torch.optim.Optimizer) -> list[tuple[str, nn.Parameter]]:
    """The parameters as `optimizer` numbers them: group after group."""
    names = {parameter: name for name, parameter in _trainable(module)}
    return [(names[parameter], parameter) for group in optimizer.param_groups for parameter in group["params"]]


def _trainable(module: nn.Module) -> list[tuple[str, nn.Parameter]]:
    return [(name, parameter) for name, parameter in module.named_parameters() if parameter.requires_grad]


def _shape(tensors: dict[str, Tensor], name: str) -> torch.Size | None:
    return tensors[name].shape if name in tensors else None


def _remedy(damaged: Path) -> str:
    *earlier, _ = _states(damaged.parent)
    if not earlier:
        return "put back a good copy, or start again in another run folder."
    return f"put back a good copy, or delete {damaged} and run the same command again: it then resumes from {earlier[-1]}."
