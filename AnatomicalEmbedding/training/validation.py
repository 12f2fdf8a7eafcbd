"""Which weights of a run are kept: those with the least landmark error on patients the run does not train on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from ..device import choose_device
from ..evaluation.dataset import load_cases, patient_of
from ..evaluation.phantoms import PhantomResult, evaluate_phantoms, phantom_views
from ..evaluation.protocol import EmbeddingMatcher, evaluate_landmarks
from ..evaluation.results import GROUPS
from ..inference import Model
from ..models.network import EmbeddingNetwork
from .scans import PreparedScan

_PHANTOM_SEEDS = (700, 701)  # training phantoms count from scans.PHANTOM_SEED


@dataclass
class Validation:
    """Landmark error of a network on synthetic patients and, where given, on a folder of labelled scans.

    labelled: see `evaluation.load_cases`. device: where networks are run, as for `load_model`.
    """

    labelled: Path | None = None
    device: str = "cpu"

    def __post_init__(self) -> None:
        self._cases = load_cases(self.labelled) if self.labelled is not None else []
        self._phantoms = cache(phantom_views)  # made at the first call, then kept

    def keep_apart(self, scans: Sequence[PreparedScan]) -> list[PreparedScan]:
        """The scans whose patients are not validated on."""
        held = {case.patient for case in self._cases}
        return [scan for scan in scans if patient_of(scan.name) not in held]

    def __call__(self, network: EmbeddingNetwork) -> dict[str, float]:
        """Median error in mm by kind: "phantom", and of labelled scans "centre", "extreme" and "landmark"."""
        model = Model(network, "validated", "0" * 64, choose_device(self.device))
        phantoms: PhantomResult = evaluate_phantoms(model, _PHANTOM_SEEDS, make=self._phantoms)
        found = {"phantom": np.concatenate(list(phantoms.errors_mm.values()))}
        if self._cases:
            result = evaluate_landmarks(self._cases, {"validated": EmbeddingMatcher(model)})
            for group in GROUPS:
                if len(errors := result.errors("validated", group)):
                    found[group] = errors
        return {kind: float(np.nanmedian(errors)) for kind, errors in found.items()}


def score(errors: dict[str, float]) -> float:
    """One number to choose by, mm: the mean over kinds, so that many points of one kind do not drown the others."""
    return float(np.mean(list(errors.values())))
