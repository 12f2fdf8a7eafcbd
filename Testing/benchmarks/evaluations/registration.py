"""Evaluate registration: overlap of transferred labels (Dice), landmark errors, and folding.

With each method, the same lattice of points in the fixed body is mapped into the moving scan. All figures are computed
from the mapped points, so they do not depend on how a method resamples images or computes Jacobians.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations

import numpy as np
import torch

from AnatomicalEmbedding.embedding.body import body_mask
from AnatomicalEmbedding.embedding.working_grid import resample
from AnatomicalEmbedding.errors import NotSamePatientError, PointsError
from AnatomicalEmbedding.evaluation.protocol import EmbeddingMatcher, Matcher
from AnatomicalEmbedding.evaluation.results import Section, Tables
from AnatomicalEmbedding.fields.spline import Lattice
from AnatomicalEmbedding.registration.correspondence import pair
from AnatomicalEmbedding.registration.register import register
from AnatomicalEmbedding.structures.labelled_scans import Case, refuse_twins

LATTICE_MM = 3.0


class RegistrationMatcher:
    """Carries points by a registration of this engine. kind: of `registration.KINDS`."""

    def __init__(
        self, maps: EmbeddingMatcher, kind: str, device: torch.device | str = "cpu"
    ) -> None:
        self._maps = maps
        self._kind = kind
        self._device = device

    def prepare(self, case: Case) -> float:
        """Embed the scan unless it has been; return the seconds it took."""
        return self._maps.prepare(case)

    def __call__(self, template: Case, points_ras: np.ndarray, target: Case) -> np.ndarray:
        maps = self._maps.map_of(template), self._maps.map_of(target)
        found = register(maps, (template.volume, target.volume), self._kind, self._device)
        return found.transform_points(points_ras)


class PairMatcher:
    """Carries points by the correspondence of one patient's scans. No answer (NaN) where the scans are refused."""

    def __init__(self, maps: EmbeddingMatcher) -> None:
        self._maps = maps
        self.prepare = maps.prepare

    def __call__(self, template: Case, points_ras: np.ndarray, target: Case) -> np.ndarray:
        try:
            found = pair(
                template.volume,
                target.volume,
                self._maps.map_of(template),
                self._maps.map_of(target),
            )
        except NotSamePatientError:
            return np.full_like(points_ras, np.nan)
        return found.points(points_ras).points_ras


@dataclass(frozen=True, eq=False)
class Measured:
    """One method on one ordered pair. dice: by structure. errors_mm: of the landmarks. folded: share of the body
    that is folded. seconds: without work done once for a scan.
    """

    method: str
    fixed: str
    moving: str
    dice: dict[str, float]
    errors_mm: np.ndarray
    folded: float
    seconds: float


