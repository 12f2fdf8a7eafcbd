"""Training the text network in a folder, and using what was trained."""

from __future__ import annotations

import json
import math
import pickle
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path

import numpy as np
import torch

from ...embedding.tensor_files import (
    DAMAGED,
    NewerFormatError,
    check_fields,
    made_for,
    read_tensor_file,
    write_checkpoint,
    write_tensor_file,
)
from ...errors import AnatomicalEmbeddingError, CancelledError, WeightsError
from ..log import StepLog
from . import losses
from .network import TextNetwork, TextSpec
from .organs import Organs, shipped_organs
from .sentences import Example, SentenceMaker

ENTROPY = "cross-entropy"
LOSSES = {
    "sod": losses.soft_organ_distance,
    "minimum": losses.minimum_distance,
    "mean-square": losses.mean_square,
    ENTROPY: losses.organ_entropy,
}
FILE = "text2atlas.safetensors"
_CHECKPOINT = "checkpoint.pt"
_KEY = "anatomical_text"
_VERSION = 1
_SAVE_SECONDS = 60.0
_UNIT_MM = 300.0  # of the losses: about the mean half-size of the paper's atlas, in which its temperatures are
_POINTS = 100  # of each organ
_CLIP, _DECAY = 2.0, 0.01  # as in the paper


@dataclass(frozen=True)
class TextRecipe:
    """loss: of LOSSES. mask: share of the places' names that are masked (the paper's self-supervised variant: 0.5)."""

    loss: str = "sod"
    mask: float = 0.0
    steps: int = 1000
    seed: int = 0
    batch: int = 64
    learning_rate: float = 2e-3


@dataclass(frozen=True, eq=False)
class TextPlacer:
    """A trained network. recipe: how."""

    network: TextNetwork
    recipe: TextRecipe
    organs: Organs = field(default_factory=shipped_organs)

    @torch.no_grad()
    def place(self, texts: Sequence[str]) -> np.ndarray:
        """(n, 3) mm in the body frame: a point for every text, whatever it says."""
        found = torch.cat([self.network(texts[n : n + 256]) for n in range(0, len(texts), 256)])
        return self.organs.best[found.argmax(1).numpy()] if self.network.spec.classes else found.double().numpy()

    def save(self, path: Path) -> None:
        """Write one file, complete or not at all. Raises WeightsError where it cannot be written."""
        about = {"format_version": _VERSION, "recipe": asdict(self.recipe), "network": asdict(self.network.spec)}
        about["organs"] = self.organs.names
        write_tensor_file(path, self.network.state_dict(), {_KEY: json.dumps(about)}, WeightsError)

    @classmethod
    def load(cls, folder: Path) -> TextPlacer:
        """Read the folder of a run. Raises WeightsError where it holds no finished one, or one of other places."""
        path = folder / FILE
        if not path.is_file():
            raise WeightsError(f"{folder}: holds no trained text network; make one with `anatemb words train`.")
        try:
            about, weights = read_tensor_file(path, _KEY, _VERSION)
            for kind, key in ((TextRecipe, "recipe"), (TextSpec, "network")):
                check_fields(kind, about[key])
            spec, recipe, names = TextSpec(**about["network"]), TextRecipe(**about["recipe"]), tuple(about["organs"])
            if spec.classes not in (0, len(names)) or spec.heads < 1 or spec.width % spec.heads:
                raise ValueError("no text network")
            network = made_for(partial(TextNetwork, spec), weights)
            network.load_state_dict(weights)
        except NewerFormatError:
            raise WeightsError(f"{path}: written by a newer version of this program; update it.") from None
        except DAMAGED as error:
            raise WeightsError(f"{path}: is damaged or incomplete; train again into another folder.") from error
        if names != shipped_organs().names:
            raise WeightsError(f"{path}: was trained for another list of places; train again.")
        return cls(network.eval(), recipe)


