"""Volume and Film: the voxels of one scan and their position in the patient, in RAS mm.

Reads NIfTI, NRRD, MetaImage and DICOM, and films also as PNG and TIFF; writes NIfTI, NRRD and .mha.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import SimpleITK as sitk

from ..errors import VolumeError
from . import dicom
from .checks import (
    MAX_SHEAR,
    SMALLEST_SPACING_MM,
    as_affine,
    as_hu_array,
    check_axis_order,
    check_extent,
    check_hounsfield,
    check_spacing,
    size_text,
    without_padding,
    worst_shear,
)
from .film import check_film_size, film_matrix, is_picture, read_film
from .geometry import (
    AIR_HU,
    RAS_FROM_LPS,
    bounds_of,
    image_affine,
    in_grid,
    resample_upright,
    spacing_of,
    to_image,
    transform_points,
)
from .image_files import display_name, read_image, write_image

LEAST_VOXELS = 16  # along each axis, of a scan of any kind
_MAX_TILT_DEG = 45.0  # a larger tilt means a damaged header


@dataclass(frozen=True, eq=False)
class Volume:
    """One CT: voxels in Hounsfield units and their position in the patient.

    voxels: (k,j,i) array, int16 or float32.
    ijk_to_ras: (4,4) float64, maps the voxel centre (i,j,k,1) to RAS mm. Any axis order, flip or rotation; no shear.
    name: display name in messages and reports. path: file or folder of the scan. notes: changes made during reading.
    patient_id: the DICOM Patient ID; "" if it is not known.

    Raises VolumeError when voxels are not 3-D or not finite, or when the geometry is not usable. `read`, `from_array`
    and embedding also check that the voxels look like CT; the constructor does not.
    """

    voxels: np.ndarray
    ijk_to_ras: np.ndarray
    name: str = ""
    path: str = ""
    notes: tuple[str, ...] = ()
    patient_id: str = ""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name or self.path or 'scan'}: {size_text(self.shape[::-1])} voxels)"

    def __post_init__(self) -> None:
        object.__setattr__(self, "voxels", as_hu_array(self.voxels, self.where))
        object.__setattr__(self, "ijk_to_ras", as_affine(self.ijk_to_ras, self.where))

    @property
    def where(self) -> str:
        """What an error message about this scan begins with: its path or its name."""
        return self.path or self.name or "the scan"

    @classmethod
    def of(
        cls,
        source: Any,
        affine: np.ndarray | None = None,
        spacing: Sequence[float] | None = None,
        *,
        frame: str = "RAS",
        name: str = "",
        check: Callable[[Volume], Volume] | None = None,
    ) -> Volume:
        """Convert any kind of scan to a Volume, with the same checks as `read`.

        Args:
            source: a Volume; the path of a file or DICOM folder; an image of SimpleITK; an image of nibabel, TorchIO or
                MONAI, whose voxels are (i, j, k); or an array or torch tensor (k, j, i) in Hounsfield units. A fourth
                axis of length 1, such as a channel, is removed.
            affine: (4, 4) matrix from voxel (i, j, k) to mm. Needed for an array unless `spacing` is given.
            spacing: (3,) mm along i, j, k, instead of `affine`: i then runs to the left, j to the back, k upwards.
            frame: frame of `affine`, "RAS" or "LPS".
            name: display name in messages and reports.
            check: as in `read`.

        Raises:
            TypeError: `source` is not a scan, or an array has neither `affine` nor `spacing`.
            VolumeError: the scan is not a CT volume in Hounsfield units.
        """
        if isinstance(source, Volume):
            return source
        if isinstance(source, str | Path):
            return cls.read(source, check=check)
        if isinstance(source, sitk.Image):
            return (check or check_ct)(cls.from_sitk(source, name))
        voxels = _array_of(source)
        own_affine = getattr(source, "affine", None)
        if own_affine is not None:  # (i, j, k), RAS
            return cls.from_array(voxels.T, np.asarray(own_affine), name, check)
        if affine is None and spacing is None:
            raise TypeError(
                "the array has no geometry; give affine (4x4, voxel to mm) or spacing (i, j, k in mm)."
            )
        if frame not in ("RAS", "LPS"):
            raise TypeError(f'frame {frame!r} is unknown; choose "RAS" or "LPS".')
        if affine is None:
            frame = "LPS"
            affine = np.diag([*spacing, 1.0])
        ijk_to_ras = np.asarray(affine, np.float64)
        if frame == "LPS":
            ijk_to_ras = RAS_FROM_LPS @ ijk_to_ras
        return cls.from_array(voxels, ijk_to_ras, name, check)

    @classmethod
    def read(
        cls,
        path: str | Path,
        series: str | None = None,
        files: Sequence[Path] = (),
        check: Callable[[Volume], Volume] | None = None,
    ) -> Volume:
        """Read a CT: .nii, .nii.gz, .nrrd, .nhdr, .mha, .mhd, a DICOM folder, or the series of one DICOM file.

        Args:
            path: the file or folder.
            series: DICOM SeriesInstanceUID, needed when a folder holds several CT volumes (see `dicom.list_series`).
            files: the DICOM slices to read, if they are known; `path` is then used in messages only.
            check: returns the scan as it is used, or raises VolumeError, such as `check_any`; None for `check_ct`.

        Raises VolumeError when the file is missing, damaged or not a CT volume in Hounsfield units.
        """
        path = Path(path)
        try:
            volume = _read(path, series, files)
        except OSError as error:
            raise VolumeError(
                f"{path}: cannot be read ({error.strerror}); check its permissions."
            ) from error
        return (check or check_ct)(volume)

    def write(self, path: str | Path) -> None:
        """Write a .nii, .nii.gz, .nrrd or .mha file, compressed if possible. A failed write leaves no part of a file.

        Raises VolumeError for another suffix, or when the file cannot be written.
        """
        write_image(self.to_sitk(), path)

    @classmethod
    def from_array(
        cls,
        voxels: np.ndarray,
        ijk_to_ras: np.ndarray,
        name: str = "",
        check: Callable[[Volume], Volume] | None = None,
    ) -> Volume:
        """Make a Volume from voxels (k,j,i) that another program has read.

        As in `read`, padding of a CT is set to -1024 HU, and a sheared grid is resampled to perpendicular axes.

        Args:
            voxels: (k, j, i) HU.
            ijk_to_ras: (4, 4).
            name: display name in messages and reports.
            check: as in `read`.

        Raises VolumeError when the voxels are not a CT volume in Hounsfield units.
        """
        volume = _from_arrays(name, "", voxels, np.asarray(ijk_to_ras, np.float64))
        return (check or check_ct)(volume)

    @classmethod
    def from_sitk(
        cls, image: sitk.Image, name: str = "", path: str | Path = "", notes: tuple[str, ...] = ()
    ) -> Volume:
        """Convert a SimpleITK image (LPS). A sheared image is resampled to perpendicular axes, and gets a note.

        Args:
            image: the image.
            name: display name in messages and reports.
            path: file or folder of the scan.
            notes: changes made during reading.
        """
        where = str(path) or name or "image"
        if image.GetDimension() != 3 or image.GetNumberOfComponentsPerPixel() != 1:
            kind = f"{image.GetDimension()}-D, {image.GetPixelIDTypeAsString()}"
            raise VolumeError(f"{where}: is not a scalar 3-D image ({kind}); give a CT volume.")
        return _from_arrays(name, path, sitk.GetArrayFromImage(image), image_affine(image), notes)

    def to_sitk(self) -> sitk.Image:
        """Return a copy as a SimpleITK image in LPS."""
        return to_image(self.voxels, self.ijk_to_ras)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Number of voxels (nk, nj, ni)."""
        return self.voxels.shape

    @cached_property
    def spacing(self) -> tuple[float, float, float]:
        """Voxel size (si, sj, sk) in mm."""
        i, j, k = map(float, spacing_of(self.ijk_to_ras))
        return i, j, k

    @cached_property
    def ras_to_ijk(self) -> np.ndarray:
        """(4,4) matrix from RAS mm to continuous indices (i,j,k)."""
        return np.linalg.inv(self.ijk_to_ras)

    @cached_property
    def bounds_ras(self) -> np.ndarray:
        """(2,3) lowest and highest corner of the scan, RAS mm, including the outer half voxels."""
        return bounds_of(self.ijk_to_ras, self.shape)

    def contains(self, points_ras: np.ndarray) -> np.ndarray:
        """Return (N,) bool: True where a point lies inside the outer edges of the voxels. points_ras: (N,3) RAS mm."""
        return in_grid(transform_points(self.ras_to_ijk, points_ras), self.shape)

    def sample(self, points_ras: np.ndarray, outside: float = AIR_HU) -> np.ndarray:
        """Return (N,) float64 HU at points (N,3) RAS mm, trilinear. A point that is not in the scan gets `outside`.

        In the outer half of an edge voxel, the value of the edge voxel is used.
        """
        points_ras = np.asarray(points_ras, np.float64)
        inside = self.contains(points_ras)
        last = np.array(self.shape[::-1]) - 1
        ijk = np.clip(transform_points(self.ras_to_ijk, points_ras[inside]), 0, last)
        # at the last voxel, the lower neighbour is the one before it; an axis of one voxel has only this voxel
        lower = np.minimum(ijk.astype(np.intp), np.maximum(last - 1, 0))
        upper = np.minimum(lower + 1, last)
        fraction = ijk - lower
        values = np.zeros(len(ijk))
        # of the eight voxels around a point, each is weighted by how near it is along each axis
        for is_upper in product((False, True), repeat=3):
            i, j, k = np.where(is_upper, upper, lower).T
            weight = np.where(is_upper, fraction, 1 - fraction).prod(axis=-1)
            values += weight * self.voxels[k, j, i]
        result = np.full(len(points_ras), float(outside))
        result[inside] = values
        return result


