"""The only training loop: learning rate, gradient, averaged weights, checkpoints, log and stop.

`TrainingLoop` trains all networks: for maps, for the orientation of scans, for segmentation and for texts. The caller
computes the loss of a batch. A batch must depend on (seed, step) alone. Then a run that was stopped and continued
ends with the same weights as a run without a stop.
"""

from __future__ import annotations

import copy
import csv
import math
import pickle
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch
from torch import nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from ..errors import AnatomicalEmbeddingError, CancelCallback, CancelledError
from ..files import atomic_path, write_table

CHECKPOINT = "checkpoint.pt"
_CHECKPOINT_MINUTES = 5.0  # of work that a crash may lose; by hand
_FIRST = 0.04  # learning rate at the first step of a warm-up, as a share of the highest rate
ALGORITHMS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adamw": torch.optim.AdamW,
    "radam": torch.optim.RAdam,
}
_COLUMNS = ("step", "loss", "learning_rate", "minutes")
_STATE = ("step", "minutes", "mean_loss", "extra")  # attributes of a loop that checkpoints store


@dataclass(frozen=True)
class OptimiserSpec:
    """Settings of the optimiser; the section [optimiser] of a recipe.

    Args:
        learning_rate: the highest learning rate, reached at the end of the warm-up.
        warm_up: share of the steps in which the learning rate rises linearly.
        final: learning rate at the last step, as a share of the highest. After the warm-up, the rate falls along half a
            cosine; if `final` is 1, the rate stays constant.
        weight_decay: weight decay of the network.
        gradient_clip: largest norm of the gradient; a longer gradient is shortened to this norm.
        ema: largest decay, 0 to 1, of the exponential mean of the weights over steps. If 0, the run returns
            the weights of the last step.
        epsilon: epsilon of the optimiser.
        algorithm: "adamw" or "radam".
        frame_learning_rate: learning rate of the corrections of the scans' body frames.
        descriptors_only: if True, only the heads of the descriptors are trained.
        frozen_statistics: if True, batch normalisation keeps the statistics of the start weights, because the
            statistics of a batch with few crops differ from the statistics of a whole scan.
    """

    learning_rate: float
    warm_up: float = 0.05
    final: float = 0.0
    weight_decay: float = 0.01
    gradient_clip: float = 1e9
    ema: float = 0.0
    epsilon: float = 1e-8
    algorithm: str = "adamw"
    frame_learning_rate: float = 0.0
    descriptors_only: bool = False
    frozen_statistics: bool = False


@dataclass(frozen=True)
class Progress:
    """The state of a run after step number `step` of `steps`. loss: mean loss of about the last 50 steps."""

    step: int
    steps: int
    loss: float
    seconds_per_step: float


