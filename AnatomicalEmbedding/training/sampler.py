"""Samplers choose the scan, the place and the size of each crop of a batch.

Batch number `step` depends on (seed, step) alone, so that a stopped run can continue.
"""

import signal
from dataclasses import dataclass

import numpy as np
import torch
from torch.utils.data import Dataset

from ..errors import AnatomicalEmbeddingError
from .augmentation import augment
from .crops import cell_positions, cut_crop, draw_geometry
from .recipes import Recipe
from .scans import ORIGINS, PreparedScan

KEEP_INSIDE = 0.7  # share of crops that are moved to lie inside the scan, along the axes where they fit


@dataclass
class CoordinateBatch:
    """b crops. image: (b, 1, k, j, i). body_mm: (b, 3, k/4, j/4, i/4). scan: (b,) index.

    inside: bool (b, k/4, j/4, i/4), whether a cell is a body cell.
    """

    image: torch.Tensor
    body_mm: torch.Tensor
    inside: torch.Tensor
    scan: torch.Tensor


class BatchSampler(Dataset):
    """Base class of all samplers: chooses a scan and a place in it."""

    def __init__(self, scans: list[PreparedScan], recipe: Recipe, seed: int):
        self.scans, self.recipe, self.seed = scans, recipe, seed
        self.ranges = np.array([s.height_range_mm for s in scans])
        self.origin = np.array([ORIGINS.index(s.origin) for s in scans])
        shares = np.array([0.0, recipe.batch.label_image_share, recipe.batch.phantom_share])
        shares[0] = 1 - shares.sum()
        held = np.isin(np.arange(len(ORIGINS)), self.origin).astype(float)
        chances = shares * held if (shares * held).any() else held
        self.shares = chances / chances.sum()
        self.rows = [torch.nonzero(s.body.flatten(1).any(1)).flatten().cpu().numpy() for s in scans]
        self.spacing = np.array(recipe.network.spacing_mm)
        low, high = np.array([b[:2] for b in recipe.batch.height_bands if b[2] > 0]).T
        reached = ((self.ranges[:, :1] <= high) & (low <= self.ranges[:, 1:])).any(axis=1)
        for origin in set(self.origin):
            if not reached[self.origin == origin].any():
                raise AnatomicalEmbeddingError(
                    f"training {ORIGINS[origin]}s: no scan reaches a height band of recipe {recipe.name}; "
                    "check the level readings, or change batch.height_bands."
                )

    def rng(self, step: int, part: int = 0) -> np.random.Generator:
        """Return the random generator of a batch, or of one part of a batch; the same at each call."""
        return np.random.default_rng([self.seed, step, part])

    def crop_size(self, step: int) -> tuple[int, int, int]:
        """Choose the size of the crops of a batch: (i, j, k) voxels."""
        sizes = self.recipe.batch.crop_sizes
        i, j, k = sizes[int(self.rng(step).integers(len(sizes)))]
        return i, j, k

    def aim(self, rng: np.random.Generator) -> tuple[int, np.ndarray]:
        """Choose a random body height, then a scan that shows it and a body voxel (i, j, k) at this height."""
        bands = np.array(self.recipe.batch.height_bands)
        origin = int(rng.choice(len(ORIGINS), p=self.shares))
        while True:
            band = bands[rng.choice(len(bands), p=bands[:, 2] / bands[:, 2].sum())]
            height = rng.uniform(band[0], band[1])
            shown = (self.ranges[:, 0] <= height) & (height <= self.ranges[:, 1])
            candidates = np.flatnonzero(shown & (self.origin == origin))
            if len(candidates):
                break
        index = int(rng.choice(candidates))
        scan = self.scans[index]
        low, high = self.ranges[index]
        k = round((height - low) / (high - low) * (scan.hu.shape[0] - 1))
        k = int(self.rows[index][np.abs(self.rows[index] - k).argmin()])
        in_slice = torch.nonzero(scan.body[k])
        j, i = in_slice[int(rng.integers(len(in_slice)))].tolist()
        return index, np.array([i, j, k], dtype=float)


class CoordinateSampler(BatchSampler):
    """Batches for the objective "coordinates"."""

    def __getitem__(self, step: int) -> CoordinateBatch:
        batch = self.recipe.batch
        size = self.crop_size(step)
        rows = []
        for part in range(max(batch.voxels_per_batch // int(np.prod(size)), 1)):
            rng = self.rng(step, 1 + part)
            index, centre = self.aim(rng)
            scan = self.scans[index]
            lattice = draw_geometry(self.recipe.augmentation, size, self.spacing, rng)
            if rng.random() < KEEP_INSIDE:
                centre = move_inside(centre, lattice, scan)
            rows.append(coordinate_row(self.recipe, scan, index, centre, lattice, size, rng))
        return CoordinateBatch(*map(torch.stack, zip(*rows, strict=True)))


def coordinate_row(
    recipe: Recipe,
    scan: PreparedScan,
    index: int,
    centre_ijk: np.ndarray,
    lattice_mm: np.ndarray,
    size_ijk: tuple[int, int, int],
    rng: np.random.Generator,
) -> tuple[torch.Tensor, ...]:
    """Make one crop for a CoordinateBatch: the values of its fields, in the order of the fields."""
    crop = cut_crop(scan, centre_ijk, lattice_mm, size_ijk)
    body_mm, inside = cell_positions(scan, crop)
    return augment(crop.hu, recipe.augmentation, recipe.network, rng)[None], body_mm, inside, torch.tensor(index)


def move_inside(centre_ijk: np.ndarray, lattice_mm: np.ndarray, scan: PreparedScan) -> np.ndarray:
    """Move a crop's centre (i, j, k) so that the crop lies in the scan; to the middle on axes where it is longer."""
    half = np.abs(lattice_mm).max((1, 2, 3)) / np.diag(scan.grid_to_ras)[:3]
    last = np.array(scan.hu.shape[::-1], dtype=float) - 1
    return np.where(last > 2 * half, np.clip(centre_ijk, half, np.maximum(last - half, half)), last / 2)


def start_worker(_: int) -> None:
    """Set up a process that makes batches or prepares scans."""
    torch.set_num_threads(1)
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):  # ignored, because the parent process ends its workers
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
