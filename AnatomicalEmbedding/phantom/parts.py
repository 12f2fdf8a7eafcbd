"""Draws the parts of the canonical body that `Resources/Phantom/parts.csv` lists.

docs/architecture.md explains the columns of the table. All coordinates are mm in the canonical body frame.
"""

from collections.abc import Callable
from itertools import groupby

import numpy as np
from numpy.typing import ArrayLike

from ..resources import read_table
from .canvas import Canvas
from .solids import SIDES, Ellipsoid, Tube, axes_along, curve, mirrored, sheet

_Row = dict[str, str]
_Flip = Callable[[ArrayLike], np.ndarray]
_Solids = list[Ellipsoid | Tube]
_ROWS = {
    part: list(rows)
    for part, rows in groupby(read_table("Phantom/parts.csv"), lambda row: row["part"])
}
_TREES = read_table("Phantom/trees.csv")


def draw_part(canvas: Canvas, part: str) -> None:
    """Draw the rows of a part in their order; rows with the side "each" first for the right side, then for the left."""
    for has_sides, rows in groupby(_ROWS[part], lambda row: row["side"] == "each"):
        block = list(rows)
        for side, flip in SIDES if has_sides else SIDES[:1]:
            _draw_rows(canvas, block, side, flip)


def part_solids(part: str) -> _Solids:
    """Return the solids of all rows of a part."""
    return [solid for row in _ROWS[part] for solid in _solids(row, np.asarray)]


def part_ellipsoids(part: str) -> list[Ellipsoid]:
    """Return the ellipsoids of a part."""
    return [solid for solid in part_solids(part) if isinstance(solid, Ellipsoid)]


def part_tubes(part: str) -> list[Tube]:
    """Return the tubes of a part."""
    return [solid for solid in part_solids(part) if isinstance(solid, Tube)]


def tree_roots(tree: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the start (3,) and the first step (3,), mm, of the vessels of `Resources/Phantom/trees.csv` in a tree."""
    return [
        (np.array(_numbers(row["start"])), np.array(_numbers(row["step"])))
        for row in _TREES
        if row["tree"] == tree
    ]


def _draw_rows(canvas: Canvas, rows: list[_Row], side: str, flip: _Flip) -> None:
    """Draw rows on one side. Solids are collected until a row has a tissue; a row without a shape draws them again."""
    solids: _Solids = []
    is_drawn = False
    for row in rows:
        if row["shape"]:
            earlier = [] if is_drawn else solids
            solids = [*earlier, *_solids(row, flip)]
        is_drawn = row["tissue"] != ""
        if is_drawn:
            grow_mm = float(row["grow"]) if row["grow"] and not row["shape"] else 0.0
            canvas.paint(
                [solid.grown(grow_mm) for solid in solids],
                row["tissue"],
                row["structure"].format(side) or None,
                row["over"].split() or None,
            )


def _solids(row: _Row, flip: _Flip) -> _Solids:
    """Return the solids of a row, on the side of `flip`; with the side "mirrored", on both sides."""
    flips = (flip, mirrored) if row["side"] == "mirrored" else (flip,)
    solids = [solid for place in flips for solid in _shape(row, place)]
    return [solid.grown(float(row["grow"])) for solid in solids] if row["grow"] else solids


def _shape(row: _Row, flip: _Flip) -> _Solids:
    """Return the solids of a row on one side, before the column `grow` is applied; the page explains the columns."""
    curves = [
        flip([_numbers(point) for point in points.split(";")])
        for points in row["points"].split("|")
    ]
    radii = _numbers(row["radii"])
    detail = _numbers(row["detail"])
    if row["shape"] == "sheet":
        return [*sheet(curves[0], curves[1], radii[0])]
    if row["shape"] == "ellipsoid":
        axes = axes_along(detail[:3], *detail[3:]) if detail else np.eye(3)
        return [Ellipsoid(curves[0][0], radii, axes)]
    step = float(row["step"]) if row["step"] else None
    x, y, z = detail or (1.0, 1.0, 1.0)
    return [curve(curves[0], radii, step, (x, y, z))]


def _numbers(text: str) -> list[float]:
    return [float(number) for number in text.split()]
