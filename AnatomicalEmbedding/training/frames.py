"""The common body frame, which relates scans of different patients.

Body coordinates are mm along the patient's axes (R, A, S): x = 0 in the mid-sagittal plane, y = 0 about the spine,
z = 0 at the femoral heads' centres. A level is a known height in the body, such as the carina; a level reading is the
RAS z of a level in a scan. A scale and a shift, fitted to a few level readings of a scan, convert RAS z to body height.
x and y are first guessed from the skeleton. Training corrects all three axes; the standard deviations of a `FrameGuess`
limit these corrections.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..embedding.coverage import body_points
from ..embedding.map import EmbeddingMap
from ..errors import AnatomicalEmbeddingError
from ..files import parse_json
from ..scan.geometry import transform_points

_BONE_HU = 250  # denser voxels count as bone; by hand
_MIDLINE_MM = 25.0  # about half the width of a vertebra; by hand
_CROPPED_SHARE = 0.2  # if the shares of body voxels in the left and right border layers differ more, the scan is cut
_SCALE_SD = 0.08  # standard deviation of the z scale between patients; keeps the scale near 1 if there are few readings
_READING_SD_MM = 8.0  # standard deviation of a reading; by hand
_LINE_PRIOR = 1e4  # mm^2: keeps the scale near 1 if a scan has only a few slices


@dataclass(frozen=True)
class LevelTable:
    """Known levels, such as the carina: the mean body height of each level, and its RAS z in each scan, mm."""

    body_height_mm: dict[str, float]
    readings: dict[str, dict[str, float]]

    @classmethod
    def read(cls, path: Path) -> "LevelTable":
        """Read a JSON file with `body_height_mm` {level: mm} and `scans` {scan: {level: RAS z mm}}."""
        try:
            values = parse_json(path.read_text())
            readings = {scan: dict(levels) for scan, levels in values["scans"].items()}
            return cls(dict(values["body_height_mm"]), readings)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise AnatomicalEmbeddingError(
                f"{path}: is not a table of level readings ({error}); write the entries body_height_mm and scans."
            ) from None

    def of(self, scan: str) -> dict[float, float]:
        """Return the known levels of a scan: body height mm -> RAS z mm. Empty if this table does not list the scan."""
        readings = self.readings.get(scan, {})
        unknown = readings.keys() - self.body_height_mm.keys()
        if unknown:
            raise AnatomicalEmbeddingError(
                f"{scan}: body_height_mm has no level {min(unknown)}; add this level."
            )
        return {self.body_height_mm[level]: z for level, z in readings.items()}


@dataclass(frozen=True)
class FrameGuess:
    """First guess of the conversion from RAS to the body frame: body = scale * ras + shift on each axis.

    scale_sd, shift_sd_mm: standard deviations of the errors of scale and shift.
    """

    scale: np.ndarray  # (3,)
    shift_mm: np.ndarray  # (3,)
    scale_sd: np.ndarray  # (3,)
    shift_sd_mm: np.ndarray  # (3,)

    def apply(self, points_ras: np.ndarray) -> np.ndarray:
        """Convert points (N, 3) from RAS mm to body coordinates, mm."""
        return points_ras * self.scale + self.shift_mm


SETTLED_SCALE_SD, SETTLED_SHIFT_SD_MM = np.full(3, 0.02), np.full(3, 4.0)  # for aligned scans
# for scans already in the body frame
STILL = FrameGuess(np.ones(3), np.zeros(3), np.zeros(3), np.zeros(3))


def guess_frame(
    hu: np.ndarray, body: np.ndarray, grid_to_ras: np.ndarray, readings: dict[float, float]
) -> FrameGuess:
    """Guess a scan's body frame from level readings and from the skeleton.

    Args:
        hu, body: (k, j, i), HU and body mask on a grid along R, A, S.
        grid_to_ras: (4, 4) of this grid.
        readings: {body height mm: RAS z mm}, at least one.
    """
    x_mm, y_mm, cropped = _skeleton_axes(hu, body, grid_to_ras)
    scale_z, shift_z = fit_heights(readings)
    scale_sd = np.array([0.08, 0.08, 0.06 if len(readings) < 3 else 0.03])
    shift_sd_mm = np.array([100.0, 100.0, 10.0] if cropped else [8.0, 30.0, 10.0])
    return FrameGuess(
        np.array([1.0, 1.0, scale_z]), np.array([-x_mm, -y_mm, shift_z]), scale_sd, shift_sd_mm
    )


def frame_from_map(embedding: EmbeddingMap) -> FrameGuess:
    """Guess a scan's body frame from its map: fit a robust line to the body coordinates along each axis.

    Raises AnatomicalEmbeddingError if the coordinates of the map are not mm of the body frame.
    """
    ras, body = body_points(embedding)
    scale, shift = np.transpose([_robust_line(ras[:, axis], body[:, axis]) for axis in range(3)])
    return FrameGuess(scale, shift, scale_sd=np.full(3, 0.05), shift_sd_mm=np.full(3, 12.0))


def _robust_line(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Fit y = scale * x + shift with little influence of outliers, by Huber's weights. Returns scale and shift."""
    weight = np.ones_like(x)
    scale = 1.0
    shift = 0.0
    for _ in range(5):
        mean_x = np.average(x, weights=weight)
        mean_y = np.average(y, weights=weight)
        spread = weight * (x - mean_x)
        scale = float((spread @ (y - mean_y) + _LINE_PRIOR) / (spread @ (x - mean_x) + _LINE_PRIOR))
        shift = float(mean_y - scale * mean_x)
        residual = np.abs(y - scale * x - shift)
        # above 0, so that an exact line keeps its weights
        limit = max(1.5 * np.median(residual), 1e-6)
        weight = np.minimum(1.0, limit / np.maximum(residual, 1e-6))
    return scale, shift


def fit_heights(readings: dict[float, float]) -> tuple[float, float]:
    """Fit body height = scale * z + shift, with scale near 1 if readings are few. readings: body height -> z, mm."""
    height = np.array(list(readings))
    z = np.array(list(readings.values()))
    spread = z - z.mean()
    covariance = spread @ (height - height.mean()) / _READING_SD_MM**2
    precision = spread @ spread / _READING_SD_MM**2
    prior = 1 / _SCALE_SD**2
    scale = (covariance + prior) / (precision + prior)
    return float(scale), float(height.mean() - scale * z.mean())


def _skeleton_axes(
    hu: np.ndarray, body: np.ndarray, grid_to_ras: np.ndarray
) -> tuple[float, float, bool]:
    """Return (x, y, failed). x: RAS x of the mid-sagittal plane, mm. y: RAS y of the spine, mm.

    If the scan cuts off one side of the body or shows too little bone, `failed` is True, and x and y are 0.
    """
    cropped = abs(body[:, :, 0].mean() - body[:, :, -1].mean()) > _CROPPED_SHARE
    bone_kji = np.argwhere((hu > _BONE_HU) & body)
    if cropped or len(bone_kji) < 500:
        return 0.0, 0.0, True  # scanners put the patient's middle near the origin
    points = transform_points(grid_to_ras, bone_kji[:, ::-1])
    x = float(np.median(points[:, 0]))
    in_midline = np.abs(points[:, 0] - x) < _MIDLINE_MM
    spine = points[in_midline] if in_midline.sum() > 100 else points
    return x, float(np.median(spine[:, 1])), False
