"""Pages of boxes, outlines, places and registrations, with pictures in three planes. Each page is one HTML file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..scan.geometry import read_nearest, transform_points
from ..scan.volume import Volume
from ..structures.segments import colour
from ..words.dictionary import not_understood
from . import pictures
from .page import fill_page
from .pictures import OUTSIDE_HU, PLANES, SOFT_TISSUE, Plane

if TYPE_CHECKING:
    from ..registration.transform import Registration
    from ..scan.label_map import LabelMap
    from ..segmentation.outlining import Outlines
    from ..structures.box_finder import StructureBox
    from ..words.placing import Place

_PIXELS = 300  # along one side of a picture of boxes, outlines or registrations
_AROUND = 1.4  # side of a picture, as a multiple of the longest side of the shown box
_LEAST_MM = 130.0  # shortest side of a picture
_PLACE_MM, _PLACE_PIXEL_MM = 120.0, 0.8  # side and pixel size of a picture of a place
# The shaded regions of a place: share of the place's total probability in the region, RGB, opacity.
_REGIONS = ((0.9, (86, 196, 214), 0.22), (0.5, (255, 216, 77), 0.38))
_CROSS_PIXELS = np.arange(4, 11)  # from the middle to the ends of an arm; by eye


def write_box_report(
    path: str | Path, volume: Volume, name: str, structures: Mapping[str, StructureBox]
) -> Path:
    """Write the page of the structures that were found in one scan. Returns the path.

    Args:
        path: file of the page.
        volume: the scan.
        name: name of the scan.
        structures: name of the structure -> its box.
    """
    cards = [_box_card(volume, structure) for structure in structures.values()]
    return fill_page(
        path, "reports/boxes.html.j2", name=name, cards=cards, path=volume.path, size=_size(volume)
    )


def _box_card(volume: Volume, structure: StructureBox) -> dict[str, Any]:
    """Return what the page shows of one structure: its box with margins, and its likely box without."""
    located = structure.located
    box = structure.box_ras
    card = {
        "name": structure.name,
        "status": structure.status,
        "remarks": located.remarks,
        "size": "",
        "pictures": [],
    }
    if box is None:
        return card
    likely = located.in_scan(located.box_ras)
    middle = likely.mean(axis=0)
    side_mm = _side_mm(box)
    slices = []
    for plane in PLANES:
        hu = pictures.slice_hu(volume, middle, plane, side_mm, side_mm / _PIXELS)
        source = pictures.data_uri(SOFT_TISSUE.to_grey(hu))
        grown_rectangle = _rectangle(box - middle, plane)
        likely_rectangle = _rectangle(likely - middle, plane)
        slices.append(
            {"plane": plane, "source": source, "grown": grown_rectangle, "likely": likely_rectangle}
        )
    remarks = (*(f"cut at its {side} side" for side in located.cut), *located.remarks)
    size = " × ".join(f"{mm:.0f}" for mm in box[1] - box[0]) + " mm"
    return card | {"remarks": remarks, "size": size, "half_mm": side_mm / 2, "pictures": slices}


def _rectangle(corners: np.ndarray, plane: Plane) -> tuple[float, float, float, float]:
    """Return the rectangle (left, top, width, height), mm, that shows a box in a picture.

    corners: (2, 3), two opposite corners of the box, mm from the middle of the picture. left, top: mm from the middle
    to the left side (positive to the right) and to the upper side (positive downwards) of the rectangle.
    """
    left, right = np.sort(corners @ np.array(plane.right)).tolist()
    top, bottom = np.sort(corners @ np.array(plane.down)).tolist()
    return left, top, right - left, bottom - top


def outline_card(volume: Volume, name: str, outlines: Outlines) -> dict[str, Any]:
    """Return the outlines of one scan, with colours and pictures, as input of `write_outline_report`.

    Args:
        volume: the scan.
        name: name of the scan.
        outlines: its outlines.
    """
    rows = []
    doubts = [(-math.inf, "")]
    for n, structure in enumerate(outlines.outlines):
        text = "rgb({}, {}, {})".format(*_rgb(n))
        rows.append({"name": structure.name, "colour": text, "outline": structure})
        if structure.doubt is not None:
            doubts.append((structure.doubt, structure.name))
    doubt, most_doubtful = max(doubts)
    sources = []
    voxels = np.argwhere(outlines.labels.voxels > 0)[:, ::-1]
    if len(voxels):
        ras = transform_points(volume.ijk_to_ras, voxels[:: max(1, len(voxels) // 20_000)])
        box = np.array((ras.min(axis=0), ras.max(axis=0)))
        middle = box.mean(axis=0)
        if most_doubtful:
            middle = _middle(outlines.labels.mask(most_doubtful), volume)
        for plane in PLANES:
            source = _draw_outlines(volume, outlines.labels, middle, plane, _side_mm(box))
            sources.append((plane.name, source))
    return {"name": name, "path": volume.path, "rows": rows, "sources": sources, "doubt": doubt}


def write_outline_report(path: Path, cards: Sequence[dict[str, Any]]) -> Path:
    """Write one page of all scans, the most doubtful scan first. cards: the `outline_card` of each scan."""
    return fill_page(
        path, "reports/outlines.html.j2", cards=sorted(cards, key=lambda card: -card["doubt"])
    )


def _rgb(number: int) -> list[int]:
    """Return the colour of the structure with this index, 0 to 255 each."""
    return [round(255 * part) for part in colour(number)]


def _middle(mask: np.ndarray, volume: Volume) -> np.ndarray:
    """Return the position (3,), RAS mm, of the voxel of a mask (k, j, i) that is nearest to the mask's middle."""
    voxels = np.argwhere(mask)[:, ::-1]
    centre = voxels[np.abs(voxels - voxels.mean(axis=0)).sum(axis=1).argmin()]
    return transform_points(volume.ijk_to_ras, centre[None])[0]


