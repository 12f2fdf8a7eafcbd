"""The result of a registration: transforms points, writes transform files for other programs, resamples images."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import SimpleITK as sitk
import torch

from ..dicom.registrations import read_registration
from ..embedding.map import EmbeddingMap
from ..errors import VolumeError
from ..fields.spline import DEGREE, Lattice, SplineField
from ..files import atomic_path
from ..scan.geometry import AIR_HU, LPS_FROM_RAS, to_image, transform_points
from ..scan.image_files import write_image
from ..scan.label_map import LabelMap
from ..scan.points import as_points
from ..scan.volume import Volume
from ..structures.label_files import resampled

TRANSFORM_SUFFIXES = (".h5", ".hdf5", ".tfm", ".txt")
_GRID_MM = 3.0  # see `coarse_grid`
_JACOBIAN_MM = 4.0  # places at which volumes are compared; by hand, a third of the knots' distance
_FOLDED_LIMIT = 0.005  # largest share of the body that may be folded
# A larger median distance of the matches, or a larger distance of the spines in the axial plane, is a reason for doubt
_MATCHES_MM, _SPINES_MM = 15.0, 20.0
_CHANGED_LIMIT = 0.2  # least usual volume ratio; its inverse is the largest usual ratio


@dataclass(frozen=True)
class Folding:
    """How much a transform changes volumes in the body, measured by the determinant of its Jacobian.

    Args:
        share: fraction of the body in which the transform folds, that is, has a determinant <= 0.
        smallest: smallest determinant. low, high: 1st and 99th percentile of the determinants.
    """

    share: float
    smallest: float
    low: float
    high: float

    @property
    def doubt(self) -> str:
        """The reason why the user should check the result, or "" if there is no reason."""
        is_changed = self.low < _CHANGED_LIMIT or self.high > 1 / _CHANGED_LIMIT
        if self.share > _FOLDED_LIMIT or is_changed:
            return (
                "Tissue is stretched or compressed more than in real bodies. This happens if two scans have little of "
                "the body in common. Check the result before you use it, or choose a more rigid kind of registration."
            )
        return ""


@dataclass(frozen=True, eq=False)
class Registration:
    """A transform of the points of the fixed scan to the moving scan.

    Args:
        kind: one of `registration.KINDS`.
        affine: (4, 4) RAS mm fixed -> moving.
        field: displacement field, mm, added after the affine transform; or None.
        fixed, moving: names of the scans.
        used: number of matches that the fit used. tried: number of points that were matched.
        distance_mm: median distance between the transformed points and their matches.
        spine_mm: distance of the two spines in the axial plane, not exceeded in nine tenths of their common height; NaN
            if a scan shows no spine.
        given: a transform that was read from a file (LPS mm, fixed -> moving), used instead of `affine` and `field`.
    """

    kind: str
    affine: np.ndarray
    field: SplineField | None
    fixed: str
    moving: str
    used: int
    tried: int
    distance_mm: float = math.nan
    spine_mm: float = math.nan
    given: sitk.Transform | None = None

    @classmethod
    def read(cls, path: Path) -> Registration:
        """Read a DICOM registration or an ITK transform file. Raises VolumeError if the file cannot be read."""
        try:
            is_itk = path.suffix.lower() in TRANSFORM_SUFFIXES
            transform = sitk.ReadTransform(str(path)) if is_itk else read_registration(path)
        except RuntimeError as error:
            raise VolumeError(
                f"{path}: is missing or not an ITK transform; check the path and the file."
            ) from error
        return cls("given", np.eye(4), None, "", "", 0, 0, given=transform)

    @property
    def quality(self) -> str:
        """How well the transform agrees with the matches and with the spines of the two scans, in words."""
        text = f"median distance to the matches {self.distance_mm:.1f} mm"
        if not math.isnan(self.spine_mm):
            text += f"; the spines lie up to {self.spine_mm:.1f} mm apart across the body"
        return text

    @property
    def doubt(self) -> str:
        """The reason why the user should check the result, or "" if there is no reason."""
        if self.distance_mm > _MATCHES_MM or self.spine_mm > _SPINES_MM:  # False for NaN
            return (
                f"The two scans do not fit well: {self.quality}. Check the result before you use it, or try another "
                "kind of registration."
            )
        return ""

    def transform_points(self, points_ras: np.ndarray) -> np.ndarray:
        """Transform points (n, 3) RAS mm of the fixed scan to the moving scan."""
        points = as_points(points_ras)
        if self.given is not None:
            lps = map(self.given.TransformPoint, transform_points(LPS_FROM_RAS, points).tolist())
            return transform_points(LPS_FROM_RAS, np.array(list(lps)).reshape(-1, 3))
        moved = transform_points(self.affine, points)
        return moved if self.field is None else moved + self.field.at(points)

    def folding(self, fixed: EmbeddingMap) -> Folding:
        """Measure how much volumes change in the body of the fixed scan."""
        determinant = torch.full((1,), float(np.linalg.det(self.affine[:3, :3])))
        if self.field is not None:
            lowest, highest = fixed.body_bounds_ras
            lattice = Lattice.within(lowest, highest, _JACOBIAN_MM)
            determinant = self.field.determinants(lattice, fixed.body_on(lattice), self.affine)
        low, high = map(float, np.quantile(determinant.numpy(), (0.01, 0.99)))
        return Folding(
            float((determinant <= 0).float().mean()), float(determinant.min()), low, high
        )

    def to_sitk(self) -> sitk.Transform:
        """Make a SimpleITK transform (LPS, fixed -> moving, for resampling): a B-spline, then the affine transform.

        Outside the fixed scan's box, the B-spline decreases to zero within three times the distance between knots.
        """
        if self.given is not None:
            return self.given
        lps = LPS_FROM_RAS @ self.affine @ LPS_FROM_RAS
        affine = sitk.AffineTransform(3)
        affine.SetMatrix(lps[:3, :3].ravel().tolist())
        affine.SetTranslation(lps[:3, 3].tolist())
        if self.field is None:
            return affine
        # the last transform of the list is applied first
        return sitk.CompositeTransform([affine, self._spline()])

    def write(self, path: str | Path, as_initial: bool = False) -> None:
        """Write an ITK transform file, such as .h5 or .tfm.

        Slicer opens the file, and ANTs can start from it. elastix ignores such a file without a message if it holds two
        transforms, a B-spline and an affine transform. So a displacement can also be written as one B-spline.

        Args:
            as_initial: True to write one transform, from which elastix can start, too. It is right in the fixed scan
                and up to three knots beyond it; farther places do not move.

        Raises VolumeError if the file name has another ending, or if the file cannot be written.
        """
        path = Path(path)
        if path.suffix.lower() not in TRANSFORM_SUFFIXES:
            raise VolumeError(
                f"{path}: is not a file name of a transform; give a name that ends in {', '.join(TRANSFORM_SUFFIXES)}."
            )
        try:
            with atomic_path(path) as temporary:
                transform = self._one_spline() if as_initial else self.to_sitk()
                sitk.WriteTransform(transform, str(temporary))
        except (RuntimeError, OSError) as error:
            raise VolumeError(
                f"{path}: cannot be written; check the name, and that the folder is writable."
            ) from error

    def write_field(self, path: str | Path, fixed: Volume) -> None:
        """Write the displacement (LPS mm, fixed -> moving) of every voxel of the fixed scan, as .nii.gz, .nrrd or .mha.

        Slicer opens the file as a transform. Raises VolumeError if the file cannot be written.
        """
        write_image(self.displacements(fixed.to_sitk()), path)

    def displacements(self, grid: sitk.Image) -> sitk.Image:
        """Return the displacement (LPS mm, fixed -> moving) of every voxel of a grid in the fixed scan."""
        make = sitk.TransformToDisplacementFieldFilter()
        make.SetReferenceImage(grid)
        make.SetOutputPixelType(sitk.sitkVectorFloat32)
        return make.Execute(self.to_sitk())

    def warp(self, moving: Volume, fixed: Volume) -> Volume:
        """Resample the moving scan to the voxels of the fixed scan; -1000 HU outside the moving scan."""
        # ITK would truncate interpolated integers
        image = sitk.Cast(moving.to_sitk(), sitk.sitkFloat32)
        warped = sitk.Resample(image, fixed.to_sitk(), self.to_sitk(), sitk.sitkLinear, AIR_HU)
        voxels = sitk.GetArrayFromImage(warped)
        kind = moving.voxels.dtype
        if np.issubdtype(kind, np.integer):
            np.rint(voxels, out=voxels)
        return Volume(voxels.astype(kind), fixed.ijk_to_ras, name=f"{moving.name} on {fixed.name}")

    def warp_labels(self, labels: LabelMap, fixed: Volume) -> LabelMap:
        """Resample a label map of the moving scan to the voxels of the fixed scan; 0 outside the moving scan."""
        return resampled(labels, fixed, self.to_sitk())

    def _spline(self) -> sitk.BSplineTransform:
        """Make a B-spline s for which affine(s(x)) = affine(x) + field(x): SimpleITK applies the B-spline first."""
        to_lps = LPS_FROM_RAS[:3, :3] @ np.linalg.inv(self.affine[:3, :3])
        return self._itk_spline(np.tensordot(to_lps, self._knots(), axes=1))

    def _one_spline(self) -> sitk.Transform:
        """Make one transform that is equal to the whole transform in the fixed scan's box and three knots around it."""
        if self.field is None:
            return self.to_sitk()
        knots = self._knots()
        # (K, J, I, 3): i, j, k of each knot; the first knot of the field lies one interval below its box
        index = np.moveaxis(np.indices(knots.shape[1:])[::-1], 0, -1) - DEGREE - 1
        places = self.field.low + self.field.knot_mm * index
        # a B-spline repeats a linear function exactly if each knot has the function's value at its place
        linear = places @ (self.affine[:3, :3] - np.eye(3)).T + self.affine[:3, 3]
        displacement = np.moveaxis(linear, -1, 0) + knots
        return self._itk_spline(np.tensordot(LPS_FROM_RAS[:3, :3], displacement, axes=1))

    def _knots(self) -> np.ndarray:
        """Return the field's knots (3, K, J, I), with three knots 0 around: ITK's field jumps to 0 at its border."""
        return np.pad(self.field.coefficients.double().numpy(), [(0, 0), *[(DEGREE, DEGREE)] * 3])

    def _itk_spline(self, knots: np.ndarray) -> sitk.BSplineTransform:
        """Make ITK's B-spline from knots (3, K, J, I) at the places of `_knots`, LPS mm."""
        knot_mm = self.field.knot_mm
        intervals = [n + 2 * DEGREE for n in self.field.intervals]
        low = np.array(self.field.low) - DEGREE * knot_mm
        spline = sitk.BSplineTransform(3, DEGREE)
        spline.SetTransformDomainMeshSize(intervals)
        spline.SetTransformDomainOrigin((LPS_FROM_RAS[:3, :3] @ low).tolist())
        spline.SetTransformDomainPhysicalDimensions([n * knot_mm for n in intervals])
        spline.SetTransformDomainDirection(LPS_FROM_RAS[:3, :3].ravel().tolist())
        spline.SetParameters(knots.ravel().tolist())
        return spline


def coarse_grid(fixed: Volume) -> sitk.Image:
    """Make an empty image on a grid of 3 mm that covers the fixed scan, with the axes of the scan.

    The grid is fine enough for linear interpolation of displacements, which are a spline with knots of 12 mm or more.
    """
    spacing = np.array(fixed.spacing)
    size = np.ceil((np.array(fixed.shape[::-1]) - 1) * spacing / _GRID_MM).astype(int) + 1
    grid = fixed.ijk_to_ras.copy()
    grid[:3, :3] *= _GRID_MM / spacing
    return to_image(np.zeros(size[::-1], np.uint8), grid)
