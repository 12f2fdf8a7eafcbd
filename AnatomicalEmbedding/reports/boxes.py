"""The report of boxes: each structure found in a scan with its box in three planes. One self-contained HTML file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..scan.volume import Volume
from ..structures.locating import Located
from . import pictures
from .page import fill_page
from .pictures import PLANES, SOFT_TISSUE, Plane

_AROUND = 1.5  # a picture is this many times as wide as the longest side of the box
_LEAST_MM = 140.0
_PIXELS = 260


def write_box_report(
    path: str | Path, volume: Volume, name: str, found: Mapping[str, Located], boxes: Mapping[str, np.ndarray]
) -> Path:
    """Write the page of one scan. boxes: structure -> (2, 3) RAS mm, for structures that are not absent."""
    cards = [_card(volume, located, boxes.get(structure)) for structure, located in found.items()]
    size = " × ".join(map(str, volume.shape[::-1]))
    return fill_page(path, "reports/boxes.html.j2", name=name, cards=cards, path=volume.path, size=size)


def _card(volume: Volume, located: Located, box: np.ndarray | None) -> dict[str, Any]:
    card = {"name": located.name, "status": located.status, "remarks": located.remarks, "size": "", "pictures": []}
    if box is None:
        return card
    likely = located.in_scan(located.box_ras)
    middle = likely.mean(axis=0)
    side_mm = max(_LEAST_MM, _AROUND * float((box[1] - box[0]).max()))
    shown = []
    for plane in PLANES:
        hu = pictures.slice_hu(volume, middle, plane, side_mm, side_mm / _PIXELS)
        source = pictures.data_uri(SOFT_TISSUE.to_grey(hu))
        rectangles = {"grown": _rectangle(box - middle, plane), "likely": _rectangle(likely - middle, plane)}
        shown.append({"plane": plane, "source": source} | rectangles)
    remarks = (*(f"cut at its {side} side" for side in located.cut), *located.remarks)
    size = " × ".join(f"{mm:.0f}" for mm in box[1] - box[0]) + " mm"
    return card | {"remarks": remarks, "size": size, "half_mm": side_mm / 2, "pictures": shown}


def _rectangle(corners: np.ndarray, plane: Plane) -> tuple[float, float, float, float]:
    """Return left, top, width and height of a box in a picture. corners: (2, 3) RAS mm from the middle of the picture.

    All values are in mm; left and top are measured from the middle of the picture, to the right and downwards.
    """
    right, down = np.sort(corners @ np.array(plane.right)), np.sort(corners @ np.array(plane.down))
    return float(right[0]), float(down[0]), float(right[1] - right[0]), float(down[1] - down[0])