class TrainingLoop:
    """A network in training. steps: length of the run. step: number of finished steps. minutes: training time so far.

    Args:
        network: the network; it is trained in place, on its device.
        identity: text that identifies the run; a checkpoint with another identity is refused.
        modules: name -> (module, learning rate) of other modules to train; their weights do not decay.

    Attributes:
        averaged: a copy of the network with the mean of its weights over steps; its buffers are from the last step.
        mean_loss: running mean of the loss over about 50 steps.
        extra: values of the caller that checkpoints store, such as the best weights so far.
    """

    def __init__(
        self,
        network: nn.Module,
        spec: OptimiserSpec,
        steps: int,
        identity: str = "",
        modules: Mapping[str, tuple[nn.Module, float]] | None = None,
    ):
        self.network = network
        self.spec = spec
        self.steps = steps
        self.identity = identity
        self._parts = {"network": network}
        self._rates = [spec.learning_rate]  # of each part
        groups: list[dict[str, Any]] = [{"params": list(network.parameters())}]
        for name, (module, rate) in (modules or {}).items():
            self._parts[name] = module
            self._rates.append(rate)
            groups.append({"params": list(module.parameters()), "weight_decay": 0.0})
        self.optimiser = ALGORITHMS[spec.algorithm](
            groups, spec.learning_rate, weight_decay=spec.weight_decay, eps=spec.epsilon
        )
        self.averaged = copy.deepcopy(network).requires_grad_(False)
        self.step = 0
        self.minutes = 0.0
        self.mean_loss = float("nan")
        self.extra: dict[str, Any] = {}

    def rate(self) -> float:
        """Return the learning rate of the next step, as a share of the highest learning rate."""
        warm = self.spec.warm_up * self.steps
        if self.step < warm:
            return _FIRST + (1 - _FIRST) * self.step / warm
        falling = (1 + math.cos(math.pi * (self.step - warm) / (self.steps - warm))) / 2
        return self.spec.final + (1 - self.spec.final) * falling

    def update(self, loss_of: Callable[[int], torch.Tensor]) -> float:
        """Train one step on one batch; returns the loss of the batch.

        loss_of: function that computes the loss of batch number 0, 1, 2, ...
        Raises AnatomicalEmbeddingError if the loss is not a number.
        """
        share = self.rate()
        for group, highest in zip(self.optimiser.param_groups, self._rates, strict=True):
            group["lr"] = highest * share
        self.optimiser.zero_grad(set_to_none=True)
        loss = loss_of(self.step)
        loss.backward()
        total = float(loss.detach())
        if not math.isfinite(total):
            raise AnatomicalEmbeddingError(
                f"training: the loss of step {self.step + 1} is not a number; the last checkpoint is kept. "
                "Lower optimiser.learning_rate in the recipe, or check the scans."
            )
        nn.utils.clip_grad_norm_(self.network.parameters(), self.spec.gradient_clip)
        self.optimiser.step()
        self.step += 1
        # exponential mean of the weights; it spans fewer steps at the start, so that the first weights are forgotten
        keep = min(self.spec.ema, (self.step - 1) / (self.step + 9))
        average = get_ema_multi_avg_fn(keep)
        average(list(self.averaged.parameters()), list(self.network.parameters()), self.step)
        for mean, value in zip(self.averaged.buffers(), self.network.buffers(), strict=True):
            mean.copy_(value)
        self.mean_loss = total if self.step == 1 else 0.98 * self.mean_loss + 0.02 * total
        return total

    def run(
        self,
        loss_of: Callable[[int], torch.Tensor],
        folder: Path | None = None,
        *,
        minutes: float | None = None,
        progress: Callable[[Progress], None] | None = None,
        cancelled: CancelCallback | None = None,
        after_step: Callable[[StepLog, bool], None] | None = None,
    ) -> None:
        """Train until the last step, or until `minutes` of training are over. A new run does at least one step.

        Args:
            loss_of: function that computes the loss of batch number 0, 1, 2, ...
            folder: folder of the checkpoint and of loss.csv; None to write no files.
            minutes: limit for the whole run; the minutes before a resume count too.
            progress: called after each step.
            cancelled: called after each step. If it returns True, a checkpoint is written and CancelledError raised.
            after_step: called after each step with the log and a bool, which is True after the last step.

        Raises AnatomicalEmbeddingError if the loss is not a number or the disk is full.
        """
        limit = math.inf if minutes is None else minutes
        begun = saved = time.monotonic()
        before = self.minutes
        first = self.step
        is_last = self.step >= self.steps or (self.step > 0 and self.minutes >= limit)
        with nullcontext() if folder is None else StepLog(folder, self.step) as log:
            while not is_last:
                loss = self.update(loss_of)
                now = time.monotonic()
                self.minutes = before + (now - begun) / 60
                if log is not None:
                    log.write(self.step, loss, self.optimiser.param_groups[0]["lr"], self.minutes)
                if progress is not None:
                    step_s = (now - begun) / (self.step - first)
                    progress(Progress(self.step, self.steps, self.mean_loss, step_s))
                is_stopped = cancelled is not None and cancelled()
                is_last = self.step == self.steps or self.minutes >= limit
                if after_step is not None and not is_stopped:
                    after_step(log, is_last)
                is_due = is_stopped or is_last or (now - saved) / 60 > _CHECKPOINT_MINUTES
                if folder is not None and is_due:
                    self.save(folder / CHECKPOINT)
                    log.file.flush()
                    saved = now
                if is_stopped:
                    where = "training: " if folder is None else f"{folder}: "
                    raise CancelledError(
                        f"{where}stopped at step {self.step}; run the same command to continue."
                    )

    def _stored(self) -> dict[str, Any]:
        """Return what a checkpoint stores with its `state_dict`: networks, averaged weights and optimiser, by name."""
        return self._parts | {"averaged": self.averaged, "optimiser": self.optimiser}

    def save(self, path: Path) -> None:
        """Write the checkpoint that `resume` reads. An interrupted write leaves the old file unchanged."""
        state: dict[str, Any] = {name: part.state_dict() for name, part in self._stored().items()}
        state |= {name: getattr(self, name) for name in ("identity", *_STATE)}
        state["random"] = torch.get_rng_state()
        try:
            with atomic_path(path) as temporary:
                torch.save(state, temporary)
        except RuntimeError as error:  # torch raises this on a full disk
            raise AnatomicalEmbeddingError(
                f"{path}: cannot be written; free disk space and start again."
            ) from error

    def resume(self, path: Path) -> None:
        """Continue from a checkpoint file; if there is no such file, change nothing.

        Raises AnatomicalEmbeddingError if the checkpoint is damaged or belongs to another run.
        """
        if not path.exists():
            return
        damaged = AnatomicalEmbeddingError(
            f"{path}: is damaged; delete it to start this run from the beginning."
        )
        try:
            state = torch.load(path, map_location="cpu", weights_only=True)
            identity = dict(state)["identity"]
        except (RuntimeError, EOFError, pickle.UnpicklingError, LookupError, TypeError):
            raise damaged from None
        if identity != self.identity:
            raise AnatomicalEmbeddingError(
                f"{path}: belongs to a run with another recipe, seed, steps or scans; choose another output folder."
            )
        try:
            for name, part in self._stored().items():
                part.load_state_dict(state[name])
            for name in _STATE:
                setattr(self, name, state[name])
            torch.set_rng_state(state["random"])
        except (RuntimeError, LookupError, TypeError, ValueError):
            raise damaged from None


