"""Check of a scan's orientation against its anatomy, as headers can be wrong.

The map of a mirrored scan fits a body less well: liver and heart are on the wrong sides, and upside down nothing fits.
So the scan is embedded as stored and mirrored along each axis, and the fit of an affine map decides.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ..scan.volume import Volume
from .coverage import misfit_mm
from .inference import Model
from .map import EmbeddingMap

FAULTS = ("left and right are swapped", "front and back are swapped", "head and feet are swapped")
_CLEARLY = 1.07  # factor by which a mirrored scan must fit better


@dataclass(frozen=True)
class OrientationCheck:
    """misfit_mm: of the scan as stored. turned_mm: of the scan mirrored along R, A, S.

    fault: one of FAULTS, or None when no mirrored scan fits clearly better. A head or a leg alone looks the
    same in a mirror, so no fault is no proof.
    """

    misfit_mm: float
    turned_mm: tuple[float, float, float]

    @property
    def fault(self) -> str | None:
        axis = int(np.argmin(self.turned_mm))
        return FAULTS[axis] if self.misfit_mm > _CLEARLY * self.turned_mm[axis] else None


def check_orientation(
    model: Model,
    volume: Volume,
    stored: EmbeddingMap,
    progress: Callable[[float, str], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> OrientationCheck:
    """Compare a scan with its mirror images; three embeddings, not kept in the cache.

    stored: the model's map of the scan as it is.
    Raises what `Model.embed` raises, and AnatomicalEmbeddingError for weights without a body frame in mm.
    """

    plain = replace(model, cache=None)

    def misfit_turned(axis: int) -> float:
        def step(share: float, what: str) -> None:
            if progress is not None:
                progress((axis + share) / 3, what)

        return misfit_mm(plain.embed(turn_over(volume, axis), step, cancelled))

    return OrientationCheck(misfit_mm(stored), (misfit_turned(0), misfit_turned(1), misfit_turned(2)))


def turn_over(volume: Volume, axis: int) -> Volume:
    """The scan mirrored along the voxel axis nearest to R, A or S (0, 1, 2), within the same outlines."""
    along = int(np.argmax(np.abs(volume.ijk_to_ras[axis, :3]) / np.linalg.norm(volume.ijk_to_ras[:3, :3], axis=0)))
    return replace(volume, voxels=np.ascontiguousarray(np.flip(volume.voxels, 2 - along)))
