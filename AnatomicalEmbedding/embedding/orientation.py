"""Finds scans whose header contradicts their anatomy: mirrored scans, two joined scans, or a wrong voxel size.

A small network, trained separately, compares the scan with its three mirror images, in which liver, heart, spine and
head look different. It alone decides about left and right, because both sides of an average body look alike. About the
other two axes it is sometimes wrong in pelves and thighs, so the scan's mirror image must also fit an average body.
The other two faults are found from the map's body coordinates.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
import torch
import torch.nn.functional as F

from ..errors import WeightsError
from ..resources import resource
from ..scan.geometry import mask_box
from ..scan.volume import Volume
from .coverage import fit_body, heights_fall
from .map import EmbeddingMap
from .models.mirror_network import STRIDE, MirrorNetwork
from .models.network import piecewise_linear
from .tensor_files import DAMAGED, made_for, read_tensor_file
from .working_grid import WorkingGrid

METADATA_KEY = "anatomical_orientation"
FORMAT_VERSION = 1
FAULTS = ("left and right are swapped", "front and back are swapped", "head and feet are swapped")
JOINED = "body heights decrease upwards, as if two scans were joined, or head and feet were swapped"
UNLIKE = "the scan looks like no part of a body; it may be noise, or have its axes in another order"
UNUSUAL_SIZE = "the body has an unusual size, as if the voxel size were wrong"
_CELL_MM = (12.0, 12.0, 16.0)  # along R, A, S
_HU, _GREY_VALUES = (-1000.0, -150.0, 250.0, 1300.0), (0.0, 0.25, 0.85, 1.0)
# two paddings, so that a scan and its mirror image give the same result
_SHIFTS = ((0, 0, 0), (1, 1, 1))
_SURE = 3.0  # above these log odds an axis counts as swapped; but see _MUCH
# above these log odds of a swapped axis, the mirror image is embedded; see RESULTS.md
_DOUBTFUL = 0.7
_MISFIT_MM = 18.0  # misfit above which front-back and head-feet mirror images are embedded; correct scans have less
_MUCH = 1.2  # a front-back or head-feet mirror image fits much better or worse if the misfits differ by this factor
_LEAST_ALONG = 0.35  # below this many mm of the body frame per mm of the scan, S is doubtful; correct scans: about 1
_LEAST_ACROSS = 0.5  # a scan with fewer mm of the body frame per mm along R shows no body at all
_SHORT_MM = 100.0  # height of scans that are too short to judge
# See RESULTS.md: in scans of adults, 1 mm of a scan is 0.66 to 1.28 (R, A) and 0.67 to 1.24 mm (S) of the body frame.
_SIZES = (0.6, 1.35), (0.6, 1.35), (0.65, 1.28)  # along R, A and S


@torch.no_grad()
def orientation_of(grid: WorkingGrid, body: np.ndarray) -> tuple[float, ...]:
    """Estimate the log odds that a scan is stored correctly along R, A and S; near 0 for an axis that cannot be judged.

    Args:
        grid: working grid with air outside the body.
        body: bool (k, j, i).
    """
    log_odds = log_odds_of(_network(), in_cells(grid, body))
    return tuple(round(odds, 2) for odds in log_odds.tolist())


def log_odds_of(network: MirrorNetwork, cells: torch.Tensor) -> torch.Tensor:
    """Run a mirror network on the result of `in_cells`, (3, k, j, i). Returns (3,) log odds along R, A and S."""
    return network(torch.stack([_padded(cells, shift) for shift in _SHIFTS])).mean(0)


def doubtful_axes(embedding: EmbeddingMap, log_odds: Sequence[float]) -> tuple[int, ...]:
    """Choose the axes A, S (1, 2) along which the scan may be stored as its mirror image; usually none.

    To decide, a mirrored copy of the scan must be embedded for each of these axes. A map without body coordinates in mm
    gives no axes, because it cannot be compared with the average body. log_odds: result of `orientation_of`.
    """
    if not embedding.provenance.metric:
        return ()
    fit = fit_body(embedding)
    across, _, along = fit.scales
    shows_body = across > _LEAST_ACROSS  # the mirror images of noise are noise
    limit = _DOUBTFUL if shows_body else _SURE
    doubtful = {axis for axis in (1, 2) if log_odds[axis] < -limit}
    if shows_body and fit.misfit_mm > _MISFIT_MM and embedding.calibration is not None:
        doubtful = {1, 2}
    is_tall = fit.height_mm > _SHORT_MM
    if shows_body and is_tall and along < _LEAST_ALONG and log_odds[2] <= 0:
        doubtful.add(2)
    return tuple(sorted(doubtful))


def find_faults(
    embedding: EmbeddingMap, log_odds: Sequence[float], mirrored: Mapping[int, EmbeddingMap]
) -> tuple[str, ...]:
    """Find signs that a scan is stored wrongly. Returns sentences; not all wrong scans are found.

    The signs are: swapped sides, two joined scans, a scan that looks like no part of a body, and an unusual body size.
    The last two signs are only reported for weights with a calibration. Without calibration, any scan may look unusual.

    Args:
        log_odds: result of `orientation_of`.
        mirrored: axis -> map of the scan's mirror image along this axis, for the axes that `doubtful_axes` returned.
    """
    if not embedding.provenance.metric:
        return tuple(fault for fault, odds in zip(FAULTS, log_odds, strict=True) if odds < -_SURE)
    fit = fit_body(embedding)
    faults = [FAULTS[0]] if log_odds[0] < -_SURE else []
    for axis, image in sorted(mirrored.items()):
        # how many times better the mirror image fits; with a sure sign, it may fit even a bit worse
        times = fit.misfit_mm / max(fit_body(image).misfit_mm, 1e-6)
        is_sure = log_odds[axis] < -_SURE
        if times > (1 / _MUCH if is_sure else _MUCH):
            faults.append(FAULTS[axis])
    if faults:
        return tuple(faults)
    if heights_fall(embedding):
        faults.append(JOINED)
    if embedding.calibration is not None:
        is_usual = [
            low < scale < high for scale, (low, high) in zip(fit.scales, _SIZES, strict=True)
        ]
        if not fit.is_body:
            faults.append(UNLIKE)
        elif not all(is_usual):
            faults.append(UNUSUAL_SIZE)
    return tuple(faults)


def in_cells(grid: WorkingGrid, body: np.ndarray) -> torch.Tensor:
    """Return (3, k, j, i) for 12 mm cells: mean and standard deviation of grey values (0 to 1), share of body voxels.

    The result is cropped to the body, so that the network does not see on which side a working grid has more air.
    """
    x, y, z = (
        max(1, round(cell / step)) for cell, step in zip(_CELL_MM, grid.spacing_mm, strict=True)
    )
    window = (z, y, x)  # voxels in a cell
    image = piecewise_linear(grid.hu, _HU, _GREY_VALUES)
    moments = F.avg_pool3d(torch.stack([image, image.square()]), window)  # means, mean squares
    share = F.avg_pool3d(torch.from_numpy(body)[None].float(), window)
    spread = (moments[1] - moments[0].square()).clamp_min(0).sqrt()
    cells = torch.cat([moments[:1], spread[None], share])
    return cells[(slice(None), *mask_box(share[0].numpy() > 0))]


def _padded(cells: torch.Tensor, shift: tuple[int, int, int]) -> torch.Tensor:
    """Pad `cells` (3, k, j, i) with air on all sides, to sizes that are multiples of STRIDE. If the number of added
    cells is odd, the extra cell lies before the scan on axes where `shift` (k, j, i) is 1, and behind the scan on other
    axes."""
    sides = []
    for size, extra in zip(reversed(cells.shape[1:]), reversed(shift), strict=True):
        added = -size % STRIDE + STRIDE
        before = (added + extra) // 2
        sides += [before, added - before]
    return F.pad(cells, sides)


@lru_cache(maxsize=1)
def _network() -> MirrorNetwork:
    """Read the mirror network, which ships with the program."""
    path = resource("Orientation") / "ct.safetensors"
    try:
        metadata, state = read_tensor_file(path, METADATA_KEY, FORMAT_VERSION)
        widths = tuple(map(int, metadata["widths"]))
        network = made_for(lambda: MirrorNetwork(widths, int(metadata["members"])), state)
        network.load_state_dict(state)
        return network.eval()
    except DAMAGED:
        raise WeightsError(f"{path}: is missing or damaged; install this program again.") from None


def turn_over(volume: Volume, axis: int) -> Volume:
    """Mirror a scan along the voxel axis nearest to R, A or S (0, 1, 2). The scan's box in RAS mm stays the same."""
    along = (np.abs(volume.ijk_to_ras[axis, :3]) / volume.spacing).argmax()
    return replace(volume, voxels=np.ascontiguousarray(np.flip(volume.voxels, 2 - along)))
