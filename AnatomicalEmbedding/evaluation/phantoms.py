"""Accuracy on synthetic patients the training never saw: the truth is exact, the fields of view are cut."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np

from ..phantom import Phantom, make_phantom
from .structures import normalise_name

if TYPE_CHECKING:
    from ..inference import Model

# body heights in mm: the whole patient, and each half of the trunk alone
VIEWS = {"whole": None, "lower half": (-100.0, 330.0), "upper half": (250.0, 620.0)}
_SPACING_MM = (2.0, 2.0, 3.0)
_NO_STRUCTURES = {"background", "body_other", "subcutaneous_fat", "visceral_fat", "muscle"}


@dataclass(frozen=True)
class PhantomResult:
    """Errors in mm of every shared named point, by the target's view, over all ordered pairs of patients."""

    model: str
    errors_mm: dict[str, np.ndarray]

    def _rows(self) -> list[tuple[str, int, float, float, float]]:
        groups = self.errors_mm | {"all": np.concatenate(list(self.errors_mm.values()))}
        return [
            (name, len(e), float(e.mean()), float(np.median(e)), float(np.percentile(e, 90)))
            for name, e in groups.items()
            if len(e)
        ]

    def table(self) -> str:
        lines = [f"{'target view':<12} {'points':>7} {'mean mm':>8} {'median':>7} {'90th pct':>9}   ({self.model})"]
        lines += [
            f"{name:<12} {n:>7} {mean:>8.1f} {median:>7.1f} {p90:>9.1f}" for name, n, mean, median, p90 in self._rows()
        ]
        return "\n".join(lines)

    def markdown(self) -> str:
        lines = ["| target view | points | mean mm | median mm | 90th pct mm |", "|---|---|---|---|---|"]
        lines += [
            f"| {name} | {n} | {mean:.1f} | {median:.1f} | {p90:.1f} |" for name, n, mean, median, p90 in self._rows()
        ]
        return "\n".join(lines) + "\n"

    def to_json(self) -> str:
        keys = ("view", "points", "mean", "median", "p90")
        rows = [dict(zip(keys, row, strict=True)) for row in self._rows()]
        return json.dumps({"unit": "mm", "model": self.model, "views": rows}, indent=1)


def phantom_views(seed: int) -> dict[str, Phantom]:
    """A synthetic patient in each of VIEWS."""
    return {view: make_phantom(seed, spacing=_SPACING_MM, coverage_mm=heights) for view, heights in VIEWS.items()}


def structure_names(phantom: Phantom) -> dict[int, str]:
    """Label -> normalised name of what has a place and an extent in a synthetic patient."""
    return {number: normalise_name(name) for number, name in phantom.label_names.items() if name not in _NO_STRUCTURES}


def evaluate_phantoms(
    model: Model,
    seeds: Iterable[int],
    progress: Callable[[float, str], None] = lambda share, what: None,
    make: Callable[[int], dict[str, Phantom]] = phantom_views,
    effort: str = "standard",
) -> PhantomResult:
    """Match the named points of each whole patient in every view of every other patient.

    make: patients by seed, for who measures often and keeps them. effort: see `matching.match_targets`.
    """
    seeds = list(seeds)
    scans: dict[tuple[int, str], tuple[Phantom, object]] = {}
    for number, seed in enumerate(seeds):
        progress(number / len(seeds), f"patient {seed}")
        for view, phantom in make(seed).items():
            scans[seed, view] = phantom, model.embed(phantom.volume)
    errors: dict[str, list[float]] = {view: [] for view in VIEWS}
    for a, b in permutations(seeds, 2):
        template, template_map = scans[a, "whole"]
        for view in VIEWS:
            target, target_map = scans[b, view]
            names = sorted(template.points_ras.keys() & target.points_ras.keys())
            points = np.array([template.points_ras[name] for name in names])
            truth = np.array([target.points_ras[name] for name in names])
            found = template_map.match(points, target_map, effort).points_ras
            errors[view] += np.linalg.norm(found - truth, axis=1).tolist()
    progress(1.0, "done")
    return PhantomResult(f"{model.name}, {effort}", {view: np.array(e) for view, e in errors.items()})
