"""What a registration gives: a map of points, as a transform that other programs read, and images drawn through it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import SimpleITK as sitk
import torch

from ..embedding.map import EmbeddingMap, as_points
from ..errors import VolumeError
from ..files import atomic_path
from ..scan.geometry import LPS_FROM_RAS, transform_points
from ..scan.image_files import write_image
from ..scan.simpleitk_bridge import OUTSIDE_HU
from ..scan.volume import Volume
from .lattice import Lattice
from .spline import DEGREE, SplineField

TRANSFORM_SUFFIXES = (".h5", ".hdf5", ".tfm", ".txt")
_JACOBIAN_MM = 4.0
_MUCH_FOLDED = 0.005  # share of the body
_MUCH_CHANGED = 0.2  # times the volume


@dataclass(frozen=True)
class Folding:
    """How a registration changes volumes over the body: share: of it that is turned inside out (determinant of the
    Jacobian <= 0). smallest, low, high: the least determinant, and what 1 % of the body lies below and above.
    """

    share: float
    smallest: float
    low: float
    high: float

    @property
    def doubt(self) -> str:
        """Why to look at the result before relying on it; "" where nothing speaks against it."""
        if self.share > _MUCH_FOLDED or self.low < _MUCH_CHANGED or self.high > 1 / _MUCH_CHANGED:
            return (
                "Tissue is torn or pressed together more than bodies are, as happens where two scans share little: "
                "look before you rely on it, or choose a kind that bends less."
            )
        return ""


@dataclass(frozen=True, eq=False)
class Registration:
    """Where points of the fixed scan lie in the moving one. kind: how far it went, of `registration.KINDS`.

    affine: (4, 4) RAS mm fixed -> moving. field: displacement, mm, added after it, or None. fixed, moving: names.
    used, asked: matches that it rests on, of so many places asked for.
    """

    kind: str
    affine: np.ndarray
    field: SplineField | None
    fixed: str
    moving: str
    used: int
    asked: int

    def transform_points(self, points_ras: np.ndarray) -> np.ndarray:
        """(n, 3) RAS mm in the fixed scan -> (n, 3) RAS mm in the moving scan."""
        points = as_points(points_ras)
        moved = transform_points(self.affine, points)
        return moved if self.field is None else moved + self.field.at(points)

    def folding(self, fixed: EmbeddingMap) -> Folding:
        """Determinants of the Jacobian over the body of the fixed scan."""
        determinant = torch.full((1,), float(np.linalg.det(self.affine[:3, :3])))
        if self.field is not None:
            lattice = Lattice.within(*fixed.body_bounds_ras, _JACOBIAN_MM)
            body = torch.from_numpy(fixed.in_body(lattice.points_ras()).reshape(lattice.shape))
            determinant = self.field.determinants(lattice, body, self.affine)
        low, high = np.quantile(determinant.numpy(), (0.01, 0.99))
        return Folding(float((determinant <= 0).float().mean()), float(determinant.min()), float(low), float(high))

    def to_sitk(self) -> sitk.Transform:
        """As SimpleITK has it (LPS; fixed -> moving, as resampling needs it): an affine transform, after a B-spline
        where there is a field. Beyond the fixed scan's box the B-spline fades to nothing over three knots.
        """
        lps = LPS_FROM_RAS @ self.affine @ LPS_FROM_RAS
        affine = sitk.AffineTransform(3)
        affine.SetMatrix(lps[:3, :3].ravel().tolist())
        affine.SetTranslation(lps[:3, 3].tolist())
        if self.field is None:
            return affine
        return sitk.CompositeTransform([affine, self._spline()])  # what comes last acts first

    def write(self, path: str | Path) -> None:
        """Write an ITK transform file, .h5 or .tfm, which Slicer opens and ANTs can start from.

        Raises VolumeError for another name, or where it cannot be written.
        """
        path = Path(path)
        if path.suffix.lower() not in TRANSFORM_SUFFIXES:
            raise VolumeError(f"{path}: is no name for a transform; use one of {', '.join(TRANSFORM_SUFFIXES)}.")
        try:
            with atomic_path(path) as temporary:
                sitk.WriteTransform(self.to_sitk(), str(temporary))
        except (RuntimeError, OSError) as error:
            raise VolumeError(f"{path}: cannot be written; check its name, and that the folder is writable.") from error

    def write_field(self, path: str | Path, fixed: Volume) -> None:
        """Write the displacement (LPS mm, fixed -> moving) of every voxel of the fixed scan, as .nii.gz, .nrrd or .mha.

        Slicer opens it as a transform. Raises VolumeError where it cannot be written.
        """
        image = fixed.to_sitk()
        make = sitk.TransformToDisplacementFieldFilter()
        make.SetReferenceImage(image)
        make.SetOutputPixelType(sitk.sitkVectorFloat32)
        found = make.Execute(self.to_sitk())
        write_image(found, path)

    def warp(self, moving: Volume, fixed: Volume) -> Volume:
        """The moving scan on the voxels of the fixed one; -1000 HU where it shows nothing."""
        image = sitk.Cast(moving.to_sitk(), sitk.sitkFloat32)  # ITK would cut fractions of whole numbers off
        found = sitk.GetArrayFromImage(self._resampled(image, fixed, sitk.sitkLinear, OUTSIDE_HU))
        kind = moving.voxels.dtype
        if np.issubdtype(kind, np.integer):
            np.rint(found, out=found)
        return Volume(found.astype(kind), fixed.ijk_to_ras, name=f"{moving.name} on {fixed.name}")

    def warp_labels(self, labels: sitk.Image, fixed: Volume) -> sitk.Image:
        """A label map of the moving scan on the voxels of the fixed one; 0 where it shows nothing."""
        return self._resampled(labels, fixed, sitk.sitkNearestNeighbor, 0.0)

    def _resampled(self, image: sitk.Image, fixed: Volume, how: int, beyond: float) -> sitk.Image:
        grid = fixed.to_sitk()
        return sitk.Resample(image, grid, self.to_sitk(), how, beyond, image.GetPixelID())

    def _spline(self) -> sitk.BSplineTransform:
        """The displacement before the affine map that does what the field does after it."""
        knot_mm = self.field.knot_mm
        intervals = [n + 2 * DEGREE for n in self.field.intervals]  # ITK tears space where its knots end
        low = np.array(self.field.low) - DEGREE * knot_mm
        spline = sitk.BSplineTransform(3, DEGREE)
        spline.SetTransformDomainMeshSize(intervals)
        spline.SetTransformDomainOrigin((LPS_FROM_RAS[:3, :3] @ low).tolist())
        spline.SetTransformDomainPhysicalDimensions([n * knot_mm for n in intervals])
        spline.SetTransformDomainDirection(LPS_FROM_RAS[:3, :3].ravel().tolist())
        to_lps = LPS_FROM_RAS[:3, :3] @ np.linalg.inv(self.affine[:3, :3])
        knots = np.pad(self.field.coefficients.double().numpy(), [(0, 0), *[(DEGREE, DEGREE)] * 3])
        moved = np.tensordot(to_lps, knots, axes=1)
        spline.SetParameters(moved.ravel().tolist())
        return spline
