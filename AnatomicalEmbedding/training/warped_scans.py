"""Copies of scans, bent, turned and scaled by a known transform."""

from dataclasses import dataclass

import numpy as np
import SimpleITK as sitk

from ..scan.geometry import AIR_HU, LPS_FROM_RAS, RAS_FROM_LPS, transform_points
from ..scan.volume import Volume

_CONTROL_MM = 70.0  # distance between control points of the bending
_BEND_MM = 7.0  # standard deviation of a control point's displacement along each axis
_TURN_RAD = 0.08  # largest rotation about each axis; all by hand, not tuned
_SCALE = 0.07  # largest change of size (logarithm)
_SHIFT_MM = 15.0  # largest shift along each axis
_SPACING_MM = (2.0, 4.0)  # lowest and highest slice spacing of a copy, mm
_NOISE_HU = 15.0  # standard deviation of the noise that is added


@dataclass(frozen=True, eq=False)
class WarpedScan:
    """A bent copy of a scan, and the exact transform from the copy to the original."""

    volume: Volume
    transform: sitk.Transform

    def to_original(self, points_ras: np.ndarray) -> np.ndarray:
        """Convert points (N, 3) from RAS mm of the copy to RAS mm of the original."""
        points_lps = transform_points(LPS_FROM_RAS, points_ras)
        moved = [self.transform.TransformPoint(point) for point in points_lps.tolist()]
        return transform_points(RAS_FROM_LPS, np.reshape(moved, (-1, 3)))


def warp_scan(volume: Volume, seed: int) -> WarpedScan:
    """Return a copy of a scan, randomly bent, turned and scaled, on another grid, with noise. seed: random seed."""
    rng = np.random.default_rng(seed)
    image = volume.to_sitk()
    low, high = np.sort(transform_points(LPS_FROM_RAS, volume.bounds_ras), axis=0)
    middle = (low + high) / 2
    turn = sitk.Euler3DTransform(middle.tolist(), *rng.uniform(-_TURN_RAD, _TURN_RAD, 3).tolist())
    scale = np.exp(rng.uniform(-_SCALE, _SCALE, 3))
    matrix = np.array(turn.GetMatrix()).reshape(3, 3) * scale
    affine = sitk.AffineTransform(
        matrix.ravel().tolist(), rng.uniform(-_SHIFT_MM, _SHIFT_MM, 3).tolist()
    )
    affine.SetCenter(middle.tolist())
    mesh = np.maximum(np.ceil((high - low) / _CONTROL_MM), 1).astype(int)
    bend = sitk.BSplineTransform(3, 3)
    bend.SetTransformDomainOrigin((low - _CONTROL_MM).tolist())
    bend.SetTransformDomainPhysicalDimensions((high - low + 2 * _CONTROL_MM).tolist())
    bend.SetTransformDomainMeshSize((mesh + 2).tolist())
    bend.SetParameters(rng.normal(0.0, _BEND_MM, len(bend.GetParameters())).tolist())
    transform = sitk.CompositeTransform([affine, bend])
    spacing = np.maximum(volume.spacing, (1.5, 1.5, rng.uniform(*_SPACING_MM)))
    size = np.round(np.array(image.GetSize()) * image.GetSpacing() / spacing).astype(int)
    copy = sitk.Resample(
        image,
        size.tolist(),
        transform,
        sitk.sitkLinear,
        image.GetOrigin(),
        spacing.tolist(),
        image.GetDirection(),
        AIR_HU,
        sitk.sitkFloat32,
    )
    hu = sitk.GetArrayFromImage(copy)
    noise = rng.normal(0.0, _NOISE_HU, hu.shape).astype(np.float32)
    hu = np.clip(np.where(hu > AIR_HU, hu + noise, hu), -1024, 3071)
    result = sitk.GetImageFromArray(np.round(hu).astype(np.int16))
    result.CopyInformation(copy)
    return WarpedScan(Volume.from_sitk(result, name=f"{volume.name} bent"), transform)
