"""Train the embedding network on prepared scans, with the batches and the loss of the recipe's objective.

`Validation` measures how far matched points are from the truth in patients that are not used for training. A run
returns the weights with the smallest error.
"""

import copy
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader

from ..embedding.device import choose_device, fast_dtype, memory_budget, mixed_precision
from ..embedding.inference import Model
from ..embedding.models.network import DESCRIPTOR_HEADS, OPTIONAL_HEADS, EmbeddingNetwork
from ..errors import AnatomicalEmbeddingError, CancelCallback
from ..matching.match import match
from ..phantom.patient import phantom_views
from ..structures.label_names import group_of
from ..structures.labelled_scans import find_pairs, load_cases, patient_of
from .loop import CHECKPOINT, Progress, StepLog, TrainingLoop
from .objectives import OBJECTIVES, FrameCorrections, LossContext, Objective
from .recipes import Recipe
from .sampler import start_worker
from .scans import PreparedScan

# scans are kept on the GPU if they need less than this share of its free memory
_RESIDENT_SHARE = 0.4
# not used for training: training phantoms have seeds from scans.PHANTOM_SEED upwards
_PHANTOM_SEEDS = (700, 701)


@dataclass(frozen=True)
class TrainingRun:
    """Result of a training run: the network, the number of steps and the duration.

    network: on the CPU, with the weights of least validation error; without validation, with averaged weights.
    """

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
    minutes: float | None = None,
    validate: Callable[[EmbeddingNetwork], dict[str, float]] | None = None,
    validate_every: int = 500,
    progress: Callable[[Progress], None] | None = None,
    cancelled: CancelCallback | None = None,
) -> TrainingRun:
    """Train on prepared scans. A stopped run continues from `folder`/checkpoint.pt if recipe, scans, steps and seed
    have not changed.

    Args:
        objective: makes the batches and the loss; needed only if OBJECTIVES does not contain the recipe's objective.
        workers: number of processes that prepare batches. If 0, the training process prepares them. If the scans fit
            into the memory of the GPU, batches are made on the GPU and no process is started.
        start_from: weights to fine-tune.
        minutes: the run ends after this time. If a stopped run continues, the minutes before the stop count too.
        validate: returns the errors of a network, {kind of point: mm}. Called every `validate_every` steps and at the
            end; the weights with the least mean error are returned. If None, averaged weights are returned.

    Raises AnatomicalEmbeddingError if the checkpoint belongs to another run. Raises CancelledError once `cancelled`
    returns True, after the checkpoint is saved.
    """
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(seed)
    place = torch.device(device)
    network = _network(recipe, start_from).to(place)
    frames = FrameCorrections(scans, recipe.network.unit_mm or 1.0).to(place)
    objective = objective or OBJECTIVES[recipe.objective]
    dtype = fast_dtype(place)
    identity = [recipe.to_dict(), [scan.name for scan in scans], steps, seed]
    loop = TrainingLoop(
        network,
        recipe.optimiser,
        steps,
        identity=json.dumps(identity, sort_keys=True),
        modules={"frames": (frames, recipe.optimiser.frame_learning_rate)},
    )
    loop.resume(folder / CHECKPOINT)
    if place.type != "cpu":
        bytes_limit = _RESIDENT_SHARE * memory_budget(place)
        if sum(scan.nbytes for scan in scans) < bytes_limit:
            scans = [scan.to(place) for scan in scans]
            workers = 0
    loader = DataLoader(
        objective.sampler(scans, recipe, seed),
        batch_size=None,
        sampler=range(loop.step, steps),
        num_workers=workers,
        prefetch_factor=3 if workers else None,
        worker_init_fn=start_worker,
    )
    batches: Iterator[Any] = iter(loader)

    def loss_of(number: int) -> torch.Tensor:
        """Compute the loss of the next batch, which has this number."""
        batch = next(batches)
        batch = type(batch)(**{name: x.to(place) for name, x in vars(batch).items()})
        # like the batch, its random negatives depend on (seed, step) alone
        generator = torch.Generator().manual_seed(seed * 1_000_003 + number)
        context = LossContext(recipe, frames, mixed_precision(place, dtype), generator)
        return objective.loss(network, batch, context)

    def judge(log: StepLog, last: bool) -> None:
        """Validate the averaged weights after every `validate_every` steps; keep the best weights in `loop.extra`."""
        if validate is None or not (last or loop.step % validate_every == 0):
            return
        judged = _on_cpu(loop.averaged)
        errors = validate(judged)
        log.validation(loop.step, errors)
        error = score(errors)
        if error < loop.extra.get("best_error", float("inf")):
            best = {name: value.clone() for name, value in judged.state_dict().items()}
            loop.extra = {"best_error": error, "best": best}

    try:
        loop.run(
            loss_of,
            folder,
            minutes=minutes,
            progress=progress,
            cancelled=cancelled,
            after_step=judge,
        )
    finally:
        # otherwise a traceback keeps the workers alive, and the process waits for them
        batches = iter(())
    chosen = _on_cpu(loop.averaged)
    if "best" in loop.extra:
        chosen.load_state_dict(loop.extra["best"])
    return TrainingRun(chosen, loop.step, loop.minutes)


