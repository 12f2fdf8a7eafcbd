"""Pairs of labelled scans and the points both hold.

Different patients: organ centres and six extreme points of every structure both scans hold whole (Goncharov et al.,
MICCAI 2024, section 3). The same patient at two times: the named landmarks both scans hold.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import permutations, product

import numpy as np

from .label_names import KINDS, LANDMARK
from .labelled_scans import Case, refuse_twins


@dataclass(frozen=True, eq=False)
class Pair:
    """One template, one target and the points both hold: names and kinds of N points, (N,3) RAS mm in each scan."""

    template: Case
    target: Case
    names: tuple[str, ...]
    kinds: tuple[str, ...]
    template_ras: np.ndarray
    target_ras: np.ndarray


def find_pairs(cases: Iterable[Case], templates: Iterable[Case] = ()) -> list[Pair]:
    """Every ordered pair with something to measure: structures of different patients, landmarks of the same one.

    templates: further cases that are templates alone.
    """
    cases, templates = list(cases), list(templates)
    refuse_twins([*cases, *templates])
    pairs = []
    for template, target in [*permutations(cases, 2), *product(templates, cases)]:
        points = _shared_landmarks if template.patient == target.patient else _shared_structures
        names, kinds, template_ras, target_ras = points(template, target)
        if names:
            pairs.append(Pair(template, target, names, kinds, template_ras, target_ras))
    return pairs


_Shared = tuple[tuple[str, ...], tuple[str, ...], np.ndarray, np.ndarray]


def _shared_structures(template: Case, target: Case) -> _Shared:
    shared = sorted(template.structures.keys() & target.structures.keys())
    names = tuple(name for name in shared for _ in KINDS)
    return (
        names,
        KINDS * len(shared),
        np.concatenate([template.structures[name].points_ras for name in shared] or [np.empty((0, 3))]),
        np.concatenate([target.structures[name].points_ras for name in shared] or [np.empty((0, 3))]),
    )


def _shared_landmarks(template: Case, target: Case) -> _Shared:
    shared = tuple(sorted(template.landmarks.keys() & target.landmarks.keys()))
    return (
        shared,
        (LANDMARK,) * len(shared),
        np.array([template.landmarks[name] for name in shared]).reshape(-1, 3),
        np.array([target.landmarks[name] for name in shared]).reshape(-1, 3),
    )
