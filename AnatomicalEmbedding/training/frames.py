"""The common body frame, which relates scans of different patients.

Body coordinates are mm along the patient's axes (R, A, S): x = 0 in the mid-sagittal plane, y = 0 about the spine,
z = 0 at the femoral heads' centres. Heights come from a few level readings a scan (a scale and a shift fitted to
them); x and y start from the skeleton and are refined in training, within these priors.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..embedding.coverage import body_points
from ..embedding.map import EmbeddingMap
from ..errors import AnatomicalEmbeddingError
from ..files import parse_json
from ..scan.geometry import transform_points

_BONE_HU = 250
_MIDLINE_MM = 25.0
_CROPPED_SHARE = 0.2  # body cut on one side more than on the other: the scan shows a part of the cross-section
_SCALE_SD = 0.08  # of z scale over patients: shrinks fits from few readings towards 1
_READING_SD_MM = 8.0
_LINE_PRIOR = 1e4  # mm^2: keeps the scale near 1 where a scan is a few slices thin


@dataclass(frozen=True)
class LevelTable:
    """Standard levels: mean body height in mm of each, and readings (world z, mm) per scan."""

    body_height_mm: dict[str, float]
    readings: dict[str, dict[str, float]]

    @classmethod
    def read(cls, path: Path) -> "LevelTable":
        """Read a JSON file with `body_height_mm` {level: mm} and `scans` {scan: {level: world z mm}}."""
        try:
            values = parse_json(Path(path).read_text())
            return cls(dict(values["body_height_mm"]), {k: dict(v) for k, v in values["scans"].items()})
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise AnatomicalEmbeddingError(
                f"{path}: not a table of level readings ({error}); it needs body_height_mm and scans."
            ) from None

    def of(self, scan: str) -> dict[float, float]:
        """The readings of a scan, {body height mm: world z mm}; empty where the table has no reading of it."""
        named = self.readings.get(scan, {})
        if unknown := set(named) - set(self.body_height_mm):
            raise AnatomicalEmbeddingError(f"{scan}: the level table has no body_height_mm for {min(unknown)}; add it.")
        return {self.body_height_mm[level]: z for level, z in named.items()}


@dataclass(frozen=True)
class FrameGuess:
    """First guess of RAS -> body, per axis body = scale * ras + shift, with the standard deviations of its errors."""

    scale: np.ndarray  # (3,)
    shift_mm: np.ndarray  # (3,)
    scale_sd: np.ndarray  # (3,)
    shift_sd_mm: np.ndarray  # (3,)

    def apply(self, points_ras: np.ndarray) -> np.ndarray:
        """(N, 3) RAS mm -> (N, 3) body mm."""
        return points_ras * self.scale + self.shift_mm


SETTLED_SCALE_SD, SETTLED_SHIFT_SD_MM = np.full(3, 0.02), np.full(3, 4.0)  # of a scan that was aligned
STILL = FrameGuess(np.ones(3), np.zeros(3), np.zeros(3), np.zeros(3))  # of a scan that is in the body frame already


def guess_frame(hu: np.ndarray, body: np.ndarray, grid_to_ras: np.ndarray, readings: dict[float, float]) -> FrameGuess:
    """Guess a scan's body frame.

    hu, body: (k, j, i) on an axis-aligned RAS grid. readings: {body height mm: world z mm}, at least one.
    """
    x_mm, y_mm, cropped = _skeleton_axes(hu, body, grid_to_ras)
    scale_z, shift_z = fit_heights(readings)
    scale_sd = np.array([0.08, 0.08, 0.06 if len(readings) < 3 else 0.03])
    shift_sd_mm = np.array([100.0, 100.0, 10.0] if cropped else [8.0, 30.0, 10.0])
    return FrameGuess(np.array([1.0, 1.0, scale_z]), np.array([-x_mm, -y_mm, shift_z]), scale_sd, shift_sd_mm)


def frame_from_map(embedding: EmbeddingMap) -> FrameGuess:
    """Guess a scan's body frame from a map by weights that know the common frame: a robust line along each axis.

    Raises AnatomicalEmbeddingError for a map whose coordinates are not mm of the body frame.
    """
    ras, body = body_points(embedding)
    scale, shift = np.transpose([_robust_line(ras[:, axis], body[:, axis]) for axis in range(3)])
    return FrameGuess(scale, shift, scale_sd=np.full(3, 0.05), shift_sd_mm=np.full(3, 12.0))


def _robust_line(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Scale and shift of y = scale * x + shift that outliers hardly move: least squares, then Huber's weights."""
    weight = np.ones_like(x)
    scale, shift = 1.0, 0.0
    for _ in range(5):
        mean_x, mean_y = np.average(x, weights=weight), np.average(y, weights=weight)
        spread = weight * (x - mean_x)
        scale = float((spread @ (y - mean_y) + _LINE_PRIOR) / (spread @ (x - mean_x) + _LINE_PRIOR))
        shift = float(mean_y - scale * mean_x)
        residual = np.abs(y - scale * x - shift)
        weight = np.minimum(1.0, 1.5 * np.median(residual) / np.maximum(residual, 1e-6))
    return scale, shift


def fit_heights(readings: dict[float, float]) -> tuple[float, float]:
    """Scale and shift with body = scale * z + shift, from {body height: world z}; the scale shrunk towards 1."""
    height = np.array(list(readings))
    z = np.array(list(readings.values()))
    spread = z - z.mean()
    precision = spread @ spread / _READING_SD_MM**2
    scale = (spread @ (height - height.mean()) / _READING_SD_MM**2 + 1 / _SCALE_SD**2) / (precision + 1 / _SCALE_SD**2)
    return float(scale), float(height.mean() - scale * z.mean())


def _skeleton_axes(hu: np.ndarray, body: np.ndarray, grid_to_ras: np.ndarray) -> tuple[float, float, bool]:
    """World x of the mid-sagittal plane, world y about the spine, and whether the scan is a crop of the body."""
    cropped = abs(body[:, :, 0].mean() - body[:, :, -1].mean()) > _CROPPED_SHARE
    bone_kji = np.argwhere((hu > _BONE_HU) & body)
    if cropped or len(bone_kji) < 500:
        return 0.0, 0.0, True  # scanners put the patient's middle near the origin
    points = transform_points(grid_to_ras, bone_kji[:, ::-1])
    x = float(np.median(points[:, 0]))
    near = np.abs(points[:, 0] - x) < _MIDLINE_MM
    y = float(np.median(points[near, 1])) if near.sum() > 100 else float(np.median(points[:, 1]))
    return x, y, False
