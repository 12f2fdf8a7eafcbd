"""Coordinates moved to where the organs are: each organ that a scan holds whole is brought to its usual place.

The network's coordinate follows the body as a whole. Organs lie differently in it from patient to patient: a kidney
pushed down by a large liver is off by the length of a hand. Where the organ head sees an organ, the coordinates of its
cells are shifted and scaled to the mean and spread that the organ has over many patients, and the shift fades out
around it. The same place of an organ then has the same coordinates in two patients.
"""

import numpy as np
import torch

from .grid_reading import smoothed

_LEAST_PROBABILITY = 0.3
_LEAST_VOLUME = 0.3  # share of the organ's usual volume
_CUT_SHARE = 0.02  # of an organ's cells in the scan's first and last layer; above, the scan does not hold it whole
_FARTHEST = 0.6  # largest shift of an organ, in units of the network; an aorta wrongly found in a chest needs 1.4
_SCALES = (0.6, 1.6)
_LEAST_SPREAD = 0.03  # of an organ's coordinates; below, its scale is chance
_SCALED_ML = 20.0
_FADE_MM = (14.0, 14.0, 19.0)
_ELSEWHERE = 0.05  # weight of no shift


def anchored(
    coordinate: torch.Tensor, organs: torch.Tensor, places: torch.Tensor, body: torch.Tensor, cell_mm: np.ndarray
) -> torch.Tensor:
    """Coordinates (3, k, j, i) after the shift. organs: (n, k, j, i) share of the cell that each organ takes.

    places: (n, 7), see OrganHead. body: bool (k, j, i). cell_mm: (3,) along R, A, S.
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
