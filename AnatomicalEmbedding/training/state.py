"""The state of a training run at one step: weights, their average, frames, optimiser; saved, and resumed exactly."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.nn.functional import all_reduce

from ..embedding.models.network import DESCRIPTOR_HEADS, OPTIONAL_HEADS, EmbeddingNetwork
from ..embedding.tensor_files import write_checkpoint
from ..errors import AnatomicalEmbeddingError
from .objectives import Batch, FrameCorrections, Learner
from .recipes import Recipe
from .scans import PreparedScan
from .validation import score

if TYPE_CHECKING:
    from lightning_fabric import Fabric


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


class TrainingState:
    """The contents of a checkpoint, and the step from one state to the next."""

    def __init__(
        self,
        scans: list[PreparedScan],
        recipe: Recipe,
        steps: int,
        seed: int,
        fabric: Fabric,
        start_from: EmbeddingNetwork | None,
        dtype: torch.dtype,
    ):
        torch.manual_seed(seed)
        self.fabric = fabric
        self.recipe, self.seed = recipe, seed
        self.identity = json.dumps([recipe.to_dict(), [s.name for s in scans], steps, seed], sort_keys=True)
        self.network = EmbeddingNetwork(recipe.network)
        if start_from is not None:
            _copy_weights(start_from, self.network)
        # convolutions run faster with the channels last, on CPUs and GPUs
        self.network.to(memory_format=torch.channels_last_3d).train()
        if fabric.world_size > 1:
            synchronised(self.network)
        if recipe.optimiser.descriptors_only:
            for name, part in self.network.named_children():
                part.train(name in DESCRIPTOR_HEADS).requires_grad_(name in DESCRIPTOR_HEADS)
        if recipe.optimiser.frozen_statistics:
            if start_from is None:
                raise AnatomicalEmbeddingError(
                    f"recipe {recipe.name}: optimiser.frozen_statistics needs trained weights; give --start-from."
                )
            for module in self.network.modules():
                if isinstance(module, nn.modules.batchnorm._BatchNorm):
                    module.eval()
        self.frames = FrameCorrections(scans, recipe.network.unit_mm or 1.0)
        in_frame = recipe.objective in ("coordinates", "hybrid") and not recipe.optimiser.descriptors_only
        self.frames.requires_grad_(in_frame)
        options = recipe.optimiser
        algorithm = {"adamw": partial(torch.optim.AdamW, fused=True), "radam": torch.optim.RAdam}[options.algorithm]
        optimiser = algorithm(
            [
                {"params": self.network.parameters(), "lr": options.learning_rate},
                {"params": self.frames.parameters(), "lr": options.frame_learning_rate, "weight_decay": 0.0},
            ],
            weight_decay=options.weight_decay,
            eps=options.epsilon,
        )
        self.learner, self.optimiser = fabric.setup(Learner(self.network, self.frames, recipe, dtype), optimiser)
        self.averaged = copy.deepcopy(self.network)
        if options.schedule == "one-cycle":
            rates = [options.learning_rate, max(options.frame_learning_rate, 1e-12)]
            warm_up = max(options.warm_up, 2 / (steps + 1))  # OneCycleLR divides by its length less one step
            self.schedule = torch.optim.lr_scheduler.OneCycleLR(
                optimiser, rates, total_steps=steps + 1, pct_start=warm_up
            )
        else:
            self.schedule = torch.optim.lr_scheduler.ConstantLR(optimiser, factor=1.0)
        self.step, self.minutes, self.mean_loss = 0, 0.0, float("nan")
        self.best: dict[str, torch.Tensor] | None = None
        self.best_error = float("inf")

    def update(self, batches: Sequence[Batch]) -> float:
        """One step of the optimiser on the mean loss of batches; returns that loss, its mean over processes."""
        self.optimiser.zero_grad(set_to_none=True)
        total = torch.zeros((), device=self.fabric.device)
        for number, batch in enumerate(batches):
            # like the batch itself, its random negatives depend on (seed, step) alone
            index = self.step * len(batches) + number
            generator = torch.Generator().manual_seed(self.seed * 1_000_003 + index)
            last = number == len(batches) - 1
            with self.fabric.no_backward_sync(self.learner, enabled=not last):
                loss = self.learner(batch, generator) / len(batches)
                self.fabric.backward(loss)
            total += loss.detach()
        if not torch.isfinite(total):
            raise AnatomicalEmbeddingError(
                f"training: the loss of step {self.step + 1} is not a number; the last checkpoint is kept. "
                "Lower optimiser.learning_rate in the recipe, or look at the scans."
            )
        nn.utils.clip_grad_norm_(self.network.parameters(), self.recipe.optimiser.gradient_clip)
        self.optimiser.step()
        self.schedule.step()
        self.step += 1
        self._average()
        value = float(self.fabric.all_reduce(total))
        self.mean_loss = value if self.step == 1 else 0.98 * self.mean_loss + 0.02 * value
        return value

    @torch.no_grad()
    def _average(self) -> None:
        """Exponential mean of the weights; early on over fewer steps, so that the start is forgotten."""
        keep = min(self.recipe.optimiser.ema, (self.step - 1) / (self.step + 9))
        torch._foreach_lerp_(list(self.averaged.parameters()), list(self.network.parameters()), 1 - keep)
        for mean, value in zip(self.averaged.buffers(), self.network.buffers(), strict=True):
            mean.copy_(value)

    def judge(self, validate: Callable[[EmbeddingNetwork], dict[str, float]]) -> dict[str, float]:
        """Errors of the averaged weights in mm; the weights are kept if none before were better."""
        network = self._on_cpu(self.averaged)
        errors = validate(network)
        if (error := score(errors)) < self.best_error:
            self.best_error, self.best = error, {name: value.clone() for name, value in network.state_dict().items()}
        return errors

    def chosen(self) -> EmbeddingNetwork:
        """The run's weights on the CPU, ready for use: the best judged ones, or the averaged ones if none were."""
        network = self._on_cpu(self.averaged)
        if self.best is not None:
            network.load_state_dict(self.best)
        return network

    @staticmethod
    def _on_cpu(network: EmbeddingNetwork) -> EmbeddingNetwork:
        return copy.deepcopy(network).to("cpu", memory_format=torch.contiguous_format).eval()

    def save(self, path: Path) -> None:
        modules = ("network", "averaged", "frames", "optimiser", "schedule")
        state = {name: getattr(self, name).state_dict() for name in modules}
        state |= {"step": self.step, "minutes": self.minutes, "mean_loss": self.mean_loss, "identity": self.identity}
        state |= {"best": self.best, "best_error": self.best_error}
        if self.fabric.is_global_zero:
            write_checkpoint(path, state)
        self.fabric.barrier()

    def resume(self, path: Path) -> None:
        if not path.exists():
            return
        try:
            state = torch.load(path, map_location="cpu", weights_only=True)
        except (RuntimeError, EOFError, pickle.UnpicklingError):
            raise AnatomicalEmbeddingError(f"{path}: is damaged; delete it to start this run over.") from None
        if state["identity"] != self.identity:
            raise AnatomicalEmbeddingError(
                f"{path}: belongs to a run with another recipe, data, seed or length; choose another output folder."
            )
        for name in ("network", "averaged", "frames", "optimiser", "schedule"):
            getattr(self, name).load_state_dict(state[name])
        self.step, self.minutes, self.mean_loss = state["step"], state["minutes"], state["mean_loss"]
        self.best, self.best_error = state["best"], state["best_error"]


def _copy_weights(source: nn.Module, target: EmbeddingNetwork) -> None:
    """The weights both have. Heads that the source lacks keep their random weights, others are left out."""
    fault = "--start-from: the weights belong to another network than the recipe's; choose a recipe with their widths."
    try:
        unlike = target.load_state_dict(source.state_dict(), strict=False)
    except RuntimeError:
        raise AnatomicalEmbeddingError(fault) from None
    unlike_keys = [*unlike.unexpected_keys, *unlike.missing_keys]
    if any(key.split(".")[0] not in OPTIONAL_HEADS for key in unlike_keys):
        raise AnatomicalEmbeddingError(fault)
