"""The training loop: one visible loop, weights averaged over steps, checkpoints that resume, a CSV of the loss."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch.utils.data import DataLoader, Subset

from ..embedding.device import fast_dtype, memory_budget
from ..embedding.models.network import EmbeddingNetwork
from ..errors import CancelledError
from .log import StepLog
from .objectives import make_sampler
from .recipes import Recipe
from .scans import PreparedScan
from .state import TrainingState

if TYPE_CHECKING:
    from lightning_fabric import Fabric

CHECKPOINT = "checkpoint.pt"
_CHECKPOINT_MINUTES = 5.0
_RESIDENT_SHARE = 0.4  # of the memory that may be used


@dataclass(frozen=True)
class Progress:
    """One step done. loss: running mean over about 50 steps."""

    step: int
    steps: int
    loss: float
    seconds_per_step: float


@dataclass(frozen=True)
class TrainingRun:
    """network: the best validated weights, else the averaged ones, on the CPU, in eval mode. steps: how many were done.
    minutes: time spent in all."""

    network: EmbeddingNetwork
    steps: int
    minutes: float


def train(
    scans: list[PreparedScan],
    recipe: Recipe,
    folder: Path,
    steps: int,
    *,
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

    workers: processes that prepare batches (0: in the loop). On a GPU whose memory holds the scans
    batches are made there, and no process is started. start_from: weights to fine-tune.
    dtype: of the network's arithmetic (weights and loss stay float32); the fastest of the device when None.
    minutes: the run ends after this time, including that before a resume, with the weights of that step.
    validate: errors in mm of a network, by kind; called every `validate_every` steps and at the end, and the weights
    with the least mean error are the run's. Without it, the last ones.
    Under torchrun all processes train on one batch.
    Raises AnatomicalEmbeddingError when the checkpoint belongs to another run, CancelledError (after saving) on cancel.
    """
    folder.mkdir(parents=True, exist_ok=True)
    fabric = _fabric(device)
    state = TrainingState(scans, recipe, steps, seed, fabric, start_from, dtype or fast_dtype(torch.device(device)))
    state.resume(folder / CHECKPOINT)
    if _resident(scans, fabric.device):
        scans, workers = [scan.to(fabric.device) for scan in scans], 0
    together = recipe.optimiser.accumulate
    sampler = make_sampler(scans, recipe, seed, steps * together, (fabric.global_rank, fabric.world_size))
    loader = DataLoader(
        Subset(sampler, range(state.step * together, steps * together)),
        batch_size=None,
        num_workers=workers,
        prefetch_factor=3 if workers else None,
        worker_init_fn=_start_worker,
    )
    begun, saved, minutes_before = time.monotonic(), time.monotonic(), state.minutes
    with StepLog(folder, state.step, fabric.is_global_zero) as log:
        batches = iter(loader)
        try:
            while group := list(islice(batches, together)):
                parts = [type(b)(**{name: x.to(fabric.device) for name, x in vars(b).items()}) for b in group]
                loss = state.update(parts)
                now = time.monotonic()
                state.minutes = minutes_before + (now - begun) / 60
                log.write(state.step, loss, state.schedule.get_last_lr()[0], state.minutes)
                if progress is not None and fabric.is_global_zero:
                    done = state.step - steps + len(loader) // together
                    progress(Progress(state.step, steps, state.mean_loss, (now - begun) / done))
                stop = _any_process(fabric, cancelled is not None and cancelled())
                over = minutes is not None and _any_process(fabric, state.minutes >= minutes)
                last = over or state.step == steps
                if validate is not None and (last or state.step % validate_every == 0) and not stop:
                    errors = state.judge(validate)
                    log.validation(state.step, errors)
                if stop or last or (now - saved) / 60 > _CHECKPOINT_MINUTES:
                    state.save(folder / CHECKPOINT)
                    log.flush()
                    saved = now
                if stop:
                    raise CancelledError(f"{folder}: stopped at step {state.step}; run the same command to go on.")
                if over:
                    break
        finally:
            del batches  # a traceback would keep the workers alive, and the process waiting for them
    return TrainingRun(state.chosen(), state.step, state.minutes)


def _fabric(device: str) -> Fabric:
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


def _resident(scans: list[PreparedScan], device: torch.device) -> bool:
    """Whether a device of its own memory holds all scans and leaves most of it to the network."""
    return device.type != "cpu" and sum(scan.nbytes for scan in scans) < _RESIDENT_SHARE * memory_budget(device)


def _any_process(fabric: Fabric, stop: bool) -> bool:
    """Whether any process was asked to stop: all must stop after the same step."""
    if fabric.world_size == 1:
        return stop
    return bool(fabric.all_reduce(torch.tensor(float(stop), device=fabric.device), reduce_op="sum") > 0)


def _start_worker(_: int) -> None:
    torch.set_num_threads(1)
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):  # sent to the whole group: the loop saves, then ends the workers
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
