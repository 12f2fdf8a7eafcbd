"""Validation of a training run: the landmark error on patients that are not trained on selects the weights."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from pathlib import Path

import numpy as np

from ..embedding.device import choose_device
from ..embedding.inference import Model
from ..embedding.models.network import EmbeddingNetwork
from ..matching.match import match
from ..phantom.patient import phantom_views
from ..structures.label_names import group_of
from ..structures.labelled_scans import find_pairs, load_cases, patient_of
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
        found: dict[str, list[float]] = {"phantom": self._phantom_errors(model)}
        maps = {case.id: model.embed(case.volume) for case in self._cases}
        for pair in find_pairs(self._cases):
            answers = match(maps[pair.template.id], pair.template_ras, maps[pair.target.id]).points_ras
            for kind, error in zip(pair.kinds, np.linalg.norm(answers - pair.target_ras, axis=1), strict=True):
                found.setdefault(group_of(kind), []).append(float(error))
        return {kind: float(np.nanmedian(errors)) for kind, errors in found.items()}

    def _phantom_errors(self, model: Model) -> list[float]:
        """Match the named points of each whole synthetic patient in every view of the other patients; errors in mm."""
        views = {seed: self._phantoms(seed) for seed in _PHANTOM_SEEDS}
        maps = {(seed, view): model.embed(p.volume) for seed, of in views.items() for view, p in of.items()}
        errors: list[float] = []
        for a, b in permutations(views, 2):
            for view, phantom in views[b].items():
                known = views[a]["whole"].points_ras
                names = sorted(known.keys() & phantom.points_ras.keys())
                points, truth = (np.array([of[name] for name in names]) for of in (known, phantom.points_ras))
                found = match(maps[a, "whole"], points, maps[b, view]).points_ras
                errors += np.linalg.norm(found - truth, axis=1).tolist()
        return errors


def score(errors: dict[str, float]) -> float:
    """Return the mean error over kinds, mm, by which weights are selected; each kind has the same weight."""
    return float(np.mean(list(errors.values())))
