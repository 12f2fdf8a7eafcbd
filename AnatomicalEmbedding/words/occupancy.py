"""One structure in a scan: the atlas read at each cell's place in the body, sharpened by CT numbers.

The CT numbers of the structure and of its surroundings are learnt from this patient: where the atlas is sure of each,
and within the limits of the kind of tissue (two histograms, three rounds of expectation and maximisation).
"""

from __future__ import annotations

import numpy as np
import SimpleITK as sitk
import torch

from ..embedding.grid_reading import read_linear
from .atlas import LOW_MM, STEP_MM, Occupancy
from .grid_weights import Field, Grid

_BACK_MM, _FRONT_MM, _LEAST_PART = -40.0, 60.0, 0.1
# wide bins for enhanced vessels: cells that a thin one fills in part are darker (narrow bins found fewer)
_EDGES = np.array([
    *(-2000, -950, -900, -800, -600, -400, -250, -160, -120, -90, -60, -30, -10, 0), *range(10, 110, 10),
    *(120, 140, 160, 180, 200, 250, 300, 400, 600, 1000, 4000),
], dtype=np.float32)  # fmt: skip
_MIDDLES = ((_EDGES[:-1] + _EDGES[1:]) / 2).clip(-1000, 1500)
_WIDTHS = np.diff(_EDGES).clip(10, 200)
# HU that a tissue may have, over the cells' size, the softness of these limits, and how much this is worth in cells
_TISSUES: dict[str, tuple[float, float, float]] = {
    "bone": (110, 900, 60), "lung": (-960, -500, 80), "air": (-1100, -550, 150), "fat": (-150, -30, 30),
    "soft": (-5, 200, 25), "vessel": (10, 420, 20), "artery": (10, 420, 20), "muscle": (5, 130, 25),
    "fluid": (-20, 130, 20), "brain": (0, 90, 20),
}  # fmt: skip
_ROUNDS = 3
_CELLS_LIMIT = 30_000  # cells that CT numbers are learnt from
_LEAST, _SUREST = 0.004, 0.98
_UNIFORM = ("soft", "vessel", "artery", "muscle", "fluid", "brain")
_UNIFORM_SIGMA = (15.0, 35.0)  # HU
_LOG_LIMIT = 2.5
_FEWEST_SURE = 20  # cells


def read_occupancy(grid: Grid, found: Occupancy, shift_mm: float = 0.0, fading: bool = False) -> Field:
    """Read the share of an atlas at each cell of a grid.

    shift_mm: added to the cells' heights in the body before reading. fading: less so in front of the spine (`faded`).
    """
    if grid.body is None:
        return Field(found.first, found.share.astype(np.float32) / 255)
    # cells of the frame with a share, those next to them, and those a shift away
    reach = [1, 1, 1 + int(np.ceil(abs(shift_mm) / STEP_MM))]
    held = np.pad((found.share > 0).astype(np.uint8), [(n, n) for n in reach[::-1]])
    near = sitk.GetArrayFromImage(sitk.BinaryDilate(sitk.GetImageFromArray(held), reach, sitk.sitkBox)) > 0
    cells = grid.cells_in(np.subtract(found.first, reach), near)
    place = grid.body.reshape(3, -1)[:, cells]
    if shift_mm:
        place[2] += faded(shift_mm, place[1]) if fading else shift_mm
    place -= (LOW_MM + STEP_MM * (np.array(found.first) - 1)).astype(np.float32)[:, None]
    share = torch.from_numpy(np.pad(found.share, 1)).float() / 255  # zero beyond
    read = read_linear(share[None, None], torch.from_numpy((place / STEP_MM).T)[None])
    return grid.field_of(cells, read.numpy().ravel())


def faded(shift_mm: float, ahead_mm: np.ndarray) -> np.ndarray:
    """A shift of the spine as ribs take part in it: whole at the back, hardly at the front."""
    return (shift_mm * np.clip((_FRONT_MM - ahead_mm) / (_FRONT_MM - _BACK_MM), _LEAST_PART, 1)).astype(np.float32)


