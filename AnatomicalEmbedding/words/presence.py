"""Compute the fraction of a place that lies in a scan: cells of the body frame are mapped into the scan."""

from functools import lru_cache

import numpy as np
import torch

from ..anatomy.terms import load_terms
from ..embedding.coverage import body_points, robust_affine
from ..embedding.grid_reading import nearest_rows
from ..embedding.map import EmbeddingMap
from ..scan.geometry import bounds_of
from .atlas import LOW_MM, SHAPE, STEP_MM, Atlas, Occupancy
from .derived_places import ALONG, field_by_recipe
from .grid_weights import NOWHERE, Field, Grid
from .occupancy import faded

_EVERY = 3  # every third frame cell along each axis is mapped into the scan
_BLOCK = 2  # map cells along each side of a block; the mean of a block is a reference point
_BLOCKS_LIMIT = 2000  # only limits time
_DIRECTIONS = tuple(ALONG)  # against and along R, A, S


class FrameFields:
    """Computes a field for each place: the probability that a cell of the body frame belongs to the place, 0 to 1."""

    def __init__(self, atlas: Atlas) -> None:
        self.grid = Grid(LOW_MM, np.full(3, STEP_MM), SHAPE, np.ones(SHAPE, bool))
        self._atlas = atlas
        self._fields: dict[str, Field] = {}

    def field(self, name: str) -> Field:
        """Return the field of a place; zeros if neither the atlas nor a recipe describes the place."""
        if name not in self._fields:
            self._fields[name] = self._read(name)
        return self._fields[name]

    def _read(self, name: str) -> Field:
        """Compute the field of a place, from the atlas or by the recipe of the place."""
        term = load_terms()[name]
        occupancy = occupancy_of(name, self._atlas)
        if occupancy is not None:
            return Field(occupancy.first, occupancy.share.astype(np.float32) / 255)
        if not term.recipe:
            return NOWHERE
        return field_by_recipe(term.recipe, self.grid, self.field, term.side)


def occupancy_of(name: str, atlas: Atlas) -> Occupancy | None:
    """Return the occupancy of a place in the atlas; None if the atlas lacks the place or the place has a better recipe.

    A recipe, see `derived_places`, is better than an occupancy that was counted in fewer than three real patients.
    """
    occupancy = atlas.occupancies.get(name)
    if occupancy is not None and occupancy.real < 3 and load_terms()[name].recipe:
        return None
    return occupancy


frame_fields = lru_cache(maxsize=2)(FrameFields)  # cached, because all scans share these fields


class Presence:
    """Converts places of the body frame to places in one scan, also beyond the borders of the scan."""

    def __init__(self, embedding: EmbeddingMap) -> None:
        ras, body = body_points(embedding)
        affine, _ = robust_affine(ras, body)
        self._embedding = embedding
        self._bounds = bounds_of(embedding.scan_to_ras, embedding.scan_shape)
        self._body_to_ras = np.linalg.pinv(affine[:3])  # (3, 3), of offsets (n, 3) in mm
        self._ras, self._body = _blocks(embedding, ras, body)
        self._middle = self._body.mean(axis=0)
        self._blocks = torch.from_numpy(self._body - self._middle).float()
        self._half_squares = self._blocks.square().sum(1) / 2

    def _to_ras(self, places: np.ndarray) -> np.ndarray:
        """Convert places (n, 3) of the body frame, mm, to places (n, 3) in the scan, RAS mm.

        A place is converted by its offset from the nearest block, so it may lie outside the scan.
        """
        query = torch.from_numpy(places - self._middle).float()
        nearest = nearest_rows(query, self._blocks, self._half_squares).numpy()
        return self._ras[nearest] + (places - self._body[nearest]) @ self._body_to_ras

    def share(self, field: Field, shift_mm: float, fading: bool) -> tuple[float, str]:
        """Return the fraction (0 to 1) of a field in the scan, and the side of the scan beyond which the rest lies.

        Args:
            field: field on the grid of the body frame.
            shift_mm: mm to add to this patient's body heights at the field.
            fading: True for ribs, whose front ends are shifted less than their back ends.
        """
        # the n cells that count, as indices of the field's box
        k, j, i = np.nonzero(field.values > 0.05 * max(float(field.values.max()), 1e-6))
        if not len(k):
            return 0.0, ""
        weight = field.values[k, j, i].astype(np.float64)
        if shift_mm:
            ahead = LOW_MM[1] + STEP_MM * (j + field.first[1])
            shift = faded(shift_mm, ahead) if fading else shift_mm
            k = np.maximum(k - np.rint(shift / STEP_MM).astype(int), -field.first[2])
        points_ras, inside = self._coarse_points(np.stack([i, j, k], axis=1) + field.first)
        outside = weight * ~inside
        if outside.sum() <= 0:
            return 1.0, ""
        low, high = self._bounds
        # (n, 6) mm, in the order of _DIRECTIONS: how far each point lies beyond this side; negative inside
        beyond = np.stack([low - points_ras, points_ras - high], axis=2).reshape(-1, 6)
        side = (outside[:, None] * np.maximum(beyond, 0)).sum(axis=0).argmax()
        return float((weight * inside).sum() / weight.sum()), _DIRECTIONS[int(side)]

    def _coarse_points(self, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the places (n, 3) in the scan, RAS mm, of frame cells (n, 3) i, j, k, and (n,) bool: whether they lie
        inside. A cell gets the place of every third cell near it, which is converted only once."""
        size = np.array(SHAPE)
        coarse = np.minimum(cells[:, ::-1] // _EVERY, (size - 1) // _EVERY)
        flat, group = np.unique(np.ravel_multi_index(tuple(coarse.T), SHAPE), return_inverse=True)
        index = np.stack(np.unravel_index(flat, SHAPE)[::-1], axis=1)  # i, j, k
        points_ras = self._to_ras(LOW_MM + STEP_MM * _EVERY * index)
        return points_ras[group], self._embedding.contains(points_ras)[group]


def _blocks(
    embedding: EmbeddingMap, ras: np.ndarray, body: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the means (n, 3) of `ras` and of `body` in blocks of neighbouring body cells; at most 2,000 blocks."""
    block = embedding.body_index.numpy() // _BLOCK
    flat = np.ravel_multi_index(tuple(block.T), tuple(embedding.body.shape[::-1]))
    # cell n lies in block group[n]; count: number of cells of each block
    _, group, count = np.unique(flat, return_inverse=True, return_counts=True)
    every = -(-len(count) // _BLOCKS_LIMIT)  # rounded up

    def means(values: np.ndarray) -> np.ndarray:
        columns = [np.bincount(group, values[:, axis]) / count for axis in range(3)]
        return np.stack(columns, axis=1)[::every]

    return means(ras), means(body)
