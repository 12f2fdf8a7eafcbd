"""The page of landmarks and measurements in many scans: a row for each scan."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..matching.match import Matches
from ..matching.status import ABSENT
from ..scan.points import Measurement
from ..scan.volume import Volume
from . import pictures
from .page import fill_page
from .pictures import CORONAL

_PICTURE_MM, _PIXEL_MM = 80.0, 1.0


def scan_row(
    name: str,
    labels: Sequence[str],
    matches: Matches,
    measured: Sequence[Measurement],
    volume: Volume | None,
) -> dict[str, Any]:
    """Return what the page shows of one scan, as input of `write_landmarks_report`.

    Args:
        name: name of the scan.
        labels: names of the landmarks.
        matches: the landmarks in the scan.
        measured: the measurements in the scan.
        volume: the scan, for a coronal picture of each landmark; None for no pictures.
    """
    cells = []
    for label, row, point in zip(labels, matches.table(), matches.points_ras, strict=True):
        cell = row | {"label": label, "picture": ""}
        if volume is not None and row["status"] != ABSENT:
            hu = pictures.slice_hu(volume, point, CORONAL, _PICTURE_MM, _PIXEL_MM)
            cell["picture"] = pictures.data_uri(pictures.choose_window(volume, point).to_grey(hu))
        cells.append(cell)
    return {"name": name, "landmarks": cells, "measurements": measured}


def write_landmarks_report(
    path: Path, title: str, model: str, rows: Sequence[dict[str, Any]]
) -> Path:
    """Write the page. Returns its path.

    Args:
        path: file of the page.
        title: title of the page.
        model: name of the weights.
        rows: the `scan_row` of each scan; at least one.
    """
    return fill_page(
        path,
        "reports/landmarks.html.j2",
        title=title,
        model=model,
        rows=rows,
        picture_mm=_PICTURE_MM,
        pixels=pictures.pixels_across(_PICTURE_MM, _PIXEL_MM),
    )
