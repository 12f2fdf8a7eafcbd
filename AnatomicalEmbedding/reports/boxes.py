"""The page of boxes: each structure found in a scan, its box drawn in three planes. One self-contained HTML file."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..scan.volume import Volume
from ..structures.locating import Located
from . import pictures
from .page import fill_page
from .pictures import PLANES, SOFT_TISSUE, Plane

_AROUND = 1.5  # of the box's largest size, that a picture shows
_LEAST_MM = 140.0
_PIXELS = 260


@dataclass(frozen=True)
class _Picture:
    """One plane: the slice as a data URI, and the grown and the likely box as rectangles: left, top, width, height, mm
    right of and below its middle.
    """

    plane: Plane
    source: str
    grown: tuple[float, float, float, float]
    likely: tuple[float, float, float, float]


@dataclass(frozen=True)
class _Card:
    name: str
    status: str
    remarks: tuple[str, ...]
    size: str
    half_mm: float
    pictures: list[_Picture]


def write_box_report(
    path: str | Path, volume: Volume, name: str, found: Mapping[str, Located], boxes: Mapping[str, np.ndarray]
) -> Path:
    """Write one page for a scan. boxes: the grown box (2, 3) RAS mm of each structure that is not absent.

    Raises AnatomicalEmbeddingError when pillow or jinja2 is not installed. The page is complete or not written.
    """
    cards = [_card(volume, located, boxes.get(structure)) for structure, located in found.items()]
    size = " × ".join(map(str, volume.shape[::-1]))
    return fill_page(path, "reports/boxes.html.j2", name=name, cards=cards, path=volume.path, size=size)


def _card(volume: Volume, located: Located, box: np.ndarray | None) -> _Card:
    remarks = (*(f"cut at its {side} side" for side in located.cut), *located.remarks)
    if box is None:
        return _Card(located.name, located.status, located.remarks, "", 0.0, [])
    likely = located.in_scan(located.box_ras)
    middle = likely.mean(axis=0)
    side_mm = max(_LEAST_MM, _AROUND * float((box[1] - box[0]).max()))
    shown = [_picture(volume, middle, plane, side_mm, box, likely) for plane in PLANES]
    size = " × ".join(f"{mm:.0f}" for mm in box[1] - box[0]) + " mm"
    return _Card(located.name, located.status, remarks, size, side_mm / 2, shown)


def _picture(
    volume: Volume, middle: np.ndarray, plane: Plane, side_mm: float, box: np.ndarray, likely: np.ndarray
) -> _Picture:
    hu = pictures.slice_hu(volume, middle, plane, side_mm, side_mm / _PIXELS)
    source = pictures.data_uri(SOFT_TISSUE.to_grey(hu))
    return _Picture(plane, source, _rectangle(box, middle, plane), _rectangle(likely, middle, plane))


def _rectangle(box: np.ndarray, middle: np.ndarray, plane: Plane) -> tuple[float, float, float, float]:
    corners = box - middle
    right, down = np.sort(corners @ np.array(plane.right)), np.sort(corners @ np.array(plane.down))
    return float(right[0]), float(down[0]), float(right[1] - right[0]), float(down[1] - down[0])
