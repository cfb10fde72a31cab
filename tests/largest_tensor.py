"""How much memory tensors take, counted exactly: by the largest one, and by all that are alive at once."""

import weakref
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class TensorMemory(TorchDispatchMode):
    """Watches every tensor that is made while it is entered."""

    def __init__(self) -> None:
        super().__init__()
        self.largest = 0
        """The most numbers in one tensor."""
        self.peak = 0
        """The most bytes at a time, in all tensors made here."""
        self._sizes: dict[int, int] = {}

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(made):
            if isinstance(tensor, torch.Tensor):
                storage = tensor.untyped_storage()
                self.largest = max(self.largest, storage.nbytes() // tensor.element_size())
                if storage._cdata not in self._sizes:
                    self._sizes[storage._cdata] = storage.nbytes()
                    weakref.finalize(storage, self._sizes.pop, storage._cdata, None)
                    self.peak = max(self.peak, sum(self._sizes.values()))
        return made
