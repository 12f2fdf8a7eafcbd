"""Fixture: a synthetic patient, the same patient deformed by a known transform, and their registration."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from AnatomicalEmbedding import load_model
from AnatomicalEmbedding.embedding.cache import MapCache
from AnatomicalEmbedding.embedding.map import EmbeddingMap
from AnatomicalEmbedding.phantom import Phantom
from AnatomicalEmbedding.registration.register import register
from AnatomicalEmbedding.registration.transform import Registration
from AnatomicalEmbedding.scan.volume import Volume
from AnatomicalEmbedding.training.warped_scans import WarpedScan, warp_scan


@dataclass(frozen=True, eq=False)
class BentPair:
    """The bent copy is the fixed scan: where its points lie in the patient is known exactly."""

    patient: Phantom
    bent: WarpedScan
    maps: tuple[EmbeddingMap, EmbeddingMap]

    @property
    def volumes(self) -> tuple[Volume, Volume]:
        return self.bent.volume, self.patient.volume

    @property
    def points_ras(self) -> np.ndarray:
        """(n, 3) RAS mm: points all over the body of the bent copy."""
        fixed = self.maps[0]
        cells = fixed.body_index.numpy()[::7]
        return cells * fixed.cell_mm + fixed.cell_to_ras[:3, 3]

    def registered(self, kind: str) -> Registration:
        return _registered(self, kind)

    def errors_mm(self, found: Registration) -> np.ndarray:
        points = self.points_ras
        inside = self.volumes[1].contains(self.bent.to_original(points))
        apart = found.transform_points(points[inside]) - self.bent.to_original(points[inside])
        return np.linalg.norm(apart, axis=1)


@cache
def _registered(pair: BentPair, kind: str) -> Registration:
    return register(pair.maps, pair.volumes, kind)


@pytest.fixture(scope="session")
def bent_pair(phantom_pair, map_folder) -> BentPair:
    patient = phantom_pair[0]
    bent = warp_scan(patient.volume, seed=5)
    model = load_model(cache=MapCache(map_folder))
    return BentPair(patient, bent, (model.embed(bent.volume), model.embed(patient.volume)))
