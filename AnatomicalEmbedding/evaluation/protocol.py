"""The landmark protocol: match all shared points of all pairs of scans, with one or more methods.

Two scans of different patients share the centre and six extreme points of every structure that lies completely inside
both scans (Goncharov et al., MICCAI 2024, section 3). Two scans of one patient share the named landmarks.
"""

import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ..embedding.inference import Model, ProgressCallback
from ..embedding.map import EmbeddingMap
from ..errors import PointsError
from ..relations.relate import relate
from ..structures.labelled_scans import Case, Pair, find_pairs
from .results import MeasuredPair, Result

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
    pairs = find_pairs(cases, templates)
    if not pairs:
        raise PointsError(
            f"no two of the {len(cases)} labelled scans have points in common; add scans of two patients that "
            "show the same structures completely, or two scans of one patient with the same landmarks."
        )
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
            measured.append(_measure(name, matcher, pair))
        if seconds:
            scan_seconds[name] = float(np.mean(seconds))
    progress(1.0, "")
    left_out = {case.id: case.left_out for case in cases if case.left_out}
    return Result(tuple(matchers), tuple(measured), scan_seconds, left_out, tuple(notes))


def _measure(name: str, matcher: Matcher, pair: Pair) -> MeasuredPair:
    """Match the points of a pair with one matcher; return errors and time. Raises PointsError for a wrong shape."""
    start = time.perf_counter()
    answers = np.asarray(matcher(pair.template, pair.template_ras.copy(), pair.target), np.float64)
    seconds = time.perf_counter() - start
    if answers.shape != pair.target_ras.shape:
        raise PointsError(
            f"{name} returned an array {answers.shape} for {len(pair.names)} points; return (N, 3)."
        )
    errors_mm = np.linalg.norm(answers - pair.target_ras, axis=1)
    return MeasuredPair(
        name, pair.template.id, pair.target.id, pair.names, pair.kinds, errors_mm, seconds
    )
