"""Files of `torch.save` by strangers: read without running anything that stands in them."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch


class Inert:
    """Stands in for a class whose objects lie in a file and of which nothing is needed."""


def read_torch_file(path: Path, known: Sequence[Any] = ()) -> Any:
    """What `torch.save` has written to `path`, if it is made of tensors and plain Python values.

    Args:
        path: a file from anywhere.
        known: classes, or pairs of a class and the name that it bears in the file, that may occur beside them.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is empty, damaged, of another kind, or wants code to be run, which it is not.
    """
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}; give the checkpoint itself.")
    if not path.stat().st_size:
        raise ValueError(f"{path} is empty, 0 bytes long; download it again.")
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
            raise ValueError(
                f"{path} cannot be read as a file of torch.save ({type(error).__name__}): it is damaged, incomplete or "
                "something else; download it again."
            ) from error
