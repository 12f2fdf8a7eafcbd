"""The training loop: one visible loop, weights averaged over steps, checkpoints that resume, a CSV of the loss."""

import copy
import csv
import json
import pickle
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TextIO

import torch
from torch import nn
from torch.utils.data import DataLoader, Subset

from ..device import training_dtype
from ..errors import AnatomicalEmbeddingError, CancelledError
from ..files import atomic_path
from ..models.network import DESCRIPTOR_HEADS, EmbeddingNetwork
from .losses import FrameCorrections
from .objectives import Batch, batch_loss, make_sampler
from .recipes import Recipe
from .scans import PreparedScan

CHECKPOINT = "checkpoint.pt"
_CHECKPOINT_MINUTES = 5.0
_LOG_COLUMNS = ("step", "loss", "learning_rate", "minutes")


@dataclass(frozen=True)
class Progress:
    """One line of the log. loss: running mean over about 50 steps."""

    step: int
    steps: int
    loss: float
    seconds_per_step: float


@dataclass(frozen=True)
class TrainingRun:
    """network: averaged weights, on the CPU, in eval mode. steps: how many were done. minutes: time spent in all."""

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
    progress: Callable[[Progress], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> TrainingRun:
    """Train on prepared scans; continues from `folder`/checkpoint.pt when that is the same recipe, data and length.

    workers: processes that prepare batches beside the loop (0: in the loop). start_from: weights to fine-tune.
    dtype: of the network's arithmetic (weights and loss stay float32); the fastest of the device when None.
    Raises AnatomicalEmbeddingError when the checkpoint belongs to another run, CancelledError (after saving) on cancel.
    """
    folder.mkdir(parents=True, exist_ok=True)
    state = _State(scans, recipe, steps, seed, device, start_from, dtype or training_dtype(torch.device(device)))
    state.resume(folder / CHECKPOINT)
    sampler = make_sampler(scans, recipe, seed, steps)
    loader = DataLoader(
        Subset(sampler, range(state.step, steps)),
        batch_size=None,
        num_workers=workers,
        prefetch_factor=3 if workers else None,
        worker_init_fn=_one_thread,
    )
    begun, saved, minutes_before = time.monotonic(), time.monotonic(), state.minutes
    with _open_log(folder / "loss.csv", state.step) as file:
        log = csv.writer(file)
        for batch in loader:
            loss = state.update(_to(batch, device))
            now = time.monotonic()
            state.minutes = minutes_before + (now - begun) / 60
            log.writerow([state.step, f"{loss:.5f}", f"{state.schedule.get_last_lr()[0]:.2e}", f"{state.minutes:.2f}"])
            if progress is not None:
                done = state.step - (steps - len(loader))
                progress(Progress(state.step, steps, state.mean_loss, (now - begun) / done))
            stop = cancelled is not None and cancelled()
            if stop or state.step == steps or (now - saved) / 60 > _CHECKPOINT_MINUTES:
                state.save(folder / CHECKPOINT)
                file.flush()
                saved = now
            if stop:
                raise CancelledError(f"{folder}: stopped at step {state.step}; run the same command to go on.")
    return TrainingRun(
        state.averaged.to("cpu", memory_format=torch.contiguous_format).eval(), state.step, state.minutes
    )


def _open_log(path: Path, steps_kept: int) -> TextIO:
    """The CSV of the loss, ready for the next row; what a killed run wrote after its last checkpoint is dropped."""
    rows = []
    if steps_kept and path.exists():
        with path.open(newline="") as file:
            rows = [row for row in csv.DictReader(file) if int(row["step"]) <= steps_kept]
    file = path.open("w", newline="")
    log = csv.DictWriter(file, _LOG_COLUMNS)
    log.writeheader()
    log.writerows(rows)
    return file


class _State:
    """Everything a checkpoint holds."""

    def __init__(
        self,
        scans: list[PreparedScan],
        recipe: Recipe,
        steps: int,
        seed: int,
        device: str,
        start_from: EmbeddingNetwork | None,
        dtype: torch.dtype,
    ):
        torch.manual_seed(seed)
        self.recipe, self.seed = recipe, seed
        self.identity = json.dumps([recipe.to_dict(), [s.name for s in scans], steps, seed], sort_keys=True)
        self.network = EmbeddingNetwork(recipe.network)
        if start_from is not None:
            _copy_weights(start_from, self.network)
        # convolutions run faster with the channels last, on CPUs and GPUs
        self.network.to(device, memory_format=torch.channels_last_3d).train()
        if recipe.optimiser.descriptors_only:
            for name, part in self.network.named_children():
                part.train(name in DESCRIPTOR_HEADS).requires_grad_(name in DESCRIPTOR_HEADS)
        self.precision = partial(torch.autocast, torch.device(device).type, dtype, enabled=dtype != torch.float32)
        self.averaged = copy.deepcopy(self.network)
        self.frames = FrameCorrections(scans, recipe.network.unit_mm or 1.0).to(device)
        options = recipe.optimiser
        algorithm = {"adamw": partial(torch.optim.AdamW, fused=True), "radam": torch.optim.RAdam}[options.algorithm]
        self.optimiser = algorithm(
            [
                {"params": self.network.parameters(), "lr": options.learning_rate},
                {"params": self.frames.parameters(), "lr": options.frame_learning_rate, "weight_decay": 0.0},
            ],
            weight_decay=options.weight_decay,
            eps=options.epsilon,
        )
        if options.schedule == "one-cycle":
            rates = [options.learning_rate, max(options.frame_learning_rate, 1e-12)]
            warm_up = max(options.warm_up, 2 / (steps + 1))  # OneCycleLR divides by its length less one step
            self.schedule = torch.optim.lr_scheduler.OneCycleLR(
                self.optimiser, rates, total_steps=steps + 1, pct_start=warm_up
            )
        else:
            self.schedule = torch.optim.lr_scheduler.ConstantLR(self.optimiser, factor=1.0)
        self.step, self.minutes, self.mean_loss = 0, 0.0, float("nan")

    def update(self, batch: Batch) -> float:
        """One step of the optimiser; returns the loss."""
        # like the batch itself, its random negatives depend on (seed, step) alone
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + self.step)
        loss = batch_loss(self.network, self.frames, batch, self.recipe, self.precision(), generator)
        if not torch.isfinite(loss):
            raise AnatomicalEmbeddingError(
                f"training: the loss of step {self.step + 1} is not a number; the last checkpoint is kept. "
                "Lower optimiser.learning_rate in the recipe, or look at the scans."
            )
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.network.parameters(), self.recipe.optimiser.gradient_clip)
        self.optimiser.step()
        self.schedule.step()
        self.step += 1
        self._average()
        value = float(loss.detach())
        self.mean_loss = value if self.step == 1 else 0.98 * self.mean_loss + 0.02 * value
        return value

    @torch.no_grad()
    def _average(self) -> None:
        """Exponential mean of the weights; early on over a shorter stretch, so that the start is forgotten."""
        keep = min(self.recipe.optimiser.ema, (self.step - 1) / (self.step + 9))
        torch._foreach_lerp_(list(self.averaged.parameters()), list(self.network.parameters()), 1 - keep)
        for mean, value in zip(self.averaged.buffers(), self.network.buffers(), strict=True):
            mean.copy_(value)

    def save(self, path: Path) -> None:
        modules = ("network", "averaged", "frames", "optimiser", "schedule")
        state = {name: getattr(self, name).state_dict() for name in modules}
        state |= {"step": self.step, "minutes": self.minutes, "mean_loss": self.mean_loss, "identity": self.identity}
        with atomic_path(path) as temporary:
            torch.save(state, temporary)

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


def _copy_weights(source: nn.Module, target: EmbeddingNetwork) -> None:
    """All weights of the source; descriptor heads that it lacks stay as they were drawn."""
    fault = "start_from: these weights belong to another network than the recipe's; choose a recipe with their widths."
    try:
        unlike = target.load_state_dict(source.state_dict(), strict=False)
    except RuntimeError:
        raise AnatomicalEmbeddingError(fault) from None
    if unlike.unexpected_keys or any(key.split(".")[0] not in DESCRIPTOR_HEADS for key in unlike.missing_keys):
        raise AnatomicalEmbeddingError(fault)


def _to(batch: Batch, device: str) -> Batch:
    return type(batch)(**{name: tensor.to(device) for name, tensor in vars(batch).items()})


def _one_thread(_: int) -> None:
    torch.set_num_threads(1)
