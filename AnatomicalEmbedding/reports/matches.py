"""The report of matches: one self-contained HTML page with slice pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..matching.status import MATCHED_MM, decimals
from ..scan.points import PointList
from ..scan.volume import Film, Volume
from ..spine.levels import level_sentence
from . import pictures
from .page import fill_page
from .pictures import CORONAL, CROP_MM, PLANES, Window

if TYPE_CHECKING:
    from ..matching.match import Matches

_SCALE_BAR_MM = 50.0  # a size on the page
_REVIEW_FIRST = ("absent", "uncertain", "matched")
_NUMBERS = ("expected_error_mm", "probability", "score")


def write_report(
    path: str | Path,
    template: Volume,
    points: PointList,
    targets: Sequence[tuple[str, Volume, Matches]],
    title: str,
    model: str = "",
    unit_mm: float = 1.0,
) -> Path:
    """Write one self-contained HTML page, without scripts, other files or network access. Returns the path.

    Args:
        path: file of the page. The file is written completely or not at all.
        template: the scan in which the points are given.
        points: N labelled points.
        targets: (name, scan, matches of the N points) for each target.
        title: title of the page.
        model: name of the model, shown at the top of the page.
        unit_mm: unit of the maps, which scales the pictures; 1 for CTs.

    Raises:
        AnatomicalEmbeddingError: pillow or jinja2 is not installed.
    """
    rows = [_row(number, template, points, targets, unit_mm) for number in range(len(points))]
    scans = [_facts("Template", template.name, template)]
    scans += [_facts("Target", name, volume) for name, volume, _ in targets]
    answers = [answer for row in rows for answer in row["answers"]]
    stated = {}  # whether a value is stated of at least one answer
    for key in ("status", *_NUMBERS):
        stated[key] = any(answer[key] not in (None, "") for answer in answers)
    return fill_page(
        path,
        "reports/matches.html.j2",
        title=title,
        model=model,
        scans=scans,
        rows=rows,
        stated=stated,
        crop_mm=f"{CROP_MM * unit_mm:.4g}",
        pixels=pictures.pixels_across(),
        half=pictures.pixels_across() * pictures.PIXEL_MM / 2,
        scale_bar_mm=float(f"{_SCALE_BAR_MM * unit_mm:.0e}"),
        unit_mm=unit_mm,
        digits=decimals(unit_mm),
        within_mm=MATCHED_MM * unit_mm,
    )


def _row(
    number: int,
    template: Volume,
    points: PointList,
    targets: Sequence[tuple[str, Volume, Matches]],
    unit_mm: float,
) -> dict[str, Any]:
    """Return what the page shows of one point: in the template, and in each target. number: index of the point."""
    point = points.points_ras[number]
    is_ct = unit_mm == 1.0
    window = pictures.choose_window(template, point, is_ct)
    answers = []
    for name, volume, matches in targets:
        target_window = window  # CTs are shown in one window
        if isinstance(volume, Film) or not is_ct:
            target_window = pictures.choose_window(volume, point, is_ct)
        answers.append(_answer(name, volume, matches[[number]], target_window, unit_mm))
    statuses = [answer["status"] for answer in answers]
    worst = next((status for status in _REVIEW_FIRST if status in statuses), "")
    description = points.descriptions[number] if points.descriptions else ""
    return {
        "number": number + 1,
        "label": points.labels[number],
        "description": description,
        "point_ras": tuple(point),
        "window": window,
        "crops": _crops(template, point, window, unit_mm),
        "answers": answers,
        "worst": worst,
    }


def _answer(
    name: str, volume: Volume, match: Matches, window: Window, unit_mm: float
) -> dict[str, Any]:
    """Return the values of one answer for the page. An answer without a position in the target gets no pictures.

    name, volume: name and scan of the target. match: the match of one point.
    """
    point = match.points_ras[0]
    is_found = bool(np.isfinite(point).all())
    numbers = {key: _number(getattr(match, key)) for key in _NUMBERS}
    return numbers | {
        "target": name,
        "point_ras": tuple(point) if is_found else None,
        "status": "" if match.status is None else str(match.status[0]),
        "outside": is_found and not volume.contains(point[None])[0],
        "crops": _crops(volume, point, window, unit_mm) if is_found else [],
        "doubt": "" if match.levels is None else level_sentence(str(match.levels[0])),
    }


def _number(values: np.ndarray | None) -> float | None:
    """Return the first of `values`; None if there are none, or if it is NaN."""
    return None if values is None or not np.isfinite(values[0]) else float(values[0])


def _crops(
    volume: Volume, point: np.ndarray, window: Window, unit_mm: float
) -> list[dict[str, Any]]:
    """Return the pictures around a point, (3,) RAS mm: one of a film, three of a scan."""
    crop_mm = pictures.CROP_MM * unit_mm
    pixel_mm = pictures.PIXEL_MM * unit_mm
    crops = []
    for plane in (CORONAL,) if isinstance(volume, Film) else PLANES:
        hu = pictures.slice_hu(volume, point, plane, crop_mm, pixel_mm)
        crops.append({"plane": plane, "source": pictures.data_uri(window.to_grey(hu))})
    return crops


def _facts(role: str, name: str, volume: Volume) -> dict[str, Any]:
    """Return what the page states about a scan. role: "Template" or "Target"."""
    low, high = volume.bounds_ras
    return {
        "role": role,
        "name": name or volume.name or volume.path or role.lower(),
        "path": volume.path,
        "size": " × ".join(str(n) for n in volume.shape[::-1]),
        "spacing": " × ".join(f"{s:.3g}" for s in volume.spacing) + " mm",
        "extent": " × ".join(f"{d:.0f}" for d in high - low) + " mm",
        "notes": volume.notes,
    }
