"""Boxes of the organs that the organ head finds in a scan; its map keeps them."""

from collections.abc import Sequence

import numpy as np
import SimpleITK as sitk
import torch

_INSIDE = 0.5  # share of a cell; the organ's faces lie where the largest share across passes it
_CONNECTED = 0.35  # share of cells that belong together
_THINNEST = 0.1  # cells; a thinner box is a single cell with a share near the limit


def organ_boxes(organs: torch.Tensor, names: Sequence[str], cell_to_ras: np.ndarray) -> dict[str, np.ndarray]:
    """(2, 3) lowest and highest corner, RAS mm, of the largest connected part of each organ that is seen.

    organs: (n, k, j, i) share of each cell that each of `names` takes. cell_to_ras: (4, 4), diagonal but for the shift.
    """
    boxes: dict[str, np.ndarray] = {}
    seen = torch.nonzero(organs.amax((1, 2, 3)) > _INSIDE).flatten()
    if not len(seen):
        return boxes
    shares = organs[seen].numpy()
    for number, share, parts in zip(seen.tolist(), shares, _connected_parts(shares > _CONNECTED), strict=True):
        cells = _box_in_cells(share, parts)
        if cells is not None:
            boxes[names[number]] = np.round(cells * np.diag(cell_to_ras)[:3] + cell_to_ras[:3, 3], 2)
    return boxes


def _connected_parts(masks: np.ndarray) -> np.ndarray:
    """Number of the connected part that each cell of masks (n, k, j, i) lies in, 0 elsewhere."""
    # one above the other, an empty layer in between: each call of SimpleITK takes a millisecond
    picture = np.pad(masks, ((0, 0), (0, 1), (0, 0), (0, 0))).astype(np.uint8)
    found = sitk.ConnectedComponent(sitk.GetImageFromArray(picture.reshape(-1, *picture.shape[2:])), True)
    return sitk.GetArrayFromImage(found).reshape(picture.shape)[:, :-1]


def _box_in_cells(share: np.ndarray, parts: np.ndarray) -> np.ndarray | None:
    """(2, 3) lowest and highest i, j, k of the largest part's faces, to a part of a cell; None: faint or thin."""
    weight = np.bincount(parts.ravel(), weights=share.ravel())
    weight[0] = 0
    share = share * _grown(parts == weight.argmax())
    if share.max() <= _INSIDE:
        return None
    faces = []
    for axis in (2, 1, 0):
        across = share.max(axis=tuple(other for other in range(3) if other != axis))
        first, last = np.flatnonzero(across > _INSIDE)[[0, -1]]
        low, high = first - 0.5, last + 0.5
        if first > 0:
            low = first - 1 + (_INSIDE - across[first - 1]) / (across[first] - across[first - 1])
        if last < len(across) - 1:
            high = last + (across[last] - _INSIDE) / (across[last] - across[last + 1])
        if high - low < _THINNEST:
            return None
        faces.append((low, high))
    return np.array(faces).T


def _grown(mask: np.ndarray) -> np.ndarray:
    """Grow a mask by one cell along each axis."""
    grown = mask.copy()
    for axis in range(3):
        before, after = np.moveaxis(grown, axis, 0), np.moveaxis(mask, axis, 0)
        before[1:] |= after[:-1]
        before[:-1] |= after[1:]
    return grown
