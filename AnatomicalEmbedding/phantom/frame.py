"""The canonical body's frame: heights of vertebrae, the curve of the spine, and the outlines of skin and body cavity.

Axes in mm: +x to the patient's right, +y anterior, +z superior. x = 0 is the mid-sagittal plane. y = 0 is near the
middle of the vertebral bodies. z = 0 is at the centres of the femoral heads. The heights are those of an average adult:
means over many scans, each of which was scaled and shifted to fit the others.
"""

from types import MappingProxyType

import numpy as np

from .solids import Loft, Spline
from .tissues import VERTEBRAE

LOW, HIGH = (-232.0, -148.0, -130.0), (232.0, 172.0, 836.0)  # corners of the drawn region, body mm

# Height of the centre of each vertebral body, from C1 down to L5.
_HEIGHTS = (
    *(652, 633, 614, 597, 580, 563, 547),
    *(530, 512, 493, 474, 454, 433, 411, 388, 364, 339, 313, 285),
    *(256, 223, 190, 156, 122),
)
VERTEBRA_Z = MappingProxyType(dict(zip(VERTEBRAE, map(float, _HEIGHTS), strict=True)))

# y of the middle of the vertebral bodies, mm, at height z.
spine_y = Spline(
    (-20, 25, 60, 95, 118, 152, 187, 221, 254, 285, 339, 388, 433, 474, 512, 547, 580, 614, 652),
    (-60, -58, -36, -8, 7, 14, 13, 6, -3, -11, -24, -32, -34, -28, -15, 3, 15, 20, 22),
)

# Skin of trunk and neck: z, half width, y of the front, y of the back, mm.
BODY = Loft(
    (
        (-130, 176, 98, -104),
        (-60, 178, 104, -108),
        (0, 182, 110, -112),
        (50, 181, 118, -112),
        (102, 173, 126, -104),
        (152, 165, 132, -93),
        (200, 162, 135, -90),
        (257, 162, 136, -96),
        (320, 165, 134, -104),
        (378, 168, 131, -109),
        (430, 172, 124, -111),
        (469, 178, 113, -109),
        (510, 188, 95, -103),
        (535, 190, 77, -95),
        (555, 166, 66, -86),
        (570, 118, 62, -76),
        (585, 80, 65, -64),
        (602, 66, 69, -56),
        (625, 63, 67, -51),
        (690, 61, 63, -47),
    ),
    squareness=0.18,
)

# The inner surface of the body wall: thorax above the diaphragm, abdomen below it.
CAVITY = Loft(
    (
        (-34, 6, 40, -20),
        (-18, 40, 62, -46),
        (30, 62, 84, -50),
        (70, 88, 98, -34),
        (110, 116, 105, -24),
        (152, 128, 108, -26),
        (200, 131, 110, -38),
        (257, 133, 109, -62),
        (310, 136, 109, -74),
        (360, 138, 107, -81),
        (400, 137, 103, -84),
        (435, 132, 97, -84),
        (469, 122, 86, -79),
        (500, 104, 69, -70),
        (522, 87, 54, -60),
        (540, 68, 38, -48),
        (552, 50, 22, -38),
        (560, 34, 8, -30),
    ),
    squareness=0.25,
)

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
