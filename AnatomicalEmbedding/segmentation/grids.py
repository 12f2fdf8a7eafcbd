"""Find the part of a scan that may show a group of structures, and resample it to the grid of the network.

A group is a set of structures that share a voxel size and a network. The part of a scan that may show a group is found
with body coordinates. It consists of the cells whose coordinates lie in the range that the group's structures have in
the examples. A margin allows for the error of the coordinates.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
import torch.nn.functional as F

from ..embedding.coverage import apply_affine, body_points, robust_affine
from ..embedding.grid_reading import read_linear, sample_positions
from ..embedding.map import EmbeddingMap
from ..embedding.working_grid import resample
from ..scan.cropping import crop_voxels
from ..scan.geometry import AIR_HU, grid_matrix, mask_box, slices_between, transform_points
from ..scan.volume import Volume

MARGIN_MM = 28.0  # margin around a structure's body coordinates; 99 % of the errors of body coordinates are smaller
_EDGE_MM = 12.0  # margin beyond the cells; by hand
_AFFINE_MM = 70.0  # if a cell's body coordinate differs more from an affine fit to all cells, the coordinate is wrong
_FINEST_MM, _COARSEST_MM = 2.5, 4.0
_SIZES_DIFFER_MM = 1.0  # voxel sizes that differ less share a group
# largest height of a group in the body; a taller group would need most of each scan
_TALL_MM = 420.0
_ACROSS = 7.0  # wanted number of voxels across the mean thickness of a structure
UNIT_MM = 100.0  # unit of the coordinates that the network reads


@dataclass(frozen=True, eq=False)
class Group:
    """Structures that one network segments.

    low, high: (s, 3) mm, lowest and highest body coordinates of each of s structures in the examples. centre: (3,) mm,
    the middle between the lowest and the highest of all these coordinates.
    """

    names: tuple[str, ...]
    spacing_mm: float
    low: np.ndarray
    high: np.ndarray

    @property
    def centre(self) -> np.ndarray:
        return (self.low.min(axis=0) + self.high.max(axis=0)) / 2

    def to_dict(self) -> dict:
        """Return the values that a file of JSON stores."""
        return {
            "names": list(self.names),
            "spacing_mm": self.spacing_mm,
            "low": np.round(self.low, 2).tolist(),
            "high": np.round(self.high, 2).tolist(),
        }

    @classmethod
    def from_dict(cls, values: dict) -> Self:
        """Make a group from the result of `to_dict`. Raises ValueError for wrong values."""
        low = np.array(values["low"], np.float64)
        high = np.array(values["high"], np.float64)
        names = tuple(values["names"])
        spacing_mm = float(values["spacing_mm"])
        has_ranges = low.shape == high.shape == (len(names), 3) and np.isfinite([low, high]).all()
        has_names = bool(names) and all(isinstance(name, str) for name in names)
        if not has_ranges or not has_names or not 0.5 <= spacing_mm <= 20:
            raise ValueError(
                "the structures of a network are missing or have wrong values; train again"
            )
        return cls(names, spacing_mm, low, high)


@dataclass(frozen=True, eq=False)
class GroupCrop:
    """Part of a scan, resampled to the voxel size of a group of structures; k, j and i run towards S, A and R.

    hu: (k, j, i) float32. coordinate: (3, k, j, i), body coordinates minus the group's centre, in units of UNIT_MM.
    inside: (k, j, i) bool, whether the voxel lies in the scan. origin_ras: (3,) RAS mm, centre of voxel (0, 0, 0).
    features: (c, kf, jf, if) float32 local descriptors, or None. feature_low: (3,) RAS mm, centre of the first voxel of
    `features`. feature_mm: (3,) mm, size of a voxel of `features`.
    """

    hu: torch.Tensor
    coordinate: torch.Tensor
    inside: torch.Tensor
    spacing_mm: float
    origin_ras: np.ndarray
    features: torch.Tensor | None = None
    feature_low: np.ndarray | None = None
    feature_mm: np.ndarray | None = None

    @property
    def shape(self) -> torch.Size:
        return self.hu.shape

    @property
    def to_ras(self) -> np.ndarray:
        """(4, 4) matrix from voxels (i, j, k) to RAS mm."""
        return grid_matrix(self.origin_ras, [self.spacing_mm] * 3)


def spacing_for(mask: np.ndarray, size_mm: np.ndarray) -> float:
    """Choose the voxel size, mm, at which the network outlines a structure. Thin structures get small voxels.

    mask: (k, j, i) bool. size_mm: (3,) mm, size of the mask's voxels along i, j, k. The thickness is estimated as six
    times the volume divided by the surface; for a ball, this is the diameter.
    """
    faces = 0.0  # area of the surface, mm^2
    for axis, across in zip((2, 1, 0), size_mm, strict=True):
        faces += np.count_nonzero(np.diff(mask, axis=axis)) * float(np.prod(size_mm) / across)
    thickness = 6 * mask.sum() * np.prod(size_mm) / max(faces, 1e-6)
    spacing_mm = max(thickness / _ACROSS, 0.8 * float(np.prod(size_mm)) ** (1 / 3))
    return round(float(np.clip(spacing_mm, _FINEST_MM, _COARSEST_MM)) * 2) / 2


def read_grid(grid: torch.Tensor, cells: torch.Tensor, beyond: str) -> torch.Tensor:
    """Interpolate a grid (1, c, k, j, i) linearly at a lattice of places. Returns (1, c, k, j, i) of this lattice.

    Args:
        grid: the grid.
        cells: (k, j, i, 3), the fractional cell i, j, k of each place.
        beyond: values outside the grid, "zeros", or "border" for those of its border.
    """
    positions = sample_positions(cells, grid.shape)[None]
    return F.grid_sample(grid, positions, padding_mode=beyond, align_corners=False)


def region(group: Group, names: Sequence[str], embedding: EmbeddingMap) -> np.ndarray | None:
    """Return a box (2, 3) RAS mm, with a margin, around body cells that may show structures; None without such cells.

    Args:
        group: the group of the structures.
        names: the structures.
        embedding: the map of the scan.
    """
    ras, body = body_points(embedding)
    affine, _ = robust_affine(ras, body)
    smooth = apply_affine(affine, ras)
    rows = [group.names.index(name) for name in names]
    chosen = np.zeros(len(ras), bool)
    for low, high in zip(group.low[rows], group.high[rows], strict=True):
        in_range = (body >= low - MARGIN_MM) & (body <= high + MARGIN_MM)
        in_range &= (smooth >= low - _AFFINE_MM) & (smooth <= high + _AFFINE_MM)
        chosen |= in_range.all(axis=1)
    if not chosen.any():
        return None
    edge = embedding.cell_mm / 2 + _EDGE_MM
    return np.stack([ras[chosen].min(axis=0) - edge, ras[chosen].max(axis=0) + edge])


def make_crop(
    volume: Volume, embedding: EmbeddingMap, group: Group, box_ras: np.ndarray
) -> GroupCrop:
    """Resample a part of a scan to a group's grid; add the map's coordinates and descriptors.

    Args:
        volume: the scan.
        embedding: the map of the scan.
        group: the group of structures.
        box_ras: (2, 3) RAS mm, the part of the scan.
    """
    part = crop_voxels(volume, box_ras)
    spacing = group.spacing_mm
    grid = resample(part, (spacing,) * 3, lattice=1, step=1)
    points = grid.lattice.points_ras()
    inside = torch.from_numpy(part.contains(points).reshape(grid.hu.shape))
    coordinate = _coordinates(embedding, points) - group.centre
    coordinate = torch.from_numpy(coordinate.T.reshape(3, *grid.hu.shape) / UNIT_MM).float()
    features = () if embedding.local is None else _features(embedding, box_ras)
    return GroupCrop(grid.hu, coordinate, inside, spacing, np.asarray(grid.origin_ras), *features)


def occupancy(mask: np.ndarray, ijk_to_ras: np.ndarray, crop: GroupCrop) -> torch.Tensor:
    """Compute how much of each voxel of a crop lies in a mask, 0..1: float16 (k, j, i).

    Args:
        mask: bool (k, j, i).
        ijk_to_ras: (4, 4) from voxels of the mask to RAS mm.
        crop: the crop.
    """
    result = torch.zeros(crop.shape, dtype=torch.float16)
    if not mask.any():
        return result
    # two more voxels on each side, for the interpolation
    box = tuple(slice(max(part.start - 2, 0), part.stop + 2) for part in mask_box(mask))
    part = mask[box]
    to_ras = ijk_to_ras.copy()
    to_ras[:3, 3] = transform_points(ijk_to_ras, np.array([axis.start for axis in box[::-1]]))
    # 0 in the mask; outside -1000, like air around a scan
    filled = Volume((part.astype(np.int16) - 1) * 1000, to_ras)
    grid = resample(filled, (crop.spacing_mm,) * 3, lattice=1, step=1)
    share = ((grid.hu - AIR_HU) / 1000).clamp(0, 1).half()
    # both grids have the same lattice, so `grid` begins at a whole number of voxels of the crop
    start = np.rint((np.asarray(grid.origin_ras) - crop.origin_ras) / crop.spacing_mm).astype(int)
    # the common part, along k, j, i
    in_crop = []
    in_mask = []
    for first, size, whole in zip(start[::-1], share.shape, crop.shape, strict=True):
        in_crop.append(slice(max(first, 0), max(min(first + size, whole), 0)))
        in_mask.append(slice(max(-first, 0), max(min(whole - first, size), 0)))
    result[tuple(in_crop)] = share[tuple(in_mask)]
    return result


def _coordinates(embedding: EmbeddingMap, points: np.ndarray) -> np.ndarray:
    """Return body coordinates (n, 3), mm, of points (n, 3), RAS mm. They are read from the map or, outside the body
    cells, computed by an affine function that was fitted to the body cells."""
    affine, _ = robust_affine(*body_points(embedding))
    fitted = apply_affine(affine, points)
    cells = embedding.cells_at(points).float()
    # coordinates are 0 outside the body cells; the last column is the share of body cells
    mixed = read_linear(embedding.coordinate_and_body, cells[None])[0].double().numpy()
    share = mixed[:, 3:]
    return mixed[:, :3] + (1 - share) * fitted


def _features(
    embedding: EmbeddingMap, box_ras: np.ndarray
) -> tuple[torch.Tensor, np.ndarray, np.ndarray]:
    """Return the local descriptors (c, k, j, i) in and near a box, the centre (3,) RAS mm of the first local cell, and
    the size (3,) mm of a local cell."""
    size = embedding.cell_mm / 2  # a cell has 2 x 2 x 2 local cells
    low = embedding.cell_to_ras[:3, 3] - size / 2
    shape = np.array(embedding.local.shape[:0:-1])
    first = np.clip(np.floor((box_ras[0] - low) / size).astype(int) - 2, 0, shape - 1)
    last = np.clip(np.ceil((box_ras[1] - low) / size).astype(int) + 3, first + 1, shape)
    k, j, i = slices_between(first, last)
    return embedding.local[:, k, j, i].float().contiguous(), low + first * size, size


def group_structures(
    spacings: Mapping[str, float], ranges: Mapping[str, tuple[np.ndarray, np.ndarray]]
) -> list[Group]:
    """Divide structures into groups by voxel size and by height in the body; a group is at most _TALL_MM high.

    If the smallest and the largest voxel size differ by 1 mm or more, structures with small voxels and structures with
    large voxels get different groups. Otherwise the voxel size is ignored. spacings: structure -> voxel size, mm.
    ranges: structure -> lowest and highest body coordinates, (3,) mm each.
    """
    sizes = list(spacings.values())
    sizes_differ = max(sizes) - min(sizes) >= _SIZES_DIFFER_MM
    limit = (_FINEST_MM + _COARSEST_MM) / 2
    is_fine = {name: sizes_differ and size < limit for name, size in spacings.items()}
    groups: list[list[str]] = []
    for name in sorted(spacings, key=lambda n: float(ranges[n][0][2])):
        usable = [
            members
            for members in groups
            if is_fine[members[0]] == is_fine[name]
            and _height_mm([*members, name], ranges) < _TALL_MM
        ]
        if usable:
            usable[0].append(name)
        else:
            groups.append([name])
    result = []
    for names in groups:
        spacing_mm = float(np.median([spacings[name] for name in names]))
        low, high = np.array([ranges[name] for name in names]).swapaxes(0, 1)
        result.append(Group(tuple(names), spacing_mm, low, high))
    return result


def _height_mm(names: list[str], ranges: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> float:
    """Return the height of a group of structures in the body, mm. ranges: as for `group_structures`."""
    heights_mm = np.array([ranges[name] for name in names])[:, :, 2]
    return float(np.ptp(heights_mm))