@dataclass(frozen=True, eq=False, repr=False)
class Film(Volume):
    """One film: a scan with one slice, in the plane of R and S, see module `film`. Read like a Volume.

    is_projection: whether the film was computed from a CT.
    """

    is_projection: bool = False

    def with_width(self, width_mm: float | None) -> Film:
        """Return this film with a width of `width_mm` at the detector; None: unchanged.

        Raises VolumeError if the width is impossible.
        """
        if width_mm is None:
            return self
        pixel_mm = width_mm / self.shape[2]
        check_film_size(self.shape, (pixel_mm, pixel_mm), self.where)
        notes = (
            *(note for note in self.notes if "pixel size" not in note),
            f"the film is {width_mm:g} mm wide",
        )
        return replace(
            self, ijk_to_ras=film_matrix(self.shape[1:], (pixel_mm, pixel_mm)), notes=notes
        )


def is_film_file(path: str | Path) -> bool:
    """Return True if a file is a picture (PNG, TIFF) or a DICOM radiograph."""
    path = Path(path)
    return path.is_file() and (is_picture(path) or dicom.is_film(path))


def check_ct(volume: Volume) -> Volume:
    """Check a CT or a film, and return it. In a CT, padding becomes -1024 HU, with a note.

    Raises VolumeError if the volume is too small, or does not look like CT in Hounsfield units.
    """
    voxels, notes = without_padding(volume.voxels, volume.notes)
    if notes != volume.notes:
        volume = replace(volume, voxels=voxels, notes=notes)
    if isinstance(volume, Film):
        check_film_size(volume.shape, volume.spacing[:2], volume.where)
        return volume
    check_spacing(spacing_of(volume.ijk_to_ras), volume.where)
    check_extent(volume.shape, volume.ijk_to_ras, volume.where)
    check_voxels(volume)
    return volume