class StepLog:
    """Writes loss.csv and validation.csv in `folder`. Use it as a context manager.

    finished_steps: number of steps whose rows are kept; rows of later steps, from a stopped run, are removed.
    """

    def __init__(self, folder: Path, finished_steps: int):
        self._folder = folder
        path = folder / "loss.csv"
        rows = _rows_until(path, finished_steps)
        self.file = path.open("w", newline="")
        self._table = csv.writer(self.file)
        self._table.writerows([_COLUMNS, *rows])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def write(self, step: int, loss: float, learning_rate: float, minutes: float) -> None:
        """Append a row to loss.csv.

        Args:
            step: number of the step.
            loss: loss of the batch.
            learning_rate: learning rate of the network.
            minutes: training time so far.
        """
        self._table.writerow((step, f"{loss:.5f}", f"{learning_rate:.2e}", f"{minutes:.2f}"))

    def validation(self, step: int, errors_mm: dict[str, float]) -> None:
        """Write the errors of a step (kind of error -> mm) as the last row of `folder`/validation.csv.

        Rows of this step and of later ones, from before a run was continued, are replaced.
        """
        path = self._folder / "validation.csv"
        rows = _rows_until(path, step - 1)
        errors = (f"{error:.2f}" for error in errors_mm.values())
        write_table(path, ("step", *errors_mm), [*rows, (step, *errors)])


def _rows_until(path: Path, step: int) -> list[list[str]]:
    """Return the rows of a table, without its heading, up to a step; [] if there is no file. The first column: step."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return [row for row in list(csv.reader(file))[1:] if int(row[0]) <= step]
