"""What transformers makes of a search's settings, kept until one of them changes: making it takes as long as a step of a search.

This file travels with checkpoints.
"""

from collections.abc import Mapping
from types import NoneType
from typing import Any

from transformers import GenerationConfig

_SIMPLE = frozenset((bool, int, float, str, NoneType))


class KeptSettings:
    """What transformers made of a model's settings and of a call's, for calls that repeat both."""

    MOST = 64
    """Calls with so many different settings are kept."""

    def __init__(self) -> None:
        self._kept: dict[tuple[Any, ...], tuple[dict[str, Any], list[str]]] = {}

    def find(self, key: tuple[Any, ...] | None, given: Mapping[str, Any]) -> tuple[GenerationConfig, dict[str, Any]] | None:
        """The settings kept under `key`, anew, and those of the `given` arguments that are none; `None` if there are none."""
        kept = None if key is None else self._kept.get(key)
        if kept is None:
            return None
        settings, others = kept
        prepared = GenerationConfig.__new__(GenerationConfig)
        vars(prepared).update(settings)
        return prepared, {name: given[name] for name in others}

    def keep(self, key: tuple[Any, ...] | None, given: Mapping[str, Any], prepared: GenerationConfig, others: Mapping[str, Any]) -> None:
        """Keep the settings `prepared` of the `given` arguments, and the names of the `others`, if that is all there is to know."""
        if key is None or type(prepared) is not GenerationConfig or _state(vars(prepared)) is None:
            return
        if all(name in given and given[name] is value for name, value in others.items()):
            if len(self._kept) >= self.MOST:
                self._kept.clear()
            self._kept[key] = dict(vars(prepared)), list(others)

    def __deepcopy__(self, memo: dict[int, Any]) -> "KeptSettings":
        """A copy of a model begins without any."""
        return KeptSettings()


def key_of(settings: GenerationConfig, config: Any, given: Mapping[str, Any], no_settings: set[str]) -> tuple[Any, ...] | None:
    """All that transformers makes a search's settings of, to be compared; `None` if some of it may change unseen, as a list may.

    Args:
        settings: the model's own.
        config: the model's; transformers refuses settings of a search that stand there.
        given: a call's arguments.
        no_settings: names among them that may have any value.
    """
    own, architecture = vars(settings), vars(config)
    shared = {name: architecture[name] for name in own.keys() & architecture.keys()}
    asked = {name: None if name in no_settings else value for name, value in given.items()}
    parts = [_state(part) for part in (own, shared, asked)]
    return None if None in parts or type(settings) is not GenerationConfig else tuple(parts)


def _state(values: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """Names, types and values, which compare as equal where nothing has changed; `None` if one is not a number, a word or `None`."""
    kinds = tuple(map(type, values.values()))
    return (tuple(values), kinds, tuple(values.values())) if _SIMPLE.issuperset(kinds) else None


__all__ = ["KeptSettings"]