def _draw_outlines(
    volume: Volume, labels: LabelMap, middle: np.ndarray, plane: Plane, side_mm: float
) -> str:
    """Draw a slice with the edges of all structures as the data URI of a picture.

    Args:
        volume: the scan.
        labels: the structures on its voxels; no two have the same label.
        middle: (3,) middle of the picture, RAS mm.
        plane: the plane of the slice.
        side_mm: width and height of the picture.
    """
    hu = pictures.slice_hu(volume, middle, plane, side_mm, side_mm / _PIXELS)
    points = pictures.slice_points(middle, plane, side_mm, side_mm / _PIXELS)
    picture = np.repeat(SOFT_TISSUE.to_grey(hu)[..., None], 3, axis=2)
    for layer in labels.layers:
        label = read_nearest(layer, transform_points(volume.ras_to_ijk, points)).reshape(hu.shape)
        edge = np.zeros(label.shape, bool)
        for axis in (0, 1):
            for step in (1, -1):
                edge |= label != np.roll(label, step, axis)
        for n, value in enumerate(labels.values.values()):
            picture[edge & (label == value)] = _rgb(n)
    return pictures.data_uri(picture)


def write_places_report(
    path: str | Path,
    volume: Volume,
    name: str,
    places: Sequence[tuple[str, Place]],
    missed: Sequence[str] = (),
) -> Path:
    """Write a page that shows where places lie in one scan. Returns the path of the page.

    Args:
        path: file of the page.
        volume: the scan.
        name: name of the scan.
        places: (words of the user, place that they describe).
        missed: parts of the user's words that name no known place.
    """
    cards = [_place_card(volume, words, place) for words, place in places]
    sentences = list(map(not_understood, missed))
    return fill_page(
        path, "reports/places.html.j2", name=name, cards=cards, size=_size(volume), missed=sentences
    )


