"""Organs of the abdomen and pelvis of the canonical body."""

import numpy as np

from .canvas import Canvas
from .frame import CAVITY, diaphragm_z
from .solids import Ellipsoid, Piece, Tube, axes_along, branching, curve

KIDNEY = {"right": np.array([65.0, -6.0, 251.0]), "left": np.array([-66.0, -8.0, 263.0])}
KIDNEY_RADII = (27.0, 25.0, 56.0)
SPLEEN_CENTRE = np.array([-103.0, -28.0, 318.0])
GALLBLADDER = np.array([56.0, 74.0, 262.0])
_GALLBLADDER_AXIS = np.array([0.15, 0.55, -0.80])
GALLBLADDER_FUNDUS = GALLBLADDER + 24 * _GALLBLADDER_AXIS
BLADDER = np.array([0.0, 42.0, 8.0])
_INSIDE = ("visceral_fat",)
_WALL_MM = 3.0  # thickness of the bowel wall


def kidney_axis(side: str) -> np.ndarray:
    """Return the unit vector from the lower to the upper pole: up, and a little to the middle and the back."""
    axis = np.array([-0.20 if side == "right" else 0.20, -0.16, 1.0])
    return axis / np.linalg.norm(axis)


def draw_abdomen(canvas: Canvas, female: bool) -> None:
    """Draw liver, spleen, kidneys, adrenals, pancreas, stomach, bowel, bladder, and uterus or prostate."""
    _draw_bowel(canvas)
    for side in KIDNEY:
        _draw_kidney(canvas, side)
    spleen = Ellipsoid(
        SPLEEN_CENTRE, (24.0, 40.0, 58.0), axes_along((-0.25, 0.55, -0.78), roll=0.35)
    )
    canvas.paint(_under_diaphragm(spleen), "spleen", "spleen", over=_INSIDE)
    _draw_liver(canvas)
    _draw_stomach(canvas)
    _draw_pancreas(canvas)
    for sign, top in ((1, (34, -8, 318)), (-1, (-36, -4, 318))):
        name = "right" if sign > 0 else "left"
        for foot in ((sign * 44, -14, 300), (sign * 26, -10, 298)):
            canvas.paint(curve([top, foot], 3.2), "adrenal", f"adrenal_gland_{name}")
    canvas.paint(Ellipsoid(BLADDER, (41, 35, 33)), "muscle", "urinary_bladder")
    canvas.paint(Ellipsoid(BLADDER, (38, 32, 30)), "urine", "urinary_bladder")
    (_draw_uterus if female else _draw_prostate)(canvas)


def _draw_prostate(canvas: Canvas) -> None:
    canvas.paint(
        Ellipsoid((0, 22, -34), (22, 17, 18)),
        "soft",
        "prostate",
        over=("muscle", "fat", "visceral_fat"),
    )
    for side in (-1, 1):  # seminal vesicles, between bladder and rectum
        vesicle = curve([(side * 4, 8, -20), (side * 14, 1, -10), (side * 27, -3, -2)], 5)
        canvas.paint(vesicle, "soft", "body_other", over=_INSIDE)


def _draw_uterus(canvas: Canvas) -> None:
    """Draw a uterus that lies on the bladder, with cervix, and the vagina below."""
    body = Ellipsoid((0, 26, 52), (27, 18, 34), axes_along((0, 0.55, 0.83)))
    for part in (body, curve([(0, 14, 32), (0, 3, 16), (0, 1, -8)], [15, 13, 14])):
        canvas.paint(part, "gut_wall", "uterus", over=_INSIDE)
    canvas.paint(
        Ellipsoid(body.center, (12, 3, 20), body.axes), "bile", "uterus", over=("gut_wall",)
    )
    canvas.paint(
        Ellipsoid((0, 14, -34), (17, 9, 24)),
        "soft",
        "body_other",
        over=("muscle", "fat", "visceral_fat"),
    )


