"""Grids of scans and of the body frame, and fields. A field gives each cell of a grid a value; it stores only the box
that holds the values above 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import SimpleITK as sitk
import torch
import torch.nn.functional as F

from ..embedding.grid_reading import smoothed
from ..embedding.map import EmbeddingMap
from ..errors import MapError, no_body_frame
from ..scan.geometry import AIR_HU, LPS_FROM_RAS, mask_box, transform_points
from ..scan.volume import Volume
from .atlas import SHAPE, frame_index

_LEAST = 1e-3  # smaller values count as 0
# the border of a place lies where the values of its field are this fraction of the largest value
_BORDER_SHARE = 0.5
_AS_SURE = 0.99  # values above this share of the largest value count as the largest
_FINE_MM = 4.0  # wanted size of a cell; by hand
_CELLS_LIMIT = 3_000_000  # only limits memory and time: with more, cells are larger
_BODY_SHARE = 0.4  # least share of body in a cell; by hand

Cell = tuple[int, int, int]  # i, j, k; of the shape of an array k, j, i


@dataclass(frozen=True, eq=False)
class Field:
    """Values in a box of a grid; beyond the box, all values are 0.

    first: index i, j, k of the box's first cell. values: float32 (k, j, i), 0 to 1.
    """

    first: Cell
    values: np.ndarray

    @property
    def total(self) -> float:
        """The sum of all values."""
        return float(self.values.sum(dtype=np.float64))

    @property
    def after(self) -> np.ndarray:
        """Index i, j, k (3,) behind the last cell of the box."""
        return np.add(self.first, self.values.shape[::-1])

    @property
    def box(self) -> tuple[slice, ...]:
        """The slices that cut the field's box out of an array (k, j, i) of the grid."""
        return _box(self.first, self.values.shape[::-1])

    def with_values(self, values: np.ndarray) -> Field:
        """Return a field with other values (k, j, i) in the same box."""
        return Field(self.first, np.ascontiguousarray(values, np.float32))

    def over(self, where: Field) -> np.ndarray:
        """Return the values of this field in the box of `where`, (k, j, i); 0 where this field has no cell."""
        result = np.zeros_like(where.values)
        # low, high: i, j, k of the part that both boxes have
        low = np.maximum(self.first, where.first)
        high = np.minimum(self.after, where.after)
        if (high > low).all():
            size = high - low
            result[_box(low - where.first, size)] = self.values[_box(low - self.first, size)]
        return result

    def trimmed(self) -> Field:
        """Return the field in the smallest box that holds its values above 0.001; smaller values become 0."""
        values = np.where(self.values > _LEAST, self.values, 0)
        if not values.any():
            return Field(self.first, NOWHERE.values)
        box = mask_box(values > 0)
        return Field(as_cell(np.add(self.first, [part.start for part in box[::-1]])), values[box])


NOWHERE = Field((0, 0, 0), np.zeros((1, 1, 1), np.float32))