def _place_card(volume: Volume, words: str, place: Place) -> dict[str, Any]:
    """Return what the page shows of one place. words: those of the user."""
    card = {"words": words, "title": place.title, "status": place.status, "pictures": []}
    if place.point_ras is None:
        side = f" (beyond its {place.side} border)" if place.side else ""
        return card | {"where": f"not in this scan{side}"}
    position = ", ".join(f"{x:.0f}" for x in place.point_ras)
    parts = [f"{position} mm, probability {place.probability:.0%}", place.doubt]
    if place.side:
        parts.append(f"a part of the place is beyond the {place.side} border of the scan")
    parts.append(place.remark)
    slices = [
        {"plane": plane, "source": _draw_place(volume, place, place.point_ras, plane)}
        for plane in PLANES
    ]
    return card | {"where": "; ".join(filter(None, parts)), "pictures": slices}


def _draw_place(volume: Volume, place: Place, point_ras: np.ndarray, plane: Plane) -> str:
    """Draw a slice through a place, with its regions in colour and a cross at its point, as a data URI.

    Args:
        volume: the scan.
        place: the place.
        point_ras: (3,) RAS mm, the middle of the picture.
        plane: plane of the slice.
    """
    hu = pictures.slice_hu(volume, point_ras, plane, _PLACE_MM, _PLACE_PIXEL_MM)
    grey = pictures.choose_window(volume, point_ras).to_grey(hu)
    picture = np.repeat(grey[..., None].astype(np.float32), 3, axis=2)
    points_ras = pictures.slice_points(point_ras, plane, _PLACE_MM, _PLACE_PIXEL_MM)
    cells = (points_ras - place.grid.origin) / place.grid.step - place.region.first
    for share, rgb, opacity in _REGIONS:
        region = place.region.values >= place.least_chance(share)
        pixels = read_nearest(region, cells).reshape(grey.shape)
        picture[pixels] = (1 - opacity) * picture[pixels] + opacity * np.array(rgb)
    _draw_cross(picture, np.array(_REGIONS[1][1]))
    return pictures.data_uri(np.rint(picture).astype(np.uint8))


def _draw_cross(picture: np.ndarray, rgb: np.ndarray) -> None:
    """Draw a cross with a gap in the middle of a square picture (rows, columns, 3)."""
    middle = len(picture) // 2
    arms = middle + np.concatenate([-_CROSS_PIXELS, _CROSS_PIXELS])
    picture[middle, arms] = rgb
    picture[arms, middle] = rgb


def write_registration_report(
    path: str | Path,
    fixed: Volume,
    moving: Volume,
    registration: Registration,
    facts: Mapping[str, str],
) -> Path:
    """Write the page with pictures of two scans before and after registration. Returns the path.

    In the pictures before registration, the moving scan is shifted so that the centres of both scans coincide. The
    moving scan is red and the fixed scan is cyan; pixels are grey where both are equal.

    Args:
        path: file of the page.
        fixed, moving: the scans.
        registration: from the fixed to the moving scan.
        facts: name -> text to show.
    """
    middle = fixed.bounds_ras.mean(axis=0)
    shift = moving.bounds_ras.mean(axis=0) - middle
    side_mm = float(np.ptp(fixed.bounds_ras, axis=0).max())
    window = pictures.choose_window(fixed, middle)
    pairs = []
    for plane in PLANES:
        cyan = window.to_grey(pictures.slice_hu(fixed, middle, plane, side_mm, side_mm / _PIXELS))
        points = pictures.slice_points(middle, plane, side_mm, side_mm / _PIXELS)
        pair: dict[str, Any] = {"plane": plane}
        moved = {"before": points + shift, "after": registration.transform_points(points)}
        for when, places in moved.items():
            red = window.to_grey(moving.sample(places, outside=OUTSIDE_HU)).reshape(cyan.shape)
            pair[when] = pictures.data_uri(np.stack([red, cyan, cyan], axis=-1))
        pairs.append(pair)
    return fill_page(
        path,
        "reports/registration.html.j2",
        registration=registration,
        facts=facts,
        pairs=pairs,
        window=window.name,
    )


def _size(volume: Volume) -> str:
    """Return the number of voxels along i, j and k as a text."""
    return " × ".join(map(str, volume.shape[::-1]))


def _side_mm(box: np.ndarray) -> float:
    """Return the side length, mm, of the square picture that shows a box (2, 3) RAS mm."""
    return max(_LEAST_MM, _AROUND * float((box[1] - box[0]).max()))