def _draw_kidney(canvas: Canvas, side: str) -> None:
    center, axis, label = KIDNEY[side], kidney_axis(side), f"kidney_{side}"
    medial = np.array([-1.0 if side == "right" else 1.0, 0.45, 0.0]) / np.hypot(1, 0.45)
    axes = axes_along(axis, roll=0.3)
    canvas.paint(Ellipsoid(center, KIDNEY_RADII, axes), "kidney_cortex", label)
    rng = np.random.default_rng(3)
    for along in np.linspace(-36, 36, 6):
        for turn in (-1.9, -0.65, 0.65, 1.9):
            out = -medial * np.cos(turn) + np.cross(axis, medial) * np.sin(turn)
            foot = center + axis * (along * 0.8 + rng.uniform(-3, 3)) + medial * 3
            taper = np.sqrt(max(1 - (along / 52) ** 2, 0))
            pyramid = Tube(
                np.stack([foot + 5 * out, foot + out * 15 * taper]), np.array([2.5, 5.0])
            )
            canvas.paint(pyramid, "kidney_medulla", label)
    canvas.paint(Ellipsoid(center + medial * 14, (14, 9, 27), axes), "visceral_fat", label)
    canvas.paint(Ellipsoid(center + medial * 24, (14, 9, 18), axes), "visceral_fat", "visceral_fat")
    canvas.paint(Ellipsoid(center + medial * 13, (7, 5.5, 18), axes), "urine_pelvis", label)
    ureter = [
        center + medial * 12,
        center + medial * 26 + [0, 4, -26],
        center * [0.55, 0, 0] + [0, 32, 160],
        center * [0.6, 0, 0] + [0, 8, 60],
        center * [0.3, 0, 0] + [0, 22, 4],
    ]
    canvas.paint(curve(ureter, [5, 3, 2.4, 2.4, 2.4]), "urine_pelvis", "body_other", over=_INSIDE)


