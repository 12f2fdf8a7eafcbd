"""Airways, heart and vessels of the canonical body."""

import numpy as np
from numpy.typing import ArrayLike

from .canvas import Canvas
from .parts import draw_part, tree_roots
from .solids import Ellipsoid, axes_along, branching

_HEART_CENTRE = np.array([-24.0, 44.0, 405.0])
_HEART_AXIS = np.array([-0.74, 0.50, -0.45])  # from base to apex
_HEART_AXIS = _HEART_AXIS / np.linalg.norm(_HEART_AXIS)


def draw_thorax(canvas: Canvas) -> None:
    """Draw the heart with its chambers, trachea and bronchi, oesophagus, and the branching vessels of the lungs."""
    _draw_lung_trees(canvas)
    draw_part(canvas, "oesophagus and airways")
    _draw_heart(canvas)
    draw_part(canvas, "pulmonary veins")


def _draw_heart(canvas: Canvas) -> None:
    """Draw the fat around the heart, then atria, muscle and ventricles as ellipsoids along the axis of the heart."""
    axes = axes_along(_HEART_AXIS)

    def body(ahead: float, offset: ArrayLike, radii: ArrayLike) -> Ellipsoid:
        """Make an ellipsoid. ahead: mm from the heart's centre along its axis. offset: x, y, z to add, mm."""
        return Ellipsoid(_HEART_CENTRE + ahead * _HEART_AXIS + np.asarray(offset), radii, axes)

    canvas.paint(body(0, (0, 0, 0), (52, 52, 70)), "visceral_fat", "visceral_fat", over=("lung",))
    canvas.paint(body(-34, (14, 2, 4), (31, 31, 27)), "heart_blood_right", "heart_atrium_right")
    draw_part(canvas, "heart")
    canvas.paint(body(12, (8, 18, -6), (37, 33, 50)), "myocardium", "heart_myocardium")
    canvas.paint(body(10, (8, 18, -6), (34, 30, 46)), "heart_blood_right", "heart_ventricle_right")
    canvas.paint(body(14, (-12, -8, 2), (36, 36, 50)), "myocardium", "heart_myocardium")
    canvas.paint(body(8, (-12, -8, 2), (24, 24, 40)), "heart_blood_left", "heart_ventricle_left")


def _draw_lung_trees(canvas: Canvas) -> None:
    rng = np.random.default_rng(5)
    for hilum, direction in tree_roots("lungs"):
        tree = branching(hilum, direction, 5.0, 7, rng, taper=0.79)
        canvas.paint(tree, "lung_vessel", "pulmonary_vessels", over=("lung",))
