"""Fits affine functions to the body coordinates around places of a map, which averages out errors of the map."""

from dataclasses import dataclass

import numpy as np
import torch

from ..embedding.grid_reading import box_offsets, flat_index, reach_of
from ..embedding.map import EmbeddingMap
from .target_batch import TargetRows

_RADIUS_MM = 24.0  # cells within this distance of a place take part in the fit
_SIGMA_MM = 14.0  # of the weights of these cells; by hand, not tuned
# Chosen for directions on 20 pairs of synthetic patients: normals of planes are 4.5 degrees off, with 24 mm 6.1, and
# unchanged normals 7.3.
_DIRECTION_RADIUS_MM = 60.0
# The prior of a slope decides only where all cells around a place lie in one plane; that of the value never decides.
_SLOPE_PRIOR, _VALUE_PRIOR = 1e-6, 1e-12
# least sum of the cells' weights, because the fit has four unknowns for each coordinate
_ENOUGH = 4.0


@dataclass(frozen=True)
class LocalAffine:
    """Affine functions that give the body coordinate near n places: coordinate(place + d mm) = value + slope @ d.

    value: (n, 3) body coordinate at the place. slope: (n, 3, 3) change of the body coordinate per mm along R, A, S.
    supported: (n,) bool, False if too few body cells lie around a place.
    """

    value: torch.Tensor
    slope: torch.Tensor
    supported: torch.Tensor


def vectors_to_body(
    embedding: EmbeddingMap, point_ras: np.ndarray, vectors_ras: np.ndarray
) -> np.ndarray:
    """Return vectors at a place of a scan as vectors of body coordinates, (n, 3) mm.

    Args:
        embedding: map of the scan.
        point_ras: (3,) RAS mm, the place.
        vectors_ras: (n, 3) mm along R, A, S.
    """
    return vectors_ras @ _slope_at(embedding, point_ras).T


def vectors_from_body(
    embedding: EmbeddingMap, point_ras: np.ndarray, vectors_body: np.ndarray
) -> np.ndarray:
    """Return vectors of body coordinates as vectors at a place of a scan: the inverse of `vectors_to_body`."""
    return np.linalg.solve(_slope_at(embedding, point_ras), vectors_body.T).T


def _slope_at(embedding: EmbeddingMap, point_ras: np.ndarray) -> np.ndarray:
    """Return the change of the body coordinate per mm along R, A, S around a place, (3, 3)."""
    rows = TargetRows.each([embedding], 1)
    cells = embedding.cells_at(point_ras[None])
    return fit_around(rows, cells, _DIRECTION_RADIUS_MM).slope[0].numpy()


def fit_around(rows: TargetRows, cells: torch.Tensor, radius_mm: float = _RADIUS_MM) -> LocalAffine:
    """Fit an affine function to the body coordinates around each place.

    Args:
        rows: the maps of the places.
        cells: (n, 3) places, in cell indices.
        radius_mm: cells within this distance of a place take part.
    """
    radius_mm *= rows.maps[0].unit_mm
    cells = cells.double()
    sigma_mm = radius_mm * _SIGMA_MM / _RADIUS_MM
    offsets = box_offsets(reach_of(radius_mm, rows.maps[0].cell_mm))
    around = cells.round().long()[:, None] + offsets  # (n, m, 3)
    values = rows.apply(_coordinates_and_body, around).double()
    coordinates = values[..., :3]
    in_body = values[..., 3]
    offset_mm = (around - cells[:, None]) * rows.cell_mm
    weight = torch.exp(-offset_mm.square().sum(-1) / (2 * sigma_mm**2)) * in_body
    design = torch.cat([offset_mm, torch.ones_like(offset_mm[..., :1])], dim=-1)
    weighted = (design * weight[..., None]).transpose(1, 2)
    # Across one plane of cells (a film; the last cells of a scan), the coordinate changes by 1 mm per mm.
    prior = torch.diag(torch.tensor([_SLOPE_PRIOR] * 3 + [_VALUE_PRIOR], dtype=torch.double))
    right = weighted @ coordinates + prior[:, :3]
    solution = torch.linalg.solve(weighted @ design + prior, right)  # (n, 4, 3)
    return LocalAffine(solution[:, 3], solution[:, :3].transpose(1, 2), weight.sum(1) > _ENOUGH)


def _coordinates_and_body(embedding: EmbeddingMap, cells: torch.Tensor) -> torch.Tensor:
    """Return (n, m, 4) for cells i, j, k (n, m, 3): the body coordinate and 1 in a body cell, otherwise four zeros."""
    index, inside = flat_index(cells, embedding.body.shape)
    return embedding.coordinate_rows[index] * inside[..., None]
