"""Page of the levels of one scan: two pictures that follow the spine, and the level of each slice."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from . import pictures
from .page import fill_page
from .pictures import CORONAL, OUTSIDE_HU, SAGITTAL, Plane, Window

if TYPE_CHECKING:
    from ..scan.volume import Volume
    from ..words.scan_levels import NumberedPlace, ScanLevels

_HALF_MM = 90  # half of the width of a picture; one pixel has 1 mm
_BEYOND_MM = 25  # the pictures end this far above the first and below the last vertebra
_SPINE = Window("spine", 250.0, 1100.0)


def write_levels_report(path: str | Path, volume: Volume, name: str, found: ScanLevels) -> Path:
    """Write the page of the levels of one scan. Returns the path."""
    marks = sorted((place for place in found.places if place.kind != "rib"), key=lambda each: each.point_ras[2])
    shown = [_draw(volume, marks, plane) for plane in (SAGITTAL, CORONAL)] if marks else []
    groups = [list(group) for _, group in groupby(found.slices, lambda each: (each.level, each.levels))]
    return fill_page(path, "reports/levels.html.j2", name=name, basis=found.basis, pictures=shown, groups=groups)


def _draw(volume: Volume, marks: list[NumberedPlace], plane: Plane) -> dict[str, Any]:
    """Draw the surface through the spine. marks: places to name, lowest first."""
    middles, right = np.array([place.point_ras for place in marks]), np.array(plane.right)
    top, bottom = middles[-1, 2] + _BEYOND_MM, middles[0, 2] - _BEYOND_MM
    heights, across = np.arange(top, bottom, -1.0), np.arange(-_HALF_MM, _HALF_MM + 1.0)
    middle = np.stack([np.interp(heights, middles[:, 2], middles[:, n]) for n in (0, 1)] + [heights], axis=1)
    points = middle[:, None] + across[None, :, None] * right
    hu = volume.sample(points.reshape(-1, 3), outside=OUTSIDE_HU).reshape(points.shape[:2])
    texts = [{"x": _HALF_MM, "y": float(top - place.point_ras[2]), "place": place} for place in marks]
    size = {"width": len(across), "height": len(heights)}
    return {"plane": plane, "source": pictures.data_uri(_SPINE.to_grey(hu)), "texts": texts} | size
