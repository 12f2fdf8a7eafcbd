"""Measure accuracy on synthetic patients that were not used for training.

The true places are known exactly. The scans show only parts of the body.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from AnatomicalEmbedding.embedding.inference import Model
from AnatomicalEmbedding.evaluation.results import Section, Tables, summarise
from AnatomicalEmbedding.phantom.patient import phantom_views
from AnatomicalEmbedding.training.known_matches import named_point_errors


@dataclass(frozen=True)
class PhantomResult(Tables):
    """Errors in mm of every shared named point, by the target's view, over all ordered pairs of patients."""

    model: str
    errors_mm: dict[str, np.ndarray]

    def sections(self) -> list[Section]:
        rows = [("target view", "points", "mean mm", "median", "90 %")]
        for view, errors in (self.errors_mm | {"all": np.concatenate(list(self.errors_mm.values()))}).items():
            known = summarise(errors)
            if known.n:
                rows.append((view, str(known.n), *(f"{x:.1f}" for x in (known.mean, known.median, known.p90))))
        return [Section(f"Synthetic patients, {self.model}", tuple(rows))]

    def to_json(self) -> str:
        views = {view: vars(summarise(errors)) for view, errors in self.errors_mm.items()}
        return json.dumps({"unit": "mm", "model": self.model, "views": views}, indent=1)


def evaluate_phantoms(
    model: Model,
    seeds: Iterable[int],
    progress: Callable[[float, str], None] = lambda share, step: None,
    effort: str = "standard",
) -> PhantomResult:
    """Match the named points of each whole patient in every view of every other patient.

    effort: see `matching.match_all`.
    """
    errors = named_point_errors(model, seeds, phantom_views, effort, progress)
    progress(1.0, "done")
    return PhantomResult(f"{model.name}, {effort}", errors)
