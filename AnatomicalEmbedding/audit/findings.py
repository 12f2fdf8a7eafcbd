"""Findings: things in a labelled scan that are probably wrong. Draws them, and writes the results of an audit."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import SimpleITK as sitk

from ..files import write_text
from ..reports.page import fill_page
from ..reports.pictures import SOFT_TISSUE, data_uri
from ..scan.geometry import bounds_of, to_image

if TYPE_CHECKING:
    from ..scan.volume import Volume
    from .dataset import Labels
    from .measuring import MeasuredLabel

Problem = Literal[
    "side", "level", "exchanged", "stray", "missing", "cut", "outside", "overlap", "volume", "mirrored", "geometry",
    "duplicate",
]  # fmt: skip
COLUMNS = ("scan", "label", "problem", "score", "detail")
_LEAST_SCORE = 0.3  # findings with a lower score are not listed
_MOST_CARDS = 400  # more findings are listed in audit.csv only
_PIXELS = 260  # along the longest side of a scan
_COLOURS = np.array([(255, 216, 77), (86, 196, 214), (238, 123, 112)], dtype=np.float64)  # of the first labels
_OPACITY = 0.55
_PROJECTED_HU = (-300.0, 700.0)  # CT numbers outside these limits are clipped before the projection
FRONT, _AXIAL = [0, 2], [0, 1]  # directions of a picture along R, A or S: to the right, and down


@dataclass(frozen=True, eq=False)
class Finding:
    """One thing that is probably wrong.

    Args:
        problem: the kind of error.
        score: 0 to 1; higher if an error is more probable.
        detail: one sentence for a reader.
        labels: the labels that are probably wrong; () if the finding concerns the whole scan.
        point_ras: (3,) RAS mm, the place to look at, or None.
    """

    problem: Problem
    score: float
    detail: str
    labels: Sequence[MeasuredLabel] = ()
    point_ras: np.ndarray | None = None

    @property
    def label(self) -> str:
        """The names of the labels as the data set writes them; "" if the finding concerns the whole scan."""
        return ", ".join(each.text for each in self.labels)


def judge(
    problem: Problem, evidence: float, limit: tuple[float, float], detail: str, *labels: MeasuredLabel,
    point_ras: np.ndarray | None = None,
) -> list[Finding]:  # fmt: skip
    """Return a list with one finding, or an empty list if the score is below 0.3.

    evidence: the score is 0.5 if `evidence` equals limit[0], 0.73 if it is larger by limit[1], at most 0.99. point_ras:
    the place to look at; None for the centre of the first label.
    """
    score = round(min(1 / (1 + math.exp(-min(max((evidence - limit[0]) / limit[1], -30), 30))), 0.99), 3)
    point_ras = labels[0].centre_ras if labels and point_ras is None else point_ras
    return [Finding(problem, score, detail, labels, point_ras)] if score >= _LEAST_SCORE else []


def card(label: str, problem: Problem, score: float, detail: str, pictures: list[dict]) -> dict[str, Any]:
    """Return a finding as JSON. pictures: made by `Canvas.draw`. Other arguments: see `Finding`."""
    return {"label": label, "problem": problem, "score": round(score, 3), "detail": detail, "pictures": pictures}


class Canvas:
    """A labelled scan on the cubic grid of the pictures: to the left, to the back and downwards. Without a scan, each
    label gets a grey level."""

    def __init__(self, labels: Labels, volume: Volume | None) -> None:
        low, self._corner = bounds_of(labels.ijk_to_ras, labels.voxels.shape)
        self._mm = float((self._corner - low).max()) / _PIXELS
        to_ras = np.diag([-self._mm, -self._mm, -self._mm, 1.0])
        to_ras[:3, 3] = self._corner - self._mm / 2
        size = np.ceil((self._corner - low) / self._mm).astype(int)
        grid = to_image(np.zeros(size[::-1], np.uint8), to_ras)
        still, given = sitk.Transform(), to_image(labels.voxels, labels.ijk_to_ras)
        self._labels = sitk.GetArrayFromImage(sitk.Resample(given, grid, still, sitk.sitkNearestNeighbor))
        self._hu = np.where(self._labels > 0, self._labels * 37 % 90 * 3.0 - 100, -1000)
        if volume is not None:
            self._hu = sitk.GetArrayFromImage(sitk.Resample(volume.to_sitk(), grid, still, sitk.sitkLinear, -1000.0))

    def mark(self, point_ras: np.ndarray | None, axes: list[int] = FRONT) -> list[float] | None:
        """Return a point, (3,) RAS mm or None, as mm from the left and upper side of a picture; None for None."""
        return None if point_ras is None else (self._corner - point_ras)[axes].round(1).tolist()

    def draw(self, finding: Finding, expected_ras: np.ndarray | None = None) -> list[dict[str, Any]]:
        """Draw the pictures of a finding. expected_ras: (3,) RAS mm, where the structure usually lies, or None."""
        low, high = _PROJECTED_HU
        grey = (np.clip(self._hu, low, high) - low).mean(axis=1)
        masks = [self._labels == each.value for each in finding.labels[: len(_COLOURS)]]
        grey *= 235 / max(float(np.percentile(grey, 99.7)), 1)
        layers = [("coronal projection", FRONT, grey, [mask.any(axis=1) for mask in masks])]
        if finding.point_ras is not None:
            k = int(np.clip((self._corner - finding.point_ras)[2] / self._mm, 0, len(self._hu) - 1))
            layers.append(("axial slice", _AXIAL, SOFT_TISSUE.to_grey(self._hu[k]), [mask[k] for mask in masks]))
        shown = []
        for title, axes, grey, parts in layers:
            pixels = np.repeat(np.asarray(grey, np.float64)[..., None], 3, axis=2)
            for mask, colour in zip(parts, _COLOURS, strict=False):
                pixels[mask] = (1 - _OPACITY) * pixels[mask] + _OPACITY * colour
            height, width = (np.array(grey.shape) * self._mm).round(1).tolist()
            marks = {"point": self.mark(finding.point_ras, axes), "expected": self.mark(expected_ras, axes)}
            source = data_uri(np.rint(pixels).clip(0, 255).astype(np.uint8))
            shown.append({"title": title, "source": source, "width": width, "height": height} | marks)
        return shown


def write_results(
    folder: Path, records: Sequence[dict[str, Any]], limit: float, with_page: bool
) -> tuple[dict[str, Any], list[Path]]:
    """Write audit.csv, audit.json and the page ("look at these first") into a folder.

    limit: score from which a finding counts as an error.

    Returns:
        The content of audit.json: "findings", the most probable error first, with the name of their "scan"; "counts" of
        the errors; "skipped" scans with the "reason"; and the paths of the files.
    """
    found = [{"scan": record["name"]} | each for record in records for each in record["findings"]]
    ranked = sorted(found, key=lambda each: (-each["score"], each["scan"]))
    wrong = [each for each in ranked if each["score"] >= limit]
    values = {
        "scans": len(records), "limit": limit,
        "counts": {problem: sum(each["problem"] == problem for each in wrong) for problem in get_args(Problem)},
        "findings": [{name: of for name, of in each.items() if name != "pictures"} for each in ranked],
        "skipped": [{"scan": record["name"], "reason": record["error"]} for record in records if record["error"]],
    }  # fmt: skip
    text = io.StringIO()
    csv.writer(text).writerows([COLUMNS, *([each[column] for column in COLUMNS] for each in ranked)])
    written = [folder / "audit.csv", folder / "audit.json"]
    for path, content in zip(written, (text.getvalue(), json.dumps(values, indent=1)), strict=True):
        write_text(path, content)
    if with_page:
        clean = len(records) - len({each["scan"] for each in wrong})
        shown = values | {"cards": ranked[:_MOST_CARDS], "total": len(ranked), "clean": clean}
        written.append(fill_page(folder / "audit.html", "reports/audit.html.j2", **shown))
    return values, written
