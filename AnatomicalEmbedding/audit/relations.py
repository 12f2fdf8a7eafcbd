"""Compares the labels of one scan with one another, with the usual body, and with the scan's map.

For each label, the other labels predict where the structure lies. Then each structure of the table of usual places gets
a cost: how badly the label's place and volume fit it. A label is suspicious if another structure fits better.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..anatomy.names import VERTEBRAE, other_side
from ..embedding.map import EmbeddingMap
from ..scan.geometry import mm_to_sides, transform_points
from .findings import Problem
from .measuring import MeasuredLabel
from .usual import COST_LIMIT, Frame, Usual, fit_frame

SPINE = tuple(f"vertebrae_{name}" for name in VERTEBRAE)
_CUT_WEIGHT = 0.15  # of a cut label in a fit
# of Student's distribution: large distances occur more often than in a normal distribution
_FREEDOM = 6.0
_MAP_MM = np.array([12.0, 12.0, 17.0])  # standard errors of body coordinates of a map
_MAP_WEIGHT = 0.5  # in the fit: errors of neighbouring body coordinates are alike
_FEWEST = 3  # labels from which the size of the body and missing structures are judged
_INSIDE = 1.5  # a scan should show a structure if it reaches this many standard deviations beyond its usual place
_SIZE_SPREAD = 0.3  # of the logarithm of a patient's volumes, all organs together
_VOLUME_GAIN = 0.5  # the volumes alone must fit the other size better by this cost; long thighs are not twice as high


class Explanation(NamedTuple):
    """One reason why all labels of a scan lie at unusual places. limit: of `judge`, for the decrease of the cost.
    scale: of the frame, negative along a mirrored axis. is_swapped: whether left and right are exchanged in all names.
    step: by how much the numbers of all vertebrae are too small."""

    problem: Problem
    text: str
    limit: tuple[float, float] = (0.0, 1.0)
    scale: tuple[float, float, float] = (1, 1, 1)
    is_swapped: bool = False
    step: int = 0

    def true_name(self, name: str) -> str:
        """Return what a label with this name shows."""
        if name in SPINE:
            return SPINE[min(max(SPINE.index(name) + self.step, 0), len(SPINE) - 1)]
        return other_side(name) if self.is_swapped else name


_ONLY = "the labels fit a body only if"
_SIZE = "the labels have about {} the usual {}, as if the voxel size were wrong"
_NUMBERED = "the vertebrae are probably numbered one level"
_TURNED, _SCALED, _LEVEL = (7.0, 3.0), (4.0, 1.5), (3.2, 1.0)
_PLAIN = Explanation("geometry", "")
_EXPLANATIONS = (
    Explanation(
        "side",
        f"{_ONLY} all sides are exchanged, or if the scan is mirrored",
        _TURNED,
        is_swapped=True,
    ),
    Explanation(
        "mirrored", f"{_ONLY} left and right of the scan are exchanged", _TURNED, (-1, 1, 1)
    ),
    Explanation(
        "mirrored", f"{_ONLY} front and back of the scan are exchanged", _TURNED, (1, -1, 1)
    ),
    Explanation(
        "mirrored", f"{_ONLY} head and feet of the scan are exchanged", _TURNED, (1, 1, -1)
    ),
    Explanation("geometry", _SIZE.format("half of", "size"), _SCALED, (0.5, 0.5, 0.5)),
    Explanation("geometry", _SIZE.format("twice", "size"), _SCALED, (2, 2, 2)),
    Explanation("geometry", _SIZE.format("half of", "height"), _SCALED, (1, 1, 0.5)),
    Explanation("geometry", _SIZE.format("twice", "height"), _SCALED, (1, 1, 2)),
    Explanation("level", f"{_NUMBERED} too high (L1 is called T12)", _LEVEL, step=1),
    Explanation("level", f"{_NUMBERED} too low (T12 is called L1)", _LEVEL, step=-1),
)


class ScanLabels(NamedTuple):
    """The labels of one scan: only labels of structures in the table of usual places, each structure once.

    Args:
        labels: n labels, in the order of the table.
        is_cut: (n,) whether the border of the label map cuts the label.
        centres: (n, 3) RAS mm.
        log_volumes: (n,) natural logarithms of the volumes in ml.
        body: (n, 3) body coordinates of the labels in the scan's map, mm; NaN if unknown.
        map_costs: (n, u) costs of each label to be each structure of the table, by the scan's map; 0 if unknown.
    """

    labels: list[MeasuredLabel]
    is_cut: np.ndarray
    centres: np.ndarray
    log_volumes: np.ndarray
    body: np.ndarray
    map_costs: np.ndarray

    @property
    def weight(self) -> np.ndarray:
        return np.where(self.is_cut, _CUT_WEIGHT, 1.0)


class BodyFit(NamedTuple):
    """The usual body, fitted to the labels of a scan under an explanation.

    names: (n,) the structures of the labels, after the explanation. rows: (n,) their rows in the table of usual places.
    frame: moves places of the average body into this patient. robust: (n,) weights of the labels in the fit.
    cost, volume_cost: how badly the places and the volumes fit.
    """

    names: list[str]
    rows: np.ndarray
    frame: Frame
    robust: np.ndarray
    cost: float
    volume_cost: float


@dataclass(frozen=True, eq=False)
class Relations:
    """The labels of one scan, compared with the usual body; see `relate`.

    explanation: why all labels lie at unusual places, or None. gain: by how much it decreases the cost.
    """

    scan: ScanLabels
    usual: Usual
    fit: BodyFit
    explanation: Explanation | None
    gain: float

    @cached_property
    def costs(self) -> tuple[np.ndarray, np.ndarray]:
        """Costs (n, u) of each label to be each structure of the table: by place, and by place and volume."""
        scan = self.scan
        usual = self.usual
        scale = self.fit.frame.scale
        places = usual.places[self.fit.rows]
        spreads = usual.spreads[self.fit.rows]
        # a map and mirrored labels say nothing of each other
        by_place = scan.map_costs * (scale.min() > 0)
        count = len(by_place)
        for n in range(count if count > 1 else 0):
            # the place of each label is predicted by the other labels
            weight = np.where(np.arange(count) == n, 0.0, scan.weight * self.fit.robust)
            frame = Frame.fit(scan.centres, places, spreads, weight, scale)
            off = scan.centres[n] - frame.to_ras(usual.places)
            by_place[n] += _student(off / (usual.spreads * scale))
        off = (scan.log_volumes[:, None] - usual.volume) / usual.volume_spread
        # the volume of a cut label is not known
        by_volume = np.where(scan.is_cut[:, None], 0.0, _student(off[..., None]))
        return by_place, by_place + by_volume

    def expected_ras(self, name: str) -> np.ndarray | None:
        """Return where a structure usually lies in this scan, (3,) RAS mm; None if too few labels are known."""
        if len(self.scan.labels) < _FEWEST or name not in self.usual.index:
            return None
        return self.fit.frame.to_ras(self.usual.places[self.usual.index[name]])

    def expected_places(
        self, ijk_to_ras: np.ndarray, shape: tuple[int, int, int]
    ) -> Iterator[tuple[str, np.ndarray]]:
        """Yield the structures that should lie completely in a scan (k, j, i), with their usual places (3,) RAS mm."""
        if len(self.scan.labels) < _FEWEST or self.explanation is not None:
            return
        usual = self.usual
        frame = self.fit.frame
        # radius of a ball of each volume; organs are longer than balls
        ball_mm = (3 / (4 * np.pi) * 1000 * np.exp(usual.volume)) ** (1 / 3)
        reach = (1.6 * ball_mm + _INSIDE * usual.spreads.max(axis=1)) * frame.scale.mean()
        places = frame.to_ras(usual.places)
        ijk = transform_points(np.linalg.inv(ijk_to_ras), places)
        away = mm_to_sides(ijk, ijk_to_ras, shape).min(axis=1)
        for n in np.flatnonzero(away > reach):
            yield usual.names[n], places[n]


def relate(
    labels: Sequence[MeasuredLabel], usual: Usual, embedding: EmbeddingMap | None = None
) -> Relations:
    """Compare the labels of a scan with the usual body.

    Args:
        labels: the measured labels; at least one of a structure in `usual`.
        usual: the table of usual places.
        embedding: map of the scan, or None without a scan.
    """
    scan = _known_labels(labels, usual, embedding)
    # the explanation whose decrease of the cost exceeds its limit by most, in units of the limit's width
    plain = _fit_body(scan, usual, _PLAIN)
    chosen = None
    fit = plain
    gain = 0.0
    margin = 0.0
    beside_sacrum = {*SPINE[-2:]} <= {label.name for label in scan.labels}
    for reason in _EXPLANATIONS:
        explained = _fit_body(scan, usual, reason)
        is_scaled = abs(np.prod(reason.scale)) != 1
        # if the fifth lumbar vertebra lies next to the sacrum, all numbers are right
        if reason.step and beside_sacrum:
            continue
        if is_scaled and explained.volume_cost > plain.volume_cost - _VOLUME_GAIN:
            continue
        decrease = plain.cost + plain.volume_cost - explained.cost - explained.volume_cost
        reason_margin = (decrease - reason.limit[0]) / reason.limit[1]
        if reason_margin > margin:
            margin = reason_margin
            chosen = reason
            fit = explained
            gain = decrease
    return Relations(scan, usual, fit, chosen, gain)


def _known_labels(
    labels: Sequence[MeasuredLabel], usual: Usual, embedding: EmbeddingMap | None
) -> ScanLabels:
    """Choose the labels of known structures; of several labels of one structure, the largest."""
    largest = {label.name: label for label in sorted(labels, key=lambda label: label.volume_ml)}
    scan_labels = [largest[name] for name in usual.names if name in largest]
    centres = np.array([label.centre_ras for label in scan_labels])
    body = np.full((len(scan_labels), 3), np.nan)
    # maps of mirrored scans, and of weights whose errors are not known, say nothing about the labels
    if embedding is not None and embedding.calibration is not None and not embedding.faults:
        inside = embedding.contains(centres)
        body[inside] = embedding.sample(centres[inside])
    errors = np.hypot(_MAP_MM, usual.spreads / 2)  # of a label's body coordinates (u, 3), mm
    return ScanLabels(
        scan_labels,
        np.array([label.is_cut for label in scan_labels], bool),
        centres,
        np.log([max(label.volume_ml, 0.01) for label in scan_labels]),
        body,
        np.nan_to_num(_student((body[:, None] - usual.places) / errors)),
    )


def _fit_body(scan: ScanLabels, usual: Usual, reason: Explanation) -> BodyFit:
    """Fit a frame to the labels of a scan after an explanation."""
    names = []
    for label in scan.labels:
        true_name = reason.true_name(label.name)
        names.append(true_name if true_name in usual.index else label.name)
    rows = np.array([usual.index[name] for name in names])
    frame, robust, cost = fit_frame(
        scan.centres, usual.places[rows], usual.spreads[rows], scan.weight, reason.scale
    )
    by_map = np.minimum(scan.map_costs[np.arange(len(rows)), rows], COST_LIMIT)
    cost += _MAP_WEIGHT * float((scan.weight * by_map).sum())
    volume_cost = _volume_cost(scan, usual, rows, reason)
    return BodyFit(names, rows, frame, robust, cost, volume_cost)


def _volume_cost(scan: ScanLabels, usual: Usual, rows: np.ndarray, reason: Explanation) -> float:
    """Return how badly the volumes of all labels fit the usual volumes, times the scale of an explanation.

    rows: (n,) rows of the labels in `usual`.
    """
    whole = ~scan.is_cut
    if whole.sum() < _FEWEST:
        return 0.0
    # log of the patient's volumes relative to the usual ones, without the effect of the explanation
    middle = np.median((scan.log_volumes - usual.volume[rows])[whole])
    off = middle - np.log(np.abs(reason.scale)).sum()  # 0 for a patient of the usual size
    square = _SIZE_SPREAD**2 + (usual.volume_spread[rows[whole]] ** 2).mean() / whole.sum()
    return float(3 * np.log1p(off**2 / square / 5))  # Student's distribution


def _student(off: np.ndarray) -> np.ndarray:
    """Return the costs of distances (..., d) in standard deviations."""
    return (_FREEDOM + off.shape[-1]) / 2 * np.log1p((off**2).sum(axis=-1) / _FREEDOM)
