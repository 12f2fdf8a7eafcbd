"""Head and neck of the canonical body."""

import numpy as np

from .canvas import Canvas
from .parts import draw_part, part_tubes
from .solids import Ellipsoid, Piece, curve, mirrored

_CRANIUM = np.array([0.0, 36.0, 736.0])
_CRANIUM_RADII = (73.0, 93.0, 83.0)
_SKULL_MM = 6.5  # thickness of the skull
_BASE_SLOPE = 0.32  # of the base of the skull, mm of height for each mm ahead


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


def _cut_below(solid: Ellipsoid, height: float) -> Piece:
    """Return the part of a solid above the base of the skull. height: of the base, mm, where y is 36."""
    return Piece(
        solid.low,
        solid.high,
        lambda x, y, z: solid.inside(x, y, z) & (z > height + _BASE_SLOPE * (y - 36)),
    )


def _draw_skull(canvas: Canvas) -> None:
    """Draw the vault of the skull as three layers inside each other, then its other bones."""
    outer = Ellipsoid(_CRANIUM, _CRANIUM_RADII)
    canvas.paint(_cut_below(outer, 668), "dense_bone", "skull")
    canvas.paint(_cut_below(outer.grown(-2.2), 671), "marrow", "skull")
    canvas.paint(_cut_below(outer.grown(-4.4), 673), "dense_bone", "skull")
    draw_part(canvas, "occiput")
    petrous = part_tubes("petrous bones")
    canvas.paint(petrous, "dense_bone", "skull")
    for tube in petrous:
        ends_and_middle = tube.points[[0, len(tube.points) // 2, -1]]
        canvas.paint(curve(mirrored(ends_and_middle), [6, 9, 10]), "dense_bone", "skull")
    draw_part(canvas, "skull")


def _draw_brain(canvas: Canvas) -> None:
    """Draw fluid inside the skull, the brain in the fluid, the falx between its halves, and the brain stem."""
    inner = Ellipsoid(np.add(_CRANIUM, (0, 0, 1)), np.subtract(_CRANIUM_RADII, _SKULL_MM))
    canvas.paint(_cut_below(inner, 679), "csf", "brain")
    canvas.paint(_cut_below(inner.grown(-3.5), 682), "grey_matter", "brain")
    draw_part(canvas, "brain")
    falx = Piece((-1.5, -56, 762), (1.5, 128, 818), lambda x, y, z: np.abs(x) < 1.2)
    canvas.paint(falx, "cord", "brain", over=("grey_matter", "white_matter"))
    draw_part(canvas, "brain stem")


def _draw_face(canvas: Canvas) -> None:
    """Draw the face with its airways. A thin septum divides the airway of the nose."""
    draw_part(canvas, "face")
    septum = Piece((-1.5, 54, 658), (1.5, 132, 700), lambda x, y, z: np.abs(x) < 1.4)
    canvas.paint(septum, "soft", "paranasal_sinuses", over=("airway",))
    draw_part(canvas, "pharynx")


def _draw_teeth(canvas: Canvas) -> None:
    """Draw upper and lower teeth: ellipsoids every 7 mm along two arches, given by x and y of their right halves."""
    for z, arch in (
        (644, [(27, 76), (21, 100), (10, 111)]),
        (634, [(27, 76), (21, 98), (10, 108)]),
    ):
        knots = np.array([(x, y, z) for x, y in arch], float)
        for points in (knots, mirrored(knots)):
            for point in curve(points, 1, step=7).points:
                canvas.paint(Ellipsoid(point, (3, 3, 6)), "tooth", "teeth")
