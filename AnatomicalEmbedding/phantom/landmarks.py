"""Named points of the canonical body: those of `Resources/Phantom/landmarks.csv`, and those that are computed."""

from collections.abc import Iterator

import numpy as np

from ..resources import read_table
from .abdomen import KIDNEY, kidney_axis
from .frame import VERTEBRA_Z, diaphragm_z, spine_y
from .solids import SIDES

_UNLISTED = ("C1", "C2")  # vertebrae without a drawn body


def _points() -> Iterator[tuple[str, np.ndarray, str]]:
    """Yield the name, the point (3,), body mm, and the structure of each landmark."""
    for row in read_table("Phantom/landmarks.csv"):
        point = np.array(row["point"].split(), float)
        if row["side"] != "each":
            yield row["name"], point, row["structure"]
            continue
        for side, flip in reversed(SIDES):
            yield f"{row['name']}_{side}", flip(point), row["structure"].format(side)
    for side, (x, y) in (("right", (72, 14)), ("left", (-76, 10))):
        dome = float(diaphragm_z(np.array(x), np.array(y)))
        yield f"diaphragm_dome_{side}", np.array([x, y, dome - 2]), "muscle"
        centre, axis = KIDNEY[side], kidney_axis(side)
        lateral = np.array([1.0 if side == "right" else -1.0, 0, 0])
        kidney = f"kidney_{side}"
        yield f"{kidney}_centre", centre + 11 * lateral, kidney
        yield f"{kidney}_upper_pole", centre + 51 * axis, kidney
        yield f"{kidney}_lower_pole", centre - 51 * axis, kidney
    for name, z in VERTEBRA_Z.items():
        if name not in _UNLISTED:
            yield f"vertebrae_{name}", np.array([0, float(spine_y(z)), z]), f"vertebrae_{name}"


_POINTS = list(_points())
LANDMARKS = {name: point for name, point, _ in _POINTS}
LANDMARK_LABEL = {name: structure for name, _, structure in _POINTS}
