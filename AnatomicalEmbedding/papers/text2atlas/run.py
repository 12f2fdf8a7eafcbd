"""Train the text network in a folder, and read a trained network."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np
import torch

from ...embedding.tensor_files import (
    DAMAGED,
    NewerFormatError,
    made_for,
    read_tensor_file,
    write_tensor_file,
)
from ...errors import WeightsError
from ...training.loop import CHECKPOINT, OptimiserSpec, Progress, TrainingLoop
from .network import TextNetwork
from .organs import shipped_organs
from .sentences import NamedSentence, SentenceMaker

FILE = "text2atlas.safetensors"
_KEY = "anatomical_text"
_VERSION = 1
_UNIT_MM = 300.0  # the loss measures lengths in this unit: about half of the mean size of the paper's atlas
_POINTS = 100  # points drawn from each organ
_CLIP, _DECAY = 2.0, 0.01  # as in the paper
# The paper's best temperatures, in the same unit (Grujicic 2020, appendix E).
_POINT_TEMPERATURE, _ORGAN_TEMPERATURE = 0.1, 1.0


def soft_organ_distance(
    predicted: torch.Tensor, points: torch.Tensor, named: torch.Tensor
) -> torch.Tensor:
    """Soft organ distance (SOD; Grujicic 2020, equations 2 and 3): mean over b texts.

    The SOD of a text is a weighted mean of the distances from the predicted point to the named organs. Near organs have
    the largest weights.

    Args:
        predicted: (b, 3), in the unit of `points`.
        points: (b, m, n, 3), n points in each organ; a text has at most m organs.
        named: (b, m) bool, True for each organ of the text, False for an unused entry.
    """
    # the gradient of the norm at 0 is 0
    distance = torch.linalg.vector_norm(predicted[:, None, None] - points, dim=-1)
    organ = (distance * torch.softmax(-distance / _POINT_TEMPERATURE, dim=-1)).sum(-1)
    weight = torch.softmax((-organ / _ORGAN_TEMPERATURE).masked_fill(~named, -torch.inf), dim=-1)
    return (organ * weight).sum(-1).mean()


@dataclass(frozen=True)
class TextRecipe:
    """Settings of a training run. mask: fraction of the place names that are masked (0.5: self-supervised variant)."""

    mask: float = 0.0
    steps: int = 1000
    seed: int = 0
    batch: int = 64
    learning_rate: float = 2e-3


def load_text(folder: Path) -> TextNetwork:
    """Read the network of a run. Raises WeightsError if its file is missing, damaged or for another list of places."""
    path = folder / FILE
    if not path.is_file():
        raise WeightsError(
            f"{folder}: the folder holds no trained text network; make a network with `train`."
        )
    try:
        metadata, weights = read_tensor_file(path, _KEY, _VERSION)
        names = tuple(metadata["organs"])
        network = made_for(TextNetwork, weights)
        network.load_state_dict(weights)
    except NewerFormatError:
        raise WeightsError(
            f"{path}: was written by a newer version of this program; update the program."
        ) from None
    except DAMAGED as error:
        raise WeightsError(f"{path}: is damaged; train again in another folder.") from error
    if names != shipped_organs().names:
        raise WeightsError(
            f"{path}: the network was trained for another list of places; train again."
        )
    return network.eval()


def train_text(
    recipe: TextRecipe,
    folder: Path,
    reports: Sequence[NamedSentence] = (),
    progress: Callable[[Progress], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> TextNetwork:
    """Train on sentences with place names. If `reports` are given, half of each batch are sentences of reports.

    Args:
        recipe: settings of the run.
        folder: folder of the run. A stopped run continues.
        reports: sentences of reports.
        progress: called after each step.
        cancelled: if it returns True, the run is saved and CancelledError is raised.

    Raises AnatomicalEmbeddingError if the folder holds another run.
    """
    organs = shipped_organs()
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(recipe.seed)
    network = TextNetwork().train()
    texts = sha256("\n".join(example.text for example in reports).encode()).hexdigest()
    spec = OptimiserSpec(recipe.learning_rate, weight_decay=_DECAY, gradient_clip=_CLIP)
    loop = TrainingLoop(
        network, spec, recipe.steps, identity=json.dumps([asdict(recipe), texts, organs.names])
    )
    loop.resume(folder / CHECKPOINT)
    maker = SentenceMaker(organs)

    def loss_of(number: int) -> torch.Tensor:
        rng = np.random.default_rng([recipe.seed, number])
        report_count = recipe.batch // 2 if reports else 0
        batch = (
            [reports[n] for n in rng.integers(len(reports), size=report_count)]
            if report_count
            else []
        )
        batch += [maker.draw(rng) for _ in range(recipe.batch - report_count)]
        predicted = network([example.masked(recipe.mask, rng) for example in batch])
        points, used = organs.sample([example.organs for example in batch], _POINTS, rng)
        return soft_organ_distance(
            predicted / _UNIT_MM, torch.from_numpy(points) / _UNIT_MM, torch.from_numpy(used)
        )

    loop.run(loss_of, folder, progress=progress, cancelled=cancelled)
    metadata = {"format_version": _VERSION, "recipe": asdict(recipe), "organs": organs.names}
    write_tensor_file(
        folder / FILE, network.state_dict(), {_KEY: json.dumps(metadata)}, WeightsError
    )
    return network.eval()
