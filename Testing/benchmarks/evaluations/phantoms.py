"""Measure accuracy on synthetic patients that were not used for training.

The true places are known exactly. The scans show only parts of the body.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from AnatomicalEmbedding.embedding.inference import Model
from AnatomicalEmbedding.embedding.map import EmbeddingMap
from AnatomicalEmbedding.evaluation.results import Section, Tables, summarise
from AnatomicalEmbedding.matching.match import match
from AnatomicalEmbedding.phantom import Phantom
from AnatomicalEmbedding.phantom.patient import VIEWS, phantom_views


@dataclass(frozen=True)
class PhantomResult(Tables):
    """Errors in mm of every shared named point, by the target's view, over all ordered pairs of patients."""

    model: str
    errors_mm: dict[str, np.ndarray]

    def sections(self) -> list[Section]:
        rows = [("target view", "points", "mean mm", "median", "90 %")]
        for view, errors in (
            self.errors_mm | {"all": np.concatenate(list(self.errors_mm.values()))}
        ).items():
            known = summarise(errors)
            if known.n:
                rows.append(
                    (
                        view,
                        str(known.n),
                        *(f"{x:.1f}" for x in (known.mean, known.median, known.p90)),
                    )
                )
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
    errors = named_point_errors(model, seeds, effort, progress)
    progress(1.0, "done")
    return PhantomResult(f"{model.name}, {effort}", errors)


def named_point_errors(
    model: Model,
    seeds: Iterable[int],
    effort: str,
    progress: Callable[[float, str], None],
) -> dict[str, np.ndarray]:
    """Match the named points of each whole synthetic patient in every view of every other patient.

    effort: see `match_all`. Returns errors in mm, by name of a view.
    """
    seeds = list(seeds)
    scans: dict[tuple[int, str], tuple[Phantom, EmbeddingMap]] = {}
    for number, seed in enumerate(seeds):
        progress(number / len(seeds), f"patient {seed}")
        for view, phantom in phantom_views(seed).items():
            scans[seed, view] = phantom, model.embed(phantom.volume)
    errors: dict[str, list[float]] = {view: [] for view in VIEWS}
    for a, b in permutations(seeds, 2):
        template, template_map = scans[a, "whole"]
        for view in VIEWS:
            target, target_map = scans[b, view]
            names = sorted(template.points_ras.keys() & target.points_ras.keys())
            points = np.array([template.points_ras[name] for name in names])
            truth = np.array([target.points_ras[name] for name in names])
            found = match(template_map, points, target_map, effort).points_ras
            errors[view] += np.linalg.norm(found - truth, axis=1).tolist()
    return {view: np.array(values) for view, values in errors.items()}
