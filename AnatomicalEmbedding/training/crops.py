"""Crops: parts of prepared scans with random changes, and the position of each of their cells in the patient.

A cell of a crop has 4 x 4 x 4 voxels. A smooth transform gives, for each voxel of the crop, its place in the scan. The
scan is resampled in two passes: within each slice, then between slices (Catmull and Smith, SIGGRAPH 1980). The passes
read the memory in order and use vector instructions. On CPUs, this is three times as fast as trilinear interpolation,
which reads eight voxels from distant places for each new voxel.
"""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F

from ..embedding.grid_reading import flat_index
from ..embedding.models.network import STRIDE
from ..scan.geometry import AIR_HU, rotations
from .recipes import AugmentationSpec
from .scans import FIELD_STEP, PreparedScan

# along each axis, of the transform from crop to scan; it has an affine and an elastic part
_NODES = 5
_LEAST_ADVANCE = 0.2  # least distance of successive nodes along k, as a share of the mean distance; prevents folding


Size = tuple[int, int, int]  # number of voxels of a crop along i, j and k


@dataclass(frozen=True)
class Warp:
    """The transform from the voxels (i, j, k) of a crop to fractional voxels of the scan.

    A coarse lattice of nodes covers the crop. depth: (nk, nj, ni) the scan's k at each node. Nodes with equal j and i
    form a line. in_plane: (2, s, nj, ni) the scan's i and j where each line crosses each of s slices of the scan.
    first_slice: k of the first of these s slices. shape: (k, j, i) number of voxels of the crop.
    """

    depth: torch.Tensor
    in_plane: torch.Tensor
    first_slice: int
    shape: torch.Size

    @classmethod
    def through(cls, nodes_ijk: np.ndarray, shape: torch.Size, device: torch.device) -> "Warp":
        """Make the transform that maps each lattice node to a scan voxel.

        Args:
            nodes_ijk: (3, nk, nj, ni) the scan voxel i, j, k of each node.
            shape: (k, j, i) number of voxels of the crop.
            device: where crops are made.
        """
        depth = _advancing(nodes_ijk[2])
        first = int(np.floor(depth.min()))
        last = int(np.ceil(depth.max()))
        slices = np.arange(first, last + 1, dtype=np.float64)
        # where each line of nodes along k crosses each slice of the scan
        in_plane = np.empty((2, len(slices), *depth.shape[1:]))
        for j, i in np.ndindex(depth.shape[1:]):
            for axis in (0, 1):
                nodes = nodes_ijk[axis, :, j, i]
                in_plane[axis, :, j, i] = _line(slices, depth[:, j, i], nodes)
        return cls(
            torch.from_numpy(depth.astype(np.float32)).to(device),
            torch.from_numpy(in_plane.astype(np.float32)).to(device),
            first,
            shape,
        )

    def sample(self, hu: torch.Tensor) -> torch.Tensor:
        """Resample a scan, int16 HU (k, j, i). Returns the crop, float HU (k, j, i); air outside the scan."""
        low = max(self.first_slice, 0)
        high = min(self.first_slice + self.in_plane.shape[1], hu.shape[0])
        if low >= high:
            return torch.full(self.shape, AIR_HU, device=hu.device)
        # letters of the sums below: c (i, j), s slices, a and b nodes along j and i, y and x voxels along j and i
        columns = self.in_plane[:, low - self.first_slice : high - self.first_slice]
        first_i, end_i = _span(columns[0], hu.shape[2])
        first_j, end_j = _span(columns[1], hu.shape[1])
        part = hu[low:high, first_j:end_j, first_i:end_i].float().sub_(AIR_HU)
        corner = torch.tensor([first_i, first_j], device=hu.device).view(2, 1, 1, 1)
        end = torch.tensor([end_i, end_j], device=hu.device).view(2, 1, 1, 1)
        in_part = (columns - corner + 0.5) * (2 / (end - corner)) - 1  # -1 to 1
        _, along_j, along_i = self._weights(1)
        # interpolate along i first, then along j: both are matrix products over contiguous memory
        grid = torch.einsum("csab,xb->csax", in_part, along_i)
        grid = torch.einsum("ya,csax->syxc", along_j, grid).contiguous()
        flat = F.grid_sample(part[:, None], grid, align_corners=False)
        flat = F.pad(flat[:, 0], (0, 0, 0, 0, 1, 1)).flatten()  # an empty slice before and after
        # of the padded slices: where each voxel lies between two of them
        depth = (self._depth(1) - (low - 1)).clamp_(0, high - low + 1 - 1e-4)
        whole = depth.to(torch.int32)
        plane = self.shape[1] * self.shape[2]
        pixels = torch.arange(plane, dtype=torch.int32, device=hu.device)
        index = ((whole * plane).flatten(1) + pixels).flatten()
        before = flat.index_select(0, index)
        after = flat.index_select(0, index + plane)
        between = depth.sub_(whole).flatten()
        return torch.lerp(before, after, between).add_(AIR_HU).view(self.shape)

    def voxel_ijk(self, pool: int = 1) -> torch.Tensor:
        """Return (k, j, i, 3): scan voxel i, j, k of each crop voxel or, if pool > 1, of each cell of pool^3 voxels."""
        depth = self._depth(pool)
        _, along_j, along_i = self._weights(pool)
        columns = torch.einsum("csab,ya,xb->csyx", self.in_plane, along_j, along_i)
        last = self.in_plane.shape[1] - 1
        place = (depth - self.first_slice).clamp(0, last)
        before = place.long().clamp_max(max(last - 1, 0))
        after = (before + 1).clamp_max(last)

        def between(column: torch.Tensor) -> torch.Tensor:
            """Interpolate between the slices before and after each place."""
            return torch.lerp(column.gather(0, before), column.gather(0, after), place - before)

        return torch.stack([between(columns[0]), between(columns[1]), depth], dim=-1)

    def _depth(self, pool: int) -> torch.Tensor:
        """Return the scan's k at each cell of pool^3 voxels of the crop, (k, j, i)."""
        along_k, along_j, along_i = self._weights(pool)
        plane = torch.einsum("kab,ya,xb->kyx", self.depth, along_j, along_i)
        return (along_k @ plane.flatten(1)).view(len(along_k), *plane.shape[1:])

    def _weights(self, pool: int) -> list[torch.Tensor]:
        """Return the weights of `_hats` along k, j and i."""
        sizes = zip(self.shape, self.depth.shape, strict=True)
        return [_hats(voxels, nodes, pool, self.depth.device) for voxels, nodes in sizes]


