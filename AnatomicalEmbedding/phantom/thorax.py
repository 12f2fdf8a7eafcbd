"""Airways, heart and vessels of the canonical body."""

import numpy as np

from .canvas import Canvas
from .solids import SIDES, Ellipsoid, axes_along, branching, curve

CARINA = np.array([1.0, 12.0, 469.0])
HEART_CENTRE = np.array([-24.0, 44.0, 405.0])
_HEART_AXIS = np.array([-0.74, 0.50, -0.45])  # from base to apex
_HEART_AXIS = _HEART_AXIS / np.linalg.norm(_HEART_AXIS)
HEART_APEX = HEART_CENTRE + 62 * _HEART_AXIS
LV_CENTRE = HEART_CENTRE + 14 * _HEART_AXIS + np.array([-12.0, -8.0, 2.0])
AORTIC_ARCH_TOP = (-6.0, 14.0, 499.0)
AORTIC_BIFURCATION = (-2.0, 41.0, 156.0)

# Hilum and first directions of the vessel trees of the lung: right side, then left side.
_ROOTS = (
    (
        (38, 8, 456),
        (
            (26, 4, 28),
            (24, 26, 14),
            (36, 28, -16),
            (30, -2, -34),
            (22, -24, -24),
            (24, -26, 12),
        ),
    ),
    (
        (-42, 2, 452),
        (
            (-24, 8, 30),
            (-24, 28, 14),
            (-36, 24, -20),
            (-34, -6, -34),
            (-22, -24, -24),
            (-24, -24, 14),
        ),
    ),
)


def draw_thorax(canvas: Canvas) -> None:
    """Draw the heart with its chambers, trachea and bronchi, oesophagus, and the branching vessels of the lungs."""
    _draw_lung_trees(canvas)
    path = [
        (-4, 22, 585),
        (-6, -4, 520),
        (-5, -6, 469),
        (-8, 2, 400),
        (-14, 18, 350),
        (-26, 24, 338),
    ]
    canvas.paint(curve(path, 7.5), "gut_wall", "esophagus")
    canvas.paint(curve(path[:3], 2.0), "gut_gas", "esophagus")
    _draw_airways(canvas)
    _draw_heart(canvas)


def _draw_airways(canvas: Canvas) -> None:
    trachea = curve(
        [
            (0, 36, 580),
            (1, 28, 545),
            (2, 18, 505),
            np.add(CARINA, (0, 0, 2)),
        ],
        [9.5, 9.5, 9.5, 10],
    )
    right_bronchus = curve(
        [
            np.add(CARINA, (2, 0, 2)),
            (18, 10, 458),
            (34, 4, 440),
            (42, -4, 418),
        ],
        [8.5, 7.5, 6, 4.5],
    )
    left_bronchus = curve(
        [
            np.add(CARINA, (-2, 0, 2)),
            (-18, 8, 460),
            (-42, -2, 446),
            (-50, -10, 422),
        ],
        [7.5, 6.5, 5.5, 4.0],
    )
    upper = [
        curve([(26, 8, 450), (46, 10, 466), (58, 10, 486)], [5, 4, 3]),
        curve([(-42, -2, 448), (-56, 10, 464), (-62, 14, 484)], [5, 4, 3]),
    ]
    bronchi = [right_bronchus, left_bronchus, *upper]
    canvas.paint([b.shrunk(-1.6) for b in bronchi], "airway_wall", "bronchi")
    canvas.paint(trachea.shrunk(-2), "airway_wall", "trachea")
    canvas.paint(bronchi, "airway", "bronchi")
    canvas.paint(trachea, "airway", "trachea")


def _draw_heart(canvas: Canvas) -> None:
    axes = axes_along(_HEART_AXIS)

    def body(
        ahead: float, offset: tuple[float, float, float], radii: tuple[float, float, float]
    ) -> Ellipsoid:
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
    veins = [
        [(-8, 8, 430), (30, -2, 432), (46, -4, 436)],
        [(-8, 8, 430), (-36, -4, 432), (-54, -6, 436)],
    ]
    for path in veins:
        canvas.paint(curve(path, [9, 7, 5]), "heart_blood_left", "heart_atrium_left")


