"""A family of synthetic shapes: scans of one kind of object with known landmarks, in any rotation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from AnatomicalEmbedding.embedding.frames.grey_image import spread_rotations
from AnatomicalEmbedding.scan.volume import Volume

SIDE, SPACING_MM = 60, 0.2
# centres of the lobes of the usual object, mm, and their radii: without any symmetry, so that its rotation is known
LOBES = np.array(
    [
        (0.0, 0.0, 0.0, 1.6),
        (2.4, 0.3, -0.2, 0.9),
        (-1.7, 1.5, 0.4, 1.0),
        (0.4, -2.2, 0.8, 0.7),
        (-0.6, 0.5, 2.3, 0.8),
        (3.3, 1.2, 0.6, 0.5),
        (-2.6, 2.4, 1.2, 0.5),
        (0.9, -3.0, 1.5, 0.4),
        (0.2, 0.9, -2.4, 0.6),
    ]
)


@dataclass(frozen=True, eq=False)
class Specimen:
    """A scan of one member of the family. landmarks: (n, 3) RAS mm, the centres of its lobes."""

    volume: Volume
    landmarks: np.ndarray


def make_specimen(seed: int, missing: int | None = None) -> Specimen:
    """Make a member of the family: turned, shifted, scaled, bent, with lobes of other sizes, and noise.

    Args:
        seed: random seed.
        missing: number of a lobe that is broken off; None for a whole object.
    """
    rng = np.random.default_rng(seed)
    turn = spread_rotations(997)[rng.integers(997)]
    scale = np.exp(rng.uniform(-0.08, 0.08))
    shift = rng.uniform(-0.6, 0.6, 3)
    phase, size = rng.uniform(0, 2 * np.pi, 3), rng.uniform(0.1, 0.25, 3)

    def bend(points: np.ndarray) -> np.ndarray:
        return points + size * np.sin(points[..., [1, 2, 0]] / 2 + phase)

    # lobes as they lie in the scan
    centres = (bend(LOBES[:, :3]) * scale) @ turn.T + shift
    radii = LOBES[:, 3] * scale * np.exp(rng.uniform(-0.08, 0.08, len(LOBES)))
    axis = (np.arange(SIDE) - (SIDE - 1) / 2) * SPACING_MM
    k, j, i = np.meshgrid(axis, axis, axis, indexing="ij")
    points = np.stack([i, j, k], axis=-1)
    density = np.zeros(points.shape[:3])
    for number, (centre, radius) in enumerate(zip(centres, radii, strict=True)):
        if number != missing:
            distance = np.linalg.norm(points - centre, axis=-1)
            density = np.maximum(density, 1 / (1 + np.exp((distance - radius) / 0.1)))
    voxels = 200 * density + rng.normal(0, 4, density.shape)
    matrix = np.diag([SPACING_MM, SPACING_MM, SPACING_MM, 1.0])
    matrix[:3, 3] = axis[0]
    return Specimen(Volume(voxels.astype(np.float32), matrix, f"specimen{seed}"), centres)
