"""Find one structure in a scan: compute for each cell the chance that the cell belongs to the structure.

The first chance of a cell comes from the atlas. Then three steps correct it:

* Local descriptors: a cell may look like the structure in other patients, or like its surroundings. By Fisher's linear
  discriminant (1936), the log likelihood ratio of a descriptor x (d,) is w.x + c. A discriminant (d + 1,) is w, then c.
* CT numbers: the histograms of the structure and of its surroundings are learnt from this patient, starting with the
  chances of the atlas and the HU limits of the tissue (three rounds of expectation and maximisation).
* Rivals: only one of several structures can fill a cell. If o are the odds of a structure against no structure at all,
  the chance of this structure is p = o / (1 + sum of all o).
"""

import numpy as np
import SimpleITK as sitk
import torch

from ..anatomy.names import VERTEBRAE
from ..embedding.grid_reading import read_linear
from ..embedding.map import EmbeddingMap
from ..resources import read_rows
from ..scan.geometry import slices_between
from ..spine.vertebrae import Spine
from .atlas import LOW_MM, STEP_MM, Occupancy
from .grid_weights import Field, Grid

_TO_ARCH_MM = 16.0  # from the middle of a vertebra's body to its arch
# fading of a vertebra's values below and above its boundaries
_BELOW_FADE_MM, _ABOVE_FADE_MM = 8.0, 4.0
_BACK_MM, _FRONT_MM, _LEAST_PART = -40.0, 60.0, 0.1  # see `faded`
# Wide bins for enhanced vessels, because cells that a thin vessel fills in part are darker. Narrow bins find fewer.
_EDGES = np.array(read_rows("Words/hu_bins.csv"), np.float32).ravel()
# of the bins; the outermost bins are limited, as they are open
_MIDDLES = ((_EDGES[:-1] + _EDGES[1:]) / 2).clip(-1000, 1500)
_WIDTHS = np.diff(_EDGES).clip(10, 200)
# For each tissue: lowest and highest mean HU of a cell, and the softness of these limits in HU
_TISSUES = {name: tuple(map(float, limits)) for name, *limits in read_rows("Words/tissues.csv")}
_ROUNDS = 3  # of learning the CT numbers of the structure; by hand
_CELLS_LIMIT = 30_000  # CT numbers are learnt from about this number of cells
_LEAST, _SUREST = 0.004, 0.98
_UNIFORM = ("soft", "vessel", "artery", "muscle", "fluid", "brain")
_UNIFORM_SIGMA = (15.0, 35.0)  # HU
_LOG_LIMIT = 2.5  # of the log ratio: CT numbers cannot decide alone; by hand
_FEWEST_SURE = 20  # cells
# Factor of the descriptors' log ratio; below 1, because neighbouring cells and CT numbers contain partly the same facts
_DESCRIPTOR_WORTH = 0.6
_DESCRIPTOR_LIMIT = 3.0  # largest log ratio


def read_occupancy(grid: Grid, occupancy: Occupancy, shift_mm: float, fading: bool) -> Field:
    """Return for each grid cell the fraction of patients in whom the structure lies at the cell's body coordinate.

    Args:
        grid: the grid.
        occupancy: the structure in the atlas.
        shift_mm: added to the body height of each cell.
        fading: True for ribs; their front parts are shifted less.
    """
    # reachable: the frame cells with a share above 0, their neighbours, and the cells that the shift can reach
    reach = [1, 1, 1 + int(np.ceil(abs(shift_mm) / STEP_MM))]  # along i, j, k
    occupied = np.pad((occupancy.share > 0).astype(np.uint8), [(n, n) for n in reach[::-1]])
    dilated = sitk.BinaryDilate(sitk.GetImageFromArray(occupied), reach, sitk.sitkBox)
    reachable = sitk.GetArrayFromImage(dilated) > 0
    cells = grid.cells_in(np.subtract(occupancy.first, reach), reachable)
    body_mm = grid.body.reshape(3, -1)[:, cells]
    if shift_mm:
        body_mm[2] += faded(shift_mm, body_mm[1]) if fading else shift_mm
    # the shares get a border of zeros, so their first cell lies one cell before `first`
    share = torch.from_numpy(np.pad(occupancy.share, 1)).float() / 255
    body_mm -= (LOW_MM + STEP_MM * (np.array(occupancy.first) - 1)).astype(np.float32)[:, None]
    values = read_linear(share[None, None], torch.from_numpy((body_mm / STEP_MM).T)[None])
    return grid.field_of(cells, values.numpy().ravel())


def faded(shift_mm: float, ahead_mm: np.ndarray) -> np.ndarray:
    """Return the shift (n,), mm, of n places of ribs: `shift_mm` at the back, a tenth of `shift_mm` at the front.

    ahead_mm: (n,) body coordinates of the places towards the front, mm.
    """
    part = np.clip((_FRONT_MM - ahead_mm) / (_FRONT_MM - _BACK_MM), _LEAST_PART, 1)
    return (shift_mm * part).astype(np.float32)