def _draw_lung_trees(canvas: Canvas) -> None:
    rng = np.random.default_rng(5)
    for hilum, directions in _ROOTS:
        for direction in directions:
            tree = branching(hilum, direction, 5.0, 7, rng, taper=0.79)
            canvas.paint(tree, "lung_vessel", "pulmonary_vessels", over=("lung",))


def draw_vessels(canvas: Canvas) -> None:
    """Draw the venae cavae, portal vein, pulmonary trunk, the aorta with its branches, and the vessels of the neck."""
    _draw_veins(canvas)
    _draw_pulmonary(canvas)
    _draw_arteries(canvas)


def _draw_arteries(canvas: Canvas) -> None:
    aorta = [
        (-6, 36, 424),
        (12, 46, 448),
        (19, 44, 474),
        (10, 30, 496),
        AORTIC_ARCH_TOP,
        (-22, -4, 490),
        (-27, -10, 466),
        (-26, -10, 420),
        (-20, -4, 370),
        (-10, 10, 320),
        (-7, 16, 285),
        (-6, 24, 250),
        (-6, 33, 215),
        (-3, 40, 180),
        AORTIC_BIFURCATION,
    ]
    radii = [15, 16, 15.5, 14, 13.5, 13, 12.5, 12, 12, 11.5, 11, 10.5, 10, 9.5, 9]
    iliac = [
        AORTIC_BIFURCATION,
        (16, 36, 132),
        (36, 22, 104),
        (48, 28, 76),
        (58, 50, 40),
        (62, 74, 10),
        (62, 76, -30),
        (70, 62, -130),
    ]
    inner = [(38, 20, 100), (44, -6, 76), (46, -22, 50)]
    for side, flip in SIDES:
        canvas.paint(
            curve(flip(iliac), [7, 6.5, 6, 5.5, 5, 5, 4.5, 4]), "artery", f"iliac_artery_{side}"
        )
        canvas.paint(curve(flip(inner), [4.5, 4, 3]), "artery", f"iliac_artery_{side}")
    branches = (
        [
            (-6, 28, 262),
            (-6, 46, 268),
            (20, 50, 274),
            (34, 46, 290),
        ],
        [(-6, 46, 268), (-30, 28, 290), (-66, 0, 302)],
        [
            (-6, 28, 252),
            (-4, 52, 236),
            (-2, 56, 200),
            (8, 60, 160),
        ],
        [(-8, 24, 246), (-30, 6, 256), (-48, -2, 262)],
        [(-4, 24, 246), (26, 2, 250), (46, 0, 250)],
    )
    for path in branches:
        tube = curve(path, [4, *[3] * (len(path) - 1)])
        canvas.paint(tube, "artery", "aorta", over=("visceral_fat", "pancreas", "gut_wall"))
    necks = {
        "common_carotid_artery_right": [
            (6, 26, 502),
            (16, 28, 530),
            (24, 34, 565),
            (28, 34, 610),
            (30, 30, 650),
        ],
        "common_carotid_artery_left": [
            (-6, 16, 504),
            (-16, 22, 530),
            (-24, 34, 565),
            (-28, 34, 610),
            (-30, 30, 650),
        ],
        "subclavian_artery_right": [
            (16, 26, 528),
            (34, 16, 544),
            (62, 14, 546),
            (110, 10, 522),
        ],
        "subclavian_artery_left": [
            (-18, 4, 500),
            (-24, 2, 530),
            (-38, 8, 546),
            (-64, 14, 546),
            (-110, 10, 522),
        ],
    }
    widths = ([6, 5, 3.8, 3.8, 3], [4.5, 4, 3.8, 3.8, 3], [5, 4.5, 4.5, 4], [5, 4.8, 4.5, 4.5, 4])
    for (label, path), radius in zip(necks.items(), widths, strict=True):
        canvas.paint(curve(path, radius), "artery", label)
    canvas.paint(curve(aorta, radii), "artery", "aorta")