@dataclass(frozen=True, eq=False)
class RegistrationResult(Tables):
    """All that was measured. scan_seconds: method -> mean seconds of the work done once for a scan, if it has any."""

    methods: tuple[str, ...]
    measured: tuple[Measured, ...]
    scan_seconds: dict[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def of(self, method: str) -> list[Measured]:
        """Return the measurements of one method."""
        return [measured for measured in self.measured if measured.method == method]

    def to_json(self) -> str:
        """The result as JSON text, pair by pair."""
        pairs = [
            {
                "method": m.method,
                "fixed": m.fixed,
                "moving": m.moving,
                "dice": {name: round(value, 4) for name, value in m.dice.items()},
                "landmark_errors_mm": [
                    round(e, 3) if np.isfinite(e) else None for e in m.errors_mm.tolist()
                ],
                "folded_share": round(m.folded, 6) if np.isfinite(m.folded) else None,
                "seconds": round(m.seconds, 3),
            }
            for m in self.measured
        ]
        return json.dumps(
            {"pairs": pairs, "scan_seconds": self.scan_seconds, "notes": list(self.notes)}, indent=1
        )

    def sections(self) -> list[Section]:
        labelled = [[m for m in self.of(method) if m.dice] for method in self.methods]
        landmarked = [[m for m in self.of(method) if len(m.errors_mm)] for method in self.methods]
        found = []
        if any(labelled):
            head = ("method", "mean Dice of a pair", "worst pair", "folded %", "s a pair")
            rows = []
            for method, of in zip(self.methods, labelled, strict=True):
                means = [np.mean(list(m.dice.values())) for m in of]
                rows.append((method, f"{np.mean(means):.3f}", f"{min(means):.3f}", *_costs(of)))
            found.append(
                Section(f"Labels carried over, {len(labelled[0])} ordered pairs", (head, *rows))
            )
        if any(landmarked):
            head = ("method", "mean mm", "median", "90th pct", "answered", "folded %", "s a pair")
            rows = []
            for method, of in zip(self.methods, landmarked, strict=True):
                every = np.concatenate([m.errors_mm for m in of])
                errors = every[np.isfinite(every)]
                figures = (
                    (np.mean(errors), np.median(errors), np.percentile(errors, 90))
                    if len(errors)
                    else ()
                )
                figures = [f"{x:.2f}" for x in figures] or ["failed", "", ""]
                rows.append((method, *figures, f"{len(errors)} of {len(every)}", *_costs(of)))
            found.append(Section(f"Landmarks, {len(landmarked[0])} ordered pairs", (head, *rows)))
        once = [
            f"{name}: {seconds:.1f} s a scan once, not counted above."
            for name, seconds in self.scan_seconds.items()
        ]
        if once or self.notes:
            found.append(Section("Notes", (), (*once, *self.notes)))
        return found


def evaluate_registration(
    cases: Sequence[Case],
    methods: Mapping[str, Matcher],
    progress: Callable[[float, str], None] = lambda share, step: None,
    notes: Sequence[str] = (),
) -> RegistrationResult:
    """Measure every method on every ordered pair of cases that share whole structures, or landmarks of one patient.

    Raises PointsError when no two cases share anything.
    """
    refuse_twins([case.id for case in cases])
    pairs = [
        (one, other)
        for one, other in permutations(cases, 2)
        if _shared(one, other)[0] or _shared(one, other)[1]
    ]
    if not pairs:
        raise PointsError(
            "no two scans share a whole structure, or landmarks of one patient; add scans."
        )
    measured: list[Measured] = []
    once: dict[str, list[float]] = {}
    for number, (fixed, moving) in enumerate(pairs):
        points, lattice, body = _lattice_points(fixed)
        for name, method in methods.items():
            progress(
                (number + len(measured) % len(methods) / len(methods)) / len(pairs),
                f"{name}: {fixed.id}",
            )
            if (prepare := getattr(method, "prepare", None)) is not None:
                once.setdefault(name, []).extend(
                    s for s in (prepare(fixed), prepare(moving)) if s > 0
                )
            measured.append(_measure(name, method, fixed, moving, points, lattice, body))
    progress(1.0, "")
    seconds = {name: float(np.mean(times)) for name, times in once.items() if times}
    return RegistrationResult(tuple(methods), tuple(measured), seconds, tuple(notes))


def _shared(fixed: Case, moving: Case) -> tuple[list[str], list[str]]:
    """Structures that both hold whole (different patients), or landmarks of both (one patient)."""
    if fixed.patient == moving.patient:
        return [], sorted(fixed.landmarks.keys() & moving.landmarks.keys())
    return sorted(fixed.structures.keys() & moving.structures.keys()), []


def _lattice_points(fixed: Case) -> tuple[np.ndarray, Lattice, np.ndarray]:
    """Points (n, 3) of a lattice over a scan that lie in its body; that lattice; which of it, (k, j, i)."""
    grid = resample(fixed.volume, (LATTICE_MM,) * 3, lattice=1, step=1)
    lattice = grid.lattice
    body = body_mask(grid.hu.numpy(), grid.spacing_mm)
    points = lattice.points_ras()[body.ravel()]
    inside = fixed.volume.contains(points)
    body[body] = inside
    return points[inside], lattice, body


def _measure(
    name: str,
    method: Matcher,
    fixed: Case,
    moving: Case,
    points: np.ndarray,
    lattice: Lattice,
    body: np.ndarray,
) -> Measured:
    structures, landmarks = _shared(fixed, moving)
    marks = np.array([fixed.landmarks[mark] for mark in landmarks]).reshape(-1, 3)
    start = time.perf_counter()
    answers = np.asarray(method(fixed, np.concatenate([points, marks]), moving), dtype=np.float64)
    seconds = time.perf_counter() - start
    truth = np.array([moving.landmarks[mark] for mark in landmarks]).reshape(-1, 3)
    errors = np.linalg.norm(answers[len(points) :] - truth, axis=1)
    mapped = np.full((*lattice.shape, 3), np.nan)
    mapped[body] = answers[: len(points)]
    dice = {s: _dice(s, fixed, moving, points, answers[: len(points)]) for s in structures}
    return Measured(name, fixed.id, moving.id, dice, errors, _folded(mapped, lattice), seconds)


def _dice(
    structure: str, fixed: Case, moving: Case, points: np.ndarray, answers: np.ndarray
) -> float:
    """Overlap of the fixed structure and the moving one carried over, over the lattice."""
    own = fixed.label_map
    other = moving.label_map
    here = own.at(points) == own.values[structure]
    carried = other.at(answers) == other.values[structure]
    return float(2 * (here & carried).sum() / max(here.sum() + carried.sum(), 1))


def _folded(mapped: np.ndarray, lattice: Lattice) -> float:
    """Share of cells of the lattice whose corner has a determinant of the Jacobian of 0 or less; NaN: no answer."""
    corner = mapped[:-1, :-1, :-1]
    steps = (mapped[:-1, :-1, 1:], mapped[:-1, 1:, :-1], mapped[1:, :-1, :-1])
    columns = [(step - corner) / mm for step, mm in zip(steps, lattice.spacing_mm, strict=True)]
    jacobian = np.stack(columns, axis=-1)
    known = np.linalg.det(jacobian[np.isfinite(jacobian).all(axis=(-2, -1))])
    return float((known <= 0).mean()) if len(known) else float("nan")


def _costs(of: Sequence[Measured]) -> tuple[str, str]:
    folded = np.array([m.folded for m in of])
    share = f"{100 * np.nanmean(folded):.2f}" if np.isfinite(folded).any() else ""
    return share, f"{np.mean([m.seconds for m in of]):.1f}"
