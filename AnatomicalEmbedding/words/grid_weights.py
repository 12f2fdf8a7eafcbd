"""Weights over a regular grid, kept as the box that holds them, and the grid they live on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import SimpleITK as sitk
import torch

from ..embedding.grid_reading import smoothed
from .atlas import LOW_MM, SHAPE, STEP_MM

_LEAST = 1e-3
_AS_SURE = 0.99  # share of the largest value


@dataclass(frozen=True, eq=False)
class Field:
    """values: float32 (k, j, i), 0..1, of the box of a grid whose first cell has index `first` (i, j, k)."""

    first: tuple[int, int, int]
    values: np.ndarray

    @cached_property
    def total(self) -> float:
        return float(self.values.sum(dtype=np.float64))


@dataclass(frozen=True, eq=False)
class Grid:
    """Cells along R, A, S. origin: (3,) mm of the first cell's centre. step: (3,) mm. shape: (k, j, i).

    body: float32 (3, k, j, i), place of each cell in the body frame, mm; None: the cells' own places are in the frame.
    tissue: bool (k, j, i), cells that hold something of the patient. hu: float32 (k, j, i), mean CT number, or None.
    fine_hu: int16 (2 k, 2 j, 2 i), CT numbers at the middles of the eighths of each cell, or None.
    """

    origin: np.ndarray
    step: np.ndarray
    shape: tuple[int, int, int]
    tissue: np.ndarray
    body: np.ndarray | None = None
    hu: np.ndarray | None = None
    fine_hu: np.ndarray | None = None

    @cached_property
    def axes(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Centres of the cells along R, A and S, mm."""
        return tuple(
            (o + s * np.arange(n)).astype(np.float32)
            for o, s, n in zip(self.origin, self.step, self.shape[::-1], strict=True)
        )

    def crop(self, field: Field) -> tuple[slice, slice, slice]:
        """Where a field lies in arrays (k, j, i) of the grid."""
        return tuple(slice(a, a + n) for a, n in zip(field.first[::-1], field.values.shape, strict=True))

    def position(self, field: Field, axis: int) -> np.ndarray:
        """Centres along one axis (0 R, 1 A, 2 S) of a field's cells, to broadcast against its values."""
        where = self.crop(field)[2 - axis]
        shape = [1, 1, 1]
        shape[2 - axis] = -1
        return self.axes[axis][where].reshape(shape)

    def mean(self, field: Field) -> np.ndarray:
        """(3,) weighted mean place, mm."""
        total = max(field.total, 1e-9)
        return np.array([float((field.values * self.position(field, axis)).sum() / total) for axis in range(3)])

    def span(self, field: Field, low: float, high: float) -> np.ndarray:
        """(2, 3) places along each axis below which these shares of the field lie, mm."""
        result = np.zeros((2, 3))
        for axis in range(3):
            others = tuple(n for n in range(3) if n != 2 - axis)
            share = np.cumsum(field.values.sum(axis=others, dtype=np.float64))
            at = np.searchsorted(share, np.array([low, high]) * share[-1]).clip(0, len(share) - 1)
            result[:, axis] = self.axes[axis][self.crop(field)[2 - axis]][at]
        return result

    def around(self, low_mm: np.ndarray, high_mm: np.ndarray) -> Field:
        """A field of zeros over the cells between two corners, mm; of one cell at least."""
        first = np.floor((np.asarray(low_mm) - self.origin) / self.step).astype(int)
        last = np.ceil((np.asarray(high_mm) - self.origin) / self.step).astype(int) + 1
        size = np.array(self.shape[::-1])
        first = np.clip(first, 0, size - 1)
        last = np.clip(last, first + 1, size)
        return Field(tuple(int(n) for n in first), np.zeros(tuple(last - first)[::-1], dtype=np.float32))

    def grown(self, field: Field, mm: float) -> Field:
        """The same field in a box that reaches so many mm further."""
        size = np.array(field.values.shape[::-1])
        low = self.origin + self.step * np.array(field.first) - mm
        high = self.origin + self.step * (np.array(field.first) + size - 1) + mm
        larger = self.around(low, high)
        return self.with_values(larger, self.values_over(field, larger))

    @cached_property
    def _by_place(self) -> tuple[np.ndarray, np.ndarray]:
        """Cells that hold tissue, in the order of the body frame's cells that they lie in; and where each of these
        begins. What lies beyond the frame is in its outermost cells.
        """
        cells = np.flatnonzero(self.tissue)
        index = np.rint((self.body.reshape(3, -1)[:, cells].T - LOW_MM) / STEP_MM).astype(int)
        flat = np.ravel_multi_index(np.clip(index, 0, np.array(SHAPE[::-1]) - 1).T[::-1], SHAPE)
        begin = np.concatenate([[0], np.bincount(flat, minlength=int(np.prod(SHAPE))).cumsum()])
        return cells[np.argsort(flat, kind="stable")], begin

    def cells_in(self, first: np.ndarray, held: np.ndarray) -> np.ndarray:
        """(n,) flat indices of cells with tissue whose places lie in some of the body frame's cells.

        held: bool (k, j, i), these; first: (3,) index i, j, k of the first of them in the frame.
        """
        index = np.argwhere(held) + np.asarray(first)[::-1]
        index = index[((index >= 0) & (index < SHAPE)).all(axis=1)]
        flat = np.ravel_multi_index(index.T, SHAPE)
        cells, begin = self._by_place
        count = begin[flat + 1] - begin[flat]
        last = count.cumsum()
        return cells[np.arange(count.sum()) + np.repeat(begin[flat] - (last - count), count)]

    def field_of(self, cells: np.ndarray, values: np.ndarray) -> Field:
        """A field of values (n,) of cells (n,), flat indices; only those above 0 are in its box."""
        index = np.stack(np.unravel_index(cells[values > 0], self.shape))
        if not index.size:
            return Field((0, 0, 0), np.zeros((1, 1, 1), dtype=np.float32))
        low = index.min(axis=1)
        box = np.zeros(index.max(axis=1) + 1 - low, dtype=np.float32)
        box[tuple(index - low[:, None])] = values[values > 0]
        return Field(tuple(int(n) for n in low[::-1]), box)

    def values_over(self, field: Field, where: Field) -> np.ndarray:
        """A field's values over the box of another, 0 beyond its own."""
        result = np.zeros_like(where.values)
        low = np.maximum(field.first, where.first)
        high = np.minimum(np.add(field.first, field.values.shape[::-1]), np.add(where.first, where.values.shape[::-1]))
        if (high > low).all():
            of = tuple(slice(a - f, b - f) for a, b, f in zip(low, high, field.first, strict=True))[::-1]
            to = tuple(slice(a - f, b - f) for a, b, f in zip(low, high, where.first, strict=True))[::-1]
            result[to] = field.values[of]
        return result

    @staticmethod
    def with_values(field: Field, values: np.ndarray) -> Field:
        return Field(field.first, np.ascontiguousarray(values, dtype=np.float32))

    def trimmed(self, field: Field) -> Field:
        """Without the empty border of its box."""
        held = field.values > _LEAST
        if not held.any():
            return Field(field.first, np.zeros((1, 1, 1), dtype=np.float32))
        spans = []
        for axis in range(3):
            others = tuple(n for n in range(3) if n != axis)
            at = np.flatnonzero(held.any(axis=others))
            spans.append(slice(int(at[0]), int(at[-1]) + 1))
        first = tuple(int(f + s.start) for f, s in zip(field.first, spans[::-1], strict=True))
        return Field(first, np.where(held, field.values, 0)[tuple(spans)])

    def joined(self, fields: list[Field]) -> Field:
        """The largest of several fields at each cell."""
        low = np.min([f.first for f in fields], axis=0)
        high = np.max([np.add(f.first, f.values.shape[::-1]) for f in fields], axis=0)
        box = Field(tuple(int(n) for n in low), np.zeros(tuple(high - low)[::-1], dtype=np.float32))
        values = box.values
        for field in fields:
            values = np.maximum(values, self.values_over(field, box))
        return self.with_values(box, values)

    def blurred(self, field: Field, sigma_mm: float) -> np.ndarray:
        """Values of a field smoothed by a Gaussian, within its own box."""
        return smoothed(torch.from_numpy(field.values)[None], sigma_mm / np.asarray(self.step))[0].numpy()

    def distance(self, field: Field, threshold: float) -> np.ndarray:
        """mm to the cells of a field's box at or above a threshold, negative inside them."""
        image = sitk.GetImageFromArray((field.values >= threshold).astype(np.uint8))
        image.SetSpacing([float(s) for s in self.step])
        return sitk.GetArrayFromImage(
            sitk.SignedMaurerDistanceMap(image, insideIsPositive=False, squaredDistance=False, useImageSpacing=True)
        )

    def nearest(self, point_mm: np.ndarray) -> tuple[int, int, int]:
        """Index (i, j, k) of the cell nearest to a place; it may lie beyond the grid."""
        return tuple(int(n) for n in np.rint((np.asarray(point_mm) - self.origin) / self.step))


def middle_of_likeliest(values: np.ndarray) -> tuple[int, int, int]:
    """Index k, j, i of the cell nearest to the middle of the largest values: in a large organ many are as likely."""
    sure = np.argwhere(values >= _AS_SURE * values.max())
    return tuple(sure[np.square(sure - sure.mean(axis=0)).sum(axis=1).argmin()].tolist())