def train_text(
    recipe: TextRecipe,
    folder: Path,
    reports: Sequence[Example] = (),
    progress: Callable[[int, float, float], None] = lambda step, loss, seconds_left: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> TextPlacer:
    """Train on sentences made from the terms and, half of each batch, on those of reports where there are some.

    A folder whose run was stopped is gone on with. Raises CancelledError once `cancelled` says so, with all work saved;
    AnatomicalEmbeddingError where the folder holds another run.
    """
    organs = shipped_organs()
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(recipe.seed)
    network = TextNetwork(TextSpec(len(organs.names) if recipe.loss == ENTROPY else 0)).train()
    optimiser = torch.optim.AdamW(network.parameters(), lr=recipe.learning_rate, weight_decay=_DECAY)
    texts = sha256("\n".join(example.text for example in reports).encode()).hexdigest()
    identity = json.dumps([asdict(recipe), texts, organs.names])
    checkpoint = folder / _CHECKPOINT
    first = _resumed(checkpoint, identity, network, optimiser)
    maker, begun = SentenceMaker(organs), time.monotonic()
    saved = begun

    def save(step: int) -> None:
        state = {"network": network.state_dict(), "optimiser": optimiser.state_dict(), "rng": torch.get_rng_state()}
        write_checkpoint(checkpoint, state | {"step": step, "identity": identity})

    with StepLog(folder, first) as log:
        for step in range(first, recipe.steps):
            if cancelled():
                save(step)
                raise CancelledError(f"{folder}: stopped at step {step}; run the same command to go on.")
            rate = recipe.learning_rate * min((step + 1) / 100, (1 + math.cos(math.pi * step / recipe.steps)) / 2)
            for group in optimiser.param_groups:
                group["lr"] = rate
            rng = np.random.default_rng([recipe.seed, step])
            loss = _loss(network, _batch(maker, reports, recipe.batch, rng), organs, recipe, rng)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), _CLIP)
            optimiser.step()
            now = time.monotonic()
            log.write(step + 1, float(loss.detach()), rate, (now - begun) / 60)
            progress(step + 1, float(loss.detach()), (now - begun) / (step + 1 - first) * (recipe.steps - step - 1))
            if now > saved + _SAVE_SECONDS:
                save(step + 1)
                log.flush()
                saved = now
    placer = TextPlacer(network.eval(), recipe, organs)
    placer.save(folder / FILE)
    save(recipe.steps)
    return placer


def _batch(maker: SentenceMaker, reports: Sequence[Example], size: int, rng: np.random.Generator) -> list[Example]:
    own = size // 2 if reports else 0
    chosen = [reports[n] for n in rng.integers(len(reports), size=own)] if own else []
    return [*chosen, *(maker.draw(rng) for _ in range(size - own))]


def _loss(
    network: TextNetwork, batch: Sequence[Example], organs: Organs, recipe: TextRecipe, rng: np.random.Generator
) -> torch.Tensor:
    named = [example.organs for example in batch]
    found = network([example.masked(recipe.mask, rng) for example in batch])
    if recipe.loss == ENTROPY:
        return losses.organ_entropy(found, torch.from_numpy(organs.one_hot(named)))
    points, held = organs.sample(named, _POINTS, rng)
    return LOSSES[recipe.loss](found / _UNIT_MM, torch.from_numpy(points) / _UNIT_MM, torch.from_numpy(held))


def _resumed(path: Path, identity: str, network: TextNetwork, optimiser: torch.optim.Optimizer) -> int:
    """The step that an earlier run came to, with its state loaded; 0 where there is none."""
    if not path.exists():
        return 0
    try:
        state = torch.load(path, weights_only=True)
        same = state["identity"] == identity
        if same:
            network.load_state_dict(state["network"])
            optimiser.load_state_dict(state["optimiser"])
            torch.set_rng_state(state["rng"])
            return int(state["step"])
    except (*DAMAGED, EOFError, pickle.UnpicklingError):
        raise AnatomicalEmbeddingError(f"{path}: is damaged; delete it, and training begins anew.") from None
    raise AnatomicalEmbeddingError(f"{path}: belongs to a run with other settings or reports; choose another folder.")
