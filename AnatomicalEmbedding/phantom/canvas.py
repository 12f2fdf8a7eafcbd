"""The canvas on which solids are drawn. All coordinates are mm in the canonical body frame."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from .solids import Solid, Tube
from .tissues import LABEL_ID, TISSUE_ID


class Canvas:
    """Two label volumes on one grid: structure (`label`) and tissue (`tissue`), arrays (k, j, i).

    Voxel (i, j, k) lies at `low + step * (i, j, k)` in the body frame; +i is the patient's right, +j anterior, +k up.
    """

    def __init__(self, low: ArrayLike, high: ArrayLike, step: float) -> None:
        self.low = np.asarray(low, float)
        self.step = step
        count = np.floor((np.asarray(high, float) - self.low) / step).astype(int) + 1
        self.label = np.zeros(count[::-1], np.uint8)
        self.tissue = np.zeros(count[::-1], np.uint8)
        self._axes = [
            (self.low[a] + step * np.arange(count[a])).astype(np.float32) for a in range(3)
        ]

    def region(
        self, low: ArrayLike, high: ArrayLike
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
        label: str | None,
        over: Iterable[str] | None = None,
    ) -> None:
        """Fill solids with a tissue, and with a label if given.

        Args:
            solids: one solid, or several.
            tissue: name of the tissue.
            label: name of the structure, or None.
            over: fill only voxels that have these tissues; None for all voxels.
        """
        allowed = np.full(256, over is None)  # by tissue
        allowed[[TISSUE_ID[name] for name in over or ()]] = True
        for solid in [solids] if isinstance(solids, Solid) else solids:
            for piece in solid.capsules() if isinstance(solid, Tube) else [solid]:
                cut, (x, y, z) = self.region(piece.low, piece.high)
                target = self.tissue[cut]
                mask = piece.inside(x, y, z) & allowed[target]
                np.copyto(target, TISSUE_ID[tissue], where=mask)
                if label is not None:
                    np.copyto(self.label[cut], LABEL_ID[label], where=mask)

    def bone(self, tubes: list[Tube], label: str, shell: float) -> None:
        """Draw a bone: a cortex around a core of marrow. Where tubes overlap, their cores are joined.

        Args:
            tubes: the shape of the bone.
            label: name of the structure.
            shell: thickness of the cortex, mm.
        """
        self.paint(tubes, "cortical_bone", label)
        self.paint([tube.grown(-shell) for tube in tubes], "marrow", label)
