"""Training a segmenter in a folder: what is to be done, how long it takes, and going on where it stopped."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from ..embedding.inference import Model
from ..errors import AnatomicalEmbeddingError, WeightsError
from ..files import parse_json, write_text
from ..training.loop import CHECKPOINT, Progress, TrainingLoop
from . import voxels
from .carrying import guess_share
from .examples import Example, Prepared, prepare
from .grids import Group
from .network import UNet, UNetSpec
from .patches import INPUTS, TrainingCrop
from .pretraining import BODY, PAPER, pretrain
from .segmenter import EMBEDDING, Segmenter, is_trained, load_segmenter, new_network, save_segmenter
from .training import SETTINGS, patch_losses, ready
from .voxels import VoxelNet, voxel_losses

RANDOM = "random"
STEPS = {EMBEDDING: 600, RANDOM: 400, PAPER: 400, BODY: 400}  # of each network
_FEWEST_STEPS = 20
_RECORD = "run.json"


@dataclass(frozen=True)
class Plan:
    """steps: of each network. seconds: about how long they take. done: steps that an earlier run took."""

    steps: int
    seconds: float
    done: int = 0

    @property
    def text(self) -> str:
        """In words."""
        minutes = max(1, round(self.seconds / 60))
        before = f", {self.done} of them done" if self.done else ""
        return f"{self.steps} steps{before}; about {minutes} min to go"


def train_segmenter(
    examples: Sequence[Example],
    model: Model,
    folder: Path,
    start_from: str = EMBEDDING,
    seed: int = 0,
    minutes: float | None = None,
    weights: str = "",
    planned: Callable[[Plan], None] = lambda plan: None,
    step: Callable[[float, str], None] = lambda share, what: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Segmenter:
    """Train a segmenter on outlined scans and save it in a folder; a run that was stopped goes on.

    start_from: of STEPS. minutes: most time for training; None: what STEPS take. weights: by which the
    embedding is loaded again, if not by its name. planned: called before training.
    step: called with (share done, what is being done). Raises CancelledError once `cancelled` says so, with all work
    saved; AnatomicalEmbeddingError where the folder holds another run, WeightsError for a model without a body frame.
    """
    if not model.network.metric:
        raise WeightsError(f"{model.name}: has no common body frame in mm, which outlining needs; choose others.")
    identity = _identity(examples, model, start_from, seed, minutes)
    record = _read_record(folder, identity)
    if record is not None and is_trained(folder):
        return load_segmenter(folder, model.device)
    groups, prepared = prepare(
        examples, model, start_from == EMBEDDING, lambda share, what: step(0.0, f"preparing {what}")
    )
    used = [[p.crops[n] for p in prepared if n in p.crops] for n in range(len(groups))]
    specs = [_spec(group, start_from, prepared) for group in groups]
    if record is None:
        seconds = sum(
            _seconds_a_step(spec, start_from, crops, model.device) for spec, crops in zip(specs, used, strict=True)
        )
        most = STEPS[start_from] if minutes is None else int(minutes * 60 / max(seconds, 1e-3))
        record = {
            "identity": identity,
            "steps": max(_FEWEST_STEPS, min(STEPS[start_from], most)),
            "seconds_a_step": seconds,
        }
        write_text(folder / _RECORD, json.dumps(record, indent=1))
    steps = int(record["steps"])
    loops = [_loop(new_network(spec, start_from, seed), steps, model.device) for spec in specs]
    for n, loop in enumerate(loops):
        loop.resume(_group_folder(folder, n) / CHECKPOINT)
    done = sum(loop.step for loop in loops)
    left = steps - done / len(groups)
    planned(Plan(steps * len(groups), left * record["seconds_a_step"], done))
    for n, (loop, crops) in enumerate(zip(loops, used, strict=True)):
        if loop.step == steps:
            continue
        if loop.step == 0 and start_from in (PAPER, BODY):
            encoder = pretrain(specs[n], crops, start_from, seed, model.device, lambda s: step(0.0, "pre-training"))
            loop.network.encoder.load_state_dict(encoder)
        others = record["seconds_a_step"] * steps * (len(groups) - n - 1) / len(groups)

        def shown(progress: Progress, n: int = n, others: float = others) -> None:
            at = progress.step
            to_go = (progress.seconds_per_step * (steps - at) + others) / 60
            words = f"step {n * steps + at}, loss {progress.loss:.3f}, {to_go:.0f} min to go"
            step((n + at / steps) / len(groups), words)

        _group_folder(folder, n).mkdir(exist_ok=True)
        losses = _losses(loop.network, crops, steps, seed, cancelled)
        loop.run(losses, _group_folder(folder, n), progress=shown, cancelled=cancelled)
    networks = [loop.averaged.eval() for loop in loops]
    segmenter = _finished(model, weights, start_from, groups, networks, prepared)
    save_segmenter(folder, segmenter, prepared)
    for n in range(len(groups)):
        shutil.rmtree(_group_folder(folder, n), ignore_errors=True)
    return load_segmenter(folder, model.device)


def _finished(
    model: Model,
    weights: str,
    start_from: str,
    groups: list[Group],
    networks: list[UNet | VoxelNet],
    prepared: list[Prepared],
) -> Segmenter:
    volumes: dict[str, list[float]] = {}
    contrast: dict[str, list[float]] = {}
    for example in prepared:
        for name, volume in example.volumes_ml.items():
            volumes.setdefault(name, []).append(round(volume, 3))
            contrast.setdefault(name, []).append(example.contrast[name])
    return Segmenter(
        weights or model.name, model.weights_hash, start_from, tuple(groups), tuple(networks),
        {name: tuple(of) for name, of in volumes.items()},
        {name: round(guess_share(float(np.median(of))), 3) for name, of in contrast.items()}, (),
    )  # fmt: skip


def _spec(group: Group, start_from: str, prepared: Sequence[Prepared]) -> UNetSpec:
    channels = 0
    if start_from == EMBEDDING:
        local = prepared[0].embedding.local
        channels = 0 if local is None else len(local)
    return UNetSpec(INPUTS + len(group.names), len(group.names), channels, prior=True)


def _seconds_a_step(spec: UNetSpec, start_from: str, crops: list, device: torch.device) -> float:
    """Of training, measured on a network that is thrown away."""
    network = new_network(spec, start_from, 0)
    loop = _loop(network, 10, device)
    began = time.monotonic()
    if isinstance(network, VoxelNet):
        losses, counted = voxel_losses(network, crops, 10, 0, patches=1), 10
    else:
        losses, counted = patch_losses(network, crops, 0), 2
        loop.update(losses)  # the first one is slower
        began = time.monotonic()
    for _ in range(counted):
        loop.update(losses)
    return (time.monotonic() - began) / counted


def _loop(network: UNet | VoxelNet, steps: int, device: torch.device) -> TrainingLoop:
    settings = voxels.SETTINGS if isinstance(network, VoxelNet) else SETTINGS
    return TrainingLoop(ready(network, device).train(), settings, steps)


def _losses(
    network: UNet | VoxelNet, crops: Sequence[TrainingCrop], steps: int, seed: int, cancelled: Callable[[], bool]
) -> Callable[[int], torch.Tensor]:
    """As its kind of network learns: from single voxels drawn beforehand, or from patches."""
    if isinstance(network, VoxelNet):
        return voxel_losses(network, crops, steps, seed, cancelled)
    return patch_losses(network, crops, seed)


def _identity(
    examples: Sequence[Example], model: Model, start_from: str, seed: int, minutes: float | None
) -> dict[str, object]:
    files = {
        example.id: [[path.name, path.stat().st_size, path.stat().st_mtime_ns] for path in example.files]
        for example in examples
    }
    structures = sorted({name for example in examples for name in example.outlined})
    return {
        "files": files, "structures": structures, "weights": model.weights_hash, "start": start_from, "seed": seed,
        "minutes": minutes,
    }  # fmt: skip


def _read_record(folder: Path, identity: dict[str, object]) -> dict | None:
    path = folder / _RECORD
    if not path.exists():
        return None
    try:
        record = parse_json(path.read_text(encoding="utf-8"))
        same = record["identity"] == json.loads(json.dumps(identity))
        int(record["steps"]), float(record["seconds_a_step"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise AnatomicalEmbeddingError(f"{path}: is damaged; give another output folder.") from error
    if not same:
        raise AnatomicalEmbeddingError(
            f"{folder}: holds a run on other examples or with other options; give another output folder."
        )
    return record


def _group_folder(folder: Path, number: int) -> Path:
    """Where the training of a group keeps its checkpoint and its log."""
    return folder / f"training-{number + 1}"
