"""Measure confidence: do uncertain answers have larger errors, are probabilities right, are absent points found?"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..errors import AnatomicalEmbeddingError
from ..matching.match import match
from ..matching.status import ABSENT, MATCHED
from ..structures.label_names import EXTREME
from ..training.known_matches import Trial
from .results import GROUPS, Section, Tables


class Judged(NamedTuple):
    """n answers with their reported confidence; all arrays are (n,).

    errors_mm: true error; infinite where the point is absent. groups: kind of point, such as "centre". whole: False
    if the target was cropped for the test. probability: chance of an error below 10 mm; probability_20: below 20 mm.
    """

    errors_mm: np.ndarray
    groups: np.ndarray
    whole: np.ndarray
    status: np.ndarray
    expected_error_mm: np.ndarray
    probability: np.ndarray
    probability_20: np.ndarray

    def select(self, which: np.ndarray) -> Judged:
        """Return the answers for which `which`, (n,) bool, is True."""
        return Judged(*(values[which] for values in self))


@dataclass(frozen=True)
class ConfidenceRow:
    """Figures of one group of answers; None where a figure is undefined.

    auroc_10: `auroc` of present points. An answer is wrong if its error is above 10 mm; its doubt is 1 - `probability`.
    auroc_20: the same with 20 mm and `probability_20`. auroc_10_all, auroc_20_all: the same for all points; answers for
    absent points count as wrong. ece: `calibration_error` of `probability`. matched: fraction of present points with
    status matched. false_matched: fraction of absent points with status matched. absent_found: fraction of absent
    points with status absent. expected, found: mean expected error and mean true error of present points, mm. A true
    error above 100 mm counts as 100 mm.
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
    """Result of `summarise_confidence`.

    risk: (coverage, median error, 90th percentile of the error in mm) of points in the target. A coverage of 0.2 means
    the 20 % of answers with the smallest expected error.
    """

    model: str
    rows: tuple[ConfidenceRow, ...]
    risk: tuple[tuple[float, float, float], ...]

    def sections(self) -> list[Section]:
        """Return the table of figures of each group, and the table of risk."""
        risk = [(f"{share:.0%}", f"{median:.1f}", f"{p90:.1f}") for share, median, p90 in self.risk]
        heads = tuple(head for head, _ in _COLUMNS.values())
        return [
            Section(f"Confidence, {self.model}", (heads, *map(_cells, self.rows))),
            Section(
                "Answers for present points, smallest expected error first",
                (("answered", "median mm", "90 % mm"), *risk),
            ),
        ]

    def to_json(self) -> str:
        risk = [dict(zip(("coverage", "median", "p90"), line, strict=True)) for line in self.risk]
        return json.dumps(
            {"model": self.model, "groups": [vars(row) for row in self.rows], "risk": risk},
            indent=1,
        )


_COLUMNS = {  # field of ConfidenceRow -> (heading, format)
    "name": ("points", ""),
    "present": ("present", ""),
    "absent": ("absent", ""),
    "auroc_10": ("AUROC >10 mm", ".2f"),
    "auroc_20": (">20 mm", ".2f"),
    "auroc_10_all": ("with absent >10", ".2f"),
    "auroc_20_all": (">20", ".2f"),
    "ece": ("ECE", ".3f"),
    "matched": ("matched", ".0%"),
    "false_matched": ("absent called matched", ".1%"),
    "absent_found": ("called absent", ".0%"),
    "expected": ("expected mm", ".1f"),
    "found": ("true mm", ".1f"),
}


def _cells(row: ConfidenceRow) -> tuple[str, ...]:
    return tuple(
        "-" if v is None else format(v, _COLUMNS[name][1]) for name, v in vars(row).items()
    )