def sharpened(grid: Grid, share: Field, tissue: str, alike: Field | None = None) -> Field:
    """The chance of each cell to be in a structure, by the share of the atlas and the scan's CT numbers.

    Args:
        share: of the atlas, weighed by descriptors.
        tissue: a key of `_TISSUES`, or "any".
        alike: chances of another structure that has the CT numbers of this one (the aorta, for arteries).
    """
    if grid.hu is None or share.total < 0.5:
        return share
    counted = grid.tissue[grid.crop(share)] & (share.values > _LEAST)
    if not counted.any():
        return share
    hu, prior = grid.hu[grid.crop(share)][counted], share.values[counted].clip(0, _SUREST)
    usual = None if alike is None else _density_of(grid, alike)
    learnt = _Numbers.of_some(hu, prior, tissue, usual)
    inside = learnt.prior * learnt.plausible
    for _ in range(_ROUNDS):
        inside = _posterior(learnt.prior, learnt.log_ratio(inside)[learnt.bins])
    values = np.zeros_like(share.values)
    values[counted] = _posterior(prior, learnt.log_ratio(inside)[_bins_of(hu)])
    return grid.with_values(share, values)


def _posterior(share: np.ndarray, log_ratio: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-(np.log((share + 1e-4) / (1 - share)) + log_ratio)))


def _bins_of(hu: np.ndarray) -> np.ndarray:
    return (np.digitize(hu, _EDGES) - 1).clip(0, len(_EDGES) - 2)


class _Numbers:
    """CT numbers and atlas shares of some cells, in bins. usual: density of the structure's CT numbers, if known."""

    def __init__(self, hu: np.ndarray, prior: np.ndarray, tissue: str, usual: np.ndarray | None) -> None:
        self.hu, self.prior, self.tissue, self.usual = hu, prior, tissue, usual
        self.bins = _bins_of(hu)
        self.plausible = tissue_likelihood(_MIDDLES, tissue)[self.bins]

    @classmethod
    def of_some(cls, hu: np.ndarray, prior: np.ndarray, tissue: str, usual: np.ndarray | None) -> _Numbers:
        """Of a part of the cells where they are many, by rising CT number: medians are then quick."""
        every = max(len(hu) // _CELLS_LIMIT, 1)
        order = np.argsort(hu[::every])
        return cls(hu[::every][order], prior[::every][order], tissue, usual)

    def log_ratio(self, inside: np.ndarray) -> np.ndarray:
        """(bins,) log likelihood ratio, inside against outside, when cells are inside with these chances (n,)."""
        size = len(_EDGES) - 1
        outside = np.bincount(self.bins, 1 - inside, size)
        outside = outside / outside.sum() / _WIDTHS + 1e-6
        if self.usual is not None:
            density = self.usual
        elif self.tissue in _UNIFORM:
            density = _one_tissue(self.hu, inside**2)  # the sure places count
        else:
            counts = np.bincount(self.bins, inside, size)
            padded = np.pad(counts / max(counts.sum(), 1e-6), 1, mode="edge")
            density = (0.25 * padded[:-2] + 0.5 * padded[1:-1] + 0.25 * padded[2:]) / _WIDTHS
        density = density * (tissue_likelihood(_MIDDLES, self.tissue) + 0.01)
        return np.clip(np.log((density + 1e-6) / outside), -2 * _LOG_LIMIT, _LOG_LIMIT)


def _density_of(grid: Grid, field: Field) -> np.ndarray | None:
    """(bins,) density of the CT numbers where a structure surely is; None where it hardly is anywhere."""
    sure = field.values > 0.5
    return _one_tissue(grid.hu[grid.crop(field)][sure], field.values[sure] ** 2) if sure.sum() > _FEWEST_SURE else None


def _one_tissue(hu: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Density of the CT numbers of one tissue at the middles of the bins, from cells that are mostly in it."""
    middle = _weighted_median(hu, weight)
    spread = 1.48 * _weighted_median(np.abs(hu - middle), weight)
    sigma = float(np.clip(spread, *_UNIFORM_SIGMA))
    return np.exp(-(((_MIDDLES - middle) / sigma) ** 2) / 2) / (sigma * np.sqrt(2 * np.pi))


def _weighted_median(values: np.ndarray, weight: np.ndarray) -> float:
    order = np.argsort(values, kind="stable")  # linear in time for values that are sorted, or fall and then rise
    share = np.cumsum(weight[order])
    return float(values[order[min(int(np.searchsorted(share, share[-1] / 2)), len(order) - 1)]])


def tissue_likelihood(hu: np.ndarray, tissue: str) -> np.ndarray:
    """0..1, how well CT numbers agree with a kind of tissue; 1 for "any"."""
    if tissue not in _TISSUES:
        return np.ones_like(hu, dtype=np.float32)
    low, high, soft = _TISSUES[tissue]
    beyond = np.maximum(np.maximum(low - hu, hu - high), 0)
    return np.exp(-((beyond / soft) ** 2) / 2).astype(np.float32)
