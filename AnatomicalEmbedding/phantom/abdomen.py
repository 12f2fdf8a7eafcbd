"""Organs of the abdomen and pelvis of the canonical body."""

import numpy as np

from .canvas import Canvas
from .frame import CAVITY, diaphragm_z
from .parts import draw_part, part_ellipsoids, part_tubes, tree_roots
from .solids import Ellipsoid, Piece, Tube, axes_along, branching, curve

# centres, mm in the frame of the canonical body; drawn by hand
KIDNEY = {"right": np.array([65.0, -6.0, 251.0]), "left": np.array([-66.0, -8.0, 263.0])}
KIDNEY_RADII = (27.0, 25.0, 56.0)
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
    (spleen,) = part_ellipsoids("spleen")
    canvas.paint(_under_diaphragm(spleen), "spleen", "spleen", over=_INSIDE)
    _draw_liver(canvas)
    _draw_stomach(canvas)
    draw_part(canvas, "duodenum and pancreas")
    draw_part(canvas, "adrenals and bladder")
    draw_part(canvas, "female pelvis" if female else "male pelvis")


def _draw_kidney(canvas: Canvas, side: str) -> None:
    """Draw a kidney with its pyramids, the fat and the renal pelvis in its hollow, and the ureter."""
    center = KIDNEY[side]
    axis = kidney_axis(side)
    label = f"kidney_{side}"
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
    """Return the part of a solid that lies at least 4 mm below the diaphragm and 2 mm inside the body wall."""

    def inside(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        roof = diaphragm_z(x, y).astype(np.float32) - 4.0
        return solid.inside(x, y, z) & (z < roof) & CAVITY.inside(x, y, z, 2.0)

    return Piece(solid.low, solid.high, inside)


def _draw_liver(canvas: Canvas) -> None:
    """Draw the liver, the kidneys that lie in its hollows, and the vessels in it."""
    over = ("visceral_fat", "gut_wall", "stool", "gut_gas", "gut_fluid")
    for lobe in part_ellipsoids("liver lobes"):
        canvas.paint(_under_diaphragm(lobe), "liver", "liver", over=over)
    draw_part(canvas, "liver hollows")
    for side in KIDNEY:
        _draw_kidney(canvas, side)
    rng = np.random.default_rng(9)
    for start, step in tree_roots("liver"):
        canvas.paint(branching(start, step, 5.0, 4, rng), "portal_vein", None, over=("liver",))
    draw_part(canvas, "hepatic veins and gallbladder")


def _draw_stomach(canvas: Canvas) -> None:
    """Draw the stomach; gas fills its front part, because the patient lies on the back."""
    draw_part(canvas, "stomach")
    gas = Piece((-100, 50, 220), (40, 120, 380), lambda x, y, z: y > 51 + 0.03 * (x + 60))
    canvas.paint(gas, "gut_gas", "stomach", over=("stomach_fluid",))


def _draw_bowel(canvas: Canvas) -> None:
    """Draw the veins of the mesentery, three layers of small bowel behind each other, and the colon.

    A layer of small bowel is one tube, which runs to and fro across the body in rows from the bottom to the top.
    """
    rng = np.random.default_rng(21)
    for start, step in tree_roots("mesentery"):
        canvas.paint(branching(start, step, 3.6, 5, rng), "vein", None, over=_INSIDE)
    for y, lowest_z in ((32, 92), (58, 72), (84, 64)):
        path = []
        for row, z in enumerate(np.arange(lowest_z, 222, 27)):
            positions = np.linspace(-1, 1, 6) * (1 if row % 2 == 0 else -1)
            half_width = 58 + 18 * np.sin((z - lowest_z) / 50)
            for x in half_width * positions:
                offset = rng.uniform(-6, 6), rng.uniform(-10, 10), rng.uniform(-9, 9)
                path.append((x + offset[0], y + offset[1], z + offset[2]))
        _gut(canvas, curve(path, 11.5, step=5), "small_bowel", rng, gas=0.06, stool=0.0)
    (colon,) = part_tubes("colon")
    _gut(canvas, colon, "colon", rng, gas=0.3, stool=0.6, haustra=0.14)


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
    over = ("visceral_fat", "gut_wall", "gut_fluid", "stool", "gut_gas")
    canvas.paint(Tube(tube.points, radii), "gut_wall", label, over)
    # a smoothed random number for each point; by its rank, the given shares of the length get gas and stool
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