@dataclass(frozen=True)
class Crop:
    """A part of a scan. hu: float (k, j, i). warp: where the voxels of the crop lie in the scan."""

    hu: torch.Tensor
    warp: Warp


def draw_geometry(
    spec: AugmentationSpec,
    size_ijk: Size,
    spacing_mm: np.ndarray,
    rng: np.random.Generator,
    planar: bool = False,
) -> np.ndarray:
    """Draw a crop's random geometry. Returns (3, k, j, i): mm from the crop's centre to each node of a coarse lattice.

    Args:
        spec: ranges of voxel spacing, scale of each axis, rotation and elastic displacement.
        size_ijk: number of voxels of the crop.
        spacing_mm: (3,) voxel size of the network.
        rng: random numbers.
        planar: True for crops of films, which stay in the film's plane.
    """
    if spec.spacing_mm_low is not None:
        step = rng.uniform(spec.spacing_mm_low, spec.spacing_mm_high)
    else:
        scale = np.exp(rng.uniform(*np.log(spec.spacing_scale)))
        step = spacing_mm * scale * rng.uniform(spec.axis_scale[0], spec.axis_scale[1], size=3)
    a, b, c = rng.uniform(-spec.rotation_rad, spec.rotation_rad, size=3)
    about_x, about_y, about_z = rotations(np.array([a, -b, c]))
    rotation = about_y if planar else about_x @ about_y @ about_z
    if planar:
        step[1] = spacing_mm[1]
    x, y, z = (
        np.linspace(-0.5, 0.5, _NODES) * (size - 1) * mm
        for size, mm in zip(size_ijk, step, strict=True)
    )
    z, y, x = np.meshgrid(z, y, x, indexing="ij")
    nodes = np.einsum("ab,bkji->akji", rotation, np.stack([x, y, z]))
    if rng.random() < spec.elastic_probability:
        bend = rng.normal(size=nodes.shape) * rng.uniform(0, spec.elastic_mm)
        nodes += bend * np.array([1, not planar, 1])[:, None, None, None]
    return nodes


