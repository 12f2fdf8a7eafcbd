"""A synthetic patient, the same patient deformed by a known transform, and the logic that aligns the two scans."""

from dataclasses import dataclass, field
from functools import cache

import numpy as np
import slicer.util
import torch
from polling import poll_until
from scans import make_store

from AnatomicalEmbedding.fields.spline import SplineField
from AnatomicalEmbedding.phantom import Phantom, make_phantom
from AnatomicalEmbedding.registration.transform import Registration
from AnatomicalEmbedding.training.warped_scans import WarpedScan, warp_scan
from AnatomicalEmbeddingLib.alignment.AlignmentLogic import AlignmentLogic

LOW, HIGH = np.array([-90.0, -70.0, 40.0]), np.array([80.0, 75.0, 210.0])  # RAS mm


@cache
def bent_pair() -> tuple[Phantom, WarpedScan]:
    """Where points of the bent copy lie in the patient is known exactly."""
    patient = make_phantom(71, spacing=(5.0, 5.0, 5.0), coverage_mm=(150.0, 480.0))
    return patient, warp_scan(patient.volume, seed=5)


def add_volume(volume, name: str, parent=None):
    node = slicer.util.addVolumeFromArray(volume.voxels, volume.ijk_to_ras, name=name)
    if parent is not None:
        node.SetAndObserveTransformNodeID(parent.GetID())
    return node


def registration(kind: str = "deformable") -> Registration:
    """A map of the box LOW..HIGH that no volume is needed for; not "rigid"."""
    rng = np.random.default_rng(3)
    affine = np.eye(4)
    affine[:3, :3] += rng.normal(0, 0.05, (3, 3))
    affine[:3, 3] = (15.0, -8.0, 120.0)
    bent = None
    if kind != "affine":
        empty = SplineField.over(LOW, HIGH, 24.0)
        knots = torch.from_numpy(rng.normal(0, 4, empty.coefficients.shape)).float()
        bent = SplineField(empty.low, 24.0, knots)
    return Registration(kind, affine, bent, "fixed", "moving", 1, 1)


def through(transform, points: np.ndarray) -> np.ndarray:
    """(n, 3) through a VTK transform."""
    return np.array([transform.TransformPoint(*point) for point in points])


@dataclass(eq=False)
class AlignBench:
    """reported: sentences of the logic. started with a store whose maps are kept in a folder."""

    scene: object
    folder: object
    reported: list = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store = make_store(self.scene, self.folder)
        self.logic = AlignmentLogic(self.scene, self.store)
        self.logic.reported.connect(self.reported.append)

    def poll_until(self, reached, seconds: float = 120.0) -> None:
        poll_until(
            reached,
            self.store.poll,
            self.logic.poll,
            seconds=seconds,
            problem=lambda: f"not reached; reported: {self.reported}",
        )

    def run(self, fixed, moving, kind: str = "deformable", **options: object):
        """Align to the end; the transform node that the moving volume lies below then."""
        assert self.logic.align(fixed, moving, kind, **options), self.reported
        self.poll_until(lambda: not self.logic.busy)
        return moving.GetParentTransformNode()

    def close(self) -> None:
        self.logic.close()
        self.store.close()
