"""Finds the boxes of organs in the output of the organ head."""

from collections.abc import Sequence

import numpy as np
import SimpleITK as sitk
import torch

# A **share** is the fraction of a cell that an organ fills. A side of the organ's box lies where the largest share in a
# layer of cells passes this value.
_INSIDE = 0.5
# an organ's connected part consists of cells that the organ fills to at least this share
_CONNECTED = 0.35
_THINNEST = 0.1  # cells; a thinner box is a single cell whose share is close to _INSIDE


def organ_boxes(
    organs: torch.Tensor, names: Sequence[str], cell_to_ras: np.ndarray
) -> dict[str, np.ndarray]:
    """Find the box, (2, 3) RAS mm, around the largest connected part of each organ that the scan shows.

    Args:
        organs: (n, k, j, i) share of each cell that each organ fills.
        names: names of the n organs.
        cell_to_ras: (4, 4), without rotation.
    """
    boxes: dict[str, np.ndarray] = {}
    visible = torch.nonzero(organs.amax((1, 2, 3)) > _INSIDE).flatten()
    if not len(visible):
        return boxes
    shares = organs[visible].numpy()
    parts = _connected_parts(shares > _CONNECTED)
    for n, number in enumerate(visible.tolist()):
        cells = _box_in_cells(shares[n], parts[n])
        if cells is not None:
            box_ras = cells * np.diag(cell_to_ras)[:3] + cell_to_ras[:3, 3]
            boxes[names[number]] = np.round(box_ras, 2)
    return boxes


def _connected_parts(masks: np.ndarray) -> np.ndarray:
    """Return (n, k, j, i): the number of the connected part that contains each cell, from 1; 0 outside the masks."""
    # The masks are stacked along k with empty layers between them: one call of SimpleITK is faster than n calls.
    picture = np.pad(masks, ((0, 0), (0, 1), (0, 0), (0, 0))).astype(np.uint8)
    labels = sitk.ConnectedComponent(
        sitk.GetImageFromArray(picture.reshape(-1, *picture.shape[2:])), True
    )
    return sitk.GetArrayFromImage(labels).reshape(picture.shape)[:, :-1]


def _box_in_cells(share: np.ndarray, parts: np.ndarray) -> np.ndarray | None:
    """Return the lowest and the highest i, j, k (2, 3), as decimal numbers, of an organ's largest connected part; None
    if no share is above 0.5 or the part is too thin. share: (k, j, i), share of each cell that the organ fills. parts:
    (k, j, i), number of each cell's connected part, or 0."""
    weight = np.bincount(parts.ravel(), weights=share.ravel())
    weight[0] = 0
    share = share * _with_neighbours(parts == weight.argmax())
    if share.max() <= _INSIDE:
        return None
    # along i, j and k
    sides = np.array([_sides(share.max(axis=axes)) for axes in ((0, 1), (0, 2), (1, 2))])
    thickness = sides[:, 1] - sides[:, 0]
    return None if thickness.min() < _THINNEST else sides.T


def _with_neighbours(part: np.ndarray) -> np.ndarray:
    """Return a mask (k, j, i) with the six neighbours of each cell. SimpleITK would take 20 times as long."""
    grown = part.copy()
    for axis in range(3):
        inner = np.swapaxes(part, 0, axis)
        along = np.swapaxes(grown, 0, axis)
        along[1:] |= inner[:-1]
        along[:-1] |= inner[1:]
    return grown


def _sides(largest: np.ndarray) -> tuple[float, float]:
    """Return where an organ begins and ends along an axis, in cells: where the share passes _INSIDE.

    The share is linear from layer to layer. At the scan's edge, the organ ends at the edge. largest: (n,) the largest
    share in each layer of cells.
    """
    first, last = np.flatnonzero(largest > _INSIDE)[[0, -1]]
    low = first - 0.5
    high = last + 0.5
    if first > 0:
        below = largest[first - 1]
        low = first - 1 + (_INSIDE - below) / (largest[first] - below)
    if last < len(largest) - 1:
        high = last + (largest[last] - _INSIDE) / (largest[last] - largest[last + 1])
    return low, high
