"""The report of matches: one self-contained HTML page with slice pictures."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..embedding.levels import level_sentence
from ..errors import PointsError
from ..scan.points import PointList
from ..scan.volume import Volume
from . import pictures
from .page import fill_page, package_versions
from .pictures import CROP_MM, PLANES, Plane, Window

if TYPE_CHECKING:
    from ..matching.match import Matches

SCALE_BAR_MM = 50.0
_REVIEW_FIRST = ("absent", "uncertain", "matched")
_COLUMNS = ("status", "expected_error_mm", "probability", "score", "error_mm")


def write_report(
    path: str | Path, template: Volume, points: PointList, targets: Sequence[tuple[str, Volume, Matches]],
    title: str = "Anatomical point matches", truth: Sequence[np.ndarray | None] | None = None, model: str = "",
) -> Path:  # fmt: skip
    """Write one self-contained HTML page, without scripts, other files or network access. Returns the path.

    Args:
        path: file of the page. It is written completely or not at all.
        template: the scan in which the points are given.
        points: N labelled points.
        targets: (name, scan, matches of the N points) for each target.
        title: title of the page.
        truth: for each target its true points, (N, 3) RAS mm with NaN where unknown, or None for a target without
            truth. The page shows the errors of matches whose true point is known.
        model: name of the model, shown at the top of the page.

    Raises:
        PointsError: a target does not have one match, or one true point, for each point.
        AnatomicalEmbeddingError: pillow or jinja2 is not installed.
    """
    truth_ras = _checked_truth(points, targets, truth)
    rows = [_row(number, template, points, targets, truth_ras) for number in range(len(points))]
    scans = [_facts("Template", template.name, template)]
    for column, (name, volume, _) in enumerate(targets):
        errors = [row["answers"][column]["error_mm"] for row in rows]
        scans.append(_facts("Target", name, volume, [error for error in errors if error is not None]))
    known = {key: any(each[key] not in (None, "") for row in rows for each in row["answers"]) for key in _COLUMNS}
    return fill_page(
        path, "reports/matches.html.j2", title=title, model=model,
        created=datetime.now().astimezone().strftime("%Y-%m-%d %H:%M"),
        versions=package_versions(), scans=scans, rows=rows, known=known, crop_mm=CROP_MM,
        pixels=pictures.pixels_across(), half=pictures.pixels_across() * pictures.PIXEL_MM / 2,
        scale_bar_mm=SCALE_BAR_MM,
    )  # fmt: skip


def _checked_truth(
    points: PointList, targets: Sequence[tuple[str, Volume, Matches]], truth: Sequence[np.ndarray | None] | None
) -> list[np.ndarray]:
    """Return the true points of each target as (N, 3) RAS mm, NaN where unknown."""
    shape = (len(points), 3)
    given = [None] * len(targets) if truth is None else list(truth)
    if len(given) != len(targets):
        raise PointsError(f"report: {len(given)} lists of true points for {len(targets)} targets; give one for each.")
    every = [np.full(shape, np.nan) if known is None else np.asarray(known, dtype=np.float64) for known in given]
    for (name, _, matches), known in zip(targets, every, strict=True):
        for kind, array in (("matches", np.asarray(matches.points_ras)), ("true points", known)):
            if array.shape != shape:
                raise PointsError(f"{name}: {kind} of shape {array.shape} for {shape[0]} points; give one for each.")
    return every


def _row(
    number: int, template: Volume, points: PointList, targets: Sequence[tuple[str, Volume, Matches]],
    truth_ras: Sequence[np.ndarray],
) -> dict[str, Any]:  # fmt: skip
    """Return the data of one point for the page: its pictures in the template, and its answer in each target."""
    point = points.points_ras[number]
    window = pictures.choose_window(template, point)
    answers = [
        _answer(name, volume, matches[[number]], known[number], window)
        for (name, volume, matches), known in zip(targets, truth_ras, strict=True)
    ]
    worst = next((status for status in _REVIEW_FIRST if any(each["status"] == status for each in answers)), "")
    description = points.descriptions[number] if points.descriptions else ""
    return {
        "number": number + 1, "label": points.labels[number], "description": description, "point_ras": tuple(point),
        "window": window, "crops": _crops(template, point, window), "answers": answers, "worst": worst,
    }  # fmt: skip


def _answer(name: str, volume: Volume, match: Matches, true_ras: np.ndarray, window: Window) -> dict[str, Any]:
    """Return the data of one answer for the page. It has no pictures if the point has no position in the target.

    match: the match of one point. true_ras: (3,) RAS mm, NaN where unknown.
    """
    point = match.points_ras[0]
    is_found = bool(np.isfinite(point).all())
    is_judged = is_found and bool(np.isfinite(true_ras).all())
    numbers = {key: _number(getattr(match, key)) for key in ("expected_error_mm", "probability", "score")}
    return numbers | {
        "target": name,
        "point_ras": tuple(point) if is_found else None,
        "status": "" if match.status is None else str(match.status[0]),
        "error_mm": float(np.linalg.norm(point - true_ras)) if is_judged else None,
        "outside": is_found and not volume.contains(point[None])[0],
        "crops": _crops(volume, point, window, true_ras if is_judged else None) if is_found else [],
        "doubt": "" if match.levels is None or not match.levels[0] else level_sentence(str(match.levels[0])),
    }


def _number(values: np.ndarray | None) -> float | None:
    return None if values is None or not np.isfinite(values[0]) else float(values[0])


def _crops(
    volume: Volume, point: np.ndarray, window: Window, true_ras: np.ndarray | None = None
) -> list[dict[str, Any]]:
    """Return pictures in three planes, each with a mark: the true point as (mm right, mm down) from the centre.

    A mark is None if the true point is unknown or outside the picture.
    """
    crops = []
    for plane in PLANES:
        source = pictures.data_uri(window.to_grey(pictures.slice_hu(volume, point, plane)))
        mark = None if true_ras is None else _mark(true_ras - point, plane)
        crops.append({"plane": plane, "source": source, "mark": mark})
    return crops


def _mark(offset: np.ndarray, plane: Plane) -> tuple[float, float] | None:
    right, down = float(offset @ plane.right), float(offset @ plane.down)
    return (right, down) if max(abs(right), abs(down)) <= CROP_MM / 2 else None


def _facts(role: str, name: str, volume: Volume, errors: Sequence[float] = ()) -> dict[str, Any]:
    """Return facts about one scan, shown at the top of the page. errors: mm, of the answers in this scan."""
    low, high = volume.bounds_ras
    accuracy = ""
    if errors:
        accuracy = f"median {np.median(errors):.1f} mm, mean {np.mean(errors):.1f} mm, worst {max(errors):.1f} mm"
    return {
        "role": role, "name": name or volume.name or volume.path or role.lower(), "path": volume.path,
        "size": " × ".join(str(n) for n in volume.shape[::-1]),
        "spacing": " × ".join(f"{s:.3g}" for s in volume.spacing) + " mm",
        "extent": " × ".join(f"{d:.0f}" for d in high - low) + " mm", "notes": volume.notes, "accuracy": accuracy,
    }  # fmt: skip
