"""Validation of a training run: the landmark error on patients that are not trained on selects the weights."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from ..embedding.device import choose_device
from ..embedding.inference import Model
from ..embedding.models.network import EmbeddingNetwork
from ..matching.match import match
from ..phantom.patient import phantom_views
from ..structures.label_names import group_of
from ..structures.labelled_scans import find_pairs, load_cases, patient_of
from .known_matches import named_point_errors
from .scans import PreparedScan

_PHANTOM_SEEDS = (700, 701)  # training phantoms have seeds from scans.PHANTOM_SEED


@dataclass
class Validation:
    """Measures the landmark error of a network on synthetic patients and, if given, on labelled scans.

    labelled: folder of labelled scans, see `load_cases`. device: device for the networks, as for `load_model`.
    """

    labelled: Path | None = None
    device: str = "cpu"

    def __post_init__(self) -> None:
        self._cases = load_cases(self.labelled) if self.labelled is not None else []
        self._phantoms = cache(phantom_views)  # cached from the first call

    def keep_apart(self, scans: Sequence[PreparedScan]) -> list[PreparedScan]:
        """Return the scans of patients that are not used for validation."""
        held = {case.patient for case in self._cases}
        return [scan for scan in scans if patient_of(scan.name) not in held]

    def __call__(self, network: EmbeddingNetwork) -> dict[str, float]:
        """Return median errors in mm by kind: "phantom"; for labelled scans "centre", "extreme" and "landmark"."""
        model = Model(network, "validated", "0" * 64, choose_device(self.device))
        errors = named_point_errors(model, _PHANTOM_SEEDS, self._phantoms)
        found: dict[str, list[float]] = {"phantom": np.concatenate(list(errors.values())).tolist()}
        maps = {case.id: model.embed(case.volume) for case in self._cases}
        for pair in find_pairs(self._cases):
            answers = match(maps[pair.template.id], pair.template_ras, maps[pair.target.id]).points_ras
            for kind, error in zip(pair.kinds, np.linalg.norm(answers - pair.target_ras, axis=1), strict=True):
                found.setdefault(group_of(kind), []).append(float(error))
        return {kind: float(np.nanmedian(errors)) for kind, errors in found.items()}


def score(errors: dict[str, float]) -> float:
    """Return the mean error over kinds, mm, by which weights are selected; each kind has the same weight."""
    return float(np.mean(list(errors.values())))
