"""The last step of a deformable registration: improves a displacement by comparing the two images.

Gauss-Newton steps minimise the difference of image features on a lattice, from coarse to fine. The change from
the initial displacement is kept smooth (diffusion of the spline's knots). Where the images contain no information, the
initial displacement stays. The steps are those of `fields.comparison`.
"""

from collections.abc import Sequence

import numpy as np
import torch

from ..embedding.map import EmbeddingMap
from ..embedding.working_grid import crop, resample
from ..errors import ShareCallback
from ..fields.comparison import Comparison, Features, normalised
from ..fields.spline import SplineField
from ..scan.volume import Volume

HU = (-1000.0, 400.0)  # HU outside are clipped, so that metal and dense bone look like other bone
_NOISE_HU = 50.0  # a window with less contrast counts as flat
LEVELS = ((6.0, 24.0), (3.0, 12.0))  # spacing of the compared points, and of the knots, mm
_ROUNDS = 6  # at most, of a level; twice as many hardly differ (LOG, Registration)
_UNFOLDING_ROUNDS = 3  # after each doubling of the smoothness; by hand
_MOST_SMOOTH = 20.0  # to which it is doubled; by hand
_LEAST_VOLUME = 0.1  # least volume ratio, relative to the affine transform; with less, the field is near folding
_SMOOTH = 0.6  # weight of smoothness, relative to the mean of the blocks' matrices
_STILL_MM = 0.05  # a level ends when a step changes the displacement by less than this, on average


def image_features(volume: Volume, embedding: EmbeddingMap, spacing_mm: float) -> Features:
    """Normalise HU by the local mean and local standard deviation (Cachier 2000).

    This removes the effects of contrast medium and dose, and of breathing on the density of the lung.

    Args:
        volume: the scan.
        embedding: its map.
        spacing_mm: distance of the points at which HU are read.
    """
    grid = resample(volume, (spacing_mm,) * 3, lattice=1, step=1)
    body = embedding.body_on(grid.lattice).numpy()
    grid, body = crop(grid, body, lattice=1, step=1)
    values = normalised(grid.hu.clamp(*HU), _NOISE_HU)
    return Features(values, torch.from_numpy(body).float(), grid.lattice)


def refine(
    field: SplineField,
    affine: np.ndarray,
    volumes: tuple[Volume, Volume],
    maps: tuple[EmbeddingMap, EmbeddingMap],
    device: torch.device,
    step: ShareCallback = lambda share: None,
    levels: Sequence[tuple[float, float]] = LEVELS,
    rounds: int = _ROUNDS,
) -> SplineField:
    """Improve a displacement field, which is added after the affine transform, by comparing the images.

    Args:
        field: the field.
        affine: (4, 4) RAS mm fixed -> moving.
        volumes, maps: of the fixed scan, then of the moving scan.
        device: where to compute.
        step: called with the share of the work that is done, 0 to 1; an exception raised in `step` stops the
            computation.
        levels: distance of the compared points, and of the knots, mm, from coarse to fine.
        rounds: largest number of steps at a level.
    """
    start = field
    for level, (spacing_mm, knot_mm) in enumerate(levels):
        fixed, moving = (
            image_features(volume, embedding, spacing_mm).to(device)
            for volume, embedding in zip(volumes, maps, strict=True)
        )
        if knot_mm < field.knot_mm:
            field = field.refined(knot_mm)
            start = start.refined(knot_mm)
        comparison = Comparison(fixed, moving, affine)
        for n in range(rounds):
            step((level + n / rounds) / len(levels))
            field, moved = comparison.improved(field, start, _SMOOTH)
            if moved < _STILL_MM:
                break
        # a field that is near folding is improved again, smoother
        smooth = _SMOOTH
        while smooth < _MOST_SMOOTH and comparison.least_volume(field, affine) < _LEAST_VOLUME:
            smooth *= 2
            for _ in range(_UNFOLDING_ROUNDS):
                step((level + 1) / len(levels))
                field, _ = comparison.improved(field, start, smooth)
    return field
