"""Evaluation of confidence: ranking of errors, calibration of probabilities, and absent points."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ..errors import AnatomicalEmbeddingError
from ..matching.match import match
from ..matching.status import ABSENT, MATCHED
from ..training.known_matches import Trial
from .results import GROUPS, Section, Tables

_BINS = 10
COVERAGES = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)


@dataclass(frozen=True, eq=False)
class Judged:
    """n answers: errors_mm (n,), infinite where the point is absent, and the reported confidence."""

    errors_mm: np.ndarray
    groups: np.ndarray
    whole: np.ndarray
    status: np.ndarray
    expected_error_mm: np.ndarray
    probability: np.ndarray
    probability_20: np.ndarray

    def select(self, which: np.ndarray) -> Judged:
        """Those where `which` (n,) is true."""
        return Judged(*(value[which] for value in vars(self).values()))


@dataclass(frozen=True)
class ConfidenceRow:
    """Figures of one group of answers; None where undefined.

    auroc_10, auroc_20: how well doubt ranks present points with an error above 10 and 20 mm over the others (0.5: not
    at all). auroc_10_all, auroc_20_all: the same, absent points counted as wrong answers. ece: expected calibration
    error of the probability, ten bins. matched: share of present points called so.
    false_matched: share of absent ones called so; absent_found: share of them called absent. expected, found: mean
    expected and mean true error of present points, those beyond 100 mm counted as 100.
    """

    name: str
    present: int
    absent: int
    auroc_10: float | None
    auroc_20: float | None
    auroc_10_all: float | None
    auroc_20_all: float | None
    ece: float
    matched: float | None
    false_matched: float | None
    absent_found: float | None
    expected: float | None
    found: float | None


@dataclass(frozen=True, eq=False)
class ConfidenceResult(Tables):
    """Result of `summarise_confidence`. risk: (coverage, median, 90th percentile of the error in mm) of the answers
    to present points, the surest first.
    """

    model: str
    rows: tuple[ConfidenceRow, ...]
    risk: tuple[tuple[float, float, float], ...]

    def _cells(self) -> list[tuple[str, ...]]:
        def shown(value: float | None, form: str) -> str:
            return "-" if value is None else format(value, form)

        return [
            (row.name, str(row.present), str(row.absent), shown(row.auroc_10, ".2f"), shown(row.auroc_20, ".2f"),
             shown(row.auroc_10_all, ".2f"), shown(row.auroc_20_all, ".2f"), shown(row.ece, ".3f"),
             shown(row.matched, ".0%"), shown(row.false_matched, ".1%"), shown(row.absent_found, ".0%"),
             shown(row.expected, ".1f"), shown(row.found, ".1f"))
            for row in self.rows
        ]  # fmt: skip

    def sections(self) -> list[Section]:
        """The groups of answers, and the error of the surest ones."""
        risk = [(f"{share:.0%}", f"{median:.1f}", f"{p90:.1f}") for share, median, p90 in self.risk]
        return [
            Section(f"Confidence, {self.model}", (_HEADS, *self._cells())),
            Section("Answers to present points, the surest first", (("answered", "median mm", "90 % mm"), *risk)),
        ]

    def to_json(self) -> str:
        """The result as JSON text."""
        risk = [dict(zip(("coverage", "median", "p90"), line, strict=True)) for line in self.risk]
        return json.dumps({"model": self.model, "groups": [vars(row) for row in self.rows], "risk": risk}, indent=1)


_HEADS = (
    "points", "present", "absent", "AUROC >10 mm", ">20 mm", "with absent >10", ">20", "ECE", "matched",
    "absent called matched", "called absent", "expected mm", "true mm",
)  # fmt: skip


def judge_trials(trials: Iterable[Trial], effort: str = "standard") -> Judged:
    """Match every trial and collect the reported confidence. Raises AnatomicalEmbeddingError for weights without
    calibration.
    """
    parts: list[tuple[np.ndarray, ...]] = []
    for trial in trials:
        if not len(trial.template_ras):
            continue
        found = match(trial.template, trial.template_ras, trial.target, effort)
        if found.status is None:
            raise AnatomicalEmbeddingError(
                f"{trial.template.provenance.model}: carries no calibration; make one with `anatemb calibrate`."
            )
        errors = trial.errors_mm(found)
        whole = np.full(len(errors), trial.whole)
        reported = (found.status, found.expected_error_mm, found.probability, found.probability_20)
        parts.append((errors, np.array(trial.groups), whole, *reported))
    if not parts:
        raise AnatomicalEmbeddingError("no two scans share anything to measure confidence by; add labelled scans.")
    return Judged(*(np.concatenate(values) for values in zip(*parts, strict=True)))


def summarise_confidence(judged: Judged, model: str) -> ConfidenceResult:
    """Figures of all answers, of those in whole scans, and of each group of points in whole scans."""
    whole = judged.select(judged.whole)
    rows = [_row("all", judged), _row("whole scans", whole)]
    # extreme points depend on the outline; the others are points that a user would place
    named = whole.select(whole.groups != "extreme")
    if len(named.status):
        rows.append(_row("  centres and landmarks", named))
    rows += [
        _row(f"  {group}", whole.select(whole.groups == group)) for group in GROUPS if (whole.groups == group).any()
    ]
    return ConfidenceResult(model, tuple(rows), tuple(_risk(judged)))


def _row(name: str, judged: Judged) -> ConfidenceRow:
    present = np.isfinite(judged.errors_mm)
    here, gone = judged.select(present), judged.select(~present)

    def share(status: np.ndarray, of: str) -> float | None:
        return float(np.mean(status == of)) if len(status) else None

    return ConfidenceRow(
        name, len(here.status), len(gone.status),
        auroc(1 - here.probability, here.errors_mm > 10), auroc(1 - here.probability_20, here.errors_mm > 20),
        auroc(1 - judged.probability, judged.errors_mm > 10), auroc(1 - judged.probability_20, judged.errors_mm > 20),
        calibration_error(judged.probability, judged.errors_mm < 10),
        share(here.status, MATCHED), share(gone.status, MATCHED), share(gone.status, ABSENT),
        float(here.expected_error_mm.mean()) if len(here.status) else None,
        float(np.minimum(here.errors_mm, 100).mean()) if len(here.status) else None,
    )  # fmt: skip


def _risk(judged: Judged) -> list[tuple[float, float, float]]:
    here = judged.select(np.isfinite(judged.errors_mm))
    errors = here.errors_mm[np.argsort(here.expected_error_mm, kind="stable")]
    kept = [(share, errors[: max(1, round(share * len(errors)))]) for share in COVERAGES] if len(errors) else []
    return [(share, float(np.median(part)), float(np.percentile(part, 90))) for share, part in kept]


def auroc(doubt: np.ndarray, wrong: np.ndarray) -> float | None:
    """Area under the receiver operating characteristic: how often a wrong answer has more doubt than a right one.

    doubt: (n,). wrong: (n,) bool. Ties count half. None where all are right or all wrong.
    """
    many, few = int((~wrong).sum()), int(wrong.sum())
    if not many or not few:
        return None
    _, at, counts = np.unique(doubt, return_inverse=True, return_counts=True)
    rank = (np.cumsum(counts) - (counts - 1) / 2)[at]
    return float((rank[wrong].sum() - few * (few + 1) / 2) / (many * few))


def calibration_error(probability: np.ndarray, came_true: np.ndarray) -> float:
    """Expected calibration error (Naeini 2015): mean over equal bins of |stated - true share|, by their share."""
    if not len(probability):
        return 0.0
    of = np.minimum((probability * _BINS).astype(int), _BINS - 1)
    gaps = [abs(probability[of == b].mean() - came_true[of == b].mean()) * (of == b).mean() for b in np.unique(of)]
    return float(sum(gaps))
