"""Files that are not CT volumes, one of each kind, each with the words of the message that refuses the file."""

import gzip
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import SimpleITK as sitk
from scan_files import linear_ct, stack_positions, write_linear_series

CT = linear_ct()[0]


def _image(
    voxels: np.ndarray, spacing: tuple[float, ...] = (3.0, 3.2, 3.5), colour: bool = False
) -> Callable:
    def write(path: Path) -> None:
        image = sitk.GetImageFromArray(voxels, isVector=colour)
        image.SetSpacing(spacing[: image.GetDimension()])
        sitk.WriteImage(image, str(path))

    return write


def _bytes(change: Callable[[bytes], bytes], good: str = "good.nii") -> Callable:
    """A good image, changed."""

    def write(path: Path) -> None:
        source = path.with_name(good)
        _image(CT)(source)
        path.write_bytes(change(source.read_bytes()))
        source.unlink()

    return write


def _series(cut_bytes: int = 0, **tags: object) -> Callable:
    def write(path: Path) -> None:
        files = write_linear_series(
            path, stack_positions((-40, -40, 0), (0, 0, 3.5), range(20)), **tags
        )
        files[7].write_bytes(files[7].read_bytes()[: -cut_bytes or None])

    return write


def _zero_spacing(data: bytes) -> bytes:
    return data[:76] + struct.pack("<4f", 1, 3, 3.2, 0) + data[92:]


def _not_a_number() -> np.ndarray:
    voxels = CT.astype(np.float32)
    voxels[3, 4, 5] = np.nan
    return voxels


def _magnetic_resonance() -> np.ndarray:
    rng = np.random.default_rng(0)
    tissue = rng.normal(700, 250, CT.shape).clip(0)
    background = np.abs(rng.normal(0, 12, CT.shape))
    return np.where(CT > 0, tissue, background).astype(np.int16)


def _without_intercept() -> np.ndarray:
    stored = (CT.clip(-1024) + 1024).astype(np.uint16)
    stored[:, :6] = 0
    return stored


def _without_data(path: Path) -> None:
    _image(CT)(path)
    path.with_suffix(".raw").unlink()


def _joined(path: Path) -> None:
    sitk.WriteImage(sitk.JoinSeries([sitk.GetImageFromArray(CT)] * 2), str(path))


def _noise(data: bytes) -> bytes:
    return np.random.default_rng(0).bytes(5000)


# name of the file or folder -> how it is made, words of the message
_KINDS: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing.nii.gz": (lambda path: None, "no such file"),
    "text.txt": (
        lambda path: path.write_text("a CT, honestly"),
        "neither DICOM nor one of .nii.gz",
    ),
    "empty.nrrd": (lambda path: path.touch(), "empty"),
    "garbage.nii.gz": (_bytes(_noise), "not a NIfTI file"),
    "cut.nii.gz": (
        _bytes(lambda data: gzip.compress(data)[: len(gzip.compress(data)) // 2]),
        "truncated",
    ),
    "cut_inside.nii.gz": (_bytes(lambda data: gzip.compress(data[:-5000])), "truncated"),
    "cut.nrrd": (_bytes(lambda data: data[:-5000], "good.nrrd"), "truncated"),
    "without_data.mhd": (_without_data, "data file without_data.raw is not in the same folder"),
    "picture.nrrd": (_image(CT[12]), "2-D"),
    "four_axes.nii.gz": (_joined, "4 dimensions (28 x 26 x 24 x 2)"),
    "colour.mha": (
        _image(np.stack([CT.astype(np.uint8)] * 3, axis=-1), colour=True),
        "3 values per voxel",
    ),
    "few_slices.nii.gz": (_image(CT[:10], (3.0, 3.0, 8.0)), "10 axial slices"),
    "small.nii.gz": (_image(CT, (3.0, 3.0, 1.0)), "84 x 78 x 24 mm"),
    "zero_spacing.nii": (_bytes(_zero_spacing), "spacing is 3 x 3.2 x 0 mm"),
    "absurd_spacing.nrrd": (_image(CT, (3.0, 3.0, 3000.0)), "spacing is 3 x 3 x 3000 mm"),
    "not_a_number.nii.gz": (_image(_not_a_number()), "1 voxels are NaN"),
    "constant.nii.gz": (_image(np.full_like(CT, -1000)), "all voxels are -1000"),
    "labels.nii.gz": (_image(np.digitize(CT, (-200, 0, 200)).astype(np.uint8)), "label map"),
    "normalised.nii.gz": (
        _image(np.interp(CT, (-300, 300), (0, 1)).astype(np.float32)),
        "values 0 to 1",
    ),
    "mr.nrrd": (_image(_magnetic_resonance()), "not a CT in Hounsfield units"),
    "without_intercept.nii.gz": (_image(_without_intercept()), "without its rescale intercept"),
    "folder": (lambda path: path.mkdir(), "no DICOM image"),
    "dicom_mr": (_series(Modality="MR"), "20 MR images"),
    "dicom_cut_slice": (_series(600), "damaged or truncated"),
}
SAYS = {name: words for name, (_, words) in _KINDS.items()}


def make_bad_files(folder: Path) -> dict[str, Path]:
    """Write one file or folder of each kind below `folder`; return the path of each by its name."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (make, _) in _KINDS.items():
        make(folder / name)
    return {name: folder / name for name in _KINDS}