def judge_trials(trials: Iterable[Trial], effort: str) -> Judged:
    """Match the points of every trial, and collect the true errors and the reported confidence of the answers.

    Raises AnatomicalEmbeddingError if the weights have no calibration.
    """
    parts = []
    for trial in trials:
        if not len(trial.template_ras):
            continue
        matches = match(trial.template, trial.template_ras, trial.target, effort)
        if matches.status is None:
            raise AnatomicalEmbeddingError(
                f"{trial.template.provenance.model}: these weights have no calibration; run `anatemb calibrate`."
            )
        errors = trial.errors_mm(matches)
        part = Judged(
            errors,
            np.array(trial.groups),
            np.full(len(errors), trial.whole),
            matches.status,
            matches.expected_error_mm,
            matches.probability,
            matches.probability_20,
        )
        parts.append(part)
    if not parts:
        raise AnatomicalEmbeddingError(
            "no two labelled scans have points in common; add labelled scans."
        )
    return Judged(*map(np.concatenate, zip(*parts, strict=True)))


def summarise_confidence(judged: Judged, model: str) -> ConfidenceResult:
    """Compute figures: a row for all scans, a row for whole scans, and rows for groups of points in whole scans."""
    whole = judged.select(judged.whole)
    rows = [_row("all", judged), _row("whole scans", whole)]
    # People click points of all groups except "extreme", which depend on the exact outline.
    named = whole.select(whole.groups != EXTREME)
    if len(named.status):
        rows.append(_row("  without extreme points", named))
    for group in GROUPS:
        if (whole.groups == group).any():
            rows.append(_row(f"  {group}", whole.select(whole.groups == group)))
    return ConfidenceResult(model, tuple(rows), tuple(_risk(judged)))


def _row(name: str, judged: Judged) -> ConfidenceRow:
    """Compute the figures of one group of answers."""
    present = np.isfinite(judged.errors_mm)
    present_answers = judged.select(present)
    absent_answers = judged.select(~present)

    def mean(values: np.ndarray) -> float | None:
        return float(values.mean()) if len(values) else None

    return ConfidenceRow(
        name,
        len(present_answers.status),
        len(absent_answers.status),
        auroc(1 - present_answers.probability, present_answers.errors_mm > 10),
        auroc(1 - present_answers.probability_20, present_answers.errors_mm > 20),
        auroc(1 - judged.probability, judged.errors_mm > 10),
        auroc(1 - judged.probability_20, judged.errors_mm > 20),
        calibration_error(judged.probability, judged.errors_mm < 10),
        mean(present_answers.status == MATCHED),
        mean(absent_answers.status == MATCHED),
        mean(absent_answers.status == ABSENT),
        mean(present_answers.expected_error_mm),
        mean(np.minimum(present_answers.errors_mm, 100)),
    )


def _risk(judged: Judged) -> list[tuple[float, float, float]]:
    """Return the rows of `ConfidenceResult.risk`, from all answers to the tenth with the smallest expected error."""
    present_answers = judged.select(np.isfinite(judged.errors_mm))
    errors = present_answers.errors_mm[np.argsort(present_answers.expected_error_mm, kind="stable")]
    shares = [tenths / 10 for tenths in range(10, 0, -1)] if len(errors) else []
    parts = [(share, errors[: max(1, round(share * len(errors)))]) for share in shares]
    return [
        (share, float(np.median(part)), float(np.percentile(part, 90))) for share, part in parts
    ]


def auroc(doubt: np.ndarray, wrong: np.ndarray) -> float | None:
    """Return the area under the ROC curve: the probability that a wrong answer has a higher doubt than a right answer.

    doubt: (n,). wrong: (n,) bool. A pair with equal doubt counts half. Returns None if no or all answers are wrong.
    """
    many = int((~wrong).sum())
    few = int(wrong.sum())
    if not many or not few:
        return None
    _, group, counts = np.unique(doubt, return_inverse=True, return_counts=True)
    rank = (np.cumsum(counts) - (counts - 1) / 2)[group]
    return float((rank[wrong].sum() - few * (few + 1) / 2) / (many * few))


def calibration_error(probability: np.ndarray, came_true: np.ndarray) -> float:
    """Return the expected calibration error (Naeini 2015), with ten bins of equal width.

    The error is |mean probability - fraction of True in `came_true`|, averaged over bins, weighted by answer counts.
    """
    bin_of = np.minimum((probability * 10).astype(int), 9)
    gaps = [
        abs(probability[bin_of == b].mean() - came_true[bin_of == b].mean()) * (bin_of == b).mean()
        for b in np.unique(bin_of)
    ]
    return float(sum(gaps))
