"""A smaller model out of some layers of a larger one, to be trained on: "shrink and fine-tune" (Shleifer and Rush, 2020)."""

import re
from collections.abc import Mapping
from typing import TypeVar

from ..configuration_vaswani import VaswaniConfig
from ..modeling_vaswani import VaswaniPreTrainedModel

Model = TypeVar("Model", bound=VaswaniPreTrainedModel)

_LAYER = re.compile(r"(?:^|\.)(encoder|decoder)\.layers\.(\d+)\.")


def evenly_spaced(layers: int, kept: int) -> list[int]:
    """The numbers of `kept` of so many layers: the first, the last, and those between at equal distances; of one, the first."""
    return [0] if kept == 1 else [round(number * (layers - 1) / (kept - 1)) for number in range(kept)]


def described(config: VaswaniConfig, kept: Mapping[str, int]) -> str:
    """Which layers of a model are kept where some are left out, counted from 1, such as `1 and 6 of the decoder's 6`."""
    parts = []
    for name, number in kept.items():
        layers = getattr(config, name)
        if number == layers:
            continue
        numbers = [str(chosen + 1) for chosen in evenly_spaced(layers, number)]
        listed = " and ".join(part for part in (", ".join(numbers[:-1]), numbers[-1]) if part)
        parts.append(f"{listed} of the {name.removesuffix('_layers')}'s {layers}")
    return ", and ".join(parts)


def with_fewer_layers(model: Model, kept: Mapping[str, int]) -> Model:
    """A copy of `model` with some of its layers, and all else as it is; `model` itself if it has no more than those.

    Args:
        model: of this package.
        kept: how many layers the encoder and the decoder keep, as `encoder_layers` and `decoder_layers`. None is more than there are.
    """
    if all(getattr(model.config, name) == number for name, number in kept.items()):
        return model
    chosen = {name.removesuffix("_layers"): evenly_spaced(getattr(model.config, name), number) for name, number in kept.items()}
    smaller = type(model)(type(model.config).from_dict({**model.config.to_dict(), **kept}))
    before = model.state_dict()
    smaller.train(model.training).load_state_dict({name: before[_origin(name, chosen)] for name in smaller.state_dict()})
    if model.can_generate():
        smaller.generation_config = model.generation_config
    return smaller


def _origin(name: str, chosen: Mapping[str, list[int]]) -> str:
    """What the parameter `name` of the smaller model is called in the larger one."""
    found = _LAYER.search(name)
    if found is None or found[1] not in chosen:
        return name
    return f"{name[: found.start(2)]}{chosen[found[1]][int(found[2])]}{name[found.end(2) :]}"
