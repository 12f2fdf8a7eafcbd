"""Train a segmenter in a folder: choose the number of steps, estimate the time, continue a stopped run."""

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
from .carrying import guess_share
from .examples import Example, prepare
from .patches import TrainingCrop
from .segmenter import Segmenter, load_segmenter, save_segmenter, segmenter_file
from .voxels import OPTIMISER, VoxelNet, voxel_losses

_STEPS, _FEWEST_STEPS = 600, 20  # for each network
_RECORD = "run.json"


@dataclass(frozen=True)
class Plan:
    """The work of a run. steps: sum over all networks. seconds: estimated time left. done: steps done earlier."""

    steps: int
    seconds: float
    done: int = 0

    @property
    def text(self) -> str:
        """Describe the plan in words."""
        minutes = max(1, round(self.seconds / 60))
        before = f", {self.done} of them done" if self.done else ""
        return f"{self.steps} steps{before}; about {minutes} min to go"


def train_segmenter(
    examples: Sequence[Example],
    model: Model,
    folder: Path,
    seed: int = 0,
    minutes: float | None = None,
    weights: str = "",
    planned: Callable[[Plan], None] = lambda plan: None,
    step: Callable[[float, str], None] = lambda share, text: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Segmenter:
    """Train a segmenter on outlined scans and save it in a folder; a stopped run continues.

    minutes: limit of the training time; None: 600 steps for each network. weights: file from which the embedding's
    weights are loaded later; "": they are loaded by the model's name. planned: called before training.

    Raises:
        CancelledError: once `cancelled` is true, with all work saved.
        AnatomicalEmbeddingError: the folder holds another run.
        WeightsError: the model has no body frame in mm.
    """
    if not model.network.metric:
        raise WeightsError(f"{model.name}: has no common body frame in mm, which outlining needs; choose others.")
    files = {of.id: [[p.name, p.stat().st_size, p.stat().st_mtime_ns] for p in of.files] for of in examples}
    identity = {
        "files": files, "structures": sorted({name for example in examples for name in example.outlined}),
        "weights": model.weights_hash, "seed": seed, "minutes": minutes,
    }  # fmt: skip
    record = _read_record(folder, identity)
    if record is not None and segmenter_file(folder).is_file():
        return load_segmenter(folder, model.device)
    groups, prepared = prepare(examples, model, lambda share, text: step(0.0, f"preparing {text}"))
    used = [[p.crops[n] for p in prepared if n in p.crops] for n in range(len(groups))]
    local = prepared[0].embedding.local
    sizes = [(len(group.names), 0 if local is None else len(local)) for group in groups]
    if record is None:
        seconds = sum(_seconds_a_step(size, crops, model.device) for size, crops in zip(sizes, used, strict=True))
        most = _STEPS if minutes is None else int(minutes * 60 / max(seconds, 1e-3))
        record = {"identity": identity, "steps": max(_FEWEST_STEPS, min(_STEPS, most)), "seconds_a_step": seconds}
        write_text(folder / _RECORD, json.dumps(record, indent=1))
    steps = int(record["steps"])
    loops = [_new_loop(size, seed, steps, model.device) for size in sizes]
    for n, loop in enumerate(loops):
        loop.resume(_group_folder(folder, n) / CHECKPOINT)
    done = sum(loop.step for loop in loops)
    left = steps - done / len(groups)
    planned(Plan(steps * len(groups), left * record["seconds_a_step"], done))
    for n, (loop, crops) in enumerate(zip(loops, used, strict=True)):
        if loop.step == steps:
            continue
        others = record["seconds_a_step"] * steps * (len(groups) - n - 1) / len(groups)

        def shown(progress: Progress, n: int = n, others: float = others) -> None:
            at = progress.step
            to_go = (progress.seconds_per_step * (steps - at) + others) / 60
            words = f"step {n * steps + at}, loss {progress.loss:.3f}, {to_go:.0f} min to go"
            step((n + at / steps) / len(groups), words)

        _group_folder(folder, n).mkdir(exist_ok=True)
        losses = voxel_losses(loop.network, crops, steps, seed, cancelled)
        loop.run(losses, _group_folder(folder, n), progress=shown, cancelled=cancelled)
    networks = [loop.averaged.eval() for loop in loops]
    names = [name for group in groups for name in group.names]
    volumes = {name: tuple(round(p.volumes_ml[name], 3) for p in prepared if name in p.volumes_ml) for name in names}
    contrast = {name: [p.contrast[name] for p in prepared if name in p.contrast] for name in names}
    shares = {name: round(guess_share(float(np.median(of))), 3) for name, of in contrast.items()}
    segmenter = Segmenter(
        weights or model.name, model.weights_hash, tuple(groups), tuple(networks), volumes, shares, ()
    )
    save_segmenter(folder, segmenter, prepared)
    for n in range(len(groups)):
        shutil.rmtree(_group_folder(folder, n), ignore_errors=True)
    return load_segmenter(folder, model.device)


def _new_loop(size: tuple[int, int], seed: int, steps: int, device: torch.device) -> TrainingLoop:
    torch.manual_seed(seed)
    return TrainingLoop(VoxelNet(*size).to(device).train(), OPTIMISER, steps)


def _seconds_a_step(size: tuple[int, int], crops: Sequence[TrainingCrop], device: torch.device) -> float:
    """Measure the seconds of a training step, with its share of the drawing of voxels, on a temporary network."""
    loop, counted = _new_loop(size, 0, 10, device), 10
    began = time.monotonic()
    losses = voxel_losses(loop.network, crops, counted, 0, patches=1)
    for _ in range(counted):
        loop.update(losses)
    return (time.monotonic() - began) / counted


def _read_record(folder: Path, identity: dict[str, object]) -> dict | None:
    path = folder / _RECORD
    if not path.exists():
        return None
    try:
        record = parse_json(path.read_text(encoding="utf-8"))
        known = {key: record["identity"][key] for key in identity}
        int(record["steps"]), float(record["seconds_a_step"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise AnatomicalEmbeddingError(f"{path}: is damaged; give another output folder.") from error
    if known != json.loads(json.dumps(identity)):
        raise AnatomicalEmbeddingError(
            f"{folder}: holds a run on other examples or with other options; give another output folder."
        )
    return record


def _group_folder(folder: Path, number: int) -> Path:
    """Return the folder of the checkpoint and the log of a group's training."""
    return folder / f"training-{number + 1}"
