"""Embeds a patient who lies turned to one side, such as a turned head, as if the patient lay straight.

The network knows patients as they lie in most scans. Its coordinates and descriptors follow a turn only in part: in
heads turned by 20 degrees, answers were 13 mm off; straightened 8 mm, unturned 7 mm (RESULTS.md, Patients who lie
turned). Only turns about S are undone: others would make the ends of the scan oblique, which the network does not know.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from ..scan.geometry import rotations, transform_points
from ..scan.volume import Volume
from .coverage import fit_body
from .grid_reading import to_cells
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
    degrees = 0
    straight = embedding
    for _ in range(_MOST_TURNS):
        turn = _turn_degrees(straight)
        if not turn:
            break
        degrees += turn
        straight = embed(replace(volume, ijk_to_ras=_about_s(degrees) @ volume.ijk_to_ras))
    if straight is embedding:
        return embedding
    # the places of the cells, and then of the half cells, in the straight patient
    cell_to_straight = _about_s(degrees) @ embedding.cell_to_ras
    cells_ras = transform_points(cell_to_straight, embedding.body_index.numpy())
    coordinate = torch.zeros_like(embedding.coordinate)
    coordinate[:, embedding.body] = torch.from_numpy(straight.sample(cells_ras).T).float()
    half_cells = torch.nonzero(embedding.local_body).flip(1).double()
    half_cells_ras = transform_points(cell_to_straight, to_cells(half_cells, 2).numpy())
    descriptors = straight.descriptors_at(straight.cells_at(half_cells_ras))
    local = embedding.local.clone()
    local[:, embedding.local_body] = descriptors.T.to(local.dtype)
    return replace(embedding, coordinate=coordinate, local=local)


def _turn_degrees(embedding: EmbeddingMap) -> int:
    """Return the rotation about S that turns the patient straight; 0 if the patient lies straight, or if the map does
    not say how the patient lies.

    Whole degrees: the working grid of a turned copy may jump by a cell when the rotation changes by its rounding
    errors, which depend on the machine.
    """
    if embedding.local is None or not embedding.provenance.metric:
        return 0
    fit = fit_body(embedding)
    is_turned = _LEAST_DEGREES < abs(fit.turn_degrees) < _MOST_DEGREES
    is_body = fit.is_body and min(fit.scales) > 0  # negative in mirrored scans
    return round(fit.turn_degrees) if is_turned and is_body else 0


def _about_s(degrees: float) -> np.ndarray:
    """Return a rotation about S, (4, 4), from R to A."""
    matrix = np.eye(4)
    matrix[:3, :3] = rotations(np.radians([0, 0, degrees]))[2]
    return matrix
