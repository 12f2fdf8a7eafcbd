"""Head and neck of the canonical body."""

import numpy as np

from .canvas import Canvas
from .parts import draw_part, part_tubes
from .solids import Ellipsoid, Piece, curve, mirrored

_CRANIUM = np.array([0.0, 36.0, 736.0])
_CRANIUM_RADII = (73.0, 93.0, 83.0)
_SKULL_MM = 6.5  # thickness of the skull


def draw_head(canvas: Canvas) -> None:
    """Draw skull, brain, face, airway, jaw and the organs of the neck."""
    _draw_face(canvas)
    _draw_skull(canvas)
    _draw_brain(canvas)
    draw_part(canvas, "eyes")
    draw_part(canvas, "jaw")
    _draw_teeth(canvas)
    draw_part(canvas, "mouth")
    draw_part(canvas, "neck")


def _cut_below(solid: Ellipsoid, slope: float, height: float) -> Piece:
    return Piece(
        solid.low,
        solid.high,
        lambda x, y, z: solid.inside(x, y, z) & (z > height + slope * (y - 36)),
    )


def _draw_skull(canvas: Canvas) -> None:
    outer = Ellipsoid(_CRANIUM, _CRANIUM_RADII)
    canvas.paint(_cut_below(outer, 0.32, 668), "dense_bone", "skull")
    canvas.paint(_cut_below(outer.grown(-2.2), 0.32, 671), "marrow", "skull")
    canvas.paint(_cut_below(outer.grown(-4.4), 0.32, 673), "dense_bone", "skull")
    draw_part(canvas, "occiput")
    petrous = part_tubes("petrous bones")
    for paths in (
        petrous,
        [curve(mirrored(p.points[[0, len(p.points) // 2, -1]]), [6, 9, 10]) for p in petrous],
    ):
        canvas.paint(paths, "dense_bone", "skull")
    draw_part(canvas, "skull")


def _draw_brain(canvas: Canvas) -> None:
    inner = Ellipsoid(np.add(_CRANIUM, (0, 0, 1)), np.subtract(_CRANIUM_RADII, _SKULL_MM))
    canvas.paint(_cut_below(inner, 0.32, 679), "csf", "brain")
    canvas.paint(_cut_below(inner.grown(-3.5), 0.32, 682), "grey_matter", "brain")
    draw_part(canvas, "brain")
    falx = Piece(
        np.array([-1.5, -56, 762]), np.array([1.5, 128, 818]), lambda x, y, z: np.abs(x) < 1.2
    )
    canvas.paint(falx, "cord", "brain", over=("grey_matter", "white_matter"))
    draw_part(canvas, "brain stem")


def _draw_face(canvas: Canvas) -> None:
    draw_part(canvas, "face")
    septum = Piece(
        np.array([-1.5, 54, 658]), np.array([1.5, 132, 700]), lambda x, y, z: np.abs(x) < 1.4
    )
    canvas.paint(septum, "soft", "paranasal_sinuses", over=("airway",))
    draw_part(canvas, "pharynx")


def _draw_teeth(canvas: Canvas) -> None:
    for z, arch in (
        (644, [(27, 76), (21, 100), (10, 111)]),
        (634, [(27, 76), (21, 98), (10, 108)]),
    ):
        knots = np.array([(x, y, z) for x, y in arch], float)
        for points in (knots, mirrored(knots)):
            for point in curve(points, 1, step=7).points:
                canvas.paint(Ellipsoid(point, (3, 3, 6)), "tooth", "teeth")
