"""Files that are not a CT volume, one of each kind, for every test that bad input is refused in one readable line."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import SimpleITK as sitk
from scan_files import linear_ct, stack_positions, write_linear_series

Maker = Callable[[Path], Path]
_MAKERS: dict[str, Maker] = {}


def make_bad_files(folder: Path) -> dict[str, Path]:
    """Write one file (or folder) of each kind below `folder` and return {kind: path}."""
    folder.mkdir(parents=True, exist_ok=True)
    return {kind: make(folder) for kind, make in _MAKERS.items()}


def _kind(make: Maker) -> Maker:
    _MAKERS[make.__name__.strip("_")] = make
    return make


def _save(
    voxels: np.ndarray, path: Path, spacing: tuple[float, ...] = (3.0, 3.2, 3.5), is_vector: bool = False
) -> Path:
    image = sitk.GetImageFromArray(voxels, isVector=is_vector)
    image.SetSpacing(spacing[: image.GetDimension()])
    sitk.WriteImage(image, path)
    return path


def _nifti_bytes(folder: Path) -> bytes:
    path = _save(linear_ct()[0], folder / "good.nii")
    data = path.read_bytes()
    path.unlink()
    return data


@_kind
def _missing_file(folder: Path) -> Path:
    return folder / "missing_file.nii.gz"


@_kind
def _unknown_extension(folder: Path) -> Path:
    path = folder / "unknown_extension.txt"
    path.write_text("a CT, honestly")
    return path


@_kind
def _empty_file(folder: Path) -> Path:
    path = folder / "empty_file.nrrd"
    path.touch()
    return path


@_kind
def _garbage_nifti(folder: Path) -> Path:
    path = folder / "garbage_nifti.nii.gz"
    path.write_bytes(np.random.default_rng(0).bytes(5000))
    return path


@_kind
def _garbage_nrrd(folder: Path) -> Path:
    path = folder / "garbage_nrrd.nrrd"
    path.write_bytes(b"NRRD0004\ntype: short\nnonsense")
    return path


@_kind
def _truncated_gzip(folder: Path) -> Path:
    path = folder / "truncated_gzip.nii.gz"
    data = gzip.compress(_nifti_bytes(folder))
    path.write_bytes(data[: len(data) * 2 // 3])
    return path


@_kind
def _truncated_inside_gzip(folder: Path) -> Path:
    path = folder / "truncated_inside_gzip.nii.gz"
    path.write_bytes(gzip.compress(_nifti_bytes(folder)[:-5000]))
    return path


@_kind
def _truncated_nifti(folder: Path) -> Path:
    path = folder / "truncated_nifti.nii"
    path.write_bytes(_nifti_bytes(folder)[:-5000])
    return path


@_kind
def _truncated_nrrd(folder: Path) -> Path:
    path = _save(linear_ct()[0], folder / "truncated_nrrd.nrrd")
    path.write_bytes(path.read_bytes()[:-5000])
    return path


@_kind
def _truncated_mha(folder: Path) -> Path:
    path = _save(linear_ct()[0], folder / "truncated_mha.mha")
    path.write_bytes(path.read_bytes()[:-5000])
    return path


@_kind
def _header_without_data(folder: Path) -> Path:
    path = _save(linear_ct()[0], folder / "header_without_data.mhd")
    path.with_suffix(".raw").unlink()
    return path


@_kind
def _picture_2d(folder: Path) -> Path:
    return _save(linear_ct()[0][12], folder / "picture_2d.nrrd")


@_kind
def _series_4d(folder: Path) -> Path:
    volume = sitk.GetImageFromArray(linear_ct()[0])
    path = folder / "series_4d.nii.gz"
    sitk.WriteImage(sitk.JoinSeries([volume, volume]), path)
    return path


@_kind
def _colour(folder: Path) -> Path:
    grey = np.clip(linear_ct()[0], 0, 255).astype(np.uint8)
    return _save(np.stack([grey] * 3, axis=-1), folder / "colour.mha", is_vector=True)


@_kind
def _few_slices(folder: Path) -> Path:
    return _save(linear_ct()[0][:10], folder / "few_slices.nii.gz", spacing=(3.0, 3.0, 8.0))


@_kind
def _small_extent(folder: Path) -> Path:
    return _save(linear_ct()[0], folder / "small_extent.nii.gz", spacing=(3.0, 3.0, 1.0))


@_kind
def _zero_spacing(folder: Path) -> Path:
    path = folder / "zero_spacing.nii"
    data = bytearray(_nifti_bytes(folder))
    struct.pack_into("<4f", data, 76, 1, 3, 3.2, 0)
    path.write_bytes(data)
    return path


@_kind
def _absurd_spacing(folder: Path) -> Path:
    return _save(linear_ct()[0], folder / "absurd_spacing.nrrd", spacing=(3.0, 3.0, 3000.0))


@_kind
def _nan_voxels(folder: Path) -> Path:
    voxels = linear_ct()[0].astype(np.float32)
    voxels[3, 4, 5] = np.nan
    return _save(voxels, folder / "nan_voxels.nii.gz")


@_kind
def _constant(folder: Path) -> Path:
    return _save(np.full_like(linear_ct()[0], -1000), folder / "constant.nii.gz")


@_kind
def _label_map(folder: Path) -> Path:
    return _save(np.digitize(linear_ct()[0], (-200, 0, 200)).astype(np.uint8), folder / "label_map.nii.gz")


@_kind
def _picture_values(folder: Path) -> Path:
    voxels = np.interp(linear_ct()[0], (-300, 300), (0, 255)).astype(np.uint8)
    return _save(voxels, folder / "picture_values.nii.gz")


@_kind
def _normalised(folder: Path) -> Path:
    voxels = np.interp(linear_ct()[0], (-300, 300), (0, 1)).astype(np.float32)
    return _save(voxels, folder / "normalised.nii.gz")


@_kind
def _magnetic_resonance(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    shape = linear_ct()[0].shape
    tissue = rng.normal(700, 250, shape).clip(0)
    background = np.abs(rng.normal(0, 12, shape))
    return _save(np.where(linear_ct()[0] > 0, tissue, background).astype(np.int16), folder / "magnetic_resonance.nrrd")


@_kind
def _no_rescale_intercept(folder: Path) -> Path:
    stored = (linear_ct()[0].clip(-1024) + 1024).astype(np.uint16)
    stored[:, :6] = 0
    return _save(stored, folder / "no_rescale_intercept.nii.gz")


@_kind
def _folder_without_image(folder: Path) -> Path:
    path = folder / "folder_without_image"
    path.mkdir()
    (path / "readme.txt").write_text("nothing here")
    return path


@_kind
def _dicom_mr(folder: Path) -> Path:
    path = folder / "dicom_mr"
    write_linear_series(path, stack_positions((-40, -40, 0), (0, 0, 3.5), range(20)), Modality="MR")
    return path


@_kind
def _dicom_missing_block(folder: Path) -> Path:
    path = folder / "dicom_missing_block"
    numbers = [n for n in range(40) if not 18 <= n < 25]
    write_linear_series(path, stack_positions((-40, -40, 0), (0, 0, 2.0), numbers))
    return path


@_kind
def _dicom_truncated_slice(folder: Path) -> Path:
    path = folder / "dicom_truncated_slice"
    files = write_linear_series(path, stack_positions((-40, -40, 0), (0, 0, 3.5), range(20)))
    files[7].write_bytes(files[7].read_bytes()[:-600])
    return path


# What the message must say besides the name of the file.
SAYS = {
    "missing_file": "no such file",
    "unknown_extension": "neither DICOM nor one of .nii.gz",
    "empty_file": "empty",
    "garbage_nifti": "not a NIfTI file",
    "garbage_nrrd": "cannot be read as .nrrd",
    "truncated_gzip": "truncated",
    "truncated_inside_gzip": "truncated",
    "truncated_nifti": "truncated",
    "truncated_nrrd": "truncated",
    "truncated_mha": "truncated",
    "header_without_data": "data file header_without_data.raw is not next to it",
    "picture_2d": "2-D",
    "series_4d": "4 dimensions (28 x 26 x 24 x 2)",
    "colour": "3 values per voxel",
    "few_slices": "10 axial slices",
    "small_extent": "84 x 78 x 24 mm",
    "zero_spacing": "spacing is 3 x 3.2 x 0 mm",
    "absurd_spacing": "spacing is 3 x 3 x 3000 mm",
    "nan_voxels": "1 voxels are NaN",
    "constant": "all voxels are -1000",
    "label_map": "label map",
    "picture_values": "values 0 to 255",
    "normalised": "values 0 to 1",
    "magnetic_resonance": "not a CT in Hounsfield units",
    "no_rescale_intercept": "without its rescale intercept",
    "folder_without_image": "no DICOM image",
    "dicom_mr": "20 MR images",
    "dicom_missing_block": "missing between z = 34.0 and 50.0 mm",
    "dicom_truncated_slice": "damaged or truncated",
}
