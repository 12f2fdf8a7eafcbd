"""Batch normalisation over the batches of all processes that train together, on CPUs too (torch's own needs a GPU)."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.nn.functional import all_reduce


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
