"""Training a segmenter in a folder: what is to be done, how long it takes, and going on where it stopped."""

from __future__ import annotations

import json
import pickle
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from ..embedding.inference import Model
from ..embedding.tensor_files import write_checkpoint
from ..errors import AnatomicalEmbeddingError, WeightsError
from ..files import parse_json, write_text
from .carrying import guess_share
from .examples import Example, Prepared, prepare
from .grids import Group
from .network import UNet, UNetSpec
from .patches import INPUTS, TrainingCrop
from .pretraining import BODY, PAPER, pretrain
from .segmenter import EMBEDDING, Segmenter, is_trained, load_segmenter, new_network, save_segmenter
from .training import TrainingState, start, train
from .voxels import VoxelNet, train_voxels

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
    states = [_load_state(folder, n, new_network(spec, start_from, seed), model.device) for n, spec in enumerate(specs)]
    done = sum(state.step for state in states if state is not None)
    left = steps - done / len(groups)
    planned(Plan(steps * len(groups), left * record["seconds_a_step"], done))
    networks = []
    for n, (spec, crops) in enumerate(zip(specs, used, strict=True)):
        state = states[n]
        if state is None:
            network = new_network(spec, start_from, seed)
            if start_from in (PAPER, BODY):
                network.encoder.load_state_dict(
                    pretrain(spec, crops, start_from, seed, model.device, lambda s: step(0.0, "pre-training"))
                )
            state = start(network, seed, model.device)
        others = record["seconds_a_step"] * steps * (len(groups) - n - 1) / len(groups)
        begun: list[tuple[int, float]] = []

        def shown(at: int, loss: float, n: int = n, others: float = others, begun: list = begun) -> None:
            now = time.monotonic()
            if not begun:  # drawing the voxels comes before the first step and says nothing of the pace
                begun.append((at, now))
            taken = at - begun[0][0]
            pace = (now - begun[0][1]) / taken if taken else record["seconds_a_step"] / len(groups)
            to_go = (pace * (steps - at) + others) / 60
            step((n + at / steps) / len(groups), f"step {n * steps + at}, loss {loss:.3f}, {to_go:.0f} min to go")

        def save(state: TrainingState, n: int = n) -> None:
            _save_state(folder, n, state)

        networks.append(_train(state, crops, steps, seed, shown, save, cancelled))
        _save_state(folder, n, state)
    segmenter = _finished(model, weights, start_from, groups, networks, prepared)
    save_segmenter(folder, segmenter, prepared)
    for n in range(len(groups)):
        _checkpoint(folder, n).unlink(missing_ok=True)
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
    state = start(new_network(spec, start_from, 0), 0, device)
    if isinstance(state.network, VoxelNet):
        began = time.monotonic()
        train_voxels(state, crops, 10, 0, patches=1)
        return (time.monotonic() - began) / 10
    train(state, crops, 1)
    began = time.monotonic()
    train(state, crops, 3)
    return (time.monotonic() - began) / 2


def _train(
    state: TrainingState,
    crops: Sequence[TrainingCrop],
    steps: int,
    seed: int,
    shown: Callable[[int, float], None],
    save: Callable[[TrainingState], None],
    cancelled: Callable[[], bool],
) -> UNet | VoxelNet:
    """As its kind of network learns: single voxels drawn beforehand, or patches."""
    if isinstance(state.network, VoxelNet):
        return train_voxels(state, crops, steps, seed, shown, save, cancelled)
    return train(state, crops, steps, shown, save, cancelled)


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


def _checkpoint(folder: Path, number: int) -> Path:
    return folder / f"training-{number + 1}.pt"


def _save_state(folder: Path, number: int, state: TrainingState) -> None:
    write_checkpoint(_checkpoint(folder, number), state.to_dict())


def _load_state(folder: Path, number: int, network: UNet | VoxelNet, device: torch.device) -> TrainingState | None:
    path = _checkpoint(folder, number)
    if not path.exists():
        return None
    state = start(network, 0, device)
    try:
        state.load(torch.load(path, map_location=device, weights_only=True))
    except (OSError, KeyError, TypeError, ValueError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
        raise AnatomicalEmbeddingError(f"{path}: is damaged; delete it, and training begins anew.") from error
    return state