def between_bounds(grid: Grid, field: Field, spine: Spine, vertebra: str) -> Field:
    """Reduce the values of a vertebra's field above its upper boundary, and less strongly below its lower boundary.

    The processes of a vertebra reach below its lower boundary. For the vertebra directly above `spine`, values below
    its lower boundary become 0, except behind the spine. A vertebra neither in `spine` nor next to it gets zeros.

    Args:
        grid: the grid of the scan.
        field: for each cell the chance that it belongs to the vertebra.
        spine: the vertebrae that were found in the scan.
        vertebra: the level of the vertebra, such as "L3".
    """
    number = VERTEBRAE.index(vertebra)
    height = grid.position(field, 2)
    behind = 1.0
    if vertebra in spine.names:
        bottom, top = spine.bounds_s[spine.names.index(vertebra)]
    elif number == VERTEBRAE.index(spine.names[0]) - 1:
        bottom = spine.bounds_s[0, 1]
        top = np.inf
        _, middle = spine.middle_at(height)
        behind = (height > bottom) | (grid.position(field, 1) < middle - _TO_ARCH_MM)
    elif number == VERTEBRAE.index(spine.names[-1]) + 1:
        bottom = -np.inf
        top = spine.bounds_s[-1, 0]
    else:
        return field.with_values(np.zeros_like(field.values))
    below = np.maximum(bottom - height, 0) / _BELOW_FADE_MM
    above = np.maximum(height - top, 0) / _ABOVE_FADE_MM
    return field.with_values(field.values * behind * np.exp(-(below**2) / 2 - above**2 / 2))


def weighed(
    grid: Grid, prior: Field, embedding: EmbeddingMap, discriminant: np.ndarray | None
) -> Field:
    """Correct each cell's chance to belong to a structure by the map's descriptors, if it has any.

    Args:
        grid: the grid.
        prior: the chances.
        embedding: the map of the scan.
        discriminant: (d + 1,) of the structure, learnt with the weights of the map; or None.
    """
    possible = prior.values > 0
    if embedding.local is None or discriminant is None or not possible.any():
        return prior
    # in indices i, j, k of the local descriptors, which lie in half cells: the prior's first cell and its cells' size
    local_mm = embedding.cell_mm / 2
    first_local_ras = embedding.cell_to_ras[:3, 3] - embedding.cell_mm / 4
    low = (grid.origin + grid.step * prior.first - first_local_ras) / local_mm
    step = grid.step / local_mm
    high = low + (np.array(prior.values.shape[::-1]) - 1) * step
    size = np.array(embedding.local.shape[:0:-1])
    start = np.clip(np.floor(low).astype(int), 0, size - 1)
    stop = np.clip(np.ceil(high).astype(int) + 1, start + 1, size)
    k, j, i = slices_between(start, stop)
    ratio = _descriptor_ratio(embedding.local[:, k, j, i].float(), discriminant)
    cells = low - start + np.argwhere(possible)[:, ::-1] * step  # (n, 3), in indices of `ratio`
    log_ratio = read_linear(ratio[None, None], torch.from_numpy(cells).float()[None])
    limited = log_ratio.numpy().ravel().clip(-_DESCRIPTOR_LIMIT, _DESCRIPTOR_LIMIT)
    new_odds = odds(prior.values[possible]) * np.exp(_DESCRIPTOR_WORTH * limited)
    values = np.zeros_like(prior.values)
    values[possible] = new_odds / (1 + new_odds)
    return prior.with_values(values)


def _descriptor_ratio(local: torch.Tensor, discriminant: np.ndarray) -> torch.Tensor:
    """Return the log likelihood ratio (k, j, i) at descriptors (d, k, j, i). discriminant: (d + 1,)."""
    # discriminants were learnt from descriptors of length 1
    length = local.norm(dim=0).clamp_min(1e-3)
    weights = torch.from_numpy(discriminant[:-1])
    return torch.tensordot(weights, local, dims=1) / length + float(discriminant[-1])


