"""The HTML page of a follow-up: a picture of each lesion in each study, with sizes, sums and response."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np

from ..reports import pictures
from ..reports.page import check_packages, fill_page
from ..reports.pictures import AXIAL, SOFT_TISSUE, Window
from ..scan.volume import Volume
from .lesions import MERGED, NOT_VISIBLE, OUTSIDE, Lesion, Point
from .record import FollowUp
from .response import responses
from .table import Row, rows

_LEAST_SIDE_MM = 90.0  # least side of a picture
_SIDE = 2.2  # side of a picture, as a multiple of the longest axis
_PIXELS = 300
_SCALE_BARS_MM = (50.0, 20.0, 10.0)
_WHY_NO_PICTURE = {
    NOT_VISIBLE: "not visible: the scan shows the place, but no lesion there",
    OUTSIDE: "outside: the scan does not show the place",
}


@dataclass(frozen=True)
class _Cell:
    """A lesion in a study. source: the picture as a data URI, or "". why: a sentence to show if there is no picture.

    drawn: for each axis "long" or "short" and its two ends, in mm to the right of and below the middle of the picture.
    cross: the place of the lesion in the same units. off_mm: distance of the place from the slice that is shown.
    """

    row: Row
    source: str = ""
    why: str = ""
    drawn: tuple[tuple[str, tuple[tuple[float, float], ...]], ...] = ()
    cross: tuple[float, float] = (0.0, 0.0)
    off_mm: float = 0.0


@dataclass(frozen=True)
class _Strip:
    """One lesion: its cells in the order of the studies, all with the same scale and window. half_mm: half a side."""

    lesion: Lesion
    cells: list[_Cell]
    half_mm: float
    window: Window

    @property
    def bar_mm(self) -> float:
        return next(bar for bar in _SCALE_BARS_MM if bar <= self.half_mm)

    @property
    def unconfirmed(self) -> bool:
        return any(cell.row.flags for cell in self.cells)


def write_page(
    path: str | Path, record: FollowUp, volumes: Mapping[str, Volume] | None = None, title: str = "Lesion follow-up"
) -> Path:
    """Write one HTML page. It contains all pictures; it needs no script, no other file and no network.

    Args:
        volumes: the scans by study key, in the frame of the record. A study without a scan gets no pictures.

    Raises:
        AnatomicalEmbeddingError: jinja2 or pillow is not installed, or the page cannot be written. A page is never
            written in part.
    """
    check_packages()
    cells = rows(record)
    count = len(record.studies)
    strips = [
        _strip(record, lesion, cells[n * count : (n + 1) * count], volumes or {})
        for n, lesion in enumerate(record.lesions)
    ]
    return fill_page(
        path,
        "followup/report_page.html.j2",
        title=title,
        created=datetime.now().astimezone().strftime("%Y-%m-%d %H:%M"),
        studies=list(zip(record.studies, responses(record), strict=True)),
        strips=strips,
        unreviewed=len(record.unreviewed()),
    )


def _strip(record: FollowUp, lesion: Lesion, cells: list[Row], volumes: Mapping[str, Volume]) -> _Strip:
    axes = [axis for row in cells if row.finding for axis in row.finding.size.axes.values()]
    side_mm = max([_LEAST_SIDE_MM, *(_SIDE * math.dist(*axis) for axis in axes)])
    half_mm = pictures.pixels_across(side_mm, side_mm / _PIXELS) * side_mm / _PIXELS / 2  # to the pixels' outer edges
    window = _window(cells, volumes)
    shown = [_cell(row, volumes.get(row.study.key), side_mm, window, record) for row in cells]
    return _Strip(lesion, shown, half_mm, window)


def _window(cells: list[Row], volumes: Mapping[str, Volume]) -> Window:
    """Choose the grey window for the first place where a person saw the lesion, else for the first proposed place."""
    placed = [row for row in cells if row.finding and row.finding.point_ras and row.study.key in volumes]
    best = next((row for row in placed if row.finding.visible), placed[0] if placed else None)
    if best is None:
        return SOFT_TISSUE
    return pictures.choose_window(volumes[best.study.key], np.array(best.finding.point_ras))


def _cell(row: Row, volume: Volume | None, side_mm: float, window: Window, record: FollowUp) -> _Cell:
    found = row.finding
    if found is None:
        return _Cell(row, why="not assessed: nothing is marked or proposed here")
    if found.state == MERGED:
        return _Cell(row, why=f"merged with {record.lesion(found.into).label}, which is measured for both")
    if found.point_ras is None:
        return _Cell(row, why=_WHY_NO_PICTURE[found.state])
    if volume is None:
        return _Cell(row, why="no picture: the scan was not loaded")
    middle = np.array(found.point_ras)
    if found.size.long_axis is not None:  # the slice of the measurement
        middle[2] = np.mean(found.size.long_axis, axis=0)[2]
    if not volume.contains(middle[None])[0]:
        return _Cell(row, why="no picture: the place is outside the scan that was loaded")
    hu = pictures.slice_hu(volume, middle, AXIAL, side_mm, side_mm / _PIXELS)
    source = pictures.data_uri(window.to_grey(hu))
    drawn = tuple((kind, tuple(_place(end, middle) for end in axis)) for kind, axis in found.size.axes.items())
    return _Cell(row, source, "", drawn, _place(found.point_ras, middle), abs(found.point_ras[2] - middle[2]))


def _place(point: Point, middle: np.ndarray) -> tuple[float, float]:
    offset = np.array(point) - middle
    return float(offset @ AXIAL.right), float(offset @ AXIAL.down)
