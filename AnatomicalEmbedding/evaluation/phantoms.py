"""Accuracy on synthetic patients the training never saw: the truth is exact, the fields of view are cut."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from ..embedding.inference import Model
from ..phantom.patient import phantom_views
from ..training.known_matches import named_point_errors


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


def evaluate_phantoms(
    model: Model,
    seeds: Iterable[int],
    progress: Callable[[float, str], None] = lambda share, what: None,
    effort: str = "standard",
) -> PhantomResult:
    """Match the named points of each whole patient in every view of every other patient.

    effort: see `matching.match.match_all`.
    """
    errors = named_point_errors(model, seeds, phantom_views, effort, progress)
    progress(1.0, "done")
    return PhantomResult(f"{model.name}, {effort}", errors)
