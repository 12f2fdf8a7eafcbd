"""Several templates for one target: their answers for a point, taken together (Goncharov 2024, section 2.3)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .results import Measured, Result

_ROUNDS = 30


def few_shot(result: Result, shots: int) -> Result:
    """The one-shot answers of `result` combined: for each target, the geometric median of up to `shots` templates'.

    Templates of other patients only. Where a target's structure has more templates, every run of `shots` neighbours in
    their alphabetical circle is one try; where it has fewer, all are used, and a note says how often that was so.
    """
    combined: list[Measured] = []
    for matcher in result.matchers:
        for target in sorted({m.target for m in result.measured if m.matcher == matcher}):
            singles = [m for m in result.measured if m.matcher == matcher and m.target == target]
            combined += _of_target(singles, shots)
    sizes = [m.template.count("+") + 1 for m in combined for _ in m.names]
    note = f"{shots}-shot: {sum(s < shots for s in sizes)} of {len(sizes)} answers come from fewer templates."
    return replace(result, measured=tuple(combined), scan_seconds={}, notes=(note, *result.notes))


def _of_target(singles: list[Measured], shots: int) -> list[Measured]:
    """singles: one matcher's measurements on one target, a template each."""
    rows: dict[tuple[str, str], dict[str, np.ndarray]] = {}
    seconds = {m.template: m.seconds for m in singles}
    for m in singles:
        for name, kind, group, offset in zip(m.names, m.kinds, m.groups, m.offsets_mm, strict=True):
            if group != "landmark":
                rows.setdefault((name, kind), {})[m.template] = offset
    found: dict[tuple[str, ...], list[tuple[str, str, np.ndarray]]] = {}
    for (name, kind), offsets in rows.items():
        for templates in _choices(sorted(offsets), shots):
            middle = geometric_median(np.array([offsets[t] for t in templates]))
            found.setdefault(templates, []).append((name, kind, middle))
    return [
        Measured(
            singles[0].matcher,
            "+".join(templates),
            singles[0].target,
            tuple(name for name, _, _ in points),
            tuple(kind for _, kind, _ in points),
            np.array([offset for _, _, offset in points]),
            sum(seconds[t] for t in templates),
        )
        for templates, points in found.items()
    ]


def _choices(templates: list[str], shots: int) -> list[tuple[str, ...]]:
    if len(templates) <= shots:
        return [tuple(templates)]
    circle = templates + templates
    return [tuple(sorted(circle[n : n + shots])) for n in range(len(templates))]


def geometric_median(points: np.ndarray) -> np.ndarray:
    """The place (3,) with the least sum of distances to points (n, 3) (Weiszfeld 1937). NaN rows do not count."""
    points = points[np.isfinite(points).all(axis=1)]
    if not len(points):
        return np.full(3, np.nan)
    middle = points.mean(axis=0)
    for _ in range(_ROUNDS):
        pull = 1 / np.maximum(np.linalg.norm(points - middle, axis=1), 1e-3)
        middle = pull @ points / pull.sum()
    return middle
