"""Embeds a patient who lies turned, such as a head turned to one side, as if the patient lay straight.

The network knows patients as they lie in most scans. Its coordinates and descriptors follow a turn only in part: in
heads turned by 20 degrees, answers were 12 mm off; straightened 8 mm, unturned 7 mm (RESULTS.md, Patients who lie
turned).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F

from ..scan.geometry import transform_points
from ..scan.volume import Volume
from .coverage import fit_body
from .grid_reading import read_rows, to_cells, to_parts
from .map import EmbeddingMap

# Smaller turns stay: below 5 degrees nothing is gained. Larger ones are faults of the header, see `orientation`.
_LEAST_DEGREES, _MOST_DEGREES = 5.0, 45.0
_MOST_TURNS = 2  # what is left after the first turn is a fifth of it


def straightened(
    embedding: EmbeddingMap, volume: Volume, embed: Callable[[Volume], EmbeddingMap]
) -> EmbeddingMap:
    """Return the map of a scan with the coordinates and descriptors of the straight patient, on the same cells.

    Args:
        embedding: the map of the scan as the patient lies.
        volume: the scan.
        embed: computes the map of a turned copy.
    """
    to_straight = np.eye(4)
    straight = embedding
    for _ in range(_MOST_TURNS):
        rotation = _turn(straight)
        if rotation is None:
            break
        to_straight[:3, :3] = rotation @ to_straight[:3, :3]
        straight = embed(replace(volume, ijk_to_ras=to_straight @ volume.ijk_to_ras))
    if straight is embedding:
        return embedding
    cell_to_straight = to_straight @ embedding.cell_to_ras
    coordinate = torch.zeros_like(embedding.coordinate)
    places = transform_points(cell_to_straight, embedding.body_index.numpy())
    coordinate[:, embedding.body] = torch.from_numpy(straight.sample(places).T).float()
    half_cells = torch.nonzero(embedding.local_body).flip(1).double()
    places = transform_points(cell_to_straight, to_cells(half_cells, 2).numpy())
    parts = to_parts(straight.cells_at(places), 2)
    rows = read_rows(straight.local_rows, straight.local.shape[1:], parts)
    local = embedding.local.clone()
    local[:, embedding.local_body] = F.normalize(rows, dim=1).T.to(local.dtype)
    return replace(embedding, coordinate=coordinate, local=local)


def _turn(embedding: EmbeddingMap) -> np.ndarray | None:
    """Return the rotation (3, 3) that turns the patient straight; None if the patient lies straight, or if the map
    does not say how the patient lies."""
    if embedding.local is None or not embedding.provenance.metric:
        return None
    fit = fit_body(embedding)
    # of a rotation by an angle a, the trace is 1 + 2 cos a; mirrored scans have less
    most, least = 1 + 2 * np.cos(np.radians((_LEAST_DEGREES, _MOST_DEGREES)))
    is_turned = least < np.trace(fit.rotation) < most
    return _rounded(fit.rotation) if is_turned and fit.is_body else None


def _rounded(rotation: np.ndarray) -> np.ndarray:
    """Round a rotation to about a degree. The working grid of a turned copy may jump by a cell when the rotation
    changes by less than its rounding errors, which depend on the machine."""
    identity = np.eye(3)
    # Cayley's transform: skew, and for a rotation by an angle a the tangent of a / 2 about its axis
    skew = np.round((rotation - identity) @ np.linalg.inv(rotation + identity), 2)
    return np.linalg.inv(identity - skew) @ (identity + skew)