def _draw_veins(canvas: Canvas) -> None:
    cava = [
        (14, 34, 138),
        (19, 36, 180),
        (22, 34, 221),
        (24, 26, 262),
        (26, 22, 300),
        (27, 24, 340),
        (29, 32, 372),
        (32, 36, 392),
    ]
    canvas.paint(
        curve(cava, [10, 11, 12, 12, 12, 13, 13, 12], squash=(1.15, 0.95, 1)),
        "vein",
        "inferior_vena_cava",
    )
    superior = [
        (20, 32, 512),
        (27, 30, 480),
        (31, 32, 440),
        (33, 36, 420),
    ]
    canvas.paint(curve(superior, [8.5, 10, 10.5, 10]), "heart_blood_right", "superior_vena_cava")
    iliac = [
        (14, 34, 138),
        (38, 14, 104),
        (46, 16, 76),
        (54, 36, 40),
        (52, 64, 8),
        (51, 68, -30),
        (60, 54, -130),
    ]
    jugular = [
        (36, 34, 532),
        (36, 36, 565),
        (38, 30, 610),
        (36, 22, 655),
    ]
    for side, flip in SIDES:
        path = [iliac[0], *flip(iliac)[1:]]
        canvas.paint(curve(path, [8.5, 8, 7, 6.5, 6, 6, 5.5]), "vein", f"iliac_vena_{side}")
        canvas.paint(
            curve(flip(jugular), [6, 6.5, 5.5, 4]), "vein", f"internal_jugular_vein_{side}"
        )
    neck = curve([(36, 34, 532), (28, 36, 520), (20, 33, 508)], [7, 7.5, 8])
    canvas.paint(neck, "vein", "brachiocephalic_vein_right")
    neck = curve(
        [
            (-36, 34, 532),
            (-20, 44, 518),
            (4, 44, 512),
            (20, 33, 508),
        ],
        [7, 7, 7.5, 8],
    )
    canvas.paint(neck, "vein", "brachiocephalic_vein_left")
    portal = [
        (6, 48, 258),
        (16, 46, 280),
        (30, 42, 300),
        (42, 40, 312),
    ]
    over = ("visceral_fat", "pancreas", "liver", "gut_wall")
    canvas.paint(curve(portal, [7, 7.5, 7.5, 7]), "portal_vein", "portal_vein_and_splenic_vein")
    splenic = [
        (8, 46, 264),
        (-26, 32, 280),
        (-54, 12, 292),
        (-80, -10, 306),
    ]
    canvas.paint(
        curve(splenic, [5.5, 5, 4.5, 4]), "portal_vein", "portal_vein_and_splenic_vein", over=over
    )
    canvas.paint(
        curve([(6, 50, 258), (8, 56, 220), (12, 60, 170)], [5, 5, 3.5]),
        "portal_vein",
        None,
        over=over,
    )
    for renal in (
        [(50, -2, 248), (36, 10, 250), (24, 26, 254)],
        [
            (-46, -2, 262),
            (-26, 30, 258),
            (4, 40, 254),
            (22, 30, 252),
        ],
    ):
        canvas.paint(curve(renal, 5), "vein", None, over=over)


def _draw_pulmonary(canvas: Canvas) -> None:
    trunk = curve([(-16, 66, 432), (-20, 54, 452), (-20, 30, 466)], [14, 14, 13])
    right_artery = curve(
        [
            (-20, 32, 464),
            (6, 26, 460),
            (34, 14, 456),
            (48, 6, 446),
        ],
        [12, 11, 10, 7],
    )
    left_artery = curve([(-20, 30, 466), (-36, 10, 468), (-50, -6, 458)], [12, 10, 7])
    canvas.paint([trunk, right_artery, left_artery], "pulmonary_blood", "pulmonary_artery")
