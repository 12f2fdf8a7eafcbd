"""The landmark protocol: match all shared points of all pairs of scans, with one or more methods.

Two scans of different patients share the centre and six extreme points of every structure that lies completely inside
both scans (Goncharov et al., MICCAI 2024, section 3). Inner points of these structures have no partner in the other
patient; their answers must lie inside the same structure. Two scans of one patient share the named landmarks.
"""

import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ..embedding.inference import Model
from ..embedding.map import EmbeddingMap
from ..errors import PointsError, ProgressCallback
from ..relations.relate import relate
from ..scan.geometry import transform_points
from ..structures.label_names import find_structures
from ..structures.labelled_scans import Case, Pair, find_pairs
from .results import MeasuredPair, Result

INNER_POINTS = 10  # of each structure
Matcher = Callable[[Case, np.ndarray, Case], np.ndarray]
"""Finds points (N, 3) of a template in a target. Returns (N, 3); NaN for a point without an answer. All in RAS mm.

A matcher may also have `prepare(case) -> float`, for the work that is done once for a scan. `prepare` returns the
seconds of this work, or 0 if the work was done before. The time to read the file does not count.
"""


class EmbeddingMatcher:
    """A Matcher that uses embedding maps. Each scan is embedded once. effort: effort of matching."""

    def __init__(self, model: Model, effort: str = "standard") -> None:
        self.model = model
        self.effort = effort
        self._maps: dict[str, EmbeddingMap] = {}

    def prepare(self, case: Case) -> float:
        """Embed the scan if it has no map yet. Returns the seconds of this work; 0 if the map existed."""
        if case.id in self._maps:
            return 0.0
        volume = case.volume
        start = time.perf_counter()
        self._maps[case.id] = self.model.embed(volume)
        return time.perf_counter() - start

    def map_of(self, case: Case) -> EmbeddingMap:
        """Return the map of the scan; embed the scan if it has no map yet."""
        self.prepare(case)
        return self._maps[case.id]

    def __call__(self, template: Case, points_ras: np.ndarray, target: Case) -> np.ndarray:
        relation = relate(self.map_of(template), self.map_of(target), effort=self.effort)
        return relation.points(points_ras).points_ras


def evaluate_landmarks(
    cases: Sequence[Case],
    matchers: Mapping[str, Matcher],
    progress: ProgressCallback = lambda share, step: None,
    notes: Sequence[str] = (),
    templates: Sequence[Case] = (),
) -> Result:
    """Measure every matcher on every pair of `cases` (labelled scans).

    Args:
        cases: the labelled scans.
        matchers: display name -> matcher.
        progress: called with the share of the work that is done, 0 to 1, and the pair that is measured.
        notes: sentences to print with the result.
        templates: further cases, which are used as templates only, not as targets.

    Raises PointsError when no two cases share a point, or a matcher returns a wrong number of points.
    """
    # by target, so that the label map of each target is read once
    pairs = sorted(find_pairs(cases, templates), key=lambda pair: pair.target.id)
    if not pairs:
        raise PointsError(
            f"no two of the {len(cases)} labelled scans have points in common; add scans of two patients that "
            "show the same structures completely, or two scans of one patient with the same landmarks."
        )
    inner_points = {case.id: _inner_points(case) for case in (*cases, *templates)}
    measured: list[MeasuredPair] = []
    scan_seconds = {}
    for name, matcher in matchers.items():
        prepare = getattr(matcher, "prepare", lambda case: 0.0)
        seconds: list[float] = []
        for pair in pairs:
            share = len(measured) / (len(pairs) * len(matchers))
            progress(share, f"{name}: {pair.template.id} to {pair.target.id}")
            for case in (pair.template, pair.target):
                case_seconds = prepare(case)
                if case_seconds:  # 0 if the work was done before
                    seconds.append(case_seconds)
            measured.append(_measure(name, matcher, pair, inner_points[pair.template.id]))
        if seconds:
            scan_seconds[name] = float(np.mean(seconds))
    progress(1.0, "")
    left_out = {case.id: case.left_out for case in cases if case.left_out}
    return Result(tuple(matchers), tuple(measured), scan_seconds, left_out, tuple(notes))


def _inner_points(case: Case) -> dict[str, np.ndarray]:
    """Draw inner points of each structure that lies completely inside a scan: name -> (INNER_POINTS, 3) RAS mm."""
    if case.labels is None:
        return {}
    return find_structures(case.label_map, _draw_voxels)[0]


def _draw_voxels(ijk: np.ndarray, ijk_to_ras: np.ndarray) -> np.ndarray:
    """Draw some of the voxels ijk (n, 3), the same ones each time: (INNER_POINTS, 3) RAS mm."""
    rows = np.random.default_rng(0).choice(len(ijk), INNER_POINTS, replace=False)
    return transform_points(ijk_to_ras, ijk[rows])


def _measure(
    name: str, matcher: Matcher, pair: Pair, inner_points: Mapping[str, np.ndarray]
) -> MeasuredPair:
    """Match the points of a pair with one matcher; return errors, shares inside and time.

    Args:
        name: name of the matcher.
        matcher: finds the points.
        pair: the pair.
        inner_points: structure of the template -> points (INNER_POINTS, 3) RAS mm.

    Raises PointsError if the matcher returns a wrong number of points.
    """
    structures = [
        structure
        for structure, kind in zip(pair.names, pair.kinds, strict=True)
        if kind == "centre"
    ]
    points_ras = np.concatenate([pair.template_ras, *(inner_points[s] for s in structures)])
    start = time.perf_counter()
    answers = np.asarray(matcher(pair.template, points_ras, pair.target))
    seconds = time.perf_counter() - start
    if answers.shape != points_ras.shape:
        raise PointsError(
            f"{name} returned an array {answers.shape} for {len(points_ras)} points; return (N, 3)."
        )
    errors_mm = np.linalg.norm(answers[: len(pair.names)] - pair.target_ras, axis=1)
    inner_answers = answers[len(pair.names) :].reshape(len(structures), INNER_POINTS, 3)
    inside = {
        structure: float(pair.target.label_map.contains(structure, places).mean())
        for structure, places in zip(structures, inner_answers, strict=True)
    }
    return MeasuredPair(
        name, pair.template.id, pair.target.id, pair.names, pair.kinds, errors_mm, seconds, inside
    )