def check_any(volume: Volume) -> Volume:
    """Return a volume of any kind, with values of any unit. Raises VolumeError if it is too small or empty."""
    if isinstance(volume, Film) or min(volume.shape) < LEAST_VOXELS:
        raise VolumeError(
            f"{volume.where}: has {size_text(volume.shape[::-1])} voxels;"
            f" give a 3-D scan with at least {LEAST_VOXELS} voxels along each axis."
        )
    if volume.voxels.min() == volume.voxels.max():
        raise VolumeError(
            f"{volume.where}: all voxels are equal, so the image is empty; export the scan again."
        )
    return volume


def check_voxels(volume: Volume) -> None:
    """Raise VolumeError unless the voxels look like CT in HU. If the volume has no path, also check the axis order."""
    if isinstance(volume, Film):
        return
    check_hounsfield(volume.voxels, volume.where)
    if not volume.path:
        check_axis_order(volume.voxels, volume.ijk_to_ras, volume.where)


def _read(path: Path, series: str | None, files: Sequence[Path]) -> Volume:
    """Read a scan of any kind without checking its voxels. Arguments and errors: as for `Volume.read`."""
    if not files and not path.exists():
        raise VolumeError(f"{path}: no such file or folder; check the path.")
    if not files and series is None and is_film_file(path):
        return _from_arrays(path.stem, path, *read_film(path))
    if files or path.is_dir() or dicom.is_dicom_file(path):
        parts = dicom.read_series(path, series, files)
        return _from_arrays(display_name(path), path, *parts)
    if series is not None:
        raise VolumeError(
            f"{path}: is not DICOM, so it has no series to choose; leave `series` out."
        )
    image, notes = read_image(path)
    return Volume.from_sitk(image, display_name(path), path, notes)


