"""Random patches of examples for training: turned, scaled, bent, with changed grey values and shifted coordinates."""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F

from ..embedding.working_grid import AIR_HU
from ..scan.geometry import rotations
from .grids import UNIT_MM, Crop

WINDOWS = ((-150.0, 250.0), (-1000.0, 200.0), (50.0, 1250.0))  # HU: soft tissue, lung, bone; one channel each
INPUTS = len(WINDOWS) + 3
_TURN_DEG = 12.0
_SCALE = 0.18
_BEND_MM = 5.0
_KNOTS = 4  # control points of the bending along each axis of a patch
_SHIFT_HU, _CONTRAST, _NOISE_HU = 25.0, 0.2, 25.0
_MISPLACED_MM = 7.0  # standard deviation of the shift of a patch's coordinates
_DISPLACED_MM = (2.0, 8.0)  # range of the displacement of a guess that is made from the example's own labels
_CARRIED, _NO_GUESS = 0.6, 0.05  # shares of patches: with a guess carried from other examples; without a guess
_ON_STRUCTURE = 0.8  # share of patches whose middle lies in a structure


@dataclass(frozen=True, eq=False)
class TrainingCrop:
    """The crop of an example for a group of s structures.

    labels: (s, k, j, i) float16, share of each voxel that each structure fills. known: (s,) bool, whether the example
    outlines the structure. carried: (s, k, j, i) float16, labels carried from other examples; None if there are none.
    """

    crop: Crop
    labels: torch.Tensor
    known: torch.Tensor
    carried: torch.Tensor | None = None


@dataclass(frozen=True, eq=False)
class Patch:
    """A patch for training.

    x: (1, INPUTS + s, k, j, i), from `network_input`. features: (1, c, k/2, j/2, i/2) descriptors, or None.
    labels: (1, s, k, j, i). known: (s,) bool, see `TrainingCrop`.
    """

    x: torch.Tensor
    features: torch.Tensor | None
    labels: torch.Tensor
    known: torch.Tensor


def network_input(hu: torch.Tensor, coordinate: torch.Tensor, guess: torch.Tensor) -> torch.Tensor:
    """Make the input (1, INPUTS + s, k, j, i) from HU (k, j, i), coordinates (3, k, j, i) and a guess (s, k, j, i)."""
    grey = [((hu - low) / (high - low)).clamp(0, 1) for low, high in WINDOWS]
    return torch.cat([torch.stack(grey), coordinate, guess])[None]


