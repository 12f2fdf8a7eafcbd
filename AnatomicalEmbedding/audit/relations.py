"""Compares the labels of one scan with one another, with the usual body, and with the scan's map.

The table `Resources/Structures/usual.csv` says where structures lie in the average body; `usual_table.py` in
Testing/benchmarks measures it. A frame moves its places into a patient. For each label, the other labels predict where
the structure lies. Then each structure of the table gets a cost: how badly the label's place and volume fit it. A label
is suspicious if another structure fits better.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..anatomy.names import VERTEBRAE, other_side
from ..resources import resource
from ..scan.geometry import mm_to_sides, transform_points

if TYPE_CHECKING:
    from ..embedding.map import EmbeddingMap
    from .findings import Problem
    from .measuring import MeasuredLabel

SPINE = tuple(f"vertebrae_{name}" for name in VERTEBRAE)
_SCALE_SPREAD = 0.12  # of a patient's size, relative to the average body
_COST_LIMIT = 12.0  # largest cost of one label
_CUT_WEIGHT = 0.15  # of a cut label in a fit
_FREEDOM = 6.0  # of Student's distribution: large distances occur more often than in a normal distribution
_MAP_MM = np.array([12.0, 12.0, 17.0])  # standard errors of body coordinates of a map
_MAP_WEIGHT = 0.5  # in the fit: errors of neighbouring body coordinates are alike
_FEWEST = 3  # labels from which the size of the body and missing structures are judged
_INSIDE = 1.5  # a scan should show a structure if it reaches this many standard deviations beyond its usual place
_SIZE_SPREAD = 0.3  # of the logarithm of a patient's volumes, all organs together
_VOLUME_GAIN = 0.5  # the volumes alone must fit the other size better by this cost; long thighs are not twice as high


@dataclass(frozen=True, eq=False)
class Usual:
    """What n structures are usually like. places, spreads: (n, 3) body coordinates and their standard deviations, mm.
    volume: (n,) natural logarithms of the volume in ml; volume_spread: (n,) their standard deviations. gap_mm: (n,) how
    far pieces usually lie apart. flat: (n,) usual largest `MeasuredLabel.flat`. patients: (n,) number of patients."""

    names: tuple[str, ...]
    places: np.ndarray
    spreads: np.ndarray
    volume: np.ndarray
    volume_spread: np.ndarray
    gap_mm: np.ndarray
    flat: np.ndarray
    patients: np.ndarray

    @cached_property
    def index(self) -> dict[str, int]:
        return {name: n for n, name in enumerate(self.names)}


@lru_cache(maxsize=1)
def load_usual() -> Usual:
    """Read the shipped table."""
    table = np.genfromtxt(resource("Structures") / "usual.csv", delimiter=",", names=True, dtype=None, encoding="utf-8")
    numbers = np.array([table[column] for column in table.dtype.names[1:]], np.float64)
    names = tuple(map(str, table["name"]))
    return Usual(names, numbers[1:4].T, numbers[4:7].T, np.log(numbers[7]), *numbers[[8, 9, 10, 0]])


class Frame(NamedTuple):
    """Moves places of the average body into a patient: RAS mm = scale x body coordinate + shift. Both fields: (3,).
    The scale is negative along a mirrored axis."""

    scale: np.ndarray
    shift: np.ndarray

    @classmethod
    def fit(
        cls, centres: np.ndarray, places: np.ndarray, spreads: np.ndarray, weight: np.ndarray, near: np.ndarray
    ) -> Frame:
        """Fit a frame by least squares to n labels with `centres` (n, 3) RAS mm, with a scale near `near` (3,).

        places, spreads: (n, 3), as in `Usual`. weight: (n,).
        """
        w = weight[:, None] / (spreads * near) ** 2
        middle, mean = (w * centres).sum(axis=0) / w.sum(axis=0), (w * places).sum(axis=0) / w.sum(axis=0)
        prior = 1 / (_SCALE_SPREAD * near) ** 2
        slope = (w * (places - mean) * (centres - middle)).sum(axis=0) + prior * near
        scale = near * np.maximum(slope / ((w * (places - mean) ** 2).sum(axis=0) + prior) / near, 0.2)
        return cls(scale, middle - scale * mean)

    def to_ras(self, body_mm: np.ndarray) -> np.ndarray:
        """Move places (n, 3) of the average body into the patient, RAS mm."""
        return body_mm * self.scale + self.shift


def fit_frame(
    centres: np.ndarray, places: np.ndarray, spreads: np.ndarray, weight: np.ndarray,
    near: Sequence[float] = (1.0, 1.0, 1.0),
) -> tuple[Frame, np.ndarray, float]:  # fmt: skip
    """Fit a frame like `Frame.fit`; labels at unusual places count less.

    Returns the frame, robust weights (n,), and the total cost, which is lower for a better fit.
    """
    scale = np.array(near, dtype=np.float64)
    shifts = centres - places * scale
    off = (shifts - np.median(shifts, axis=0)) / (spreads * scale)
    robust = np.exp(-(off**2).sum(axis=1) / 12) + 1e-3
    for _ in range(6):
        frame = Frame.fit(centres, places, spreads, weight * robust, scale)
        costs = (((centres - frame.to_ras(places)) / (spreads * frame.scale)) ** 2).sum(axis=1) / 2
        robust = 1 / (1 + costs / 3)
    total = float((weight * np.minimum(costs, _COST_LIMIT)).sum())
    return frame, robust, total + float(((np.log(frame.scale / scale) / _SCALE_SPREAD) ** 2).sum() / 2)


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


_ONLY, _SIZE = "the labels fit a body only if", "the labels have about {} the usual {}, as if the voxel size were wrong"
_NUMBERED = "the vertebrae are probably numbered one level"
_TURNED, _SCALED, _LEVEL = (7.0, 3.0), (4.0, 1.5), (3.2, 1.0)
_PLAIN = Explanation("geometry", "")
_EXPLANATIONS = (
    Explanation("side", f"{_ONLY} all sides are exchanged, or if the scan is mirrored", _TURNED, is_swapped=True),
    Explanation("mirrored", f"{_ONLY} left and right of the scan are exchanged", _TURNED, (-1, 1, 1)),
    Explanation("mirrored", f"{_ONLY} front and back of the scan are exchanged", _TURNED, (1, -1, 1)),
    Explanation("mirrored", f"{_ONLY} head and feet of the scan are exchanged", _TURNED, (1, 1, -1)),
    Explanation("geometry", _SIZE.format("half of", "size"), _SCALED, (0.5, 0.5, 0.5)),
    Explanation("geometry", _SIZE.format("twice", "size"), _SCALED, (2, 2, 2)),
    Explanation("geometry", _SIZE.format("half of", "height"), _SCALED, (1, 1, 0.5)),
    Explanation("geometry", _SIZE.format("twice", "height"), _SCALED, (1, 1, 2)),
    Explanation("level", f"{_NUMBERED} too high (L1 is called T12)", _LEVEL, step=1),
    Explanation("level", f"{_NUMBERED} too low (T12 is called L1)", _LEVEL, step=-1),
)


class Relations:
    """The labels of one scan, compared with the usual body.

    labels: only labels of known structures, each structure once. is_cut, centres, log_volumes: (n, ...), of the labels.
    explanation: why all labels lie at unusual places, or None; gain: by how much it decreases the cost. names: (n,) the
    structures of the labels, after the explanation. rows: (n,) their rows in `usual`. frame: moves places of the
    average body into this patient. body: (n, 3) body coordinates of the labels in the scan's map, mm; NaN if unknown.

    Args:
        labels: the measured labels; at least one of a structure in `usual`.
        usual: the table of usual places.
        embedding: map of the scan, or None without a scan.
    """

    def __init__(self, labels: Sequence[MeasuredLabel], usual: Usual, embedding: EmbeddingMap | None = None) -> None:
        known: dict[str, MeasuredLabel] = {}
        for label in sorted(labels, key=lambda each: each.volume_ml):
            known[label.name] = label
        self.labels, self.usual = [known[name] for name in usual.names if name in known], usual
        self.is_cut = np.array([each.is_cut for each in self.labels], dtype=bool)
        self._weight = np.where(self.is_cut, _CUT_WEIGHT, 1.0)
        self.centres = np.array([each.centre_ras for each in self.labels])
        self.log_volumes = np.log([max(each.volume_ml, 0.01) for each in self.labels])  # of ml
        self.body = np.full((len(self.labels), 3), np.nan)
        # maps of mirrored scans, and of weights whose errors are not known, say nothing about the labels
        if embedding is not None and embedding.calibration is not None and not embedding.faults:
            inside = embedding.contains(self.centres)
            self.body[inside] = embedding.sample(self.centres[inside])
        errors = np.hypot(_MAP_MM, usual.spreads / 2)
        self._by_map = np.nan_to_num(_student((self.body[:, None] - usual.places) / errors))
        self.explanation: Explanation | None = None
        self.gain = margin = 0.0
        plain, plain_volume = self._fit(_PLAIN)
        for each in _EXPLANATIONS:
            cost, volume = self._fit(each)
            is_scaled, is_beside_sacrum = abs(np.prod(each.scale)) != 1, {*SPINE[-2:]} <= known.keys()
            # if the fifth lumbar vertebra lies next to the sacrum, all numbers are right
            if (each.step and is_beside_sacrum) or (is_scaled and volume > plain_volume - _VOLUME_GAIN):
                continue
            gain = plain + plain_volume - cost - volume
            if (gain - each.limit[0]) / each.limit[1] > margin:
                margin, self.explanation, self.gain = (gain - each.limit[0]) / each.limit[1], each, gain
        self._fit(self.explanation or _PLAIN)

    def _fit(self, reason: Explanation) -> tuple[float, float]:
        """Fit a frame after an explanation. Returns the costs of the places and of the volumes."""
        usual, own = self.usual, [each.name for each in self.labels]
        self.names = [new if (new := reason.true_name(name)) in usual.index else name for name in own]
        self.rows = rows = np.array([usual.index[name] for name in self.names])
        placed = self.centres, usual.places[rows], usual.spreads[rows], self._weight
        self.frame, self._robust, cost = fit_frame(*placed, reason.scale)
        by_map = np.minimum(self._by_map[np.arange(len(rows)), rows], _COST_LIMIT)
        cost += _MAP_WEIGHT * float((self._weight * by_map).sum())
        whole, volume = ~self.is_cut, 0.0
        if whole.sum() >= _FEWEST:
            middle = np.median((self.log_volumes - usual.volume[rows])[whole])
            square = _SIZE_SPREAD**2 + (usual.volume_spread[rows[whole]] ** 2).mean() / whole.sum()
            volume = 3 * np.log1p((middle - np.log(np.abs(reason.scale)).sum()) ** 2 / square / 5)
        return cost, float(volume)

    @cached_property
    def costs(self) -> tuple[np.ndarray, np.ndarray]:
        """Costs (n, u) of each label to be each structure of the table: by place, and by place and volume."""
        usual, scale = self.usual, self.frame.scale
        cost = self._by_map * (scale.min() > 0)  # a map and mirrored labels say nothing of each other
        places, spreads = usual.places[self.rows], usual.spreads[self.rows]
        for n, centre in enumerate(self.centres):
            rest = np.where(np.arange(len(cost)) == n, 0.0, self._weight * self._robust)
            if len(rest) > 1:
                frame = Frame.fit(self.centres, places, spreads, rest, scale)
                cost[n] += _student((centre - frame.to_ras(usual.places)) / (usual.spreads * scale))
        off = (self.log_volumes[:, None] - usual.volume) / usual.volume_spread
        return cost, cost + np.where(self.is_cut[:, None], 0.0, _student(off[..., None]))

    def expected_ras(self, name: str) -> np.ndarray | None:
        """Return where a structure usually lies in this scan, (3,) RAS mm; None if too few labels are known."""
        is_known = len(self.labels) >= _FEWEST and name in self.usual.index
        return self.frame.to_ras(self.usual.places[self.usual.index[name]]) if is_known else None

    def expected_places(self, ijk_to_ras: np.ndarray, shape: tuple[int, int, int]) -> Iterator[tuple[str, np.ndarray]]:
        """Yield the structures that should lie completely in a scan (k, j, i), with their usual places (3,) RAS mm."""
        if len(self.labels) >= _FEWEST and self.explanation is None:
            radius = 1.6 * (3 / (4 * np.pi) * 1000 * np.exp(self.usual.volume)) ** (1 / 3)
            reach = (radius + _INSIDE * self.usual.spreads.max(axis=1)) * self.frame.scale.mean()
            places = self.frame.to_ras(self.usual.places)
            away = mm_to_sides(transform_points(np.linalg.inv(ijk_to_ras), places), ijk_to_ras, shape).min(axis=1)
            yield from ((self.usual.names[n], places[n]) for n in np.flatnonzero(away > reach))


def _student(off: np.ndarray) -> np.ndarray:
    """Return the costs of distances (..., d) in standard deviations."""
    return (_FREEDOM + off.shape[-1]) / 2 * np.log1p((off**2).sum(axis=-1) / _FREEDOM)