def _network(recipe: Recipe, start_from: EmbeddingNetwork | None) -> EmbeddingNetwork:
    """Make the network of a recipe, ready for training: with the weights of `start_from` if given, else random."""
    network = EmbeddingNetwork(recipe.network)
    if start_from is not None:
        _copy_weights(start_from, network)
    # convolutions are faster in the memory format "channels last", on CPUs and GPUs
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
    """Copy the weights that both networks have. An optional head that only `target` has keeps its weights."""
    fault = "--start-from: the weights do not fit the recipe's network; choose a recipe with equal network.widths."
    try:
        unlike = target.load_state_dict(source.state_dict(), strict=False)
    except RuntimeError:
        raise AnatomicalEmbeddingError(fault) from None
    for key in (*unlike.unexpected_keys, *unlike.missing_keys):
        if key.split(".")[0] not in OPTIONAL_HEADS:
            raise AnatomicalEmbeddingError(fault)


@dataclass
class Validation:
    """Measures the errors of a network's matches on synthetic patients and, if given, on labelled scans.

    labelled: folder of scans with label maps or landmarks, or None. device: where the networks run, such as "cuda".
    """

    labelled: Path | None = None
    device: str = "cpu"

    def __post_init__(self) -> None:
        self._cases = load_cases(self.labelled) if self.labelled is not None else []
        self._phantoms = cache(phantom_views)  # cached from the first call

    def scans_for_training(self, scans: Sequence[PreparedScan]) -> list[PreparedScan]:
        """Return the scans whose patients are not used for validation."""
        patients = {case.patient for case in self._cases}
        return [scan for scan in scans if patient_of(scan.name) not in patients]

    def __call__(self, network: EmbeddingNetwork) -> dict[str, float]:
        """Return {kind of point: median error, mm}. The kinds are "phantom", "centre", "extreme" and "landmark"."""
        model = Model(network, "validated", "0" * 64, choose_device(self.device))
        errors_mm: dict[str, list[float]] = {"phantom": self._phantom_errors(model)}
        maps = {case.id: model.embed(case.volume) for case in self._cases}
        for pair in find_pairs(self._cases):
            template_map = maps[pair.template.id]
            target_map = maps[pair.target.id]
            answers = match(template_map, pair.template_ras, target_map).points_ras
            distances = np.linalg.norm(answers - pair.target_ras, axis=1)
            for kind, error in zip(pair.kinds, distances, strict=True):
                errors_mm.setdefault(group_of(kind), []).append(float(error))
        return {kind: float(np.nanmedian(errors)) for kind, errors in errors_mm.items()}

    def _phantom_errors(self, model: Model) -> list[float]:
        """Match the points of each whole phantom in all scans of the other phantom. Returns all errors, mm."""
        scans = []  # of each phantom, for each view: named points, map
        for seed in _PHANTOM_SEEDS:
            views = self._phantoms(seed).values()
            scans.append([(view.points_ras, model.embed(view.volume)) for view in views])
        errors = []
        for templates, targets in permutations(scans, 2):
            template_points, template_map = templates[0]  # the whole body is the first view
            for target_points, target_map in targets:
                names = sorted(template_points.keys() & target_points.keys())
                points = np.array([template_points[name] for name in names])
                truth = np.array([target_points[name] for name in names])
                answers = match(template_map, points, target_map).points_ras
                errors += np.linalg.norm(answers - truth, axis=1).tolist()
        return errors


def score(errors: dict[str, float]) -> float:
    """Return the mean of the errors of all kinds of points, mm. The weights with the least mean are kept."""
    return float(np.mean(list(errors.values())))
