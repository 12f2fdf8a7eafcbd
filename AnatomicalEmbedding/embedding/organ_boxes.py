"""Finds the boxes of organs from the output of the organ head. The map of the scan stores these boxes."""

from collections.abc import Sequence

import numpy as np
import SimpleITK as sitk
import torch

_INSIDE = 0.5  # a face of an organ lies where the largest share in a layer of cells passes this value
_CONNECTED = 0.35  # least share of a cell that belongs to a connected part
_THINNEST = 0.1  # cells; a thinner box is a single cell whose share is close to _INSIDE


def organ_boxes(organs: torch.Tensor, names: Sequence[str], cell_to_ras: np.ndarray) -> dict[str, np.ndarray]:
    """Find the box, (2, 3) RAS mm, around the largest connected part of each organ. Organs that are not seen have none.

    organs: (n, k, j, i) share of each cell that each of `names` fills. cell_to_ras: (4, 4), without rotation.
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
    """Number the connected parts in masks (n, k, j, i). Returns the number of each cell's part; 0 outside the masks."""
    # The masks are stacked along k with empty layers between them: one call of SimpleITK is faster than n calls.
    picture = np.pad(masks, ((0, 0), (0, 1), (0, 0), (0, 0))).astype(np.uint8)
    found = sitk.ConnectedComponent(sitk.GetImageFromArray(picture.reshape(-1, *picture.shape[2:])), True)
    return sitk.GetArrayFromImage(found).reshape(picture.shape)[:, :-1]


def _box_in_cells(share: np.ndarray, parts: np.ndarray) -> np.ndarray | None:
    """Find the box of the largest part: (2, 3) lowest and highest continuous i, j, k. None if it is faint or thin."""
    weight = np.bincount(parts.ravel(), weights=share.ravel())
    weight[0] = 0
    largest = sitk.GetImageFromArray((parts == weight.argmax()).astype(np.uint8))
    share = share * sitk.GetArrayFromImage(sitk.BinaryDilate(largest, (1, 1, 1), sitk.sitkCross))
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
