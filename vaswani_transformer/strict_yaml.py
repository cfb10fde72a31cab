"""YAML read into frozen dataclasses, where every mistake is an error that says what, where and the remedy."""

import dataclasses
import difflib
import types
import typing
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import yaml

Settings = TypeVar("Settings")


class _StrictLoader(yaml.SafeLoader):
    """PyYAML lets the last of two equal keys win without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: dict[tuple[str, str], int] = {}
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                line = key.start_mark.line + 1
                if (before := seen.get((key.tag, key.value))) is not None:
                    problem = f"the key `{key.value}` stands in line {before} and again in line {line}; keep one of them"
                    raise yaml.MarkedYAMLError(problem=problem)
                seen[key.tag, key.value] = line
        return super().construct_mapping(node, deep)


def read_yaml(text: str) -> Any:
    """What YAML text holds.

    Raises:
        ValueError: it is no YAML, or a mapping has a key twice; the sentence says where.
    """
    try:
        return _StrictLoader(text).get_single_data()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        raise ValueError(f"{error.problem}{f' (line {mark.line + 1}, column {mark.column + 1})' if mark else ''}") from error
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error


def read_mapping(path: Path) -> dict[str, Any]:
    """The settings that a YAML file holds.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is no YAML, a key stands there twice, or it holds something else than a mapping.
    """
    try:
        tree = read_yaml(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not valid YAML: {error}") from error
    if not isinstance(tree, dict):
        raise ValueError(f"{path} must hold a mapping of settings, not {type(tree).__name__}.")
    return tree


def parse_override(override: str, example: str = "training.updates=100") -> tuple[str, Any]:
    """Key and value of an override such as `training.updates=100`; the value is YAML, or `None` as in Python.

    Raises:
        ValueError: there is no key, no `=`, or the value is no YAML.
    """
    key, separator, value = override.partition("=")
    if not separator or not all(key.split(".")):
        raise ValueError(f"An override reads key=value, such as {example}; got {override!r}.")
    if value.strip() == "None":  # what messages and settings of transformers call it; to YAML, a text
        return key, None
    try:
        return key, read_yaml(value)
    except ValueError as error:
        raise ValueError(f"The value of the override {override!r} is not valid YAML ({error}); put it in quotes.") from error


def apply_override(tree: dict[str, Any], override: str) -> None:
    """Set what `override` says in `tree`; see `parse_override`. A dot in the key leads into a mapping.

    Raises:
        ValueError: as `parse_override`, or the key leads below something that is no mapping.
    """
    key, value = parse_override(override)
    *parents, last = key.split(".")
    node: Any = tree
    for parent in parents:
        if node.get(parent) is None:  # absent, or null as in the recipe of a run
            node[parent] = {}
        node = node[parent]
        if not isinstance(node, dict):
            raise ValueError(f"The override {override!r} goes below `{parent}`, which is not a mapping.")
    node[last] = value


def parse(kind: type[Settings], tree: Any, synonyms: Mapping[str, str] | None = None) -> Settings:
    """Build the dataclass `kind` from plain YAML data.

    Fields may be dataclasses, `Literal`, `dict[str, X]`, tuples, optional, or a union of dataclasses. Such a union is told apart by the one
    field that is a `Literal` in all of them. A key that belongs to another member of the union is accepted if its value is null or false,
    because that sets nothing: recipes of old runs list the fields of all formats.

    Args:
        kind: a dataclass.
        tree: a mapping.
        synonyms: for names that people type, the key that is meant here, in the words of the error.

    Raises:
        ValueError: a key is unknown or missing, or a value is wrong.
    """
    result = _Parser(kind, synonyms or {}).value(kind, tree, "")
    assert isinstance(result, kind)
    return result


def parse_value(kind: Any, value: Any, where: str) -> Any:
    """As `parse`, for a value of any type that a field may have; `where` is what errors call it."""
    return _Parser(kind, {}).value(kind, value, where)


class _Parser:
    """Knows all keys there are, so that an error can name the one that is meant."""

    def __init__(self, root: type, synonyms: Mapping[str, str]) -> None:
        self._synonyms = synonyms
        self._elsewhere: dict[str, list[str]] = defaultdict(list)
        for key in dict.fromkeys(_dotted_keys(root)):
            self._elsewhere[key.rpartition(".")[2]].append(key)

    def value(self, kind: Any, value: Any, where: str) -> Any:
        """A value of type `kind`; `where` is the dotted path for error messages."""
        origin, arguments = get_origin(kind), get_args(kind)
        if dataclasses.is_dataclass(kind) and isinstance(kind, type):
            return self._dataclass(kind, value, where)
        if origin in (typing.Union, types.UnionType):
            return self._union(arguments, value, where)
        if origin is Literal:
            if value not in arguments:
                raise ValueError(unknown_value(where, value, arguments))
            return value
        if origin is tuple:
            return self._tuple(arguments, value, where)
        if origin is dict:
            if not isinstance(value, dict):
                raise ValueError(f"`{where}` must be a mapping, not {value!r}.")
            return {self.value(str, key, f"a key of {where}"): self.value(arguments[1], v, f"{where}.{key}") for key, v in value.items()}
        return value if kind is Any else _scalar(kind, value, where)

    def _union(self, kinds: Sequence[Any], value: Any, where: str) -> Any:
        if value is None and type(None) in kinds:
            return None
        is_list = isinstance(value, list | tuple)
        kinds = [kind for kind in kinds if kind is not type(None)]
        words = [word for kind in kinds if get_origin(kind) is Literal for word in get_args(kind)]
        if value in words:
            return value
        if float in kinds and words:
            try:
                return _scalar(float, value, where)
            except ValueError as error:
                raise ValueError(f"`{where}` must be a number or {' or '.join(words)}, not {value!r}.") from error
        fitting = [kind for kind in kinds if is_list == (get_origin(kind) is tuple)] or kinds
        if len(fitting) > 1 and all(dataclasses.is_dataclass(kind) for kind in fitting):
            return self._tagged(fitting, value, where)
        return self.value(fitting[0], value, where)

    def _tagged(self, kinds: Sequence[Any], value: Any, where: str) -> Any:
        """One of several dataclasses, chosen by the `Literal` that they all have."""
        _check_mapping(value, where)
        (tag,) = set.intersection(*({n for n, hint in get_type_hints(kind).items() if get_origin(hint) is Literal} for kind in kinds))
        by_name = {name: kind for kind in kinds for name in get_args(get_type_hints(kind)[tag])}
        if tag not in value:
            raise ValueError(f"`{_below(where, tag)}` is missing; valid are: {', '.join(by_name)}.")
        if value[tag] not in by_name:
            raise ValueError(unknown_value(_below(where, tag), value[tag], by_name))
        kind = by_name[value[tag]]
        own, all_keys = get_type_hints(kind), {key for other in kinds for key in get_type_hints(other)}
        foreign = [key for key in value if key in all_keys and key not in own]
        if wrong := [key for key in foreign if value[key] not in (None, False)]:
            raise ValueError(f"`{_below(where, wrong[0])}` does not belong to {tag} '{value[tag]}', whose keys are {', '.join(own)}.")
        for f in dataclasses.fields(kind):
            if _is_required(f) and value.get(f.name) is None:
                raise ValueError(f"`{where}`: {tag} '{value[tag]}' needs `{f.name}`; add it to the recipe.")
        return self._dataclass(kind, {key: item for key, item in value.items() if key not in foreign}, where)

    def _tuple(self, arguments: Sequence[Any], value: Any, where: str) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise ValueError(f"`{where}` must be a list, not {value!r}.")
        if arguments[-1] is not Ellipsis and len(value) != len(arguments):
            raise ValueError(f"`{where}` must hold {len(arguments)} values, not {len(value)}.")
        return tuple(self.value(arguments[0], item, f"{where}[{i}]") for i, item in enumerate(value))

    def _dataclass(self, kind: type, value: Any, where: str) -> Any:
        _check_mapping(value, where)
        hints = get_type_hints(kind)
        for key in value:
            if key not in hints:
                raise ValueError(self._unknown_key(where, key, hints))
        for f in dataclasses.fields(kind):
            if _is_required(f) and f.name not in value:
                raise ValueError(f"`{_below(where, f.name)}` is missing; add it to the recipe.")
        settings = {key: self.value(hints[key], item, _below(where, key)) for key, item in value.items()}
        try:
            return kind(**settings)
        except ValueError as error:
            raise ValueError(f"`{where}`: {error}" if where else str(error)) from error

    def _unknown_key(self, where: str, key: object, valid: Iterable[str]) -> str:
        """What people are used to from elsewhere, the same name in another section, or the nearest name here."""
        name = str(key)
        if name in self._synonyms:
            return f"Unknown key `{_below(where, key)}`; here it is {self._synonyms[name]}."
        if name in self._elsewhere:
            return f"Unknown key `{_below(where, key)}`; did you mean {' or '.join(f'`{place}`' for place in self._elsewhere[name])}?"
        return unknown_key(where, key, valid)


def unknown_key(where: str, key: object, valid: Iterable[str]) -> str:
    """The sentence about a key that is not among the `valid` ones of the section `where`."""
    return _unknown(f"Unknown key `{_below(where, key)}`", key, valid)


def unknown_value(where: str, value: object, valid: Iterable[Any]) -> str:
    """The sentence about a value of the key `where` that is not among the `valid` ones."""
    return _unknown(f"`{where}` cannot be {value!r}", value, valid)


def require_at_least(settings: Any, least: int, *names: str) -> None:
    """Refuse fields of `settings` below `least`; None passes.

    Raises:
        ValueError: naming the field.
    """
    for name in names:
        if (value := getattr(settings, name)) is not None and not value >= least:
            raise ValueError(f"`{name}` must be at least {least}, not {value}.")


def require_above_zero(settings: Any, *names: str) -> None:
    """Refuse fields of `settings` that are 0 or below; None passes.

    Raises:
        ValueError: naming the field.
    """
    for name in names:
        if (value := getattr(settings, name)) is not None and not value > 0:
            raise ValueError(f"`{name}` must be above 0, not {value}.")


def plain(value: Any) -> Any:
    """Tuples as lists: what YAML's safe dumper knows."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def _dotted_keys(kind: Any, where: str = "") -> Iterator[str]:
    """Every key of a dataclass and of the dataclasses in it; those in lists and mappings have no fixed name."""
    for name, hint in get_type_hints(kind).items() if dataclasses.is_dataclass(kind) else ():
        yield _below(where, name)
        for inner in (hint, *get_args(hint)):
            if dataclasses.is_dataclass(inner) and get_origin(hint) not in (tuple, dict):
                yield from _dotted_keys(inner, _below(where, name))