def cut_crop(
    scan: PreparedScan,
    centre_ijk: np.ndarray,
    lattice_mm: np.ndarray,
    size_ijk: Size,
) -> Crop:
    """Cut a crop out of a scan.

    Args:
        scan: the scan.
        centre_ijk: (3,) scan voxel at the centre of the crop.
        lattice_mm: geometry from `draw_geometry`.
        size_ijk: number of voxels of the crop.
    """
    offsets = lattice_mm / scan.spacing_mm[:, None, None, None]
    nodes = offsets + np.asarray(centre_ijk)[:, None, None, None]
    warp = Warp.through(nodes, torch.Size(size_ijk[::-1]), scan.hu.device)
    return Crop(warp.sample(scan.hu), warp)


def cell_positions(scan: PreparedScan, crop: Crop) -> tuple[torch.Tensor, torch.Tensor]:
    """Find where the cells of a crop lie in the body.

    Returns each cell's body coordinate before training corrects it, (3, k/4, j/4, i/4) mm, and a mask of the cells
    inside the body, bool (k/4, j/4, i/4).
    """
    voxel = crop.warp.voxel_ijk(STRIDE)
    row, inside = flat_index(voxel.round().long(), scan.hu.shape)
    return body_coordinates(scan, voxel).movedim(-1, 0), inside & scan.body.flatten()[row]


def body_coordinates(scan: PreparedScan, voxel_ijk: torch.Tensor) -> torch.Tensor:
    """Return the body coordinates, mm, at fractional voxels (k, j, i, 3) of the scan, before training corrects them.

    If the scan has a body field (a grid of body coordinates), the coordinates are interpolated in this field. If not,
    they are computed with the scale and the shift of the scan's frame.
    """
    device = voxel_ijk.device
    if scan.body_field is not None:
        extent = torch.tensor(scan.body_field.shape[:0:-1], dtype=torch.float32, device=device) - 1
        grid = voxel_ijk / FIELD_STEP * (2 / extent) - 1
        body = F.grid_sample(scan.body_field[None], grid[None], align_corners=True)
        return body[0].movedim(0, -1)
    scale = torch.from_numpy(scan.spacing_mm * scan.frame.scale).float().to(device)
    shift = torch.from_numpy(scan.frame.apply(scan.grid_to_ras[:3, 3])).float().to(device)
    return voxel_ijk * scale + shift


def _hats(voxels: int, nodes: int, pool: int, device: torch.device) -> torch.Tensor:
    """Return weights (voxels / pool, nodes): to interpolate linearly from nodes to the means of `pool` voxels each.

    The first and the last node lie at the first and the last voxel of the axis.
    """
    place = torch.linspace(0, nodes - 1, voxels, device=device)
    weight = (1 - (place[:, None] - torch.arange(nodes, device=device)).abs()).clamp_min(0)
    return weight.view(voxels // pool, pool, nodes).mean(1)


def _advancing(depth: np.ndarray) -> np.ndarray:
    """Return depths (nk, nj, ni) of nodes, raised so that each depth clearly exceeds the depth before it along k."""
    least = _LEAST_ADVANCE * max(float((depth[-1] - depth[0]).mean()) / (len(depth) - 1), 1e-3)
    rising = depth.copy()
    for k in range(1, len(depth)):
        rising[k] = np.maximum(rising[k], rising[k - 1] + least)
    return rising


def _line(positions: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Interpolate linearly between points (x, y) at `positions`; beyond `x`, the end segments are extended."""
    piece = np.clip(np.searchsorted(x, positions) - 1, 0, len(x) - 2)
    slope = (y[piece + 1] - y[piece]) / (x[piece + 1] - x[piece])
    return y[piece] + (positions - x[piece]) * slope


def _span(values: torch.Tensor, size: int) -> tuple[int, int]:
    """Return (first, last + 1) of the voxels that contain the positions `values`, in voxels, on an axis of `size`
    voxels. The range lies on the axis and has at least one voxel."""
    low = min(max(int(values.amin().floor()), 0), size - 1)
    return low, max(min(int(values.amax().ceil()) + 1, size), low + 1)
