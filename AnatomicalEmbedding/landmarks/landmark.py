"""A landmark: a named point, known by its examples. It says which of them count, and how large its errors are."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..matching.match import Matches
from ..matching.query import Query, join_queries, query_from_text
from .combination import combine, median_error_mm

_FEWEST = 3  # with fewer examples nobody can say which one is wrong
_CONTRADICTS = 3.0  # an example contradicts the others if its deviation is this many times the median deviation,
_CONTRADICTS_MM = 15.0  # and at least this
_PRIOR_EXAMPLES = 5.0  # the error factor of a landmark counts as 1 in this many examples
_HIGHEST_FACTOR = 3.0  # and its inverse is the lowest; by hand


@dataclass(frozen=True)
class LandmarkExample:
    """One marked point of one scan.

    Args:
        scan: hash of the scan's voxels, the same for all its landmarks.
        point_ras: (3,) RAS mm in its scan.
        query: the query of the point as text, see `matching.query.query_to_text`.
        errors_mm: scan -> error, mm, of this example's answer in the scan of another example.
        exchanged: scan -> landmarks whose name seems to be exchanged with this one, by the answers in the scan of
            another example.
        left_out_mm: error, mm, of the answer of the other examples in this scan, and the median error that was stated;
            empty if it is not known.
        edges: 9 numbers (3, 3), if the point is the centre of a plane or box: its edges, in body coordinates.
    """

    scan: str
    point_ras: tuple[float, float, float]
    query: str
    errors_mm: dict[str, float] = field(default_factory=dict)
    exchanged: dict[str, tuple[str, ...]] = field(default_factory=dict)
    left_out_mm: tuple[float, ...] = ()
    edges: tuple[float, ...] = ()


@dataclass(frozen=True)
class Landmark:
    """A named point, known by its examples. unit_mm: unit of the maps of its scans, see `EmbeddingMap`."""

    name: str
    examples: tuple[LandmarkExample, ...]
    unit_mm: float = 1.0

    @cached_property
    def query(self) -> Query:
        """The queries of the examples. Raises an error of `tensor_files.DAMAGED` if one is damaged."""
        return join_queries([query_from_text(example.query) for example in self.examples])

    def deviations_mm(self) -> np.ndarray:
        """Return how far each example is from the others, (k,) mm; NaN where it is not known.

        This is the lower median of the errors of its answers in the others' scans, and of theirs in its scan: at least
        half of the others agree with a correct example.
        """
        deviations = []
        for example in self.examples:
            errors = list(example.errors_mm.values())
            for second in self.examples:
                if example.scan in second.errors_mm:
                    errors.append(second.errors_mm[example.scan])
            deviations.append(_lower_median(errors))
        return np.array(deviations)

    def exchanged_names(self) -> list[str]:
        """Return, for each example, the landmark whose name was exchanged with this one in its scan; "" if none."""
        names = []
        for example in self.examples:
            compared = 0
            counts: Counter[str] = Counter()
            for second in self.examples:
                answers = example.exchanged.get(second.scan), second.exchanged.get(example.scan)
                if answers != (None, None):
                    compared += 1
                    counts.update({*(answers[0] or ()), *(answers[1] or ())})
            name = max(sorted(counts), key=counts.__getitem__, default="")
            names.append(name if 2 * counts[name] > compared else "")
        return names

    @cached_property
    def weights(self) -> np.ndarray:
        """Weight of each example, (k,): 0 if it contradicts the others or its name was exchanged, else 1."""
        deviations = self.deviations_mm()
        measured = deviations[np.isfinite(deviations)].tolist()
        if len(measured) < _FEWEST:
            return np.ones(len(self.examples))
        limit = max(_CONTRADICTS * _lower_median(measured), _CONTRADICTS_MM * self.unit_mm)
        is_wrong = (deviations > limit) | (np.array(self.exchanged_names()) != "")
        return np.ones(len(is_wrong)) if is_wrong.all() else np.where(is_wrong, 0.0, 1.0)

    @property
    def error_factor(self) -> float:
        """True errors relative to stated errors, learned from the examples that were left out one by one."""
        ratios = []  # logarithms
        for example, weight in zip(self.examples, self.weights, strict=True):
            if weight and example.left_out_mm:
                error_mm, stated_mm = example.left_out_mm
                ratios.append(np.log(max(error_mm, 0.5 * self.unit_mm) / stated_mm))
        factor = np.exp(sum(ratios) / (len(ratios) + _PRIOR_EXAMPLES))
        return float(np.clip(factor, 1 / _HIGHEST_FACTOR, _HIGHEST_FACTOR))

    @property
    def scans(self) -> tuple[str, ...]:
        """The scan of each example."""
        return tuple(example.scan for example in self.examples)

    def measured(
        self, scan: str, answers: Matches, exchanged: dict[str, tuple[str, ...]]
    ) -> Landmark:
        """Return the landmark with the errors of the other examples in the scan of one example.

        Args:
            scan: the scan of this example.
            answers: the answers of the other examples in this scan, in the order of `without(scan)`.
            exchanged: scan of each other example -> landmarks whose names its answers show to be exchanged.
        """
        others = self.without(scan)
        (own,) = (example for example in self.examples if example.scan == scan)
        mark = np.array(own.point_ras)
        examples = {}
        for example, place in zip(others.examples, answers.points_ras, strict=True):
            error_mm = _rounded(float(np.linalg.norm(place - mark)), self.unit_mm)
            examples[example.scan] = replace(
                example,
                errors_mm={**example.errors_mm, scan: error_mm},
                exchanged={**example.exchanged, scan: exchanged[example.scan]},
            )
        combined = combine(answers, others.weights, unit_mm=self.unit_mm)
        left_out: tuple[float, ...] = ()
        if combined.expected_error_mm is not None:
            error_mm = float(np.linalg.norm(combined.points_ras[0] - mark))
            stated_mm = median_error_mm(combined.expected_error_mm[0], int(others.weights.sum()))
            left_out = tuple(_rounded(mm, self.unit_mm) for mm in (error_mm, stated_mm))
        examples[scan] = replace(own, left_out_mm=left_out)
        return replace(self, examples=tuple(examples[name] for name in self.scans))

    def forgetting(self, scan: str) -> list[LandmarkExample]:
        """Return the examples of other scans, without what was measured in this scan."""
        return [
            replace(
                example,
                errors_mm=_without(example.errors_mm, scan),
                exchanged=_without(example.exchanged, scan),
            )
            for example in self.without(scan).examples
        ]

    def without(self, scan: str) -> Landmark:
        """Return the landmark without the example of a scan."""
        return replace(
            self, examples=tuple(example for example in self.examples if example.scan != scan)
        )


def _lower_median(values: list[float]) -> float:
    """Return the median, the lower of the two middle values; NaN without values."""
    return sorted(values)[(len(values) - 1) // 2] if values else np.nan


def _without(by_scan: dict[str, Any], scan: str) -> dict[str, Any]:
    return {name: value for name, value in by_scan.items() if name != scan}


def _rounded(error_mm: float, unit_mm: float) -> float:
    """Round an error to hundredths of the unit, because objects may be smaller than 1 mm."""
    return round(error_mm / unit_mm, 2) * unit_mm
