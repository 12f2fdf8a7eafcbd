"""Reads and writes weights. When weights are read, their hash is checked."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from ...errors import WeightsError
from ...files import file_sha256, parse_json
from ...resources import missing_weights, weights_file
from ..calibration import Calibration, calibration_file, find_calibration
from ..frames.frame import Frame, FrameSpec
from ..tensor_files import DAMAGED, made_for, read_tensor_file, write_tensor_file
from .network import EmbeddingNetwork, NetworkSpec

_METADATA_KEY = "anatomical_embedding_model"


@dataclass(frozen=True)
class Weights:
    """A network with its trained weights, or a frame.

    Args:
        sha256: SHA-256 of the weights file.
        card: the model card, with training data, figures and limits.
        calibration: predicts the errors of matches made with these weights, or None.
    """

    network: torch.nn.Module
    name: str
    sha256: str
    card: dict
    calibration: Calibration | None = None


def find_weights(name: str = "auto") -> Weights:
    """Read weights by name: "auto", a shipped name, or a .safetensors file.

    Raises WeightsError if the file is missing, damaged or changed.
    """
    path = Path(name)
    if path.suffix == ".safetensors":
        return read_weights(path)
    if path.is_file():
        raise WeightsError(f"{name}: is not a weights file; give a file that ends in .safetensors.")
    shipped = weights_file(name)
    if not shipped.is_file():
        raise WeightsError(missing_weights(name))
    return read_weights(shipped)


def read_weights(path: Path) -> Weights:
    """Read a weights file. If its card (same name, .json) states a SHA-256, the file must have this SHA-256."""
    if not path.is_file():
        raise WeightsError(f"{path}: no such file; give the path of a weights file.")
    sha256 = file_sha256(path)
    card_path = path.with_suffix(".json")
    if card_path.exists() and _stated_sha256(card_path) not in (None, sha256):
        raise WeightsError(
            f"{path}: is not the file that the card {card_path.name} describes; download both files."
        )
    try:
        metadata, state = read_tensor_file(path, _METADATA_KEY)
        name = str(metadata["name"])
        make = _maker(metadata["network"])
    except DAMAGED:
        raise WeightsError(
            f"{path}: is damaged, has a newer format, or does not contain weights; download the file again."
        ) from None
    try:
        network = made_for(make, state)
        network.load_state_dict(state)
    except DAMAGED:
        raise WeightsError(
            f"{path}: the tensors do not fit the network; download the file again."
        ) from None
    return Weights(network.eval(), name, sha256, metadata, _calibration(path, sha256))


def _maker(spec: dict[str, Any]) -> Callable[[], EmbeddingNetwork | Frame]:
    """Return a function that makes the network, or the frame, of a spec in a file."""
    if "modality" in spec:
        return partial(Frame, FrameSpec.from_dict(spec))
    return partial(EmbeddingNetwork, NetworkSpec.from_dict(spec))


def _calibration(weights: Path, sha256: str) -> Calibration | None:
    """Return the calibration next to a weights file, or else the shipped calibration of these weights, or else None."""
    path = calibration_file(weights)
    if path.exists():
        calibration = Calibration.load(path)
        if calibration.weights_hash == sha256:
            return calibration
    return find_calibration(sha256)


def write_weights(network: EmbeddingNetwork | Frame, path: Path, name: str, card: dict) -> str:
    """Write weights in float16. Returns the SHA-256 of the file.

    Args:
        network: the network with its weights, or a frame.
        path: the file.
        name: name of the weights.
        card: content of the model card, as JSON values: recipe, data, steps, figures.
    """
    state = {}
    for key, value in network.state_dict().items():
        is_stored_short = value.is_floating_point() and "running" not in key
        state[key] = (value.half() if is_stored_short else value).cpu()
    metadata = {_METADATA_KEY: json.dumps({"name": name, "network": asdict(network.spec), **card})}
    write_tensor_file(path, state, metadata, WeightsError)
    return file_sha256(path)


def _stated_sha256(card: Path) -> str | None:
    """Return the SHA-256 of the weights that a model card states; None if it states none."""
    try:
        return parse_json(card.read_text(encoding="utf-8")).get("sha256")
    except (OSError, AttributeError, ValueError):
        raise WeightsError(
            f"{card}: is damaged, or is not a model card in JSON; download the card again, or delete the card."
        ) from None
