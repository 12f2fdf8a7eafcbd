"""The spine of the average body, in mm of the body frame."""

import numpy as np

from ..anatomy.names import VERTEBRAE
from ..resources import read_rows

# Each row of Resources/Atlas/spine.csv, after the name: A and S of the middle of a vertebra; its height with its disc;
# error of the network's coordinate S there; all mm.
# S was measured in maps by `ct-open`: in images drawn of 12 label maps with labelled vertebrae, and in 20 CTs with the
# spine that was fitted. Heights and errors: medians and spreads over the label maps of the atlas, rounded.
_VALUES = np.array([row[1:] for row in read_rows("Atlas/spine.csv")], float)
USUAL_MM = _VALUES[:, :2]  # (25, 2) A and S of each of VERTEBRAE
_, HEIGHT_MM, SIZE_MM, ERROR_MM = _VALUES.T
_BEHIND_MM = 45.0  # from the middle of a vertebral body back to its spinous process
# distance from the line of vertebral bodies and spinous processes; about 4 cm from bone
_NEAR_MM = 60.0


def height_of(level: str) -> float:
    """Return the usual body height of the middle of a vertebra, mm."""
    return float(HEIGHT_MM[VERTEBRAE.index(level)])


def ahead_at(heights: np.ndarray, usual: np.ndarray = USUAL_MM) -> np.ndarray:
    """Return the usual A of the middle of the spine, mm, at body heights (n,), mm. usual: as in `fitting.fit_spine`."""
    return np.interp(heights, usual[::-1, 1], usual[::-1, 0])


def near_spine(coordinates: np.ndarray) -> np.ndarray:
    """Return (n,) bool: whether each place (n, 3), mm in the body frame, lies within 4 cm of the bones of the spine."""
    x, y, z = np.asarray(coordinates, np.float64).T
    middle = ahead_at(z)
    # 0 between the spinous processes and the middle of the vertebral bodies
    distance_y = np.maximum(y - middle, np.maximum(middle - _BEHIND_MM - y, 0))
    distance_z = np.maximum(z - HEIGHT_MM[0], np.maximum(HEIGHT_MM[-1] - z, 0))
    return np.sqrt(x**2 + distance_y**2 + distance_z**2) < _NEAR_MM
