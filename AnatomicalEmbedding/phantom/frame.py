"""The canonical body's frame: heights of vertebrae, the curve of the spine, and the outlines of skin and body cavity.

Axes in mm: +x to the patient's right, +y anterior, +z superior. x = 0 is the mid-sagittal plane. y = 0 is near the
middle of the vertebral bodies. z = 0 is at the centres of the femoral heads. The heights are those of an average adult:
means over many scans, each of which was scaled and shifted to fit the others.
"""

from types import MappingProxyType

import numpy as np

from ..anatomy.names import VERTEBRAE
from ..resources import read_table
from .solids import Loft, Spline

LOW, HIGH = (-232.0, -148.0, -130.0), (232.0, 172.0, 836.0)  # corners of the drawn region, body mm

# Height of the centre of each vertebral body, from C1 down to L5.
_HEIGHTS = (
    *(652, 633, 614, 597, 580, 563, 547),
    *(530, 512, 493, 474, 454, 433, 411, 388, 364, 339, 313, 285),
    *(256, 223, 190, 156, 122),
)
VERTEBRA_Z = MappingProxyType(dict(zip(VERTEBRAE[:-1], map(float, _HEIGHTS), strict=True)))

# y of the middle of the vertebral bodies, mm, at height z.
spine_y = Spline(
    (-20, 25, 60, 95, 118, 152, 187, 221, 254, 285, 339, 388, 433, 474, 512, 547, 580, 614, 652),
    (-60, -58, -36, -8, 7, 14, 13, 6, -3, -11, -24, -32, -34, -28, -15, 3, 15, 20, 22),
)

_OUTLINES = read_table("Phantom/outlines.csv")


def outline(name: str, squareness: float) -> Loft:
    """Return a solid of `Resources/Phantom/outlines.csv`: the skin, the body cavity or the mediastinum."""
    columns = ("z", "half_width", "front", "back")
    rows = [
        [float(row[column]) for column in columns] for row in _OUTLINES if row["outline"] == name
    ]
    return Loft(rows, squareness)


BODY = outline("skin", squareness=0.18)  # of trunk and neck
# the inner surface of the body wall: thorax above the diaphragm, abdomen below it
CAVITY = outline("cavity", squareness=0.25)

# Thickness of skin and subcutaneous fat, mm, at height z.
fat_mm = Spline(
    (-130, 0, 80, 150, 257, 378, 469, 520, 555, 590), (20, 24, 23, 19, 16, 14, 13, 10, 7, 4)
)


def spine_axes(z: float) -> np.ndarray:
    """Return the axes of a vertebra at height z as orthonormal rows: right, anterior, up along the spine."""
    slope = float(spine_y(z + 4) - spine_y(z - 4)) / 8
    up = np.array([0, slope, 1]) / np.hypot(slope, 1)
    return np.array([[1.0, 0, 0], [0, up[2], -up[1]], up])


def diaphragm_z(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the height of the diaphragm at (x, y), mm: the highest of right dome, left dome and central tendon."""
    right_dome = 383 - 98 * np.square(np.square((x - 72) / 80) + np.square((y - 14) / 98))
    left_dome = 372 - 98 * np.square(np.square((x + 76) / 76) + np.square((y - 10) / 96))
    tendon = 360 - 80 * np.square(np.square((x + 10) / 75) + np.square((y - 55) / 70))
    return np.maximum(np.maximum(right_dome, left_dome), tendon)
