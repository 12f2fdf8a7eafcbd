"""Airways, heart and lung vessels of the canonical body."""

import numpy as np

from .solids import Canvas, Ellipsoid, axes_along, branching, curve

CARINA = np.array([1.0, 12.0, 469.0])
HEART_CENTRE = np.array([-24.0, 44.0, 405.0])
_HEART_AXIS = np.array([-0.74, 0.50, -0.45])  # from base to apex
_HEART_AXIS = _HEART_AXIS / np.linalg.norm(_HEART_AXIS)
HEART_APEX = HEART_CENTRE + 62 * _HEART_AXIS
LV_CENTRE = HEART_CENTRE + 14 * _HEART_AXIS + np.array([-12.0, -8.0, 2.0])

# Hilum and first directions of the vessel trees of the lung: right side, then left side.
_ROOTS = (
    ((38, 8, 456), ((26, 4, 28), (24, 26, 14), (36, 28, -16), (30, -2, -34), (22, -24, -24), (24, -26, 12))),
    ((-42, 2, 452), ((-24, 8, 30), (-24, 28, 14), (-36, 24, -20), (-34, -6, -34), (-22, -24, -24), (-24, -24, 14))),
)


def draw_thorax(canvas: Canvas) -> None:
    """Draw the heart with its chambers, trachea and bronchi, oesophagus, and the branching vessels of the lungs."""
    _draw_lung_trees(canvas)
    path = [(-4, 22, 585), (-6, -4, 520), (-5, -6, 469), (-8, 2, 400), (-14, 18, 350), (-26, 24, 338)]
    canvas.paint(curve(path, 7.5), "gut_wall", "esophagus")
    canvas.paint(curve(path[:3], 2.0), "gut_gas", "esophagus")
    _draw_airways(canvas)
    _draw_heart(canvas)


def _draw_airways(canvas: Canvas) -> None:
    trachea = curve([(0, 36, 580), (1, 28, 545), (2, 18, 505), np.add(CARINA, (0, 0, 2))], [9.5, 9.5, 9.5, 10])
    right = curve([np.add(CARINA, (2, 0, 2)), (18, 10, 458), (34, 4, 440), (42, -4, 418)], [8.5, 7.5, 6, 4.5])
    left = curve([np.add(CARINA, (-2, 0, 2)), (-18, 8, 460), (-42, -2, 446), (-50, -10, 422)], [7.5, 6.5, 5.5, 4.0])
    upper = [
        curve([(26, 8, 450), (46, 10, 466), (58, 10, 486)], [5, 4, 3]),
        curve([(-42, -2, 448), (-56, 10, 464), (-62, 14, 484)], [5, 4, 3]),
    ]
    bronchi = [right, left, *upper]
    canvas.paint([b.shrunk(-1.6) for b in bronchi], "airway_wall", "bronchi")
    canvas.paint(trachea.shrunk(-2), "airway_wall", "trachea")
    canvas.paint(bronchi, "airway", "bronchi")
    canvas.paint(trachea, "airway", "trachea")


def _draw_heart(canvas: Canvas) -> None:
    axes = axes_along(_HEART_AXIS)

    def body(ahead: float, offset: tuple[float, float, float], radii: tuple[float, float, float]) -> Ellipsoid:
        return Ellipsoid(HEART_CENTRE + ahead * _HEART_AXIS + np.array(offset), radii, axes)

    canvas.paint(body(0, (0, 0, 0), (52, 52, 70)), "visceral_fat", "visceral_fat", over=("lung",))
    lv_offset = tuple(LV_CENTRE - HEART_CENTRE - 14 * _HEART_AXIS)
    canvas.paint(body(-34, (14, 2, 4), (31, 31, 27)), "heart_blood_right", "heart_atrium_right")
    canvas.paint(Ellipsoid((36, 38, 408), (24, 28, 32)), "heart_blood_right", "heart_atrium_right")
    canvas.paint(Ellipsoid((-8, 8, 425), (34, 22, 23)), "heart_blood_left", "heart_atrium_left")
    canvas.paint(body(12, (8, 18, -6), (37, 33, 50)), "myocardium", "heart_myocardium")
    canvas.paint(body(10, (8, 18, -6), (34, 30, 46)), "heart_blood_right", "heart_ventricle_right")
    canvas.paint(body(14, lv_offset, (36, 36, 50)), "myocardium", "heart_myocardium")
    canvas.paint(body(8, lv_offset, (24, 24, 40)), "heart_blood_left", "heart_ventricle_left")
    veins = [[(-8, 8, 430), (30, -2, 432), (46, -4, 436)], [(-8, 8, 430), (-36, -4, 432), (-54, -6, 436)]]
    for path in veins:
        canvas.paint(curve(path, [9, 7, 5]), "heart_blood_left", "heart_atrium_left")


def _draw_lung_trees(canvas: Canvas) -> None:
    rng = np.random.default_rng(5)
    for hilum, directions in _ROOTS:
        for direction in directions:
            tree = branching(hilum, direction, 5.0, 7, rng, taper=0.79)
            canvas.paint(tree, "lung_vessel", "pulmonary_vessels", over=("lung",))
