"""The report of places: each place that words describe in a scan, its region shaded in three planes. One HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..scan.volume import Volume
from ..words.dictionary import not_understood
from ..words.placing import Place
from . import pictures
from .page import fill_page
from .pictures import PLANES, Plane

_AROUND_MM = 120.0
_PIXEL_MM = 0.8
_COLOURS = ((0.9, (86, 196, 214), 0.22), (0.5, (255, 216, 77), 0.38))  # fraction of the probability, RGB, opacity
_CROSS_PIXELS = np.arange(4, 11)
_MOST_PICTURES = 60


def write_places_report(
    path: str | Path, volume: Volume, name: str, found: Sequence[tuple[str, Place]], missed: Sequence[str] = ()
) -> Path:
    """Write the page of one scan.

    found: (words, place that they describe); the first 60 places have pictures. missed: parts of words without a place.
    """
    cards = [_card(volume, words, place, n < _MOST_PICTURES) for n, (words, place) in enumerate(found)]
    size = " × ".join(map(str, volume.shape[::-1]))
    return fill_page(
        path, "reports/places.html.j2", name=name, cards=cards, size=size, missed=list(map(not_understood, missed))
    )


def _card(volume: Volume, words: str, place: Place, drawn: bool) -> dict[str, Any]:
    card = {"words": words, "title": place.title, "status": place.status, "pictures": []}
    if place.point_ras is None:
        side = f", it would be {place.side} of it" if place.side else ""
        return card | {"where": f"not in this scan{side}"}
    where = ", ".join(f"{x:.0f}" for x in place.point_ras) + f" mm, {place.probability:.0%}"
    rest = f"the rest is {place.side} of the scan" if place.side else ""
    where = "; ".join(part for part in (where, place.doubt, rest, place.remark) if part)
    shown = [{"plane": plane, "source": _drawn(volume, place, plane)} for plane in PLANES] if drawn else []
    return card | {"where": where, "pictures": shown}


def _drawn(volume: Volume, place: Place, plane: Plane) -> str:
    hu = pictures.slice_hu(volume, place.point_ras, plane, _AROUND_MM, _PIXEL_MM)
    grey = pictures.choose_window(volume, place.point_ras).to_grey(hu)
    colours = np.repeat(grey[..., None].astype(np.float32), 3, axis=2)
    points = pictures.slice_points(place.point_ras, plane, _AROUND_MM, _PIXEL_MM)
    for share, colour, opaque in _COLOURS:
        inside = _read(place, place.region.values >= place.least_chance(share), points).reshape(grey.shape)
        colours[inside] = (1 - opaque) * colours[inside] + opaque * np.array(colour)
    middle = len(grey) // 2
    arms = np.concatenate([-_CROSS_PIXELS, _CROSS_PIXELS])
    colours[middle, middle + arms] = colours[middle + arms, middle] = _COLOURS[1][1]
    return pictures.data_uri(np.rint(colours).astype(np.uint8))


def _read(place: Place, mask: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return (n,) bool for points (n, 3): True if `mask`, over the region of the place, is set at the point's cell."""
    cell = np.rint((points - place.grid.origin) / place.grid.step).astype(int) - place.region.first
    inside = ((cell >= 0) & (cell < mask.shape[::-1])).all(axis=1)
    i, j, k = cell[inside].T
    inside[inside] = mask[k, j, i] > 0
    return inside
