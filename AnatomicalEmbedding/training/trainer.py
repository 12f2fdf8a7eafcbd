"""Training of the embedding network on prepared scans: batches from the sampler, the recipe's loss, the one loop."""

import copy
import json
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader

from ..embedding.device import fast_dtype, memory_budget
from ..embedding.models.network import DESCRIPTOR_HEADS, OPTIONAL_HEADS, EmbeddingNetwork
from ..errors import AnatomicalEmbeddingError
from .loop import CHECKPOINT, Progress, StepLog, TrainingLoop
from .objectives import OBJECTIVES, FrameCorrections, LossContext, Objective
from .recipes import Recipe
from .scans import PreparedScan
from .validation import score

_RESIDENT_SHARE = 0.4  # of the memory that may be used


@dataclass(frozen=True)
class TrainingRun:
    """network: with the best validated weights, else the averaged ones; on the CPU. steps, minutes: of the run."""

    network: EmbeddingNetwork
    steps: int
    minutes: float


def train(
    scans: list[PreparedScan],
    recipe: Recipe,
    folder: Path,
    steps: int,
    *,
    objective: Objective | None = None,
    seed: int = 0,
    device: str = "cpu",
    workers: int = 1,
    start_from: EmbeddingNetwork | None = None,
    dtype: torch.dtype | None = None,
    minutes: float | None = None,
    validate: Callable[[EmbeddingNetwork], dict[str, float]] | None = None,
    validate_every: int = 500,
    progress: Callable[[Progress], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> TrainingRun:
    """Train on prepared scans; continues from `folder`/checkpoint.pt when that is the same recipe, data and length.

    Args:
        objective: of the recipe, where it is not one of OBJECTIVES.
        workers: processes that prepare batches (0: in the loop). On a GPU whose memory holds the scans batches are made
            there, and no process is started.
        start_from: weights to fine-tune.
        dtype: of the network's arithmetic (weights and loss stay float32); the fastest of the device when None.
        minutes: the run ends after this time, including that before a resume, with the weights of that step.
        validate: errors in mm of a network, by kind; called every `validate_every` steps and at the end, and the
            weights with the least mean error are the run's. Without it, the last ones.

    Raises AnatomicalEmbeddingError where the checkpoint belongs to another run, CancelledError after saving.
    """
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(seed)
    place = torch.device(device)
    network = _network(recipe, start_from).to(place)
    frames = FrameCorrections(scans, recipe.network.unit_mm or 1.0).to(place)
    objective = objective or OBJECTIVES[recipe.objective]
    frames.requires_grad_(objective.in_frame and not recipe.optimiser.descriptors_only)
    dtype = dtype or fast_dtype(place)
    loop = TrainingLoop(
        network,
        recipe.optimiser,
        steps,
        identity=json.dumps([recipe.to_dict(), [s.name for s in scans], steps, seed], sort_keys=True),
        others={"frames": (frames, recipe.optimiser.frame_learning_rate)},
    )
    loop.resume(folder / CHECKPOINT)
    if place.type != "cpu" and sum(scan.nbytes for scan in scans) < _RESIDENT_SHARE * memory_budget(place):
        scans, workers = [scan.to(place) for scan in scans], 0
    loader = DataLoader(
        objective.sampler(scans, recipe, seed),
        batch_size=None,
        sampler=range(loop.step, steps),
        num_workers=workers,
        prefetch_factor=3 if workers else None,
        worker_init_fn=_start_worker,
    )
    batches: Iterator[Any] = iter(loader)

    def loss_of(number: int) -> torch.Tensor:
        batch = next(batches)
        batch = type(batch)(**{name: x.to(place) for name, x in vars(batch).items()})
        precision = torch.autocast(place.type, dtype, enabled=dtype != torch.float32)
        # like the batch itself, its random negatives depend on (seed, step) alone
        generator = torch.Generator().manual_seed(seed * 1_000_003 + number)
        return objective.loss(network, batch, LossContext(recipe, frames, precision, generator))

    def judge(log: StepLog, last: bool) -> None:
        if validate is not None and (last or loop.step % validate_every == 0):
            judged = _on_cpu(loop.averaged)
            errors = validate(judged)
            log.validation(loop.step, errors)
            if (error := score(errors)) < loop.extra.get("best_error", float("inf")):
                best = {name: value.clone() for name, value in judged.state_dict().items()}
                loop.extra = {"best_error": error, "best": best}

    try:
        loop.run(loss_of, folder, minutes=minutes, progress=progress, cancelled=cancelled, after_step=judge)
    finally:
        batches = iter(())  # a traceback would keep the workers alive, and the process waiting for them
    chosen = _on_cpu(loop.averaged)
    if "best" in loop.extra:
        chosen.load_state_dict(loop.extra["best"])
    return TrainingRun(chosen, loop.step, loop.minutes)


def _network(recipe: Recipe, start_from: EmbeddingNetwork | None) -> EmbeddingNetwork:
    """The network to train, with what stays as it is switched off."""
    network = EmbeddingNetwork(recipe.network)
    if start_from is not None:
        _copy_weights(start_from, network)
    # convolutions run faster with the channels last, on CPUs and GPUs
    network.to(memory_format=torch.channels_last_3d).train()
    if recipe.optimiser.descriptors_only:
        for name, part in network.named_children():
            part.train(name in DESCRIPTOR_HEADS).requires_grad_(name in DESCRIPTOR_HEADS)
    if recipe.optimiser.frozen_statistics:
        if start_from is None:
            raise AnatomicalEmbeddingError(
                f"recipe {recipe.name}: optimiser.frozen_statistics needs trained weights; give --start-from."
            )
        for module in network.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.eval()
    return network


def _on_cpu(network: EmbeddingNetwork) -> EmbeddingNetwork:
    return copy.deepcopy(network).to("cpu", memory_format=torch.contiguous_format).eval()


def _copy_weights(source: nn.Module, target: EmbeddingNetwork) -> None:
    """The weights both have. Heads that the source lacks keep their random weights, others are left out."""
    fault = "--start-from: the weights belong to another network than the recipe's; choose a recipe with their widths."
    try:
        unlike = target.load_state_dict(source.state_dict(), strict=False)
    except RuntimeError:
        raise AnatomicalEmbeddingError(fault) from None
    if any(key.split(".")[0] not in OPTIONAL_HEADS for key in (*unlike.unexpected_keys, *unlike.missing_keys)):
        raise AnatomicalEmbeddingError(fault)


def _start_worker(_: int) -> None:
    torch.set_num_threads(1)
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):  # sent to the whole group: the loop saves, then ends the workers
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
