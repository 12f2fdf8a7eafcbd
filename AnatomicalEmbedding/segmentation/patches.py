"""Random patches of the examples, on which the network that outlines structures is trained.

The patches are turned, scaled and bent, and their grey values and coordinates are changed.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F

from ..scan.geometry import AIR_HU, rotations
from .grids import UNIT_MM, GroupCrop, read_grid
from .voxels import network_input, read_features, softness

_TURN_DEG = 12.0  # two standard deviations about each axis; by hand, not tuned
_SCALE = 0.18  # largest change of size (logarithm); by hand, not tuned
_BEND_MM = 5.0  # of control points; by hand, not tuned
_KNOTS = 4  # control points of the bending along each axis of a patch
_SHIFT_HU, _CONTRAST, _NOISE_HU = 25.0, 0.2, 25.0
_MISPLACED_MM = 7.0  # standard deviation of the shift of a patch's coordinates
# range of the displacement of a guess that is made from the patch's own labels
_DISPLACED_MM = (2.0, 8.0)
# fraction of patches with a guess from other examples, and without any guess
_CARRIED, _NO_GUESS = 0.6, 0.05
_ON_STRUCTURE = 0.8  # share of patches whose middle lies in a structure


@dataclass(frozen=True, eq=False)
class TrainingCrop:
    """The crop of an example for a group of s structures.

    labels: (s, k, j, i) float16, how much of each voxel lies in the structure, 0..1. outlined: (s,) bool, whether the
    example outlines the structure. carried: (s, k, j, i) float16, labels carried from other examples, or None.
    """

    crop: GroupCrop
    labels: torch.Tensor
    outlined: torch.Tensor
    carried: torch.Tensor | None = None


class Patch(NamedTuple):
    """A patch for training.

    x: (1, INPUTS + s, k, j, i), input of the network. features: (1, c, k/2, j/2, i/2) descriptors, or None.
    labels: (1, s, k, j, i), 0..1, of s structures. outlined: (s,) bool, whether the example outlines the structure.
    """

    x: torch.Tensor
    features: torch.Tensor | None
    labels: torch.Tensor
    outlined: torch.Tensor


class PatchSampler:
    """Makes random patches of one size from the examples of a group."""

    def __init__(
        self, examples: list[TrainingCrop], size: tuple[int, int, int], rng: np.random.Generator
    ):
        self._examples = examples
        self._size = size
        self._rng = rng
        self._sources = []  # of each example, (1, 4 + s, k, j, i): HU, coordinates, labels
        self._places = []  # of each example, for each structure: (n, 3) k, j, i of its voxels
        for example in examples:
            crop = example.crop
            channels = torch.cat([crop.hu[None], crop.coordinate, example.labels.float()])
            self._sources.append(channels[None])
            self._places.append([torch.nonzero(label > 0.5).numpy() for label in example.labels])

    def draw(self) -> Patch:
        """Make a random patch of a random example."""
        n = int(self._rng.integers(len(self._examples)))
        example = self._examples[n]
        where = self._grid(self._centre(n), example.crop.spacing_mm)
        values = read_grid(self._sources[n], where, "border")[0]
        size = torch.tensor(example.crop.shape[::-1])
        outside = ((where < -0.5) | (where > size - 0.5)).any(-1)
        hu = values[0]
        coordinate = values[1:4]
        labels = values[4:]
        hu = self._vary_grey(torch.where(outside, torch.tensor(AIR_HU), hu))
        labels = torch.where(outside, torch.tensor(0.0), labels)
        features = self._features(example.crop, where)
        guess = self._guess(n, where)
        shift = torch.from_numpy(self._rng.normal(0, _MISPLACED_MM / UNIT_MM, 3)).float()
        scale = torch.from_numpy(np.exp(self._rng.normal(0, 0.04, 3))).float()
        coordinate = coordinate * scale[:, None, None, None] + shift[:, None, None, None]
        return Patch(network_input(hu, coordinate, guess), features, labels[None], example.outlined)

    def _guess(self, n: int, where: torch.Tensor) -> torch.Tensor:
        """Return a random first guess (s, k, j, i) for a patch of example n: labels that registration carried to the
        example, its own labels with a random deformation, or zeros. where: positions of the patch's voxels in the
        example."""
        example = self._examples[n]
        rng = self._rng
        if rng.random() < _NO_GUESS:
            return torch.zeros(len(example.labels), *self._size)
        # read at half the resolution, which is enough for a guess
        halved = _halved(where)
        if example.carried is not None and rng.random() < _CARRIED:
            source = example.carried.float()[None]
        else:
            source = self._sources[n][:, 4:]
            size = float(rng.uniform(*_DISPLACED_MM)) / example.crop.spacing_mm
            bend = self._knots(size)
            shift = torch.from_numpy(rng.normal(0, size / 2, (1, 3, 1, 1, 1))).float()
            halved = halved + _smooth_field(bend + shift, halved.shape[:3])
        guess = read_grid(source, halved, "zeros")
        if rng.random() < 0.5:  # smooth, like the mean of labels from several examples
            guess = F.avg_pool3d(guess, 3, 1, 1)
        return F.interpolate(guess, self._size, mode="trilinear", align_corners=False)[0]

    def _centre(self, n: int) -> np.ndarray:
        """Return the middle (3,) i, j, k of a random patch in example number `n`. Many patches lie near a structure."""
        structures = [places for places in self._places[n] if len(places)]
        shape = np.array(self._examples[n].crop.shape)
        size = np.array(self._size)
        low = np.minimum(size / 2, shape / 2)
        high = np.maximum(shape - size / 2, shape / 2)
        if structures and self._rng.random() < _ON_STRUCTURE:
            places = structures[self._rng.integers(len(structures))]
            centre = places[self._rng.integers(len(places))] + self._rng.normal(0, size / 8)
        else:
            centre = self._rng.uniform(low, high)
        return np.clip(centre, low, high)[::-1] - 0.5

    def _grid(self, centre: np.ndarray, spacing_mm: float) -> torch.Tensor:
        """Return the positions (k, j, i, 3) of the voxels of a turned, scaled and bent patch, as i, j, k of its crop.

        centre: (3,) i, j, k, middle of the patch. spacing_mm: voxel size of the crop.
        """
        rng = self._rng
        axes = [torch.arange(n) - (n - 1) / 2 for n in self._size]
        k, j, i = torch.meshgrid(*axes, indexing="ij")
        offset = torch.stack([i, j, k], dim=-1).float()
        about_i, about_j, about_k = rotations(np.radians(rng.normal(0, _TURN_DEG / 2, 3)))
        scale = np.exp(rng.uniform(-_SCALE, _SCALE) + rng.normal(0, _SCALE / 4, 3))
        matrix = about_i @ about_j @ about_k @ np.diag(scale)
        bend = _smooth_field(self._knots(_BEND_MM / spacing_mm), self._size)
        turned = offset @ torch.from_numpy(matrix.T).float()
        return turned + bend + torch.from_numpy(centre.copy()).float()

    def _knots(self, size: float) -> torch.Tensor:
        """Return random displacements (1, 3, k, j, i) of control points. size: standard deviation, voxels."""
        return torch.from_numpy(self._rng.normal(0, size, (1, 3, _KNOTS, _KNOTS, _KNOTS))).float()

    def _vary_grey(self, hu: torch.Tensor) -> torch.Tensor:
        """Change HU as another scanner, dose or contrast phase would."""
        rng = self._rng
        if rng.random() < 0.3:  # like a smoother reconstruction kernel
            smooth = F.avg_pool3d(hu[None, None], 3, 1, 1, count_include_pad=False)[0, 0]
            hu = smooth.lerp(hu, float(rng.random()))
        contrast = float(np.exp(rng.normal(0, _CONTRAST / 2)))
        hu = hu + softness(hu) * ((contrast - 1) * (hu - 50) + float(rng.normal(0, _SHIFT_HU)))
        noise = torch.from_numpy(rng.standard_normal(hu.shape, dtype=np.float32))
        return hu + noise * float(rng.uniform(0, _NOISE_HU))

    def _features(self, crop: GroupCrop, where: torch.Tensor) -> torch.Tensor | None:
        """Return the descriptors (1, c, k/2, j/2, i/2) of a patch, with noise, and about a tenth of the channels 0.
        Returns None if the crop has no descriptors."""
        if crop.features is None:
            return None
        features = read_features(crop, _halved(where))
        channel_mask = torch.from_numpy(self._rng.random(features.shape[1]) > 0.1).float()
        noise = torch.from_numpy(self._rng.normal(0, 0.05, features.shape)).float()
        return features * channel_mask[None, :, None, None, None] + noise


def _halved(where: torch.Tensor) -> torch.Tensor:
    """Average positions (k, j, i, 3) over blocks of 2 x 2 x 2 voxels."""
    return F.avg_pool3d(where.movedim(-1, 0)[None], 2)[0].movedim(0, -1)


def _smooth_field(knots: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """Interpolate displacements (1, 3, k, j, i) of control points to voxels. Returns (*shape, 3)."""
    return F.interpolate(knots, shape, mode="trilinear", align_corners=True)[0].movedim(0, -1)
