"""Write the HTML page of a follow-up: a picture of each lesion in each study, the sizes, the sums and the response."""

import math
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..reports import pictures
from ..reports.page import check_packages, fill_page
from ..reports.pictures import AXIAL, SOFT_TISSUE, Window
from ..scan.volume import Volume
from .lesions import MERGED, NOT_VISIBLE, OUTSIDE, Point
from .record import FollowUp
from .response import responses
from .table import Row, rows

_LEAST_SIDE_MM = 90.0  # least side of a picture
_SIDE_OF_AXIS = 2.2  # a side of a picture has this many times the length of the longest axis
_PIXELS = 300  # along a side; a size on the page
_SCALE_BARS_MM = (50.0, 20.0, 10.0)  # the first that is at most half a picture long
_WHY_NO_PICTURE = {
    NOT_VISIBLE: "not visible: the scan shows the place, but no lesion is there",
    OUTSIDE: "outside: the scan does not show the place",
}


def write_page(
    path: str | Path, record: FollowUp, volumes: Mapping[str, Volume] | None = None
) -> Path:
    """Write one HTML page that contains all pictures. The page needs no script, no other file and no network.

    Args:
        volumes: study key -> scan, in the RAS mm of the record. A study without a scan has no pictures.

    Raises:
        AnatomicalEmbeddingError: jinja2 or pillow is not installed, or the page cannot be written. In both cases no
            file is written.
    """
    check_packages()
    rows_by_lesion: dict[str, list[Row]] = defaultdict(list)
    for row in rows(record):
        rows_by_lesion[row.lesion.id].append(row)
    return fill_page(
        path,
        "followup/report_page.html.j2",
        studies=list(zip(record.studies, responses(record), strict=True)),
        strips=[_strip(record, cells, volumes or {}) for cells in rows_by_lesion.values()],
        unreviewed=len(record.unreviewed()),
    )


def _strip(record: FollowUp, cells: list[Row], volumes: Mapping[str, Volume]) -> dict[str, Any]:
    """Return the values of one lesion for the report page's template. All pictures have one scale and grey window.

    cells: the lesion's rows, one for each study. In the result, "half_mm" is half the side of a picture, "bar_mm" is
    the length of the scale bar, and "cells" has one dict for each study, with its row and its picture.
    """
    axes = [axis for row in cells if row.finding for axis in row.finding.size.axes.values()]
    side_mm = max([_LEAST_SIDE_MM, *(_SIDE_OF_AXIS * math.dist(*axis) for axis in axes)])
    pixel_mm = side_mm / _PIXELS
    half_mm = pictures.pixels_across(side_mm, pixel_mm) * pixel_mm / 2  # to the outer edges
    window = _window(cells, volumes)
    pictured = []
    for row in cells:
        picture = _picture(row, volumes.get(row.study.key), side_mm, window, record)
        pictured.append({"row": row, "source": "", **picture})
    return {
        "lesion": cells[0].lesion,
        "cells": pictured,
        "half_mm": half_mm,
        "bar_mm": next(bar for bar in _SCALE_BARS_MM if bar <= half_mm),
        "window": window,
        "unconfirmed": any(row.flags for row in cells),
    }


def _window(cells: list[Row], volumes: Mapping[str, Volume]) -> Window:
    """Choose the grey window for a lesion's tissue: in the first study in which a person saw the lesion, or else in the
    first study in which the lesion has a place. cells: the lesion's rows, one for each study."""
    placed_rows = [
        row for row in cells if row.finding and row.finding.point_ras and row.study.key in volumes
    ]
    if not placed_rows:
        return SOFT_TISSUE
    best = next((row for row in placed_rows if row.finding.visible), placed_rows[0])
    return pictures.choose_window(volumes[best.study.key], np.array(best.finding.point_ras))


def _picture(
    row: Row, volume: Volume | None, side_mm: float, window: Window, record: FollowUp
) -> dict[str, Any]:
    """Return the values of one picture. If there is no picture, the dict has only the key "why", with a sentence.

    "source": the picture as a data URI. "drawn": ("long" or "short", two ends) of each axis. "cross": the place of the
    lesion. Ends and place are (mm to the right, mm down) from the middle of the picture. "off_mm": distance of the
    lesion's place from the slice in the picture, mm.
    """
    finding = row.finding
    if finding is None:
        return {"why": "not assessed: nothing is marked or proposed here"}
    if finding.state == MERGED:
        target_label = record.lesion(finding.into).label
        return {"why": f"merged into {target_label}; only {target_label} is measured"}
    if finding.point_ras is None:
        return {"why": _WHY_NO_PICTURE[finding.state]}
    if volume is None:
        return {"why": "no picture: the scan is not loaded"}
    middle = np.array(finding.point_ras)
    if finding.size.long_axis is not None:  # show the slice in which the long axis was drawn
        middle[2] = np.mean(finding.size.long_axis, axis=0)[2]
    if not volume.contains(middle[None])[0]:
        return {"why": "no picture: the place is outside the loaded scan"}

    def on_picture(point: Point) -> tuple[float, float]:
        offset = np.array(point) - middle
        return float(offset @ AXIAL.right), float(offset @ AXIAL.down)

    hu = pictures.slice_hu(volume, middle, AXIAL, side_mm, side_mm / _PIXELS)
    return {
        "source": pictures.data_uri(window.to_grey(hu)),
        "drawn": [
            (kind, [on_picture(end) for end in axis]) for kind, axis in finding.size.axes.items()
        ],
        "cross": on_picture(finding.point_ras),
        "off_mm": abs(finding.point_ras[2] - middle[2]),
    }
