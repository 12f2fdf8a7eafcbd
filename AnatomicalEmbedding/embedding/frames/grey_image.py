"""Grey values of a scan of any kind, from 0 to 1, and the object that the scan shows."""

import math
from dataclasses import replace
from functools import cached_property
from typing import Self

import numpy as np
import SimpleITK as sitk
import torch
import torch.nn.functional as F

from ...fields.comparison import Features, normalised
from ...fields.spline import Lattice
from ...scan.checks import grey_range
from ...scan.geometry import AIR_HU
from ...scan.volume import Volume
from ..working_grid import WorkingGrid, crop, resample

CT, ANY = MODALITIES = ("ct", "any")
_CT_HU = (AIR_HU, 1000.0)  # become 0 and 1 in CTs; by hand: up to dense bone
# the grid of `resample` has `AIR_HU` outside the scan; there the grey value must be 0
_RANGE = 1000.0
NOISE = 0.05  # a window with less contrast counts as flat
_MASS_SHARE = 0.95  # of an object that lies within its radius; by hand
_OBJECT_SIDE = 48  # voxels along the longest side of the grid on which the object is measured


class GreyImage:
    """A scan whose values are mapped to 0 to 1, with the features by which it is compared. Features are computed once.

    Args:
        volume: the scan, of any kind.
        modality: "ct" to map HU, "any" to map percentiles of the scan's own values.
    """

    def __init__(self, volume: Volume, modality: str = ANY) -> None:
        low, high = _CT_HU if modality == CT else grey_range(volume.voxels)
        share = (volume.voxels.astype(np.float32) - low) / max(high - low, 1e-6)
        self.name = volume.name
        self.volume = replace(volume, voxels=share.clip(0, 1) * _RANGE + np.float32(AIR_HU))
        self._features: dict[float, Features] = {}

    @classmethod
    def of_values(cls, values: np.ndarray, ijk_to_ras: np.ndarray, name: str) -> Self:
        """Make an image of grey values (k, j, i) that lie from 0 to 1 already.

        Args:
            values: the grey values.
            ijk_to_ras: (4, 4) matrix from voxels to RAS mm.
            name: its name in messages.
        """
        low, high = _CT_HU
        return cls(Volume(values * (high - low) + low, ijk_to_ras, name), CT)

    @property
    def extent_mm(self) -> float:
        """Longest side of the scan, mm."""
        return float(np.ptp(self.volume.bounds_ras, axis=0).max())

    @property
    def voxel_mm(self) -> float:
        """Geometric mean of the sizes of a voxel."""
        return float(np.prod(self.volume.spacing) ** (1 / 3))

    def on_grid(self, spacing_mm: float, lattice: int = 1, size_step: int = 1) -> WorkingGrid:
        """Resample to a grid along R, A, S; its `hu` are grey values from 0 to 1, and 0 outside the scan.

        Args:
            spacing_mm: size of the grid's voxels.
            lattice, size_step: as in `working_grid.resample`.
        """
        grid = resample(self.volume, (spacing_mm,) * 3, lattice, size_step)
        return replace(grid, hu=((grid.hu - AIR_HU) / _RANGE).clamp(0, 1))

    @cached_property
    def _measured(self) -> tuple[float, np.ndarray, float]:
        """Return the threshold of the object (Otsu 1979), its centre (3,) RAS mm, and its radius, mm."""
        grid = self.on_grid(self.extent_mm / _OBJECT_SIDE)
        values = grid.hu.numpy()
        otsu = sitk.OtsuThresholdImageFilter()
        otsu.SetInsideValue(0)
        otsu.Execute(sitk.GetImageFromArray(values))
        threshold = float(otsu.GetThreshold())
        bright = values > threshold
        if not bright.any():
            return threshold, self.volume.bounds_ras.mean(axis=0), 0.0
        points = grid.lattice.points_ras()[bright.ravel()]
        mass = values[bright]
        centre = np.average(points, axis=0, weights=mass)
        distance = np.linalg.norm(points - centre, axis=1)
        order = distance.argsort()
        mass_within = mass[order].cumsum()
        last = np.searchsorted(mass_within, _MASS_SHARE * mass_within[-1])
        return threshold, centre, float(distance[order][last])

    @property
    def threshold(self) -> float:
        """Grey value above which a voxel belongs to the object; half of it still is partly object."""
        return self._measured[0]

    @property
    def centre_ras(self) -> np.ndarray:
        """(3,) RAS mm of the centre of the object."""
        return self._measured[1]

    @property
    def radius_mm(self) -> float:
        """Radius around the centre that contains 95 % of the object."""
        return self._measured[2]

    def features(self, spacing_mm: float) -> Features:
        """Normalise the grey values by local mean and standard deviation; the weight is 1 in and near the object."""
        if spacing_mm not in self._features:
            grid = self.on_grid(spacing_mm)
            bright = (grid.hu > self.threshold / 2).float()
            mask = F.max_pool3d(bright[None], 5, 1, 2)[0] > 0
            grid, inside = crop(grid, mask.numpy(), 1, 1)
            weight = torch.from_numpy(inside).float()
            values = normalised(grid.hu, NOISE)
            self._features[spacing_mm] = Features(values, weight, grid.lattice)
        return self._features[spacing_mm]


def read_grey(values: torch.Tensor, lattice: Lattice, places: torch.Tensor) -> torch.Tensor:
    """Interpolate values (k, j, i) at the points of a lattice, at places (3, ...) RAS mm; 0 outside. Returns (...)."""
    positions = lattice.sample_positions(places.flatten(1))
    samples = F.grid_sample(values[None, None], positions[None, None, None], align_corners=False)
    return samples.view(places.shape[1:])


def spread_rotations(count: int) -> np.ndarray:
    """Return rotations (count, 3, 3) that are spread evenly: super-Fibonacci spirals (Alexa 2022)."""
    step = np.arange(count) + 0.5
    # the two constants of the spirals are those of the paper
    first, second = (
        2 * math.pi * step / number for number in (math.sqrt(2), 1.533751168755204288118041)
    )
    inner, outer = np.sqrt(step / count), np.sqrt(1 - step / count)
    x, y = inner * np.sin(first), inner * np.cos(first)
    z, w = outer * np.sin(second), outer * np.cos(second)
    rows = (
        (1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)),
        (2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)),
        (2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)),
    )
    return np.stack([np.stack(row, axis=1) for row in rows], axis=1)