class PatchSampler:
    """Draws patches of one size from examples of a group."""

    def __init__(self, examples: list[TrainingCrop], size: tuple[int, int, int], rng: np.random.Generator):
        self._examples, self._size, self._rng = examples, size, rng
        self._sources = [torch.cat([e.crop.hu[None], e.crop.coordinate, e.labels.float()])[None] for e in examples]
        self._places = [[torch.nonzero(label > 0.5).numpy() for label in e.labels] for e in examples]

    def draw(self) -> Patch:
        n = int(self._rng.integers(len(self._examples)))
        example = self._examples[n]
        where = self._grid(self._centre(n), example.crop.spacing_mm)  # (k, j, i, 3) voxels, axes i, j, k
        source = self._sources[n]
        values = F.grid_sample(source, _normalised(where, source.shape), padding_mode="border", align_corners=False)[0]
        size = torch.tensor(example.crop.shape[::-1])
        outside = ((where < -0.5) | (where > size - 0.5)).any(-1)
        hu, coordinate, labels = values[0], values[1:4], values[4:]
        hu = self._other_grey(torch.where(outside, torch.tensor(AIR_HU), hu))
        labels = torch.where(outside, torch.tensor(0.0), labels)
        features = self._features(example.crop, where)
        guess = self._guess(n, where)
        shift = torch.from_numpy(self._rng.normal(0, _MISPLACED_MM / UNIT_MM, 3)).float()
        scale = torch.from_numpy(np.exp(self._rng.normal(0, 0.04, 3))).float()
        coordinate = coordinate * scale[:, None, None, None] + shift[:, None, None, None]
        return Patch(network_input(hu, coordinate, guess), features, labels[None], example.known)

    def _guess(self, n: int, where: torch.Tensor) -> torch.Tensor:
        """Make the guess (s, k, j, i) of a patch: labels carried from other examples, or its own labels displaced."""
        example, rng = self._examples[n], self._rng
        if rng.random() < _NO_GUESS:
            return torch.zeros(len(example.labels), *self._size)
        halved = F.avg_pool3d(where.movedim(-1, 0)[None], 2)[0].movedim(0, -1)
        if example.carried is not None and rng.random() < _CARRIED:
            source = example.carried.float()[None]
        else:
            source = self._sources[n][:, 4:]
            size = float(rng.uniform(*_DISPLACED_MM)) / example.crop.spacing_mm
            knots = torch.from_numpy(rng.normal(0, size, (1, 3, _KNOTS, _KNOTS, _KNOTS))).float()
            knots = knots + torch.from_numpy(rng.normal(0, size / 2, (1, 3, 1, 1, 1))).float()
            bent = F.interpolate(knots, halved.shape[:3], mode="trilinear", align_corners=True)[0].movedim(0, -1)
            halved = halved + bent
        read = F.grid_sample(source, _normalised(halved, source.shape), padding_mode="zeros", align_corners=False)
        if rng.random() < 0.5:  # as smooth as the mean of several examples
            read = F.avg_pool3d(read, 3, 1, 1)
        return F.interpolate(read, self._size, mode="trilinear", align_corners=False)[0]

    def _centre(self, n: int) -> np.ndarray:
        """Choose the middle of a patch: (3,) i, j, k."""
        crop, held = self._examples[n].crop, [p for p in self._places[n] if len(p)]
        shape, size = np.array(crop.shape), np.array(self._size)
        if held and self._rng.random() < _ON_STRUCTURE:
            of = held[self._rng.integers(len(held))]
            centre = of[self._rng.integers(len(of))] + self._rng.normal(0, size / 8)
        else:
            centre = self._rng.uniform(np.minimum(size / 2, shape / 2), np.maximum(shape - size / 2, shape / 2))
        low, high = np.minimum(size / 2, shape / 2), np.maximum(shape - size / 2, shape / 2)
        return np.clip(centre, low, high)[::-1] - 0.5

    def _grid(self, centre: np.ndarray, spacing_mm: float) -> torch.Tensor:
        rng = self._rng
        axes = [torch.arange(n) - (n - 1) / 2 for n in self._size]
        k, j, i = torch.meshgrid(*axes, indexing="ij")
        offset = torch.stack([i, j, k], dim=-1).float()
        about_i, about_j, about_k = rotations(np.radians(rng.normal(0, _TURN_DEG / 2, 3)))
        matrix = (
            about_i @ about_j @ about_k @ np.diag(np.exp(rng.uniform(-_SCALE, _SCALE) + rng.normal(0, _SCALE / 4, 3)))
        )
        knots = torch.from_numpy(rng.normal(0, _BEND_MM / spacing_mm, (1, 3, _KNOTS, _KNOTS, _KNOTS))).float()
        bent = F.interpolate(knots, self._size, mode="trilinear", align_corners=True)[0].movedim(0, -1)
        return offset @ torch.from_numpy(matrix.T).float() + bent + torch.from_numpy(centre.copy()).float()

    def _other_grey(self, hu: torch.Tensor) -> torch.Tensor:
        rng = self._rng
        if rng.random() < 0.3:  # a smoother kernel
            hu = F.avg_pool3d(hu[None, None], 3, 1, 1, count_include_pad=False)[0, 0].lerp(hu, float(rng.random()))
        contrast = float(np.exp(rng.normal(0, _CONTRAST / 2)))
        soft = (1 - ((hu - 50) / 250).abs()).clamp(0, 1)  # contrast medium changes soft tissue, not air
        hu = hu + soft * ((contrast - 1) * (hu - 50) + float(rng.normal(0, _SHIFT_HU)))
        noise = torch.from_numpy(rng.standard_normal(hu.shape, dtype=np.float32))
        return hu + noise * float(rng.uniform(0, _NOISE_HU))

    def _features(self, crop: Crop, where: torch.Tensor) -> torch.Tensor | None:
        if crop.features is None:
            return None
        halved = F.avg_pool3d(where.movedim(-1, 0)[None], 2)[0].movedim(0, -1)
        read = read_features(crop, halved)
        keep = torch.from_numpy(self._rng.random(read.shape[1]) > 0.1).float()
        noise = torch.from_numpy(self._rng.normal(0, 0.05, read.shape)).float()
        return read * keep[None, :, None, None, None] + noise


def read_features(crop: Crop, where: torch.Tensor) -> torch.Tensor:
    """Read the descriptors of a crop at voxels `where` (k, j, i, 3), order i, j, k: (1, c, k, j, i)."""
    ras = where * crop.spacing_mm + torch.from_numpy(crop.origin_ras).float()
    cells = (ras - torch.from_numpy(crop.feature_low).float()) / torch.from_numpy(crop.feature_mm).float()
    source = crop.features[None]
    return F.grid_sample(source, _normalised(cells, source.shape), padding_mode="border", align_corners=False)


def _normalised(where: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    """Convert voxels (k, j, i, 3), order i, j, k, of a source of this shape to a grid for grid_sample."""
    return ((where + 0.5) * 2 / torch.tensor(shape[:1:-1]) - 1)[None]
