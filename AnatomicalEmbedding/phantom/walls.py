"""Body wall, cavities and lungs of the canonical body."""

import numpy as np
from numpy.typing import ArrayLike

from .canvas import Canvas
from .frame import BODY, CAVITY, VERTEBRA_Z, diaphragm_z, fat_mm, outline, spine_y
from .parts import draw_part, part_solids
from .solids import Piece, curve

_SKIN_MM = 2.0  # thickness of the skin
_THIGHS = part_solids("thighs")
_HEAD = part_solids("head outline")
_LIMBS = [*_THIGHS, *_HEAD, *part_solids("nose and ears")]
_MEDIASTINUM = outline("mediastinum", squareness=0.3)


def draw_walls(canvas: Canvas) -> None:
    """Draw skin, fat and muscle of the whole body, then the cavities: lungs above the diaphragm, fat below it."""
    _draw_outline(canvas)
    _draw_cavities(canvas)
    _draw_muscles(canvas)


def _draw_outline(canvas: Canvas) -> None:
    """Draw skin, fat and muscle inside each other: of trunk and neck, of thighs and head, of nose and ears."""
    low = BODY.low
    high = BODY.high
    low[2] = -78
    _, (_, _, z) = canvas.region(low, high)
    rows = z.ravel()
    thickness = fat_mm(rows)[:, None, None]
    # the trunk closes below the pelvis
    rounding = (np.maximum(-58 - rows, 0) ** 2 / 9)[:, None, None]
    trunk = Piece(low, high, lambda x, y, z: BODY.inside(x, y, z, rounding))
    canvas.paint([trunk, *_LIMBS], "skin", "body_other")
    inner = Piece(low, high, lambda x, y, z: BODY.inside(x, y, z, rounding + _SKIN_MM))
    soft = [solid.grown(-_SKIN_MM) for solid in _LIMBS]
    canvas.paint([inner, *soft], "fat", "subcutaneous_fat")
    wall = Piece(low, high, lambda x, y, z: BODY.inside(x, y, z, rounding + thickness))
    canvas.paint(wall, "muscle", "muscle")
    canvas.paint([thigh.grown(-20) for thigh in _THIGHS], "muscle", "muscle")
    canvas.paint([solid.grown(-6) for solid in _HEAD], "muscle", "muscle")
    # between the buttocks: fat, and behind the fat air
    cleft = Piece(
        (-14, -140, -100),
        (14, -76, 62),
        lambda x, y, z: np.abs(x) < 3 + np.maximum(-86 - y, 0) * 0.35,
    )
    canvas.paint(cleft, "fat", "subcutaneous_fat", over=("muscle",))
    gap = Piece(
        (-6, -148, -130), (6, -90, 20), lambda x, y, z: np.abs(x) < np.maximum(-98 - y, 0) * 0.3
    )
    canvas.paint(gap, "air", "background")


def _draw_cavities(canvas: Canvas) -> None:
    """Draw fat below the diaphragm, the diaphragm, the lungs above it, and the mediastinum between the lungs."""
    low = CAVITY.low
    high = CAVITY.high
    _, (x, y, z) = canvas.region(low, high)
    inside = CAVITY.inside(x, y, z)
    dome = diaphragm_z(x, y).astype(np.float32)
    above = inside & (z > dome)
    apex = np.square((np.abs(x) - 46) / 36) + np.square((y + 12) / 44) < np.square((572 - z) / 30)
    above &= apex | (z < 538)
    above &= np.abs(x) > 4

    parts = (
        (inside & (z < 540), "visceral_fat", "visceral_fat"),
        (inside & (z > dome - 4) & (z <= dome) & (z < 500), "muscle", "muscle"),
        (above & (x > 0), "lung", "lung_right"),
        (above & (x < 0), "lung", "lung_left"),
    )
    for mask, tissue, label in parts:
        canvas.paint(_piece(low, high, mask), tissue, label)
    canvas.paint(_MEDIASTINUM, "visceral_fat", "visceral_fat", over=("lung",))

    # the spine and the tissue behind it are not part of the thoracic cavity
    def is_spine(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        return np.square(x / 25) + np.square((y - _spine_rows(z)) / 24) < 1

    def is_gutter(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        rear_y = _spine_rows(z) - 22
        return np.abs(x) < 20 + np.maximum(rear_y - y, 0) * 0.55 - 40 * (y > rear_y)

    spine = Piece((-60, -110, 260), (60, 20, 566), is_spine)
    canvas.paint(spine, "visceral_fat", "visceral_fat", over=("lung",))
    gutter = Piece((-60, -110, 200), (60, -20, 566), is_gutter)
    canvas.paint(gutter, "muscle", "muscle", over=("lung", "visceral_fat"))


def _spine_rows(z: np.ndarray) -> np.ndarray:
    """Return y of the spine at heights z, (nk, 1, 1) mm, in the same shape."""
    return spine_y(z.ravel()).astype(np.float32)[:, None, None]


def _draw_muscles(canvas: Canvas) -> None:
    """Draw sheets of fat between the muscles, the muscles beside the spine, and the other muscles of the trunk."""
    _draw_septa(canvas)
    heights = [VERTEBRA_Z[v] for v in ("L5", "L4", "L3", "L2", "L1", "T11", "T9", "T7", "T5", "T3")]
    for name, side in (("right", 1), ("left", -1)):
        erector_path = [(side * 30, float(spine_y(z)) - 48, z) for z in heights]
        erector = curve(
            [(side * 22, -68, 70), *erector_path], [14, 22, 24, 24, 24, 22, 20, 17, 15, 14, 14]
        )
        canvas.paint(erector, "muscle", f"autochthon_{name}", over=("muscle",))
    draw_part(canvas, "trunk muscles")


def _draw_septa(canvas: Canvas) -> None:
    """Draw thin curved sheets of fat into the muscles."""
    rng = np.random.default_rng(11)
    coarse = rng.standard_normal((42, 16, 22)).astype(np.float32)
    nk, nj, ni = canvas.label.shape
    fine = _stretch(_stretch(_stretch(coarse, 0, nk), 1, nj), 2, ni)
    low, high = (-232, -148, -130), (232, 172, 640)
    cut, _ = canvas.region(low, high)
    sheets = _piece(low, high, np.abs(fine[cut]) < 0.035)
    canvas.paint(sheets, "fat", None, over=("muscle",))


def _piece(low: ArrayLike, high: ArrayLike, mask: np.ndarray) -> Piece:
    """Return a part of the canvas's box from `low` to `high`. mask: bool (k, j, i) of this box."""
    return Piece(low, high, lambda *_: mask)


def _stretch(field: np.ndarray, axis: int, size: int) -> np.ndarray:
    """Interpolate an array along an axis to `size` values, by a cubic B-spline whose coefficients are its values."""
    count = field.shape[axis]
    positions = np.linspace(1, count - 2.001, size)
    i = positions.astype(int)
    t = (positions - i).astype(np.float32)
    weights = np.zeros((size, count), np.float32)
    cubic = (1 - t) ** 3, 3 * t**3 - 6 * t**2 + 4, -3 * t**3 + 3 * t**2 + 3 * t + 1, t**3
    for offset, weight in enumerate(cubic, -1):
        weights[np.arange(size), i + offset] += weight / 6
    return np.moveaxis(np.tensordot(weights, field, axes=(1, axis)), 0, axis)
