"""Is a scan stored the way round that its anatomy says? Headers can be wrong.

A small network looks at the scan in cells of 12 mm and at its three mirror images: liver, heart, spine and head tell
them apart. It is not of any weights' training, so that it serves them all.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
import torch
import torch.nn.functional as F

from ..errors import WeightsError
from ..resources import resource
from ..scan.volume import Volume
from .coverage import body_points, heights_fall, misfit_mm, robust_affine
from .map import EmbeddingMap
from .models.mirror_network import STRIDE, MirrorNetwork
from .models.network import piecewise_linear
from .tensor_files import DAMAGED, made_for, read_tensor_file
from .working_grid import WorkingGrid

METADATA_KEY = "anatomical_orientation"
FORMAT_VERSION = 1
FAULTS = ("left and right are swapped", "front and back are swapped", "head and feet are swapped")
JOINED = "body heights fall on the way up, as if two scans were joined or head and feet swapped"
_CELL_MM = (12.0, 12.0, 16.0)  # along R, A, S
_HU, _LEVELS = (-1000.0, -150.0, 250.0, 1300.0), (0.0, 0.25, 0.85, 1.0)
_SHIFTS = ((0, 0, 0), (1, 1, 1))  # both ways, so that a mirror image is treated as the scan is
_SURE = 3.0  # log odds of a fault
_DOUBTFUL = 0.7  # the same where the mirror image makes a better body too; see RESULTS.md
_CLEARLY = 1.03  # factor by which it must fit better
_LEAST_ALONG = 0.35  # mm of the body frame for each mm of the scan, along the body; about 1 where it is stored upright
_LEAST_ACROSS = 0.5  # the same from left to right; less is no body at all
_SHORT_MM = 100.0  # scans of less height say little of it
_FEWEST_CELLS = 100


@torch.no_grad()
def orientation_of(grid: WorkingGrid, body: np.ndarray) -> tuple[float, float, float]:
    """Log odds that left and right, back and front, feet and head of a scan are as stored.

    grid: with air outside the body. body: bool (k, j, i). About 0 where the scan does not show it, as of a head alone
    left and right.
    """
    right, front, up = (round(float(each), 2) for each in log_odds_of(_network(), in_cells(grid, body)))
    return right, front, up


def log_odds_of(network: MirrorNetwork, cells: torch.Tensor) -> torch.Tensor:
    """(3,) log odds along R, A and S of a scan in cells (3, k, j, i), by a network."""
    return network(torch.stack([_padded(cells, shift) for shift in _SHIFTS])).mean(0)


def may_be_mirrored(log_odds: Sequence[float]) -> bool:
    """Is it worth to look at a scan's left-right mirror image too? log_odds: by `orientation_of`."""
    return log_odds[0] < -_DOUBTFUL


def find_faults(
    embedding: EmbeddingMap, log_odds: Sequence[float], mirrored: EmbeddingMap | None = None
) -> tuple[str, ...]:
    """Those of FAULTS that a scan clearly has, or JOINED; none is no proof.

    log_odds: by `orientation_of`. mirrored: the map of the scan's left-right mirror image, if there is one: it says
    more where it makes a better body. Coordinates that run down while the scan runs up say it of head and feet,
    unless the network sees them the right way round.
    """
    turned, joined = [odds < -_SURE for odds in log_odds], False
    if embedding.provenance.metric and embedding.coordinate is not None:
        ras, body = body_points(embedding)
        if len(ras) > _FEWEST_CELLS and np.ptp(ras[:, 2]) > _SHORT_MM:
            across, _, along = np.diag(robust_affine(ras, body)[0])
            turned[2] |= along < _LEAST_ALONG and across > _LEAST_ACROSS and log_odds[2] <= 0
        joined = not any(turned) and heights_fall(embedding)
        if mirrored is not None and may_be_mirrored(log_odds):
            turned[0] |= misfit_mm(embedding) > _CLEARLY * misfit_mm(mirrored)
    every = zip((*FAULTS, JOINED), (*turned, joined), strict=True)
    return tuple(fault for fault, is_there in every if is_there)


def in_cells(grid: WorkingGrid, body: np.ndarray) -> torch.Tensor:
    """(3, k, j, i) of each cell: mean and standard deviation of the image's levels (0 to 1), and the body's share.

    Cut to the body: a working grid has more air on one side, which would tell the network what is not anatomy.
    """
    window = [max(1, round(cell / step)) for cell, step in zip(_CELL_MM, grid.spacing_mm, strict=True)][::-1]
    image = piecewise_linear(grid.hu, _HU, _LEVELS)
    both = F.avg_pool3d(torch.stack([image, image.square()]), window)
    share = F.avg_pool3d(torch.from_numpy(body)[None].float(), window)
    spread = (both[1] - both[0].square()).clamp_min(0).sqrt()
    cells = torch.cat([both[:1], spread[None], share])
    held = [torch.nonzero(share[0].amax([other for other in range(3) if other != axis])) for axis in range(3)]
    return cells[(slice(None), *(slice(int(at[0]), int(at[-1]) + 1) for at in held))]


def _padded(cells: torch.Tensor, shift: tuple[int, int, int]) -> torch.Tensor:
    """Cells (3, k, j, i) in the middle of air; sizes are multiples of STRIDE.

    shift: (k, j, i) of 0 or 1: to which side the middle of an odd number of cells is rounded.
    """
    sides = []
    for n, rounded in zip(cells.shape[:0:-1], shift[::-1], strict=True):
        lacking = -n % STRIDE + STRIDE
        before = (lacking + rounded) // 2
        sides += [before, lacking - before]
    return F.pad(cells, sides)


@lru_cache(maxsize=1)
def _network() -> MirrorNetwork:
    path = resource("Orientation") / "ct.safetensors"
    try:
        about, state = read_tensor_file(path, METADATA_KEY, FORMAT_VERSION)
        first, second, third = map(int, about["widths"])
        network = made_for(lambda: MirrorNetwork((first, second, third), int(about["members"])), state)
        network.load_state_dict(state)
        return network.eval()
    except DAMAGED:
        raise WeightsError(f"{path}: is missing or damaged; install this program again.") from None


def turn_over(volume: Volume, axis: int) -> Volume:
    """The scan mirrored along the voxel axis nearest to R, A or S (0, 1, 2), within the same outlines."""
    along = int(np.argmax(np.abs(volume.ijk_to_ras[axis, :3]) / np.linalg.norm(volume.ijk_to_ras[:3, :3], axis=0)))
    return replace(volume, voxels=np.ascontiguousarray(np.flip(volume.voxels, 2 - along)))