def sharpened(grid: Grid, share: Field, tissue: str, alike: Field | None) -> Field:
    """Correct each cell's chance to belong to a structure by the CT numbers of the scan.

    Args:
        grid: the grid.
        share: for each cell the chance that it belongs to the structure, from atlas and descriptors.
        tissue: a key of `_TISSUES`, or "any".
        alike: chances of another structure with the same CT numbers: for an artery, the aorta.
    """
    if grid.hu is None or share.total < 0.5:
        return share
    counted = grid.tissue[share.box] & (share.values > _LEAST)  # (k, j, i) of the box
    if not counted.any():
        return share
    all_hu = grid.hu[share.box][counted]  # (n,) of the counted cells, as all arrays below
    all_prior = share.values[counted].clip(0, _SUREST)
    every = max(len(all_hu) // _CELLS_LIMIT, 1)
    order = np.argsort(all_hu[::every])  # sorted by CT number, for quick medians
    hu = all_hu[::every][order]
    prior = all_prior[::every][order]
    bins = _bins_of(hu)
    likely = tissue_likelihood(_MIDDLES, tissue)
    usual = None if alike is None else _density_where_sure(grid, alike)

    def log_ratio(inside: np.ndarray) -> np.ndarray:
        """Return, for each HU bin, the log of its probability density in the structure divided by that outside.

        inside: probability of each cell to belong to the structure.
        """
        outside = np.bincount(bins, 1 - inside, len(_WIDTHS))
        outside = outside / outside.sum() / _WIDTHS + 1e-6
        density = _density(hu, bins, inside, tissue) if usual is None else usual
        ratio = (density * (likely + 0.01) + 1e-6) / outside
        return np.clip(np.log(ratio), -2 * _LOG_LIMIT, _LOG_LIMIT)

    inside = prior * likely[bins]
    for _ in range(_ROUNDS):
        inside = _posterior(prior, log_ratio(inside)[bins])
    values = np.zeros_like(share.values)
    values[counted] = _posterior(all_prior, log_ratio(inside)[_bins_of(all_hu)])
    return share.with_values(values)


def _density(hu: np.ndarray, bins: np.ndarray, inside: np.ndarray, tissue: str) -> np.ndarray:
    """Return the density of a structure's CT numbers in each HU bin.

    Args:
        hu, bins: (n,) CT numbers of the cells, and the bins in which they lie.
        inside: (n,) chances of the cells to belong to the structure.
        tissue: the tissue of the structure.
    """
    if tissue in _UNIFORM:
        return _one_tissue(hu, inside**2)  # squared: cells with a high chance count most
    counts = np.bincount(bins, inside, len(_WIDTHS))
    padded = np.pad(counts / max(counts.sum(), 1e-6), 1, mode="edge")
    return (0.25 * padded[:-2] + 0.5 * padded[1:-1] + 0.25 * padded[2:]) / _WIDTHS


def _posterior(share: np.ndarray, log_ratio: np.ndarray) -> np.ndarray:
    """Return chances `share` after a log likelihood ratio is added to their log odds (Bayes)."""
    return 1 / (1 + np.exp(-(np.log((share + 1e-4) / (1 - share)) + log_ratio)))


def _bins_of(hu: np.ndarray) -> np.ndarray:
    """Return the HU bin of each CT number: n for numbers from _EDGES[n] to _EDGES[n + 1]."""
    return (np.digitize(hu, _EDGES) - 1).clip(0, len(_WIDTHS) - 1)


def _density_where_sure(grid: Grid, field: Field) -> np.ndarray | None:
    """Return the density of a structure's CT numbers in each HU bin, from its likely cells; None for too few cells."""
    sure = field.values > 0.5
    if sure.sum() <= _FEWEST_SURE:
        return None
    return _one_tissue(grid.hu[field.box][sure], field.values[sure] ** 2)


def _one_tissue(hu: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Fit a Gaussian to CT numbers (n,) with weights (n,). Returns the density of the Gaussian in each HU bin."""
    middle = _weighted_median(hu, weight)
    sigma = np.clip(1.48 * _weighted_median(np.abs(hu - middle), weight), *_UNIFORM_SIGMA)
    return np.exp(-(((_MIDDLES - middle) / sigma) ** 2) / 2) / (sigma * np.sqrt(2 * np.pi))


def _weighted_median(values: np.ndarray, weight: np.ndarray) -> float:
    """Return the least value up to which the values have half of the total weight. values, weight: (n,)."""
    order = np.argsort(values, kind="stable")  # fast, because the values are nearly sorted
    share = np.cumsum(weight[order])
    return float(values[order[min(int(np.searchsorted(share, share[-1] / 2)), len(order) - 1)]])


def tissue_likelihood(hu: np.ndarray, tissue: str) -> np.ndarray:
    """Return 0 to 1: how well CT numbers agree with a kind of tissue; 1 for the tissue "any"."""
    if tissue not in _TISSUES:
        return np.ones_like(hu, np.float32)
    low, high, soft = _TISSUES[tissue]
    beyond = np.maximum(np.maximum(low - hu, hu - high), 0)
    return np.exp(-((beyond / soft) ** 2) / 2).astype(np.float32)


def odds(chance: np.ndarray) -> np.ndarray:
    """Return the odds of chances. Chances are limited to 0.98, so the odds are finite."""
    chance = chance.clip(0, _SUREST)
    return chance / (1 - chance)


def total_odds(grid: Grid, fields: list[Field]) -> Field:
    """Return for each cell of the grid the sum of the odds of several structures."""
    total = grid.zeros()
    for field in fields:
        total.values[field.box] += odds(field.values)
    return total


def among_others(field: Field, total: Field, sharing: list[Field]) -> Field:
    """Correct each cell's chance to belong to a structure by the chances of the other structures.

    Args:
        field: the chances.
        total: `total_odds` of all structures, including this structure.
        sharing: fields of the structures that contain this structure or are parts of it; these structures are ignored.
    """
    structure_odds = odds(field.values)
    rivals = total.values[field.box] - structure_odds
    for sharing_field in sharing:
        sharing_odds = sharing_field.with_values(odds(sharing_field.values))
        rivals = rivals - sharing_odds.over(field)
    return field.with_values(structure_odds / (1 + structure_odds + np.maximum(rivals, 0)))
