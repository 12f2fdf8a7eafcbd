"""Corrects the body coordinates of organs that lie higher or lower than usual.

The network's coordinate depends on the body as a whole, but organs lie at different places in different patients. A
large liver may push a kidney down by 10 to 20 cm. If a scan shows an organ completely, the coordinates of the organ's
cells are shifted and scaled so that their mean and spread are equal to the usual mean and spread for this organ. A
given place in an organ then has the same coordinates in all patients. Outside the organ, the shift becomes smaller with
the distance, down to zero.
"""

import numpy as np
import torch

from .grid_reading import smoothed

# of an organ in a cell, with which the cell counts as a part of it; by hand
_LEAST_PROBABILITY = 0.3
_LEAST_VOLUME = 0.3  # share of the organ's usual volume
_CUT_SHARE = 0.02  # share of an organ's cells in the scan's first and last layer, above which the organ counts as cut
_FARTHEST = 0.6  # largest shift of an organ, in units of the network; an aorta found at a wrong place would need 1.4
# limits of the scale of an organ; by hand; shifts without scales were worse (LOG, Body coordinates and training)
_SCALES = (0.6, 1.6)
_LEAST_SPREAD = 0.03  # a smaller spread of an organ's coordinates is replaced by this spread
_SCALED_ML = 20.0  # organs with a smaller usual volume are shifted but not scaled
# blur of the shifts; by hand, about a cell; twice as wide was not better (LOG, Body coordinates and training)
_FADE_MM = (14.0, 14.0, 19.0)
_ELSEWHERE = 0.05  # weight of "no shift" in the average of shifts at each cell


def anchored(
    coordinate: torch.Tensor,
    organs: torch.Tensor,
    places: torch.Tensor,
    body: torch.Tensor,
    cell_mm: np.ndarray,
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
    # in the formulas: n organs, c components of the coordinate
    weight = organs * (organs > _LEAST_PROBABILITY)
    share = weight / weight.sum((1, 2, 3), keepdim=True).clamp_min(1e-9)
    # mean and standard deviation of the coordinates of each organ, (n, 3)
    mean = torch.einsum("nkji,ckji->nc", share, coordinate)
    square = torch.einsum("nkji,ckji->nc", share, coordinate.square())
    spread = (square - mean.square()).clamp_min(0).sqrt()
    usual_mean = places[:, :3]
    usual_spread = places[:, 3:6]
    usual_ml = places[:, 6]
    scale = (usual_spread / spread.clamp_min(_LEAST_SPREAD)).clamp(*_SCALES)
    scale = torch.where((usual_ml > _SCALED_ML)[:, None], scale, 1.0)

    millilitres = weight.sum((1, 2, 3)) * np.prod(cell_mm) / 1000
    layers = torch.nonzero(body.flatten(1).any(1)).flatten()  # along k, with body cells
    share_at_ends = share[:, layers[0]].sum((1, 2)) + share[:, layers[-1]].sum((1, 2))
    is_whole = (millilitres >= _LEAST_VOLUME * usual_ml) & (share_at_ends <= _CUT_SHARE)
    is_possible = (usual_mean - mean).norm(dim=1) <= _FARTHEST
    is_moved = is_whole & is_possible & (usual_ml > 0)

    # shift = usual - mean + (scale - 1) (coordinate - mean), an affine function of the coordinate in each organ
    weight = weight[is_moved]
    constant = (usual_mean - scale * mean)[is_moved]
    slope = (scale - 1)[is_moved]
    shift = torch.einsum("nkji,nc->ckji", weight, constant)
    shift += torch.einsum("nkji,nc->ckji", weight, slope) * coordinate
    shift_and_weight = torch.cat([shift, weight.sum(0, keepdim=True)])
    smooth = smoothed(shift_and_weight, np.asarray(_FADE_MM) / cell_mm)
    return coordinate + smooth[:3] / (smooth[3:] + _ELSEWHERE)
