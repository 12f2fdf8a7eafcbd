"""Finds the boxes of organs, and corrects the body coordinates of organs that lie higher or lower than usual.

`organ_boxes` and `anchored` read the output of the organ head. The network's coordinate depends on the body as a whole,
but organs lie at different places in different patients. A large liver may push a kidney down by 10 to 20 cm. If a scan
shows an organ completely, the coordinates of the organ's cells are shifted and scaled so that their mean and spread are
equal to the usual mean and spread for this organ. A given place in an organ then has the same coordinates in all
patients. Outside the organ, the shift becomes smaller with the distance, down to zero.
"""

from collections.abc import Sequence

import numpy as np
import SimpleITK as sitk
import torch

from .grid_reading import smoothed

# A **share** is the fraction of a cell that an organ fills. A side of the organ's box lies where the largest share in a
# layer of cells passes this value.
_INSIDE = 0.5
_CONNECTED = 0.35  # an organ's connected part consists of cells that the organ fills to at least this share
_THINNEST = 0.1  # cells; a thinner box is a single cell whose share is close to _INSIDE


def organ_boxes(organs: torch.Tensor, names: Sequence[str], cell_to_ras: np.ndarray) -> dict[str, np.ndarray]:
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
    for number, share, parts in zip(visible.tolist(), shares, _connected_parts(shares > _CONNECTED), strict=True):
        cells = _box_in_cells(share, parts)
        if cells is not None:
            boxes[names[number]] = np.round(cells * np.diag(cell_to_ras)[:3] + cell_to_ras[:3, 3], 2)
    return boxes


def _connected_parts(masks: np.ndarray) -> np.ndarray:
    """Return (n, k, j, i): the number of the connected part that contains each cell, from 1; 0 outside the masks."""
    # The masks are stacked along k with empty layers between them: one call of SimpleITK is faster than n calls.
    picture = np.pad(masks, ((0, 0), (0, 1), (0, 0), (0, 0))).astype(np.uint8)
    labels = sitk.ConnectedComponent(sitk.GetImageFromArray(picture.reshape(-1, *picture.shape[2:])), True)
    return sitk.GetArrayFromImage(labels).reshape(picture.shape)[:, :-1]


def _box_in_cells(share: np.ndarray, parts: np.ndarray) -> np.ndarray | None:
    """Return the lowest and the highest i, j, k (2, 3), as decimal numbers, of an organ's largest connected part; None
    if no share is above 0.5 or the part is too thin. share: (k, j, i), share of each cell that the organ fills. parts:
    (k, j, i), number of each cell's connected part, or 0."""
    weight = np.bincount(parts.ravel(), weights=share.ravel())
    weight[0] = 0
    part = parts == weight.argmax()
    neighbourhood = part.copy()  # the part and its neighbours; SimpleITK would need 20 times as long for so few cells
    for axis in range(3):
        inner, along = np.swapaxes(part, 0, axis), np.swapaxes(neighbourhood, 0, axis)
        along[1:] |= inner[:-1]
        along[:-1] |= inner[1:]
    share = share * neighbourhood
    if share.max() <= _INSIDE:
        return None
    faces = []
    for axis in (2, 1, 0):
        across = share.max(axis=tuple(across_axis for across_axis in range(3) if across_axis != axis))
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


_LEAST_PROBABILITY = 0.3
_LEAST_VOLUME = 0.3  # share of the organ's usual volume
_CUT_SHARE = 0.02  # share of an organ's cells in the scan's first and last layer, above which the organ counts as cut
_FARTHEST = 0.6  # largest shift of an organ, in units of the network; an aorta found at a wrong place would need 1.4
_SCALES = (0.6, 1.6)
_LEAST_SPREAD = 0.03  # a smaller spread of an organ's coordinates is replaced by this spread
_SCALED_ML = 20.0  # organs with a smaller usual volume are shifted but not scaled
_FADE_MM = (14.0, 14.0, 19.0)
_ELSEWHERE = 0.05  # weight of "no shift" in the average of shifts at each cell


def anchored(
    coordinate: torch.Tensor, organs: torch.Tensor, places: torch.Tensor, body: torch.Tensor, cell_mm: np.ndarray
) -> torch.Tensor:
    """Shift and scale the coordinates of organs that the scan shows completely. Returns new coordinates (3, k, j, i).

    Args:
        coordinate: (3, k, j, i), in the unit of the network.
        organs: (n, k, j, i) share of each organ in each cell.
        places: (n, 7), usual values of each organ: mean (3) and standard deviation (3) of its coordinates, volume in
            ml.
        body: bool (k, j, i).
        cell_mm: (3,) size along R, A, S.
    """
    weight = organs * (organs > _LEAST_PROBABILITY)
    share = weight / weight.sum((1, 2, 3), keepdim=True).clamp_min(1e-9)
    mean = torch.einsum("nkji,ckji->nc", share, coordinate)
    square = torch.einsum("nkji,ckji->nc", share, coordinate.square())
    spread = (square - mean.square()).clamp_min(0).sqrt()
    usual, usual_spread, usual_ml = places[:, :3], places[:, 3:6], places[:, 6]
    scale = (usual_spread / spread.clamp_min(_LEAST_SPREAD)).clamp(*_SCALES)
    scale = torch.where((usual_ml > _SCALED_ML)[:, None], scale, 1.0)
    layers = torch.nonzero(body.flatten(1).any(1)).flatten()
    at_ends = share[:, layers[0]].sum((1, 2)) + share[:, layers[-1]].sum((1, 2))
    millilitres = weight.sum((1, 2, 3)) * float(np.prod(cell_mm)) / 1000
    sure = (millilitres >= _LEAST_VOLUME * usual_ml) & (usual_ml > 0) & (at_ends <= _CUT_SHARE)
    sure &= (usual - mean).norm(dim=1) <= _FARTHEST
    if not sure.any():
        return coordinate
    weight, mean, usual, scale = weight[sure], mean[sure], usual[sure], scale[sure]
    # shift = usual - mean + (scale - 1) (coordinate - mean), an affine function of the coordinate in each organ
    shift = torch.einsum("nkji,nc->ckji", weight, usual - scale * mean)
    shift += torch.einsum("nkji,nc->ckji", weight, scale - 1) * coordinate
    smooth = smoothed(torch.cat([shift, weight.sum(0, keepdim=True)]), np.asarray(_FADE_MM) / cell_mm)
    return coordinate + smooth[:3] / (smooth[3:] + _ELSEWHERE)
