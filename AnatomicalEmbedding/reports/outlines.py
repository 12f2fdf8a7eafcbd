"""The report of outlines: each scan with its structures in three planes. Scans with the most doubt come first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..scan.geometry import transform_points
from ..scan.volume import Volume
from ..segmentation.files import colour
from ..segmentation.outlining import Outlines
from . import page, pictures
from .pictures import PLANES

_LEAST_MM, _AROUND = 120.0, 1.25
_PIXELS = 260


@dataclass(frozen=True)
class Card:
    """What the page shows of one scan. rows: one for each structure. sources: (plane, picture as data URI).

    doubt: the largest doubt of the outlines; -inf if no outline has a doubt.
    """

    name: str
    path: str
    rows: tuple[dict[str, object], ...]
    sources: tuple[tuple[str, str], ...]
    doubt: float


def make_card(volume: Volume, name: str, found: Outlines) -> Card:
    """Make the part of the page that shows one scan."""
    rows = tuple({"name": one.name, "colour": _css(n), "outline": one} for n, one in enumerate(found.outlines))
    doubts = [one.doubt for one in found.outlines if one.doubt is not None]
    sources: tuple[tuple[str, str], ...] = ()
    voxels = np.argwhere(found.labels > 0)[:, ::-1]
    if len(voxels):
        ras = transform_points(volume.ijk_to_ras, voxels[:: max(1, len(voxels) // 20_000)])
        low, high = ras.min(axis=0), ras.max(axis=0)
        middle = _middle(found, volume, (low + high) / 2)
        side_mm = max(_LEAST_MM, _AROUND * float((high - low).max()))
        sources = tuple((plane.name, _picture(volume, found.labels, middle, plane, side_mm)) for plane in PLANES)
    return Card(name, volume.path, rows, sources, max(doubts, default=-math.inf))


def write_page(path: Path, cards: Sequence[Card]) -> Path:
    """Write one page. The scan that has the outline with the most doubt comes first."""
    return page.fill_page(path, "reports/outlines.html.j2", cards=sorted(cards, key=lambda card: -card.doubt))


def _css(number: int) -> str:
    return "#" + "".join(f"{round(255 * part):02x}" for part in colour(number))


def _middle(found: Outlines, volume: Volume, default: np.ndarray) -> np.ndarray:
    """Return (3,) RAS mm near the middle of the outline with the most doubt. The pictures show slices through it."""
    judged = [(one.doubt, n) for n, one in enumerate(found.outlines) if one.doubt is not None]
    if not judged:
        return default
    voxels = np.argwhere(found.labels == max(judged)[1] + 1)[:, ::-1]
    centre = voxels[np.abs(voxels - voxels.mean(axis=0)).sum(axis=1).argmin()]
    return transform_points(volume.ijk_to_ras, centre[None])[0]


def _picture(volume: Volume, labels: np.ndarray, middle: np.ndarray, plane: pictures.Plane, side_mm: float) -> str:
    pixel = side_mm / _PIXELS
    hu = pictures.slice_hu(volume, middle, plane, side_mm, pixel)
    points = pictures.slice_points(middle, plane, side_mm, pixel)
    ijk = np.rint(transform_points(volume.ras_to_ijk, points)).astype(int)
    i, j, k = ijk.clip(0, np.array(labels.shape[::-1]) - 1).T
    shown = np.where(volume.contains(points), labels[k, j, i], 0).reshape(hu.shape)
    grey = np.repeat(pictures.SOFT_TISSUE.to_grey(hu)[..., None], 3, axis=2)
    edge = np.any([shown != np.roll(shown, way, axis) for axis in (0, 1) for way in (1, -1)], axis=0)
    for value in np.unique(shown[shown > 0]):
        grey[edge & (shown == value)] = [round(255 * part) for part in colour(int(value) - 1)]
    return pictures.data_uri(grey)
