"""FSDP2: parameters, gradients and Adam's moments sharded over all ranks, if Accelerate's configuration says `distributed_type: FSDP`.

`fully_shard` is called here and not by Accelerate, which would silently replicate on CPUs, and whose bfloat16 policy rounds the summed loss
and the reduced gradients to 8 bits. Everything is gathered before saving, so that files do not depend on sharding.
"""

import copy
import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from accelerate import Accelerator
from accelerate.utils import FullyShardedDataParallelPlugin
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from .loss import Losses, TranslationLoss


def is_sharded(accelerator: Accelerator) -> bool:
    """Whether the launcher asks for FSDP and there is more than one rank.

    Raises:
        ValueError: it asks for FSDP's first version, for parameters on the host, or for float16, none of which is supported.
    """
    if os.environ.get("ACCELERATE_USE_FSDP", "false").lower() != "true" or accelerator.num_processes == 1:
        return False
    refused = {
        "`fsdp_version: 1`; set it to 2": FullyShardedDataParallelPlugin().fsdp_version != 2,
        "`fsdp_offload_params: true`; set it to false": os.environ.get("FSDP_OFFLOAD_PARAMS") == "true",
        "`training.precision: float16`; set bfloat16 or float32": accelerator.mixed_precision == "fp16",
    }
    for what, asked in refused.items():
        if asked:
            raise ValueError(f"Sharded training does not know {what}.")
    return True


class ShardedLoss(TranslationLoss):
    """A copy of a `TranslationLoss` of which every rank holds one part; it trains like the whole one.

    Each layer is gathered as a unit while it is used. All else, above all the embeddings that encoder, decoder and softmax share, is in
    the root unit. Gradients are averaged over the ranks. Everything travels in float32 and is rounded where autocast rounds it, as without
    sharding.
    """

    def __init__(self, loss: TranslationLoss, accelerator: Accelerator, compiled: bool = False) -> None:
        """
        Args:
            loss: the whole one, with the same weights on every rank; it is not changed, only moved to the first rank's device there.
            accelerator: gives ranks, device, precision.
            compiled: as in `TranslationLoss`.
        """
        super().__init__(copy.deepcopy(loss.model), loss.smoothing, compiled, loss.r_drop, loss.words)
        if accelerator.is_main_process:
            loss.to(accelerator.device)  # the first rank will use it there
        self._autocast = accelerator.autocast
        mesh = init_device_mesh(accelerator.device.type, (accelerator.num_processes,))
        reshard = FullyShardedDataParallelPlugin().reshard_after_forward
        for module in self.model.modules():
            if type(module).__name__ in self.model._no_split_modules:
                fully_shard(module, mesh=mesh, reshard_after_forward=reshard)
        fully_shard(self, mesh=mesh)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor, target_positions: Tensor) -> Losses:
        with self._autocast():
            return super().forward(input_ids, attention_mask, labels, target_positions)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Inside this context, gradients stay on the rank that computed them; the next backward pass outside sums them."""
        assert isinstance(self, FSDPModule)  # fully_shard made it one
        self.set_requires_gradient_sync(False)
        try:
            yield
        finally:
            self.set_requires_gradient_sync(True)

    @torch.no_grad()
    def copy_to(self, loss: TranslationLoss) -> None:
        """Make the weights of the whole `loss` equal to these. All ranks must take part."""
        for own, other in zip(self.parameters(), loss.parameters(), strict=True):
            other.copy_(whole(own))


def sharded(loss: TranslationLoss, accelerator: Accelerator, compiled: bool = False) -> ShardedLoss:
    """The `ShardedLoss` of a loss of any task; the arguments are those of `ShardedLoss`."""
    kind = type(loss)
    made = ShardedLoss if kind is TranslationLoss else type(f"Sharded{kind.__name__}", (ShardedLoss, kind), {})
    return made(loss, accelerator, compiled)


def whole(tensor: Tensor) -> Tensor:
    """A tensor with the parts of all ranks, all of which must call this; a tensor that is not sharded is returned unchanged."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def own_part(tensor: Tensor) -> Tensor:
    """This rank's part of a sharded tensor, in the same memory; a tensor that is not sharded is returned unchanged."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def gather(tensors: dict[str, Tensor], keep: bool) -> dict[str, Tensor]:
    """Whole tensors by name; sharded ones are gathered one at a time, onto the CPU.

    Args:
        tensors: by name; all ranks must call this with the same names.
        keep: false on the ranks that only contribute their parts and get nothing.
    """
    kept = {}
    for name, tensor in tensors.items():
        complete = whole(tensor)
        if keep:
            kept[name] = complete.contiguous() if complete is tensor else complete.cpu()
    return kept


def part_of(tensor: Tensor, like: Tensor) -> Tensor:
    """This rank's part of a whole `tensor`, sharded like `like`. Nothing is sent: every rank has the same whole."""
    if not isinstance(like, DTensor):
        return tensor
    mesh = like.device_mesh
    return distribute_tensor(tensor.to(mesh.device_type), mesh, like.placements, src_data_rank=None)
