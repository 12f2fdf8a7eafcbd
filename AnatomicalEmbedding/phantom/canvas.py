"""The canvas on which solids are drawn. All coordinates are mm in the canonical body frame."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from .solids import Ellipsoid, Solid, Tube
from .tissues import LABEL_ID, TISSUE_ID

_BATCH = 120_000  # grid points processed together when tubes are drawn


class Canvas:
    """Two label volumes on one grid: structure (`label`) and tissue (`tissue`), arrays (k, j, i).

    Voxel (i, j, k) lies at `low + step * (i, j, k)` in the body frame; +i is the patient's right, +j anterior, +k up.
    """

    def __init__(self, low: ArrayLike, high: ArrayLike, step: float) -> None:
        self.low, self.step = np.asarray(low, float), step
        count = np.floor((np.asarray(high, float) - self.low) / step).astype(int) + 1
        self.label = np.zeros(count[::-1], np.uint8)
        self.tissue = np.zeros(count[::-1], np.uint8)
        self._axes = [
            (self.low[a] + step * np.arange(count[a])).astype(np.float32) for a in range(3)
        ]

    def region(
        self, low: np.ndarray, high: np.ndarray
    ) -> tuple[tuple[slice, ...], tuple[np.ndarray, ...]]:
        """Return slices (k, j, i) that cut a box from the grid, and x, y, z of the box's points, mm (broadcastable)."""
        first = np.maximum(np.ceil((np.asarray(low, float) - self.low) / self.step).astype(int), 0)
        last = np.floor((np.asarray(high, float) - self.low) / self.step).astype(int) + 1
        cut = tuple(slice(first[a], max(last[a], first[a])) for a in range(3))
        x, y, z = (axis[s] for axis, s in zip(self._axes, cut, strict=True))
        return cut[::-1], (x[None, None, :], y[None, :, None], z[:, None, None])

    def paint(
        self,
        solids: Solid | Iterable[Solid],
        tissue: str,
        label: str | None = None,
        over: Iterable[str] | None = None,
    ) -> None:
        """Fill solids with a tissue, and with a label if given.

        Args:
            solids: one solid, or several.
            tissue: name of the tissue.
            label: name of the structure, or None.
            over: fill only voxels that have these tissues; None for all voxels.
        """
        allowed = None
        if over is not None:
            allowed = np.zeros(256, bool)
            allowed[[TISSUE_ID[name] for name in over]] = True
        every = [solids] if isinstance(solids, Solid) else list(solids)
        tubes = [solid for solid in every if isinstance(solid, Tube)]
        for piece in every:
            if isinstance(piece, Tube):  # all tubes are drawn together, below
                continue
            cut, (x, y, z) = self.region(piece.low, piece.high)
            target = self.tissue[cut]
            if not target.size:
                continue
            mask = np.broadcast_to(piece.inside(x, y, z), target.shape)
            if allowed is not None:
                mask = mask & allowed[target]
            np.copyto(target, TISSUE_ID[tissue], where=mask)
            if label is not None:
                np.copyto(self.label[cut], LABEL_ID[label], where=mask)
        if tubes:
            flat = self._tube_indices(tubes)
            if allowed is not None:
                flat = flat[allowed[self.tissue.ravel()[flat]]]
            self.tissue.ravel()[flat] = TISSUE_ID[tissue]
            if label is not None:
                self.label.ravel()[flat] = LABEL_ID[label]

    def _tube_indices(self, tubes: list[Tube]) -> np.ndarray:
        """Return flat indices of the grid points in any tube. Where parts of tubes overlap, an index is repeated."""
        start, end = (
            np.concatenate([t.points[:-1] for t in tubes]),
            np.concatenate([t.points[1:] for t in tubes]),
        )
        r0, r1 = (
            np.concatenate([t.radii[:-1] for t in tubes]),
            np.concatenate([t.radii[1:] for t in tubes]),
        )
        squash = np.repeat([t.squash for t in tubes], [len(t.radii) - 1 for t in tubes], axis=0)
        reach = np.maximum(r0, r1)[:, None] * squash
        size = np.array(self.label.shape[::-1])
        first = np.ceil((np.minimum(start, end) - reach - self.low) / self.step).astype(int)
        last = np.floor((np.maximum(start, end) + reach - self.low) / self.step).astype(int)
        first, last = np.clip(first, 0, size), np.clip(last, -1, size - 1)
        box = last - first + 1
        order = np.argsort(box.prod(axis=1))
        order = order[(box[order] > 0).all(axis=1)]
        indices = [np.empty(0, int)]
        while len(order):
            # all boxes of a batch get the size of its largest box; a batch fits into the processor's cache
            work = np.maximum.accumulate(box[order], axis=0).prod(axis=1) * np.arange(
                1, len(order) + 1
            )
            count = max(int(np.searchsorted(work, _BATCH, side="right")), 1)
            batch, order = order[:count], order[count:]
            span = box[batch].max(axis=0)
            i, j, k = (first[batch, a, None] + np.arange(span[a]) for a in range(3))
            i, j, k = i[:, None, None, :], j[:, None, :, None], k[:, :, None, None]
            places = [n * self.step + low for n, low in zip((i, j, k), self.low, strict=True)]
            inside = _in_capsules(
                places, start[batch], end[batch], r0[batch], r1[batch], squash[batch]
            )
            inside &= (i < size[0]) & (j < size[1]) & (k < size[2])
            indices.append(np.broadcast_to((k * size[1] + j) * size[0] + i, inside.shape)[inside])
        return np.concatenate(indices)

    def bone(
        self,
        solids: Ellipsoid | Tube | Iterable[Ellipsoid | Tube],
        label: str,
        shell: float = 2.0,
        cortex: str = "cortical_bone",
        core: str = "marrow",
    ) -> None:
        """Draw a bone: a cortex, `shell` mm thick, around a core. Where solids overlap, their cores are joined.

        Args:
            solids: one solid, or several.
            label: name of the structure.
            shell: thickness of the cortex, mm.
            cortex, core: tissues of the cortex and of the core.
        """
        parts = [solids] if isinstance(solids, Ellipsoid | Tube) else list(solids)
        self.paint(parts, cortex, label)
        self.paint([part.grown(-shell) for part in parts], core, label)


def _in_capsules(
    places: list[np.ndarray],
    start: np.ndarray,
    end: np.ndarray,
    r0: np.ndarray,
    r1: np.ndarray,
    squash: np.ndarray,
) -> np.ndarray:
    """Return (n, k, j, i) bool: whether each grid point of box n lies in capsule n.

    places: x, y and z of the grid points, mm. start, end: (n, 3) mm, ends of the axis of each capsule. r0, r1: (n,)
    radius at `start` and at `end`, mm. squash: (n, 3) factors of the radius along x, y and z.
    """

    def column(values: np.ndarray) -> np.ndarray:
        return values[:, None, None, None]

    axis = ((end - start) / squash).T
    length2 = np.maximum(np.square(axis).sum(axis=0), 1e-6)
    away = [
        ((place - column(first)) / column(flat)).astype(np.float32)
        for place, first, flat in zip(places, start.T, squash.T, strict=True)
    ]
    along = sum(
        a * column((b / length2).astype(np.float32)) for a, b in zip(away, axis, strict=True)
    )
    along = np.clip(along, 0, 1)
    gap = sum(
        np.square(a - along * column(b.astype(np.float32))) for a, b in zip(away, axis, strict=True)
    )
    return gap < np.square(
        column(r0.astype(np.float32)) + along * column((r1 - r0).astype(np.float32))
    )
