"""Frame: the mean image of scans of one kind. It takes the place of a network in weights of the kind "any"."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from ...errors import ProgressCallback, ShareCallback, VolumeError
from ...fields.spline import Lattice
from ...scan.geometry import grid_matrix, transform_points
from ...scan.volume import Volume
from ..map import EmbeddingMap, Provenance
from ..tensor_files import from_json
from .alignment import Alignment, align, local_likeness
from .grey_image import MODALITIES, GreyImage, read_grey

SPACING = 4.0  # of the mean image, in the unit of the kind, but at least a voxel of the scans
CELL = 8.0  # size of a map's cells in the unit of the kind, as in maps of CTs
_PARTS = 2  # voxels of a map's image along each axis of a cell
_COMMON = 0.25  # share of the scans that must show an object at a place of the frame, so that the place counts
_LEAST_SHARE = 0.1  # least share of object in a cell or its neighbours
_SIZES = (0.5, 2.0)  # smallest and largest radius of an object, relative to the radius of the kind
_MOST_POINTS = 1 << 28  # of a mean image in a file; only limits memory


@dataclass(frozen=True)
class FrameSpec:
    """Everything about a frame but its images.

    Args:
        modality: one of `grey_image.MODALITIES`.
        origin_ras, spacing_mm, size: the lattice of the images.
        radius_mm: median radius of the objects.
        least_likeness: a scan that is less like the frame after the alignment is refused; a part of a scan that is
            less like the frame is missing.
        anatomical: whether the scans lie alike, so that the axes of the frame mean the same in all of them. Then no
            scan may be turned by more than 45 degrees.
        least_affine_likeness: as `least_likeness`, for the likeness after the affine transform alone.
    """

    modality: str
    origin_ras: tuple[float, float, float]
    spacing_mm: float
    size: tuple[int, int, int]
    radius_mm: float
    least_likeness: float
    anatomical: bool = False
    least_affine_likeness: float = -1.0

    # what other code asks of the spec of a network
    planar = False
    coordinates = True
    global_channels = 0

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> FrameSpec:
        """Make a spec from its fields. Raises ValueError or TypeError for values that no frame can have."""
        spec = from_json(cls, values)
        fits = (
            spec.modality in MODALITIES
            and all(0 < n < 4096 for n in spec.size)
            and float(np.prod(spec.size, dtype=float)) < _MOST_POINTS
            and 0 < spec.spacing_mm < 1e4
            and 0 < spec.radius_mm < 1e6
        )
        if not fits:
            raise ValueError("a frame cannot have these values")
        return spec

    @property
    def lattice(self) -> Lattice:
        return Lattice(self.origin_ras, (self.spacing_mm,) * 3, self.size)


class Frame(torch.nn.Module):
    """The mean image of some scans, and how often their objects cover each place.

    image, occupancy: (k, j, i), 0 to 1, at the points of `spec.lattice`.
    """

    metric = False  # its coordinates are not those of a patient's body

    def __init__(
        self,
        spec: FrameSpec,
        image: torch.Tensor | None = None,
        occupancy: torch.Tensor | None = None,
    ) -> None:
        super().__init__()
        self.spec = spec
        for name, values in (("image", image), ("occupancy", occupancy)):
            self.register_buffer(
                name, torch.zeros(spec.lattice.shape) if values is None else values
            )

    @property
    def unit_mm(self) -> float:
        """Length that is to objects of this kind what 1 mm is to a body; coarse voxels make it larger."""
        return self.spec.spacing_mm / SPACING

    @cached_property
    def grey_image(self) -> GreyImage:
        """The mean image as the fixed image of alignments."""
        matrix = grid_matrix(self.spec.origin_ras, self.spec.lattice.spacing_mm)
        return GreyImage.of_values(self.image.float().cpu().numpy(), matrix, "the frame")

    def align(self, image: GreyImage, step: ShareCallback) -> Alignment:
        """Align a scan with the frame.

        Args:
            image: the scan.
            step: called with the share of the work that is done.

        Raises:
            VolumeError: the scan is not of the kind of the frame.
        """
        where = image.volume.where
        ratio = image.radius_mm / self.spec.radius_mm
        if not _SIZES[0] < ratio < _SIZES[1]:
            raise VolumeError(
                f"{where}: its object has a radius of {image.radius_mm:.3g} mm, but objects of these weights have "
                f"{self.spec.radius_mm:.3g} mm; give scans of the kind with which the weights were trained."
            )
        alignment = align(
            self.grey_image,
            image,
            self.spec.radius_mm,
            step=step,
            any_rotation=not self.spec.anatomical,
        )
        limits = (
            (alignment.likeness, self.spec.least_likeness),
            (alignment.affine_likeness, self.spec.least_affine_likeness),
        )
        for likeness, least in limits:
            if likeness < least:
                raise VolumeError(
                    f"{where}: is not like the scans of these weights (likeness {likeness:.2f}, at least {least:.2f} "
                    "is needed); give scans of the kind with which they were trained."
                )
        return alignment

    def map_of(
        self, volume: Volume, provenance: Provenance, step: ProgressCallback
    ) -> EmbeddingMap:
        """Make the map of a scan.

        Args:
            volume: the scan.
            provenance: of the map.
            step: called with the share of the work that is done and its name.

        Raises:
            VolumeError: the scan is not of the kind of the frame.
        """
        image = GreyImage(volume, self.spec.modality)
        alignment = self.align(image, lambda share: step(0.1 + 0.8 * share, "aligning"))
        return self.map_by(alignment, image, provenance)

    def map_by(
        self, alignment: Alignment, image: GreyImage, provenance: Provenance
    ) -> EmbeddingMap:
        """Make the map of a scan from its alignment.

        Args:
            alignment: of the frame and the scan.
            image: the scan.
            provenance: of the map.
        """
        cell_mm = CELL * self.unit_mm
        grid = image.on_grid(cell_mm / _PARTS, _PARTS, _PARTS)
        first_ras = grid.origin_ras + (_PARTS - 1) / 2 * cell_mm / _PARTS
        cell_to_ras = grid_matrix(first_ras, (cell_mm,) * 3)
        bright = (grid.hu > image.threshold / 2).float()[None, None]
        # the largest share of object in a cell and its neighbours
        share = F.max_pool3d(F.avg_pool3d(bright, _PARTS), 3, 1, 1)[0, 0]
        body = share >= _LEAST_SHARE
        centres = transform_points(cell_to_ras, torch.nonzero(body).flip(1).numpy())
        places = torch.from_numpy(alignment.to_frame(centres)).float()
        common = read_grey(self.occupancy.float().cpu(), self.spec.lattice, places.T)
        likeness = local_likeness(self.grey_image, image, alignment)
        likeness = read_grey(likeness, self.spec.lattice, places.T)
        usable = (common >= _COMMON) & torch.from_numpy(image.volume.contains(centres))
        # where scan and frame are less alike, the scan lacks this part
        usable &= likeness >= self.spec.least_likeness
        body[body.clone()] = usable
        if not body.any():
            raise VolumeError(f"{image.volume.where}: shows no object; check the file.")
        coordinate = torch.zeros(3, *body.shape)
        coordinate[:, body] = places[usable].T
        return EmbeddingMap(
            coordinate,
            body,
            cell_to_ras,
            image.volume.ijk_to_ras,
            image.volume.shape,
            provenance,
            image.volume.notes,
            unit_mm=self.unit_mm,
            image=(grid.hu * 255).round().to(torch.uint8),
        )
