"""Findings: things in a labelled scan that are probably wrong, and their pictures."""

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import SimpleITK as sitk

from ..reports.pictures import SOFT_TISSUE, data_uri
from ..scan.geometry import AIR_HU, image_affine, to_image, transform_points
from ..scan.label_map import LabelMap
from ..scan.volume import Volume
from .measuring import MeasuredLabel

Problem = Literal[
    "side",
    "level",
    "exchanged",
    "stray",
    "missing",
    "cut",
    "outside",
    "overlap",
    "volume",
    "mirrored",
    "geometry",
    "duplicate",
]
# findings with a lower score are not listed; a higher score is lowered
_LEAST_SCORE, _LARGEST_SCORE = 0.3, 0.99
_MOST_PIXELS = 300  # larger pictures are reduced
# of the first labels
_COLOURS = np.array([(255, 216, 77), (86, 196, 214), (238, 123, 112)], np.float64)
_OPACITY = 0.55  # of the colours over the scan; by eye
_PROJECTED_HU = (-300.0, 700.0)  # CT numbers outside these limits are clipped before the projection
FRONT, _AXIAL = [0, 2], [0, 1]  # directions of a picture along R, A or S: to the right, and down


class AuditFinding(NamedTuple):
    """One thing that is probably wrong.

    Args:
        problem: the kind of error.
        score: 0 to 1; higher if an error is more probable. Results show at most 0.99.
        detail: one sentence for a reader.
        label: names of the labels that are probably wrong; "" if the finding concerns the whole scan.
        labels: these labels, if they are drawn.
        point_ras: (3,) RAS mm, the place to look at, or None.
    """

    problem: Problem
    score: float
    detail: str
    label: str = ""
    labels: Sequence[MeasuredLabel] = ()
    point_ras: np.ndarray | None = None

    def card(self, pictures: list[dict]) -> dict[str, Any]:
        """Return the finding as JSON. pictures: made by `FindingCanvas.draw`."""
        score = round(min(self.score, _LARGEST_SCORE), 3)
        return {
            "label": self.label,
            "problem": self.problem,
            "score": score,
            "detail": self.detail,
            "pictures": pictures,
        }


def judge(
    problem: Problem,
    evidence: float,
    limit: tuple[float, float],
    detail: str,
    *labels: MeasuredLabel,
    point_ras: np.ndarray | None = None,
) -> list[AuditFinding]:
    """Return a list with one finding, or an empty list if the score is below 0.3.

    Args:
        problem, detail, labels: as in `AuditFinding`.
        evidence: the score is 0.5 if `evidence` equals limit[0], 0.73 if it is larger by limit[1].
        limit: see `evidence`.
        point_ras: (3,) RAS mm, the place to look at; None for the centre of the first label.
    """
    score = (1 + math.tanh((evidence - limit[0]) / limit[1] / 2)) / 2  # the logistic function
    if not score >= _LEAST_SCORE:  # also for NaN
        return []
    if labels and point_ras is None:
        point_ras = labels[0].centre_ras
    names = ", ".join(label.text for label in labels)
    return [AuditFinding(problem, score, detail, names, labels, point_ras)]


class FindingCanvas:
    """A labelled scan, turned so that its axes run to the left, to the back and downwards. Without a scan, each label
    gets a grey value."""

    def __init__(self, labels: LabelMap, volume: Volume | None) -> None:
        layers = [
            sitk.DICOMOrient(to_image(layer, labels.ijk_to_ras), "LPI") for layer in labels.layers
        ]
        step = tuple(slice(None, None, 1 + n // _MOST_PIXELS) for n in layers[0].GetSize())
        layers = [layer[step] for layer in layers]
        turned = layers[0]  # the grid of all layers
        self._to_ijk = np.linalg.inv(image_affine(turned))
        self._mm = np.array(turned.GetSpacing())
        self._layers = list(map(sitk.GetArrayFromImage, layers))
        labelled = np.maximum.reduce(self._layers)
        # without a scan, neighbouring labels get grey values that differ: 37 and 90 have no common divisor
        self._hu = np.where(labelled > 0, labelled * 37 % 90 * 3.0 - 100, AIR_HU)
        if volume is not None:
            image = volume.to_sitk()
            scan = sitk.Resample(image, turned, sitk.Transform(), sitk.sitkLinear, AIR_HU)
            self._hu = sitk.GetArrayFromImage(scan)

    def mark(self, point_ras: np.ndarray | None, axes: list[int] = FRONT) -> list[float] | None:
        """Return a point, (3,) RAS mm or None, as mm from the left and upper side of a picture; None for None."""
        if point_ras is None:
            return None
        place_mm = (transform_points(self._to_ijk, point_ras) + 0.5) * self._mm
        return place_mm[axes].round(1).tolist()

    def draw(
        self, finding: AuditFinding, expected_ras: np.ndarray | None = None
    ) -> list[dict[str, Any]]:
        """Draw the pictures of a finding. expected_ras: (3,) RAS mm, where the structure usually lies, or None."""
        masks = [
            np.logical_or.reduce([layer == label.value for layer in self._layers])
            for label in finding.labels[: len(_COLOURS)]
        ]
        grey = (np.clip(self._hu, *_PROJECTED_HU) - _PROJECTED_HU[0]).mean(axis=1)
        grey *= 235 / max(float(np.percentile(grey, 99.7)), 1)
        pixels = _coloured(grey, [mask.any(axis=1) for mask in masks])
        views = [("coronal projection", FRONT, pixels)]
        if finding.point_ras is not None:
            index = transform_points(self._to_ijk, finding.point_ras)[2].round()
            k = int(np.clip(index, 0, len(self._hu) - 1))
            pixels = _coloured(SOFT_TISSUE.to_grey(self._hu[k]), [mask[k] for mask in masks])
            views.append(("axial slice", _AXIAL, pixels))
        pictures = []
        for title, axes, pixels in views:
            rows, columns, _ = pixels.shape
            width, height = (self._mm[axes] * (columns, rows)).round(1).tolist()
            picture = {
                "title": title,
                "source": data_uri(pixels),
                "width": width,
                "height": height,
                "point": self.mark(finding.point_ras, axes),
                "expected": self.mark(expected_ras, axes),
            }
            pictures.append(picture)
        return pictures


def _coloured(grey: np.ndarray, masks: list[np.ndarray]) -> np.ndarray:
    """Return a picture, uint8 (rows, columns, 3), of grey values, 0 to 255, with masks over them in _COLOURS."""
    pixels = np.repeat(np.asarray(grey, np.float64)[..., None], 3, axis=2)
    for mask, colour in zip(masks, _COLOURS, strict=False):
        pixels[mask] = (1 - _OPACITY) * pixels[mask] + _OPACITY * colour
    return np.rint(pixels).clip(0, 255).astype(np.uint8)