def _array_of(source: Any) -> np.ndarray:
    """Return the voxels of an image of nibabel, TorchIO or MONAI, or of an array or tensor, without a fourth axis of
    length 1. Raises TypeError for other objects."""
    voxels = source
    # nibabel has `dataobj`, TorchIO `data`; a tensor of MONAI is the voxels
    if getattr(source, "affine", None) is not None:
        voxels = getattr(source, "dataobj", getattr(source, "data", source))
    if hasattr(voxels, "detach"):  # a tensor of torch
        voxels = voxels.detach().cpu()
    if not hasattr(voxels, "__array__"):
        kinds = (
            "a path, a Volume, an array with affine or spacing, or an image of SimpleITK or nibabel"
        )
        raise TypeError(f"{type(source).__name__} is not a scan; give {kinds}.")
    voxels = np.asarray(voxels)
    if voxels.ndim == 4 and voxels.shape[0] == 1:
        return voxels[0]
    if voxels.ndim == 4 and voxels.shape[-1] == 1:
        return voxels[..., 0]
    return voxels


def _from_arrays(
    name: str,
    path: str | Path,
    voxels: np.ndarray,
    ijk_to_ras: np.ndarray,
    notes: tuple[str, ...] = (),
    patient_id: str = "",
) -> Volume:
    """Make a Volume from `voxels` (k, j, i), or a Film of one slice in the plane of R and S.

    Whole numbers become int16. A scan with a small gantry tilt, so a CT, is resampled to perpendicular axes. Raises
    VolumeError if the tilt is large.
    """
    where = str(path) or name or "image"
    voxels = as_hu_array(voxels, where)
    if voxels.dtype != np.int16 and np.abs(voxels).max() <= np.iinfo(np.int16).max:
        whole = voxels.astype(np.int16)
        voxels = whole if np.array_equal(whole, voxels) else voxels
    check_spacing(spacing_of(ijk_to_ras), where, SMALLEST_SPACING_MM)
    cosine, _, _ = worst_shear(ijk_to_ras)  # 0 if all axes are perpendicular
    tilt = np.degrees(np.arcsin(min(cosine, 1.0)))
    if tilt > _MAX_TILT_DEG:
        raise VolumeError(
            f"{where}: the voxel axes are {tilt:.0f} degrees from perpendicular; export the scan again."
        )
    if cosine > MAX_SHEAR:
        voxels, notes = without_padding(voxels, notes)  # before it is interpolated
        voxels, ijk_to_ras = resample_upright(voxels, ijk_to_ras)
        notes = (*notes, f"gantry tilt of {tilt:.1f} degrees; resampled to perpendicular axes")
    is_film = len(voxels) == 1 and int(np.abs(ijk_to_ras[:3, 2]).argmax()) == 1
    kind = Film if is_film else Volume
    return kind(voxels, ijk_to_ras, name, str(path), notes, patient_id)