def _under_diaphragm(solid: Ellipsoid) -> Piece:
    def inside(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        roof = diaphragm_z(x, y).astype(np.float32) - 4.0
        return solid.inside(x, y, z) & (z < roof) & CAVITY.inside(x, y, z, 2.0)

    return Piece(solid.low, solid.high, inside)


def _draw_liver(canvas: Canvas) -> None:
    lobes = (
        Ellipsoid((76, 12, 322), (72, 92, 84), axes_along((0.12, -0.12, 1.0))),
        Ellipsoid((98, 10, 262), (38, 58, 62), axes_along((0.1, -0.2, 1.0))),
        Ellipsoid((18, 56, 330), (78, 48, 42), axes_along((0.25, 0.1, 1.0))),
        Ellipsoid((-34, 66, 338), (52, 36, 26), axes_along((0.3, 0.0, 1.0))),
    )
    over = ("visceral_fat", "gut_wall", "stool", "gut_gas", "gut_fluid")
    for lobe in lobes:
        canvas.paint(_under_diaphragm(lobe), "liver", "liver", over=over)
    # the liver's visceral side is hollow at the right kidney and at the hilum
    canvas.paint(
        Ellipsoid((54, -10, 244), (36, 36, 64)), "visceral_fat", "visceral_fat", over=("liver",)
    )
    canvas.paint(
        Ellipsoid((10, 32, 268), (44, 40, 34)), "visceral_fat", "visceral_fat", over=("liver",)
    )
    fissure = curve([(18, 96, 330), (24, 70, 306), (30, 52, 294)], [3, 3.5, 4.5])
    canvas.paint(fissure, "visceral_fat", "visceral_fat", over=("liver",))
    for side in KIDNEY:
        _draw_kidney(canvas, side)
    rng = np.random.default_rng(9)
    branches = (
        ((40, 40, 312), (30, -8, 14)),
        ((40, 40, 312), (26, 22, -10)),
        ((20, 48, 318), (-26, 22, 10)),
    )
    for start, direction in branches:
        canvas.paint(branching(start, direction, 5.0, 4, rng), "portal_vein", None, over=("liver",))
    for end in (
        (100, -20, 330),
        (62, 62, 335),
        (-18, 66, 342),
        (108, 30, 318),
    ):
        path = np.array(
            [(26, 28, 362), (26 + (end[0] - 26) * 0.5, 28 + (end[1] - 28) * 0.5, 354), end], float
        )
        canvas.paint(curve(path, [6, 5, 2.5]), "hepatic_vein", None, over=("liver",))
    axes = axes_along(_GALLBLADDER_AXIS)
    canvas.paint(Ellipsoid(GALLBLADDER, (16, 17, 30), axes), "soft", "gallbladder")
    canvas.paint(Ellipsoid(GALLBLADDER, (14.5, 15.5, 28.5), axes), "bile", "gallbladder")


def _draw_stomach(canvas: Canvas) -> None:
    over = ("visceral_fat", "gut_wall", "stool", "gut_gas", "gut_fluid", "portal_vein")
    path = [
        (-58, 2, 338),
        (-62, 20, 318),
        (-60, 48, 290),
        (-40, 74, 268),
        (-8, 80, 258),
        (22, 68, 262),
    ]
    tube = curve(path, [33, 34, 30, 24, 19, 12])
    canvas.paint(tube, "gut_wall", "stomach", over=over)
    inner = tube.shrunk(4.5)
    canvas.paint(inner, "stomach_fluid", "stomach", over=("gut_wall",))
    low, high = np.array([-100, 50, 220]), np.array([40, 120, 380])
    canvas.paint(
        Piece(low, high, lambda x, y, z: y > 51 + 0.03 * (x + 60)),
        "gut_gas",
        "stomach",
        over=("stomach_fluid",),
    )
    path = [
        (22, 68, 262),
        (42, 44, 266),
        (46, 34, 240),
        (38, 36, 206),
        (4, 42, 200),
        (-30, 46, 226),
    ]
    canvas.paint(
        curve(path, [11, 13, 13, 12, 11, 11]), "gut_wall", "duodenum", over=(*over[:5], "liver")
    )
    canvas.paint(curve(path[1:], [8, 8, 8, 7, 7]), "gut_fluid", "duodenum", over=("gut_wall",))


def _draw_pancreas(canvas: Canvas) -> None:
    path = [
        (26, 40, 236),
        (26, 44, 256),
        (4, 52, 270),
        (-26, 44, 282),
        (-52, 22, 294),
        (-76, 2, 304),
    ]
    over = ("visceral_fat", "gut_wall", "stool", "gut_gas", "gut_fluid")
    canvas.paint(curve(path, [12, 15, 11, 12, 12, 8]), "pancreas", "pancreas", over=over)


def _draw_bowel(canvas: Canvas) -> None:
    rng = np.random.default_rng(21)
    branches = (
        ((4, 50, 205), (22, 6, -30)),
        ((2, 50, 190), (-22, 8, -30)),
        ((6, 52, 170), (24, 4, -34)),
        ((0, 52, 215), (-34, 10, 4)),
    )
    for start, step in branches:
        canvas.paint(branching(start, step, 3.6, 5, rng), "vein", None, over=_INSIDE)
    for y, low in ((32, 92), (58, 72), (84, 64)):
        path = []
        for row, z in enumerate(np.arange(low, 222, 27)):
            ends = np.linspace(-1, 1, 6) if row % 2 == 0 else np.linspace(1, -1, 6)
            wide = 58 + 18 * np.sin((z - low) / 50)
            path += [
                (wide * e + rng.uniform(-6, 6), y + rng.uniform(-10, 10), z + rng.uniform(-9, 9))
                for e in ends
            ]
        _gut(canvas, curve(path, 11.5, step=5), "small_bowel", rng, gas=0.06, stool=0.0)
    frame = [
        *(
            (84, 50, 92),
            (96, 34, 120),
            (104, 22, 165),
            (104, 12, 205),
            (92, 28, 226),
            (70, 72, 218),
        ),
        *(
            (40, 92, 200),
            (0, 94, 192),
            (-40, 92, 206),
            (-76, 68, 244),
            (-104, 34, 278),
            (-112, 8, 258),
        ),
        *(
            (-112, -2, 205),
            (-108, 8, 150),
            (-98, 22, 112),
            (-78, 40, 86),
            (-50, 44, 66),
            (-18, 20, 78),
        ),
        *(
            (8, 24, 84),
            (10, 4, 62),
            (2, -16, 38),
            (0, -28, 10),
            (0, -35, -20),
            (0, -46, -50),
        ),
    ]
    radii = [
        24,
        25,
        24,
        22,
        22,
        21,
        20,
        20,
        20,
        20,
        19,
        18,
        17,
        16,
        16,
        16,
        17,
        17,
        17,
        18,
        20,
        18,
        13,
        8,
    ]
    _gut(canvas, curve(frame, radii, step=5), "colon", rng, gas=0.3, stool=0.6, haustra=0.14)


def _gut(
    canvas: Canvas,
    tube: Tube,
    label: str,
    rng: np.random.Generator,
    gas: float,
    stool: float,
    haustra: float = 0.0,
) -> None:
    """Draw a bowel along `tube`. gas, stool: shares (0 to 1) of the bowel's length that contain gas and stool; the rest
    contains fluid. haustra: depth of the folds, as a fraction of the bowel's radius."""
    count = len(tube.points)
    radii = tube.radii * (1 + haustra * np.sin(np.arange(count) * 1.15))
    over = ("visceral_fat", "gut_wall", "gut_fluid", "stool", "gut_gas", "muscle")
    canvas.paint(Tube(tube.points, radii), "gut_wall", label, over=over[:5])
    drift = np.convolve(rng.uniform(size=count + 8), np.full(9, 1 / 9), mode="valid")
    rank = drift.argsort().argsort() / count
    contents = np.where(rank < gas, "gut_gas", np.where(rank < gas + stool, "stool", "gut_fluid"))
    inner = [
        Tube(tube.points[i : i + 2], np.maximum(radii[i : i + 2] - _WALL_MM, 2))
        for i in range(count - 1)
    ]
    for filling in ("gut_fluid", "stool", "gut_gas"):
        parts = [part for part, content in zip(inner, contents, strict=False) if content == filling]
        if filling == "gut_gas":  # a layer of fluid stays behind the gas
            canvas.paint(parts, "gut_fluid", label, over=("gut_wall",))
            parts = [Tube(np.add(part.points, (0, 3, 0)), part.radii - 2) for part in parts]
        canvas.paint(parts, filling, label, over=("gut_wall", "gut_fluid"))