def _check_mapping(value: Any, where: str) -> None:
    if not isinstance(value, dict):
        raise ValueError(f"`{where or 'the recipe'}` must be a mapping, not {value!r}.")


def _is_required(f: "dataclasses.Field[Any]") -> bool:
    return f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING


def _below(where: str, key: object) -> str:
    return f"{where}.{key}" if where else str(key)


def _scalar(kind: type, value: Any, where: str) -> Any:
    if kind is float and isinstance(value, str):  # YAML 1.1 reads 1e-9 as a string
        try:
            return float(value)
        except ValueError as error:
            raise ValueError(f"`{where}` must be a number, not {value!r}.") from error
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind is str and isinstance(value, bool):
        written = '"yes", "on"' if value else '"no", "off"'
        raise ValueError(f"`{where}` must be text, but YAML reads the words {written} and their like as a truth value; quote it.")
    if kind is str and value is not None and not isinstance(value, str | dict | list):
        raise ValueError(f'`{where}` must be text, not {value!r}; quote it: "{value}".')
    if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
        raise ValueError(f"`{where}` must be of type {kind.__name__}, not {value!r}.")
    return value


def _unknown(what: str, given: object, valid: Iterable[Any]) -> str:
    names = sorted(str(name) for name in valid)
    nearest = difflib.get_close_matches(str(given), names, n=1, cutoff=0.4)
    hint = f"did you mean `{nearest[0]}`?" if nearest else f"valid are: {', '.join(names)}."
    return f"{what}; {hint}"
