"""Training the text network in a folder, and asking it for places."""

from __future__ import annotations

import json
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
    write_tensor_file,
)
from ...errors import WeightsError
from ...training.loop import CHECKPOINT, OptimiserSpec, Progress, TrainingLoop
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
_KEY = "anatomical_text"
_VERSION = 1
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
            raise WeightsError(f"{folder}: holds no trained text network; make one with `train`.")
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
    progress: Callable[[Progress], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> TextPlacer:
    """Train on sentences made from the terms and, half of each batch, on sentences of reports where there are some.

    A stopped run continues. Raises CancelledError once `cancelled` is true, with all work saved;
    AnatomicalEmbeddingError where the folder holds another run.
    """
    organs = shipped_organs()
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(recipe.seed)
    network = TextNetwork(TextSpec(len(organs.names) if recipe.loss == ENTROPY else 0)).train()
    texts = sha256("\n".join(example.text for example in reports).encode()).hexdigest()
    spec = OptimiserSpec(recipe.learning_rate, weight_decay=_DECAY, gradient_clip=_CLIP)
    loop = TrainingLoop(network, spec, recipe.steps, identity=json.dumps([asdict(recipe), texts, organs.names]))
    loop.resume(folder / CHECKPOINT)
    maker = SentenceMaker(organs)

    def loss_of(number: int) -> torch.Tensor:
        rng = np.random.default_rng([recipe.seed, number])
        return _loss(network, _batch(maker, reports, recipe.batch, rng), organs, recipe, rng)

    loop.run(loss_of, folder, progress=progress, cancelled=cancelled)
    placer = TextPlacer(network.eval(), recipe, organs)
    placer.save(folder / FILE)
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
