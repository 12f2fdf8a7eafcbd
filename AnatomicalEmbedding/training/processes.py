"""Several processes that train together, one on each device, under torchrun: batch normalisation and gradients."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.nn.functional import all_reduce

from .loop import OneProcess

if TYPE_CHECKING:
    from lightning_fabric import Fabric


class Processes(OneProcess):
    """The processes of a Fabric. learner: the module that computes losses, whose gradients they share."""

    def __init__(self, fabric: Fabric, learner: nn.Module):
        self._fabric, self._learner = fabric, learner
        self.first = fabric.is_global_zero

    def backward(self, loss: torch.Tensor, last: bool) -> None:
        with self._fabric.no_backward_sync(self._learner, enabled=not last):
            self._fabric.backward(loss)

    def mean(self, loss: float) -> float:
        return float(self._fabric.all_reduce(torch.tensor(loss, device=self._fabric.device)))

    def any(self, flag: bool) -> bool:
        if self._fabric.world_size == 1:
            return flag
        flags = torch.tensor(float(flag), device=self._fabric.device)
        return bool(self._fabric.all_reduce(flags, reduce_op="sum") > 0)

    def wait(self) -> None:
        self._fabric.barrier()


def start_fabric(device: str) -> Fabric:
    """One process on a device; under torchrun, all its processes together."""
    from lightning_fabric import Fabric  # an extra, needed for training only

    kind = torch.device(device)
    world, local = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    if world > 1:
        fabric = Fabric(accelerator=kind.type, strategy="ddp", devices=local, num_nodes=world // local)
    else:
        fabric = Fabric(accelerator=kind.type, devices=1 if kind.index is None else [kind.index])
    fabric.launch()
    return fabric


class SyncedBatchNorm3d(nn.BatchNorm3d):
    """BatchNorm3d whose mean and variance are those of the whole batch; weights and buffers have the same names."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.training or not dist.is_initialized():
            return super().forward(x)
        values = x.float()
        axes = (0, 2, 3, 4)
        count = torch.full((1,), values.numel() / values.shape[1], device=x.device)
        total = all_reduce(torch.cat([values.sum(axes), values.square().sum(axes), count]))
        mean, square = (total[:-1] / total[-1]).chunk(2)
        variance = (square - mean.square()).clamp_min(0)
        with torch.no_grad():
            number = total[-1]
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(variance * number / (number - 1), self.momentum)
            self.num_batches_tracked.add_(1)
        scale = torch.rsqrt(variance + self.eps)
        shift = -mean * scale
        if self.affine:
            scale, shift = scale * self.weight, shift * self.weight + self.bias
        return (values * scale[:, None, None, None] + shift[:, None, None, None]).to(x.dtype)


def synchronised(module: nn.Module) -> nn.Module:
    """The module with its batch normalisations made synchronous, in place; weights and names stay."""
    for part in module.modules():
        if type(part) is nn.BatchNorm3d:
            part.__class__ = SyncedBatchNorm3d
    return module
