"""EmbeddingMap: the body coordinate and the descriptors of each cell of a scan.

The centre of cell c lies at (c + 0.5) * stride - 0.5, in voxels of the working grid. Matching, boxes and follow-up read
maps and never run the network.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from ..errors import MapError, PointsError, no_body_frame
from ..fields.spline import Lattice
from ..scan.geometry import in_grid, transform_points
from ..scan.points import as_points
from ..spine.vertebrae import Spine
from .calibration import Calibration, find_calibration
from .grid_reading import flat_index, read_linear, read_rows, rows_of, to_parts
from .map_file import Provenance, read_map_file, write_map_file

_CHUNK_POINTS = 512  # number of points whose distances to all body cells are computed at a time


@dataclass(frozen=True, eq=False)
class EmbeddingMap:
    """The network's output for one scan, on grids along the patient's axes.

    Args:
        coordinate: float32 (3, k, j, i) body coordinates, channels towards R, A, S; mm if `provenance.metric`. They are
            valid in body cells only. At the spine they are corrected by the levels of the vertebrae.
        body: bool (k, j, i), True in body cells: tissue inside the scan, not air or table.
        cell_to_ras: (4, 4), cell index (i, j, k, 1) -> RAS mm of the cell's centre. Cells lie along the axes R, A, S.
        scan_to_ras: (4, 4), voxel index (i, j, k, 1) of the scan -> RAS mm. scan_shape: (k, j, i) size of the scan.
        notes: changes made when the scan was read, in words.
        local: float16 (l, 2k, 2j, 2i), local descriptors, or None. Each cell has 2 x 2 x 2 half cells; each half cell
            has a descriptor, a unit vector of l numbers.
        calibration: predicts the errors of matches made with the weights, or None; not stored in the map's file.
        organ_boxes: organ -> (2, 3) lowest and highest corner, RAS mm, for the organs that the network finds.
        faults: signs that the scan is stored wrongly, such as "left and right are swapped"; usually empty.
        image: uint8, the scan as grey values 0 to 255 (`working_grid.grey_values_of`), with `voxels_per_cell` voxels
            along each axis of a cell; or None.
        unit_mm: length that is to objects of this kind what 1 mm is to a body; 1 for CTs.
        spine: the vertebrae of the scan, by which `coordinate` is corrected; None if the scan shows no spine.
    """

    coordinate: torch.Tensor
    body: torch.Tensor
    cell_to_ras: np.ndarray
    scan_to_ras: np.ndarray
    scan_shape: tuple[int, int, int]
    provenance: Provenance
    notes: tuple[str, ...] = field(default=())
    local: torch.Tensor | None = None
    calibration: Calibration | None = None
    organ_boxes: Mapping[str, np.ndarray] = field(default_factory=dict)
    faults: tuple[str, ...] = ()
    image: torch.Tensor | None = None
    spine: Spine | None = None
    unit_mm: float = 1.0

    @property
    def is_own_kind(self) -> bool:
        """Whether the map was made with weights of the kind "any", which know no body and have a unit of their own."""
        return self.unit_mm != 1.0

    def check_patient(self) -> None:
        """Raise MapError if the map was made with weights of the kind "any"."""
        if self.is_own_kind:
            raise MapError(no_body_frame(self.provenance.model))

    @property
    def is_film(self) -> bool:
        """Whether this is the map of a film."""
        return self.scan_shape[0] == 1

    @property
    def cell_mm(self) -> np.ndarray:
        """(3,) size of a cell along R, A, S, in mm."""
        return np.diag(self.cell_to_ras)[:3]

    def part_mm(self, parts: int) -> tuple[float, ...]:
        """Return the size along R, A, S, mm, of a part of a cell, if cells have `parts` parts along each axis."""
        return tuple(float(size) / parts for size in self.cell_mm)

    @cached_property
    def ras_to_cell(self) -> np.ndarray:
        """(4, 4) matrix from RAS mm to cell indices i, j, k, which may be fractions."""
        return np.linalg.inv(self.cell_to_ras)

    def cells_at(self, points_ras: np.ndarray) -> torch.Tensor:
        """Convert points (N, 3) RAS mm to cells i, j, k (N, 3), float64, which may be fractions."""
        return torch.from_numpy(transform_points(self.ras_to_cell, points_ras))

    @cached_property
    def cell_to_scan(self) -> np.ndarray:
        """(4, 4) matrix from cell indices to voxel indices of the scan; all indices may be fractions."""
        return np.linalg.inv(self.scan_to_ras) @ self.cell_to_ras

    @cached_property
    def scan_to_cell(self) -> np.ndarray:
        """(4, 4) matrix from voxel indices of the scan to cell indices; all indices may be fractions."""
        return np.linalg.inv(self.cell_to_scan)

    @cached_property
    def body_index(self) -> torch.Tensor:
        """Indices i, j, k of the body cells: (n, 3), dtype long."""
        return torch.nonzero(self.body).flip(1)

    @cached_property
    def body_cells(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Indices i, j, k of the body cells, (n, 3) long, and the body coordinates of these cells, (n, 3) float32."""
        i, j, k = self.body_index.unbind(1)
        return self.body_index, self.coordinate[:, k, j, i].T.contiguous()

    def with_spine(self, spine: Spine | None) -> EmbeddingMap:
        """Return the map with coordinates that are corrected by a spine; None: as the network computed them."""
        coordinate = self.coordinate
        if self.spine is not None:
            coordinate = coordinate - self._correction(self.spine)
        if spine is not None:
            coordinate = coordinate + self._correction(spine)
        return replace(self, coordinate=coordinate, spine=spine)

    def _correction(self, spine: Spine) -> torch.Tensor:
        """Return the correction (3, k, j, i), mm, of the coordinates; 0 outside the body cells."""
        correction = torch.zeros_like(self.coordinate)
        points = transform_points(self.cell_to_ras, self.body_index.numpy())
        correction[:, self.body] = torch.from_numpy(spine.correction(points).T).float()
        return correction

    @cached_property
    def local_body(self) -> torch.Tensor:
        """(2k, 2j, 2i) bool, True in the 2 x 2 x 2 half cells of each body cell."""
        body = self.body
        for axis in range(3):
            body = body.repeat_interleave(2, dim=axis)
        return body

    @cached_property
    def local_rows(self) -> torch.Tensor:
        """(n, l) local descriptors of all half cells (2 x 2 x 2 in each cell), i fastest, then j, then k."""
        return rows_of(self.local)

    @property
    def voxels_per_cell(self) -> int:
        """How many voxels of `image` a cell has along each axis."""
        return self.image.shape[0] // self.body.shape[0]

    @cached_property
    def grey_values(self) -> torch.Tensor:
        """The grey values of `image` divided by 255: float32 (1, 1, *image.shape)."""
        return self.image[None, None].float() / 255

    @cached_property
    def centred_cells(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Mean (3,) of the n body cells' coordinates; coordinates minus mean (n, 3); half the squared lengths (n,)."""
        cells = self.body_cells[1]
        centred = cells - cells.mean(0)
        return cells.mean(0), centred, centred.square().sum(1) / 2

    @cached_property
    def coordinate_rows(self) -> torch.Tensor:
        """`coordinate_and_body` as rows: (n, 4), one row for each of the n cells of the grid; i changes fastest."""
        return rows_of(self.coordinate_and_body[0])

    @cached_property
    def coordinate_and_body(self) -> torch.Tensor:
        """Grid (1, 4, k, j, i), float: body coordinate and 1 in body cells, zeros in all other cells."""
        weight = self.body.float()
        return torch.cat([self.coordinate * weight, weight[None]])[None]

    def contains(self, points_ras: np.ndarray) -> np.ndarray:
        """Return (N,) bool: whether each point (N, 3), RAS mm, lies inside the outer voxel edges of the scan."""
        ijk = transform_points(np.linalg.inv(self.scan_to_ras), as_points(points_ras))
        return in_grid(ijk, self.scan_shape)

    def check_body(self) -> None:
        """Raise MapError if the map has no body cells, so that no point can be found or matched."""
        if not len(self.body_index):
            raise MapError(
                f"{self.provenance.scan or 'the scan'}: shows no body, so no point can be found; give a patient's CT."
            )

    def precompute(self) -> None:
        """Compute all cached properties that matching reads, so that the first match is as fast as later matches."""
        _ = self.centred_cells, self.coordinate_rows
        if self.local is not None:
            _ = self.local_rows, self.local_body
        if self.image is not None:
            _ = self.grey_values

    @property
    def body_bounds_ras(self) -> np.ndarray:
        """(2, 3) lowest and highest corner, RAS mm, of the box around the body cells. The map must have body cells."""
        cells = self.body_index.numpy()
        return transform_points(
            self.cell_to_ras, np.array([cells.min(0) - 0.5, cells.max(0) + 0.5])
        )

    def in_body(self, points_ras: np.ndarray) -> np.ndarray:
        """Return (N,) bool: whether each point (N, 3), RAS mm, lies in a body cell."""
        cells = self.cells_at(as_points(points_ras)).round().long()
        row, inside = flat_index(cells, self.body.shape)
        return (inside & self.body.flatten()[row]).numpy()

    def body_on(self, lattice: Lattice) -> torch.Tensor:
        """Return (k, j, i) bool: does each point of a lattice lie in a body cell? To save memory, no list of points is
        made."""
        body = self.body
        # cells and lattice have the same axes, so one axis after the other is changed from cells to points
        for axis in range(3):
            points = np.zeros((lattice.size[axis], 3))
            points[:, axis] = lattice.axis(axis)
            cell = self.cells_at(points)[:, axis].round().long()
            dim = 2 - axis
            last = body.shape[dim] - 1
            outside = torch.nonzero((cell < 0) | (cell > last)).flatten()
            body = body.index_select(dim, cell.clamp(0, last)).index_fill(dim, outside, False)
        return body

    def sample(self, points_ras: np.ndarray) -> np.ndarray:
        """Read body coordinates (N, 3) at points (N, 3) RAS mm, interpolated linearly between body cells.

        A point away from the body gets the coordinate of the nearest body cell. Raises PointsError for a point outside
        the scan, MapError if the scan holds no body.
        """
        points = self._inside(points_ras)
        cells = self.cells_at(points).float()
        # between body cells and others, coordinates are means over the share of body cells
        mixed = read_linear(self.coordinate_and_body, cells[None])[0]
        result = mixed[:, :3] / mixed[:, 3:].clamp_min(1e-6)
        bare = mixed[:, 3] < 1e-3
        if bare.any():
            self.check_body()
            index, coordinate = self.body_cells
            scale = torch.tensor(self.cell_mm).float()
            nearest = [
                torch.cdist(part * scale, index * scale).argmin(1)
                for part in cells[bare].split(_CHUNK_POINTS)
            ]
            result[bare] = coordinate[torch.cat(nearest)]
        return result.double().numpy()

    def _inside(self, points_ras: np.ndarray) -> np.ndarray:
        """Return `points_ras` as an array (N, 3). Raises PointsError if a point lies outside the scan."""
        points = as_points(points_ras)
        check_inside(points, self.contains(points), self.provenance.scan or "the scan")
        return points

    def describe(self, points_ras: np.ndarray) -> torch.Tensor:
        """Read local descriptors (N, l), unit vectors, at points (N, 3) RAS mm by linear interpolation.

        Raises PointsError for a point outside the scan, MapError if the map holds no descriptors.
        """
        points = self._inside(points_ras)
        if self.local is None:
            raise MapError(
                f"{self.provenance.scan or 'the scan'}: the map has no descriptors; use other weights."
            )
        return self.descriptors_at(self.cells_at(points))

    def descriptors_at(self, cells: torch.Tensor) -> torch.Tensor:
        """Read local descriptors (N, l), unit vectors, at cells (N, 3), i, j, k, which may be fractions or beyond the
        border. The map must have descriptors."""
        half_cells = to_parts(cells, 2)
        return F.normalize(read_rows(self.local_rows, self.local.shape[1:], half_cells), dim=1)

    def save(self, path: str | Path) -> None:
        """Write the map as one file, see `map_file`. Raises MapError if the file cannot be written."""
        write_map_file(path, vars(self))

    @classmethod
    def load(cls, path: str | Path, descriptors: bool = True) -> EmbeddingMap:
        """Read a file written by `save`, and the shipped calibration of the map's weights.

        Arguments and errors are those of `map_file.read_map_file`.
        """
        fields = read_map_file(path, descriptors)
        return cls(**fields, calibration=find_calibration(fields["provenance"].weights_hash))


def check_inside(points_ras: np.ndarray, is_inside: np.ndarray, scan: str) -> None:
    """Raise PointsError if a point lies outside a scan.

    Args:
        points_ras: (N, 3) RAS mm.
        is_inside: (N,) bool.
        scan: name of the scan.
    """
    if not is_inside.all():
        r, a, s = points_ras[is_inside.argmin()]
        raise PointsError(
            f"point ({r:.1f}, {a:.1f}, {s:.1f}) RAS mm lies outside {scan}; choose a point inside this scan."
        )
