"""The best point of a small structure, read at half the size of a cell: a cell is as wide as a thin vessel.

About the point that cells give, the shares of the structure and of those that exclude it are read between the cells and
weighed by the CT number of each eighth of a cell. A vessel is brighter than what surrounds it: where a grey opening (of
all cubes of 1 cm that hold a place, the darkest number of the one where that is brightest) takes nothing away, no thin
vessel lies.
"""

from __future__ import annotations

import numpy as np
import SimpleITK as sitk
import torch
import torch.nn.functional as F

from ..embedding.grid_reading import smoothed
from .exclusion import odds
from .grid_weights import Grid, middle_of_likeliest
from .occupancy import Evidence, chance

_REACH_MM = 14.0  # how far a point is moved at most
_BLUR_MM = 2.0  # over which chances are averaged
_THIN_MM = 5.0  # half the cube's side
_CLEAR_HU, _SOFT_HU = 40.0, 10.0  # that a thin vessel is brighter than what surrounds it, and the softness of this
_HARDLY = 0.2  # what the chance of a place is worth where nothing thin is bright
_DARKEST, _BRIGHTEST = -150, 300  # HU that count


def fine_point(grid: Grid, point: np.ndarray, own: Evidence, others: list[Evidence], thin: bool) -> np.ndarray:
    """The likeliest place (3,) RAS mm of a structure near a point (3,) of a grid with `fine_hu`.

    others: of structures that do not lie where it lies. thin: a vessel.
    """
    box = grid.around(point - _REACH_MM, point + _REACH_MM)
    step = grid.step / 2
    hu = grid.fine_hu[tuple(slice(2 * part.start, 2 * part.stop) for part in grid.crop(box))].astype(np.float32)
    near = [(own, grid.taken(own.share, box))]
    near += [(other, share) for other in others if (share := grid.taken(other.share, box)).any()]
    shares = _halved(np.stack([share for _, share in near]))
    each = [odds(chance(share, hu, of.ratio)) for (of, _), share in zip(near, shares, strict=True)]
    found = each[0] / (1 + sum(each))
    if thin:
        found = found * _thinness(hu, step)
    values = smoothed(torch.from_numpy(found.astype(np.float32))[None], _BLUR_MM / step)[0].numpy()
    first = grid.origin - step / 2 + grid.step * np.array(box.first)
    places = [first[axis] + step[axis] * np.arange(values.shape[2 - axis]) for axis in range(3)]
    x, y, z = (np.square(at - middle) for at, middle in zip(places, point, strict=True))
    values = values * (x + y[:, None] + z[:, None, None] <= _REACH_MM**2)
    if not values.any():
        return point
    k, j, i = middle_of_likeliest(values)
    return np.array([places[0][i], places[1][j], places[2][k]])


def _halved(values: np.ndarray) -> np.ndarray:
    """(n, 2 k, 2 j, 2 i) values of cells (n, k, j, i) at the middles of their eighths."""
    return F.interpolate(torch.from_numpy(values)[:, None], scale_factor=2, mode="trilinear")[:, 0].numpy()


def _thinness(hu: np.ndarray, step: np.ndarray) -> np.ndarray:
    """0.2 to 1: is what an opening takes away of CT numbers (k, j, i) clear? (white top-hat, Serra 1982)"""
    hu = hu.clip(_DARKEST, _BRIGHTEST)
    reach = np.maximum(np.rint(_THIN_MM / step), 1).astype(int).tolist()
    top_hat = sitk.WhiteTopHat(sitk.GetImageFromArray(hu), reach, sitk.sitkBox, False)
    gain = sitk.GetArrayFromImage(top_hat)
    return _HARDLY + (1 - _HARDLY) / (1 + np.exp((_CLEAR_HU - gain) / _SOFT_HU))