@dataclass(frozen=True, eq=False)
class Grid:
    """A grid of cells along R, A, S. origin: (3,) mm, centre of the first cell. step: (3,) mm. shape: (k, j, i).

    body: float32 (3, k, j, i), body coordinates of each cell, mm; None if the grid itself is in the body frame.
    tissue: bool (k, j, i), True for cells that contain a part of the patient. hu: float32 (k, j, i), mean CT number of
    each cell, or None. fine_hu: int16 (2 k, 2 j, 2 i), CT numbers at half the cell size, or None.
    """

    origin: np.ndarray
    step: np.ndarray
    shape: Cell
    tissue: np.ndarray
    body: np.ndarray | None = None
    hu: np.ndarray | None = None
    fine_hu: np.ndarray | None = None

    @cached_property
    def axes(self) -> list[np.ndarray]:
        """Centres of the cells along R, A and S, mm: three arrays."""
        axes = []
        for first, step, count in zip(self.origin, self.step, self.shape[::-1], strict=True):
            axes.append((first + step * np.arange(count)).astype(np.float32))
        return axes

    def zeros(self) -> Field:
        """Return a field of zeros over the whole grid."""
        return Field((0, 0, 0), np.zeros(self.shape, np.float32))

    def position(self, field: Field, axis: int) -> np.ndarray:
        """Return a field's cell centres along axis 0 (R), 1 (A) or 2 (S), mm, as a three-dimensional array."""
        shape = [1, 1, 1]
        shape[2 - axis] = -1
        return self.axes[axis][field.box[2 - axis]].reshape(shape)

    def mean(self, field: Field) -> np.ndarray:
        """Return the mean position (3,), mm, of a field's cells, weighted by their values."""
        total = max(field.total, 1e-9)
        return np.array(
            [float((field.values * self.position(field, axis)).sum() / total) for axis in range(3)]
        )

    def span(self, field: Field, low: float, high: float) -> np.ndarray:
        """Return (2, 3) mm: the places along R, A, S below which two shares of a field's sum lie.

        Args:
            field: the field.
            low, high: the shares, 0 to 1.
        """
        result = np.zeros((2, 3))
        # axis 0 is R, but the last axis of the array: the sum runs over the two other axes
        for axis, across_axes in enumerate(((0, 1), (0, 2), (1, 2))):
            share = np.cumsum(field.values.sum(axis=across_axes, dtype=np.float64))
            ends = np.searchsorted(share, np.array([low, high]) * share[-1]).clip(0, len(share) - 1)
            result[:, axis] = self.position(field, axis).ravel()[ends]
        return result

    def around(self, low_mm: np.ndarray, high_mm: np.ndarray) -> Field:
        """Return a field of zeros over the cells between two corners (3,), mm. The field has at least one cell."""
        size = np.array(self.shape[::-1])
        first = np.clip(np.floor((low_mm - self.origin) / self.step).astype(int), 0, size - 1)
        last = np.clip(
            np.ceil((high_mm - self.origin) / self.step).astype(int) + 1, first + 1, size
        )
        return Field(as_cell(first), np.zeros((last - first)[::-1], np.float32))

    def grown(self, field: Field, mm: float) -> Field:
        """Return the same field in a box that is `mm` larger on every side."""
        low = self.origin + self.step * np.array(field.first)
        high = low + self.step * (np.array(field.values.shape[::-1]) - 1)
        larger = self.around(low - mm, high + mm)
        return larger.with_values(field.over(larger))

    def in_tissue(self, field: Field, values: np.ndarray) -> Field:
        """Return a field with `values` (k, j, i) in the box of `field`; 0 where the scan shows no tissue."""
        return field.with_values(values * self.tissue[field.box])

    @cached_property
    def _by_place(self) -> tuple[np.ndarray, np.ndarray]:
        """Two arrays, which sort the grid cells with tissue by the cells of the body frame (frame cells).

        The first, `cells`, holds the flat indices of the grid cells, sorted by frame cell. The second, `begin`, tells
        where a frame cell begins: cells[begin[n] : begin[n + 1]] lie in frame cell n. A grid cell outside the body
        frame is assigned to the nearest frame cell.
        """
        cells = np.flatnonzero(self.tissue)
        index, _ = frame_index(self.body.reshape(3, -1)[:, cells].T)
        in_frame = np.clip(index, 0, np.array(SHAPE[::-1]) - 1)  # (n, 3) i, j, k
        flat = np.ravel_multi_index(in_frame.T[::-1], SHAPE)
        begin = np.concatenate([[0], np.bincount(flat, minlength=int(np.prod(SHAPE))).cumsum()])
        return cells[np.argsort(flat, kind="stable")], begin

    def cells_in(self, first: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """Return (n,) flat indices of the grid cells with tissue that lie in chosen cells of the body frame.

        Args:
            first: frame index i, j, k of the first cell of `mask`.
            mask: bool (k, j, i), True for a chosen frame cell.
        """
        index = np.argwhere(mask) + np.asarray(first)[::-1]
        index = index[((index >= 0) & (index < SHAPE)).all(axis=1)]
        flat = np.ravel_multi_index(index.T, SHAPE)
        cells, begin = self._by_place
        counts = begin[flat + 1] - begin[flat]
        # the grid cells of one frame cell lie side by side in `cells`; these pieces are joined
        starts = counts.cumsum() - counts  # of the pieces in the result
        offsets = np.repeat(begin[flat] - starts, counts)  # from a place in the result to `cells`
        return cells[np.arange(counts.sum()) + offsets]

    def field_of(self, cells: np.ndarray, values: np.ndarray) -> Field:
        """Make a field from values (n,) at flat indices `cells` (n,). The field's box holds all values above 0."""
        index = np.stack(np.unravel_index(cells[values > 0], self.shape))
        if not index.size:
            return NOWHERE
        low = index.min(axis=1)
        box = np.zeros(index.max(axis=1) + 1 - low, np.float32)
        box[tuple(index - low[:, None])] = values[values > 0]
        return Field(as_cell(low[::-1]), box)

    def blurred(self, field: Field, sigma_mm: float) -> np.ndarray:
        """Return the values of a field, smoothed by a Gaussian inside the box of the field."""
        values = torch.from_numpy(field.values)[None]
        return smoothed(values, (sigma_mm / self.step).tolist()).numpy()[0]

    def distance(self, field: Field) -> np.ndarray:
        """Return each cell's distance to the border of a place, (k, j, i) mm; negative in the place.

        The place is where the values of its field are at least half of the largest value.
        """
        border = _BORDER_SHARE * max(float(field.values.max()), 1e-3)
        image = sitk.GetImageFromArray((field.values >= border).astype(np.uint8))
        image.SetSpacing(self.step.tolist())
        return sitk.GetArrayFromImage(
            sitk.SignedMaurerDistanceMap(
                image, insideIsPositive=False, squaredDistance=False, useImageSpacing=True
            )
        )

    def nearest(self, point_mm: np.ndarray) -> Cell:
        """Return the index i, j, k of the cell nearest to a place (3,), mm."""
        return as_cell(
            np.rint((point_mm - self.origin) / self.step).clip(0, np.array(self.shape[::-1]) - 1)
        )


def as_cell(index: np.ndarray) -> Cell:
    """Convert an array (3,) to a tuple of whole numbers; the order of the axes stays."""
    i, j, k = index
    return int(i), int(j), int(k)


def _box(first: Cell | np.ndarray, size: Cell | np.ndarray) -> tuple[slice, ...]:
    """Return the slices of an array (k, j, i) for a box of `size` cells from cell `first` on; both are i, j, k."""
    return tuple(slice(a, a + n) for a, n in zip(first[::-1], size[::-1], strict=True))


def joined(fields: list[Field]) -> Field:
    """Return a field whose value at each cell is the largest value of `fields` at this cell."""
    low = np.min([field.first for field in fields], axis=0)
    high = np.max([field.after for field in fields], axis=0)
    box = Field(as_cell(low), np.zeros((high - low)[::-1], np.float32))
    return box.with_values(np.max([field.over(box) for field in fields], axis=0))


def middle_of_likeliest(values: np.ndarray) -> Cell:
    """Of all cells with at least 99 % of the largest value, return the most central cell: its index k, j, i.

    The most central cell is the nearest to the mean of these cells. values: (k, j, i).
    """
    sure = np.argwhere(values >= _AS_SURE * values.max())
    return as_cell(sure[np.square(sure - sure.mean(axis=0)).sum(axis=1).argmin()])


def make_scan_grid(embedding: EmbeddingMap, volume: Volume | None) -> Grid:
    """Make the grid of one scan. Its cells are parts of the map's cells, with body coordinates and CT numbers.

    Raises MapError if the map has no coordinates in mm of the common body frame, or shows no body.
    """
    name = embedding.provenance.scan or "the scan"
    if not embedding.provenance.metric:
        raise MapError(f"{name}: {no_body_frame(embedding.provenance.model)}")
    if not len(embedding.body_index):
        raise MapError(
            f"{name}: shows no body, so no place can be found; choose a CT of a patient."
        )
    parts = np.maximum(np.rint(embedding.cell_mm / _FINE_MM), 1).astype(int)
    while np.prod(parts) * embedding.body.numel() > _CELLS_LIMIT and (parts > 1).any():
        parts = np.maximum(parts - 1, 1)
    step = embedding.cell_mm / parts
    shape = as_cell(np.array(embedding.body.shape) * parts[::-1])
    origin = embedding.cell_to_ras[:3, 3] - embedding.cell_mm / 2 + step / 2
    # Outside the body, coordinates are 0. Divided by the share of body, they are means over the body alone.
    mixed = F.interpolate(
        embedding.coordinate_and_body, size=shape, mode="trilinear", align_corners=False
    )[0]
    weight = mixed[3]
    body = (mixed[:3] / weight.clamp_min(1e-4)).numpy()
    grid = Grid(origin, step, shape, (weight > _BODY_SHARE).numpy(), body)
    _clear_beyond_scan(grid, embedding)
    if volume is None:
        return grid
    fine = _fine_hu(volume, grid)
    mean = F.avg_pool3d(torch.from_numpy(fine)[None], 2)[0].numpy()
    return replace(grid, hu=mean, fine_hu=np.rint(fine).clip(-32768, 32767).astype(np.int16))


def _clear_beyond_scan(grid: Grid, embedding: EmbeddingMap) -> None:
    """Set `grid.tissue` to False in each cell of the grid whose centre lies outside the scan of the map."""
    x, y, z = grid.axes
    ras_to_ijk = np.linalg.inv(embedding.scan_to_ras)
    for row, size in zip(ras_to_ijk[:3], embedding.scan_shape[::-1], strict=True):
        # one voxel index, i, j or k, of all cells
        voxel = (
            (row[0] * x)[None, None]
            + (row[1] * y)[None, :, None]
            + (row[2] * z)[:, None, None]
            + row[3]
        )
        # half a voxel, with a tolerance for rounding
        grid.tissue[(voxel <= -0.501) | (voxel >= size - 0.499)] = False


def _fine_hu(volume: Volume, grid: Grid) -> np.ndarray:
    """Return the HU at eight points in each cell of the grid, as an array (2 k, 2 j, 2 i)."""
    first_ras = grid.origin - grid.step / 4
    resampled = sitk.Resample(
        volume.to_sitk(),
        [2 * n for n in grid.shape[::-1]],
        sitk.Transform(),
        sitk.sitkLinear,
        transform_points(LPS_FROM_RAS, first_ras).tolist(),
        (grid.step / 2).tolist(),
        LPS_FROM_RAS[:3, :3].ravel().tolist(),
        AIR_HU,
        sitk.sitkFloat32,
    )
    return sitk.GetArrayFromImage(resampled)
