"""An exponential moving average of the weights, kept beside them while they are trained (Polyak and Juditsky, 1992)."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from .sharding import own_part


class WeightAverage:
    """The mean of a module's trained weights over all updates so far, where an update counts `decay` times as much as the next one.

    After update t it is `sum_k decay^(t - k) * w_k / sum_k decay^(t - k)` over the updates k = 1 to t. The division is the bias correction
    of Adam (Kingma and Ba, 2015, section 3), so the first weights, before any update, have no part in it. Of sharded parameters, every rank
    averages the part that it holds.
    """

    def __init__(self, module: nn.Module, decay: float) -> None:
        """
        Args:
            module: whose trainable parameters are averaged; already on its device.
            decay: above 0 and below 1; updates older than about 1 / (1 - decay) hardly count.
        """
        self.decay = decay
        self._parameters = {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}
        self.means: dict[str, Tensor] = {name: parameter.detach().clone() for name, parameter in self._parameters.items()}

    @torch.no_grad()
    def add(self, update: int) -> None:
        """Take the weights after `update`, counted from 1, into the mean."""
        share = (1 - self.decay) / (1 - self.decay**update)
        for mean, parameter in self._pairs():
            mean.lerp_(parameter, share)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Inside this context the module has the mean as its weights; afterwards its own again, bit for bit."""
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    @torch.no_grad()
    def _exchange(self) -> None:
        for mean, parameter in self._pairs():
            kept = mean.clone()
            mean.copy_(parameter)
            parameter.copy_(kept)

    def _pairs(self) -> Iterator[tuple[Tensor, Tensor]]:
        for name, parameter in self._parameters.items():
            yield own_part(self.means[name]), own_part(parameter.detach())
