"""Judges places of lesions: whether a place lies on the body, and why a proposed place is uncertain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..matching.status import MATCHED_MM, SHOWN, UNCERTAIN
from ..registration import BY_REGISTRATION
from ..scan.geometry import transform_points

if TYPE_CHECKING:
    from ..embedding.map import EmbeddingMap
    from ..matching.match import Matches
    from ..relations.relation import Relation

NOT_ONE_PATIENT = "two patients"
NOT_IN_BODY = "not in the body"
TISSUE_CHANGED = "tissue changed"
NOT_SHOWN = "not in scan"
_NEAR_BODY_MM = 12.0  # a lesion of the skin may lie outside the body cells, but at most this far from the nearest one


def doubt_of(
    matches: Matches,
    point_ras: np.ndarray,
    source: EmbeddingMap | None,
    target: EmbeddingMap,
    relation: Relation | None,
) -> str:
    """Return what speaks against a match: a few words, and after a colon the details; "" for nothing.

    Args:
        matches: of one point.
        point_ras: (3,) the point, RAS mm in the source.
        source, target: maps of the two scans. The source is None if only the query of the point was kept.
        relation: the relation that gave the match; None if a kept query gave it.
    """
    from ..spine.comparison import differing_levels

    if relation is not None and relation.refusal:
        return f"{NOT_ONE_PATIENT}: {relation.refusal}"
    if not on_body(target, matches.points_ras)[0]:
        return NOT_IN_BODY
    error_mm = 0.0 if matches.expected_error_mm is None else matches.expected_error_mm[0]
    if source is not None:
        levels = differing_levels(
            source.spine, point_ras, target.spine, matches.points_ras[0], error_mm
        )
        if levels:
            source_level, level = levels
            return f"{level}: the level of the spine is {source_level} in the other scan, but {level} here"
    if matches.levels is not None and matches.levels[0]:
        return f"{matches.levels[0]}: the level of the spine is not certain"
    if matches.status is None or matches.status[0] != UNCERTAIN:
        return ""
    is_shown = matches.present is None or matches.present[0] >= SHOWN
    if is_shown and error_mm > MATCHED_MM * target.unit_mm:
        return ""  # only the expected error makes the match uncertain
    # a registration states a high `present` also where tissue may have changed, because change is rare
    if relation is not None and relation.found_by == BY_REGISTRATION:
        return TISSUE_CHANGED
    return NOT_SHOWN


def on_body(embedding: EmbeddingMap, points_ras: np.ndarray) -> np.ndarray:
    """Return (n,) bool: whether each point (n, 3), RAS mm, lies in the scan and near a body cell.

    Near is at most 12 mm, or 12 units for scans of another kind.
    """
    body = embedding.body_index.numpy()
    if not len(body):
        return np.zeros(len(points_ras), bool)
    cells = transform_points(embedding.ras_to_cell, points_ras)
    near_mm = _NEAR_BODY_MM * embedding.unit_mm
    is_near = embedding.contains(points_ras)
    for n in np.flatnonzero(is_near):
        # the distance from each body cell; a cell extends 0.5 to both sides of its index
        beyond_mm = np.maximum(np.abs(body - cells[n]) - 0.5, 0) * embedding.cell_mm
        is_near[n] = np.square(beyond_mm).sum(1).min() <= near_mm**2
    return is_near
