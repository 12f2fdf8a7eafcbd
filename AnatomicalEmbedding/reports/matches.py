"""The report of matches: one self-contained HTML page with slice pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

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


@dataclass(frozen=True)
class _Crop:
    """One picture. `mark` is where the true point falls, in mm right of and below the centre, if in the picture."""

    plane: Plane
    source: str
    mark: tuple[float, float] | None


@dataclass(frozen=True)
class _Answer:
    """One point in one target: what was found, and its pictures (none when there is no position)."""

    target: str
    point_ras: tuple[float, float, float] | None
    status: str
    expected_error_mm: float | None
    probability: float | None
    score: float | None
    error_mm: float | None
    outside: bool
    crops: list[_Crop]
    doubt: str = ""


@dataclass(frozen=True)
class _Row:
    """One point: the template's pictures and the answer in each target."""

    number: int
    label: str
    description: str
    point_ras: tuple[float, float, float]
    window: Window
    crops: list[_Crop]
    answers: list[_Answer]

    @property
    def worst(self) -> str:
        """The status that most needs a review, or "" when none is known."""
        statuses = {answer.status for answer in self.answers}
        return next((status for status in ("absent", "uncertain", "matched") if status in statuses), "")


@dataclass(frozen=True)
class _Scan:
    """The facts of one scan for the head of the page."""

    role: str
    name: str
    path: str
    size: str
    spacing: str
    extent: str
    notes: tuple[str, ...]
    accuracy: str = ""


def write_report(
    path: str | Path,
    template: Volume,
    points: PointList,
    targets: Sequence[tuple[str, Volume, Matches]],
    title: str = "Anatomical point matches",
    truth: Sequence[np.ndarray | None] | None = None,
    model: str = "",
) -> Path:
    """Write one HTML page that holds everything it shows: no script, no other file, no network.

    template: the scan of the points. points: N labelled points, RAS mm. targets: (name, scan, matches of
    the N points) for each target. truth: for each target the true points, (N,3) RAS mm with NaN where unknown, or
    None; errors are then shown. model: name of the model, for the head of the page. Returns the path.

    Raises PointsError when a target does not have one match (and one truth) per point, AnatomicalEmbeddingError when
    pillow or jinja2 is not installed. The page is complete or not written.
    """
    truth = [None] * len(targets) if truth is None else list(truth)
    truth_ras = _check_counts(points, targets, truth)
    rows = [_make_row(index, template, points, targets, truth_ras) for index in range(len(points.labels))]
    scans = [_describe("Template", template.name, template)]
    for column, (name, volume, _) in enumerate(targets):
        errors = [row.answers[column].error_mm for row in rows if row.answers[column].error_mm is not None]
        scans.append(_describe("Target", name, volume, _summarise(errors)))
    known = {
        field: any(getattr(answer, field) not in (None, "") for row in rows for answer in row.answers)
        for field in ("status", "expected_error_mm", "probability", "score", "error_mm")
    }
    return fill_page(
        path, "reports/matches.html.j2", title=title, model=model,
        created=datetime.now().astimezone().strftime("%Y-%m-%d %H:%M"),
        versions=package_versions(), scans=scans, rows=rows, known=known, crop_mm=CROP_MM,
        pixels=pictures.pixels_across(), half=pictures.pixels_across() * pictures.PIXEL_MM / 2,
        scale_bar_mm=SCALE_BAR_MM,
    )  # fmt: skip


def _check_counts(
    points: PointList, targets: Sequence[tuple[str, Volume, Matches]], truth: Sequence[np.ndarray | None]
) -> list[np.ndarray]:
    """Return the truth of each target as (N,3), NaN where unknown."""
    count = len(points.labels)
    if len(truth) != len(targets):
        raise PointsError(f"report: {len(truth)} lists of true points for {len(targets)} targets; give one for each.")
    checked = []
    for (name, _, matches), known in zip(targets, truth, strict=True):
        true_ras = np.full((count, 3), np.nan) if known is None else np.asarray(known, dtype=np.float64)
        for what, array in (("matches", np.asarray(matches.points_ras)), ("true points", true_ras)):
            if array.shape != (count, 3):
                raise PointsError(f"{name}: {what} of shape {array.shape} for {count} points; give one for each point.")
        checked.append(true_ras)
    return checked


def _make_row(
    index: int,
    template: Volume,
    points: PointList,
    targets: Sequence[tuple[str, Volume, Matches]],
    truth_ras: Sequence[np.ndarray],
) -> _Row:
    point = np.asarray(points.points_ras[index], dtype=np.float64)
    window = pictures.choose_window(template, point)
    return _Row(
        number=index + 1,
        label=points.labels[index],
        description=points.descriptions[index] if points.descriptions else "",
        point_ras=tuple(point),
        window=window,
        crops=_crops(template, point, window),
        answers=[
            _make_answer(index, name, volume, matches, true_ras[index], window)
            for (name, volume, matches), true_ras in zip(targets, truth_ras, strict=True)
        ],
    )


def _make_answer(
    index: int, name: str, volume: Volume, matches: Matches, true_ras: np.ndarray, window: Window
) -> _Answer:
    point = np.asarray(matches.points_ras[index], dtype=np.float64)
    found = bool(np.isfinite(point).all())
    levels = "" if matches.levels is None else str(matches.levels[index])
    return _Answer(
        target=name,
        point_ras=tuple(point) if found else None,
        status=str(matches.status[index]) if matches.status is not None else "",
        expected_error_mm=_number(matches.expected_error_mm, index),
        probability=_number(matches.probability, index),
        score=_number(matches.score, index),
        error_mm=float(np.linalg.norm(point - true_ras)) if found and np.isfinite(true_ras).all() else None,
        outside=found and not volume.contains(point[None])[0],
        crops=_crops(volume, point, window, true_ras) if found else [],
        doubt=level_sentence(levels) if levels else "",
    )


def _number(values: np.ndarray | None, index: int) -> float | None:
    return None if values is None or not np.isfinite(values[index]) else float(values[index])


def _crops(volume: Volume, point: np.ndarray, window: Window, true_ras: np.ndarray | None = None) -> list[_Crop]:
    crops = []
    for plane in PLANES:
        source = pictures.data_uri(window.to_grey(pictures.slice_hu(volume, point, plane)))
        crops.append(_Crop(plane, source, _mark(point, plane, true_ras)))
    return crops


def _mark(point: np.ndarray, plane: Plane, true_ras: np.ndarray | None) -> tuple[float, float] | None:
    if true_ras is None or not np.isfinite(true_ras).all():
        return None
    offset = true_ras - point
    right, down = float(offset @ plane.right), float(offset @ plane.down)
    return (right, down) if max(abs(right), abs(down)) <= CROP_MM / 2 else None


def _describe(role: str, name: str, volume: Volume, accuracy: str = "") -> _Scan:
    low, high = volume.bounds_ras
    return _Scan(
        role=role,
        name=name or volume.name or volume.path or role.lower(),
        path=volume.path,
        size=" × ".join(str(n) for n in volume.shape[::-1]),
        spacing=" × ".join(f"{s:.3g}" for s in volume.spacing) + " mm",
        extent=" × ".join(f"{d:.0f}" for d in high - low) + " mm",
        notes=tuple(volume.notes),
        accuracy=accuracy,
    )


def _summarise(errors: list[float]) -> str:
    if not errors:
        return ""
    return f"median {np.median(errors):.1f} mm, mean {np.mean(errors):.1f} mm, worst {max(errors):.1f} mm"
