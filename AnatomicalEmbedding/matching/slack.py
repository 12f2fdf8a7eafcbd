"""How far an answer may slide, judged from the two images alone, for maps without descriptors.

The image around a point and the image around its answer always differ a bit. Where both hardly change along a
direction, a displacement along it is hidden by this difference. The slack is the standard error of the displacement
that explains the difference best, by least squares in a Gaussian window (Foerstner 1987).
"""

import torch

from ..embedding.grid_reading import box_offsets, read_linear, to_parts
from ..embedding.map import EmbeddingMap
from .local_affine import fit_around
from .target_batch import TargetRows

# All lengths are in the unit of the kind, and chosen on mouse skulls.
_STEP = 3.0  # distance of the places that are read
_REACH = 3  # their number on each side of the point
_SIGMA = 4.0
_FLAT = 6e-6  # square of a slope that counts as flat
_NOISE = 0.01  # least difference of two images: grey values from 0 to 1 are stored in eight bits
_SIDE = 2 * _REACH + 1
WINDOW = _SIDE**3  # places in a window
_OFFSETS = _STEP * box_offsets([_REACH] * 3).double()
_WEIGHT = torch.softmax(-_OFFSETS.square().sum(1) / (2 * _SIGMA**2), dim=0).float()


def read_window(embedding: EmbeddingMap, cells: torch.Tensor) -> torch.Tensor:
    """Read grey values around places of a map, along the axes of the frame. Returns (n, WINDOW), 0 to 1.

    Args:
        embedding: the map, which has an image.
        cells: (n, 3) places, in cells.
    """
    rows = TargetRows.each([embedding], len(cells))
    frame_to_scan = torch.linalg.pinv(fit_around(rows, cells).slope)  # (n, 3, 3)
    steps_mm = _OFFSETS * embedding.unit_mm @ frame_to_scan.transpose(1, 2)
    around = cells.double()[:, None] + steps_mm / torch.tensor(embedding.cell_mm)
    voxels = to_parts(around, embedding.voxels_per_cell).float()
    return read_linear(embedding.grey_values, voxels.view(1, -1, 3)).view(len(cells), WINDOW)


def slack(windows: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    """Return the slack (n,), in the unit of the kind, of n pairs of windows (n, WINDOW) from `read_window`."""
    mean = (windows + others).view(-1, _SIDE, _SIDE, _SIDE) / 2
    gradient = torch.gradient(mean, spacing=_STEP, dim=(1, 2, 3))
    slopes = torch.stack(gradient, dim=-1).flatten(1, 3)  # (n, WINDOW, 3)
    weighted = (slopes * _WEIGHT[:, None]).transpose(1, 2)
    inverse = torch.linalg.inv(weighted @ slopes + _FLAT * torch.eye(3))
    difference = windows - others
    force = weighted @ difference[..., None]
    # weighted squares of the difference: those that a displacement explains, and the rest
    explained = (force.transpose(1, 2) @ inverse @ force)[:, 0, 0]
    rest = difference.square() @ _WEIGHT - explained + _NOISE**2
    return (rest * inverse.diagonal(dim1=1, dim2=2).sum(1)).sqrt()
