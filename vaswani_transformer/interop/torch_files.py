"""Files of `torch.save` by strangers: read without running anything that stands in them."""

import re
import reprlib
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

MOST_NAMES = 4
"""Of one stored number, all together: embeddings may be stored once for the source, the target and the softmax."""


class Inert:
    """Stands in for a class whose objects lie in a file and of which nothing is needed."""


def read_torch_file(path: Path, known: Sequence[Any] = ()) -> Any:
    """What `torch.save` has written to `path`, if it is made of tensors and plain Python values.

    Args:
        path: a file from anywhere.
        known: other classes that may occur, or pairs of a class and its name in the file.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is empty, damaged, of another kind, or wants code to be run, which it is not.
    """
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}; give the checkpoint itself.")
    if not path.stat().st_size:
        raise ValueError(f"{path} is empty, 0 bytes long; download it again.")
    _check_archive(path)
    with torch.serialization.safe_globals(list(known)):
        try:
            return torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:  # whatever a damaged or hostile file provokes becomes one sentence
            wanted = re.search(r"GLOBAL (\S+)|class (\S+) was not", str(error))
            if wanted:
                raise ValueError(
                    f"{path} is more than numbers: to read it, Python would have to run {wanted[1] or wanted[2]}, which may do "
                    "anything. Nothing was run; if you trust its author, save the tensors alone with the program that wrote it."
                ) from error
            raise _unreadable(path, type(error).__name__) from error


def check_tensors(path: Path, tensors: Any) -> dict[str, Tensor]:
    """`tensors`, which were read from `path`, if all of them are plain matrices with names, whose numbers the file contains.

    Other kinds of tensors can take more memory than the file has bytes, or fail in the middle of the conversion.

    Raises:
        ValueError: the sentence names the first tensor with a fault.
    """
    if not isinstance(tensors, dict) or not tensors:
        raise ValueError(f"{path} has no tensors by name where its weights should be.")
    for name, tensor in tensors.items():
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
            raise ValueError(f"{path}: {shown(name)} is {type(tensor).__name__}; not all that is under `model` is a tensor with a name.")
        if fault := _fault(tensor):
            raise ValueError(
                f"{path}: {shown(name)} is {fault}, not a plain matrix of floating-point numbers; the file is damaged or hostile."
            )
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors.values()}
    if sum(tensor.nbytes for tensor in tensors.values()) > MOST_NAMES * sum(storages.values()):
        raise ValueError(f"{path} gives the same numbers more than {MOST_NAMES} names; the file is damaged or hostile.")
    return tensors


def check_sizes(where: str | Path, sizes: Mapping[str, Any], shapes: Iterable[Sequence[int]]) -> None:
    """Refuse sizes of a model that are larger than any dimension of its weights, before memory is allocated for them.

    Args:
        where: what states the sizes.
        sizes: by name.
        shapes: of the weights.

    Raises:
        ValueError: the sentence names the first of these sizes.
    """
    largest = max((number for shape in shapes for number in shape), default=0)
    for name, value in sizes.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ValueError(f"{where}: {name} is {shown(value)}; it must be a whole number from 1.")
        if value > largest:
            raise ValueError(f"{where}: {name} is {value:,}, and no weight is larger than {largest:,}; they are of two models.")


def check_layers(where: str | Path, layers: Mapping[str, int], names: Iterable[str]) -> None:
    """Refuse numbers of layers, by "encoder" and "decoder", for which there are no weights; see `check_sizes`."""
    found = {match.groups() for name in names if (match := re.search(r"\b(encoder|decoder)\.layers\.(\d+)\.", name))}
    for side, number in layers.items():
        if (side, str(number - 1)) not in found:
            raise ValueError(f"The weights lack the layer {number - 1:,} of the {side} that {where} states; they are of two models.")


def shown(value: Any) -> str:
    """What of a stranger's value fits into a sentence."""
    return " ".join(reprlib.repr(value).split())


def _fault(tensor: Tensor) -> str | None:
    """What keeps a tensor from being a matrix whose numbers lie in the file."""
    if tensor.is_nested or tensor.layout != torch.strided:
        return "sparse or nested"
    if tensor.device.type != "cpu":
        return f"of the device {tensor.device.type}"
    if tensor.is_quantized or not tensor.is_floating_point():
        return f"of the type {tensor.dtype}"
    if not tensor.dim():
        return "a single number"
    if tensor.nbytes > tensor.untyped_storage().nbytes():
        return f"of {tensor.numel():,} numbers, of which the file has fewer"
    return None


def _check_archive(path: Path) -> None:
    """Refuse an archive whose entries are larger than they are in the file: `torch.save` compresses nothing."""
    if not zipfile.is_zipfile(path):
        return
    try:
        with zipfile.ZipFile(path) as archive:
            content = sum(entry.file_size for entry in archive.infolist())
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise _unreadable(path, type(error).__name__) from error
    if content > path.stat().st_size:
        raise _unreadable(path, f"{path.stat().st_size:,} bytes would unpack to {content:,}")


def _unreadable(path: Path, reason: str) -> ValueError:
    return ValueError(
        f"{path} cannot be read as a file of torch.save ({reason}): it is damaged, incomplete or something else; download it again."
    )
