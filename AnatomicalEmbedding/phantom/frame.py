"""The canonical body's frame: heights of vertebrae, the curve of the spine, and the outlines of skin and body cavity.

Axes in mm: +x to the patient's right, +y anterior, +z superior. x = 0 is the mid-sagittal plane. y = 0 is near the
middle of the vertebral bodies. z = 0 is at the centres of the femoral heads. The heights are those of an average adult:
means over many scans, each of which was scaled and shifted to fit the others.
"""

import numpy as np

from ..resources import read_table
from .solids import Loft, Spline

LOW, HIGH = (-232.0, -148.0, -130.0), (232.0, 172.0, 836.0)  # corners of the drawn region, body mm

_OUTLINES = read_table("Phantom/outlines.csv")
_PROFILES = read_table("Phantom/profiles.csv")
# height of the centre of each vertebral body, from C1 down to L5
VERTEBRA_Z = {row["name"]: float(row["z"]) for row in read_table("Phantom/vertebrae.csv")}


def profile(name: str) -> np.ndarray:
    """Return a profile of `Resources/Phantom/profiles.csv`, (2, n): n heights z, and the value at each, mm."""
    points = [(row["z"], row["value"]) for row in _PROFILES if row["profile"] == name]
    return np.array(points, float).T


spine_y = Spline(*profile("spine_y"))  # y of the middle of the vertebral bodies, mm, at height z
fat_mm = Spline(*profile("fat_mm"))  # thickness of skin and subcutaneous fat, mm, at height z


def outline(name: str, squareness: float) -> Loft:
    """Return a solid of `Resources/Phantom/outlines.csv`: the skin, the body cavity or the mediastinum."""
    # z, half width, front, back
    rows = [list(row.values())[1:] for row in _OUTLINES if row["outline"] == name]
    return Loft(np.array(rows, float), squareness)


BODY = outline("skin", squareness=0.18)  # of trunk and neck
# the inner surface of the body wall: thorax above the diaphragm, abdomen below it
CAVITY = outline("cavity", squareness=0.25)


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
