"""Small CT-like scans whose HU are a known function of the RAS position, and DICOM series of these scans."""

from collections.abc import Iterable
from itertools import permutations, product
from pathlib import Path

import numpy as np
from pydicom.dataset import FileDataset, FileMetaDataset
from pydicom.uid import (
    CTImageStorage,
    ExplicitVRLittleEndian,
    MRImageStorage,
    RLELossless,
    generate_uid,
)

from AnatomicalEmbedding.scan.volume import Volume

# HU = HU_OFFSET + HU_GRADIENT . (x, y, z): linear, so that trilinear interpolation of it is exact.
HU_GRADIENT = np.array((4.0, -3.0, 2.0))
HU_OFFSET = 20.0
# ways to store a scan: (order of the axes i, j and k; which are flipped then)
ORDERS = [
    (axes, flips) for axes in permutations(range(3)) for flips in product((False, True), repeat=3)
]
SUPINE = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)


def true_hu(points_ras: np.ndarray) -> np.ndarray:
    """HU at (...,3) RAS mm."""
    return HU_OFFSET + points_ras @ HU_GRADIENT


def centred_affine(axes: np.ndarray, shape: tuple[int, int, int]) -> np.ndarray:
    """(4,4) ijk_to_ras with the given (3,3) axis columns in mm, and the world origin in the middle of (nk,nj,ni)."""
    affine = np.eye(4)
    affine[:3, :3] = axes
    affine[:3, 3] = -axes @ ((np.array(shape[::-1]) - 1) / 2)
    return affine


def voxel_positions(shape: tuple[int, int, int], ijk_to_ras: np.ndarray) -> np.ndarray:
    """(nk,nj,ni,3) RAS mm of the voxel centres."""
    k, j, i = np.indices(shape)
    return np.stack((i, j, k), axis=-1) @ ijk_to_ras[:3, :3].T + ijk_to_ras[:3, 3]


def reordered(volume: Volume, axes: tuple[int, ...], flips: tuple[bool, ...]) -> Volume:
    """The same scan stored with its (i,j,k) axes permuted, then flipped."""
    ijk = volume.voxels.transpose(2, 1, 0).transpose(axes)
    matrix = np.eye(4)
    matrix[:3, :3] = volume.ijk_to_ras[:3, list(axes)]
    matrix[:3, 3] = volume.ijk_to_ras[:3, 3]
    for axis, flip in enumerate(flips):
        if flip:
            ijk = np.flip(ijk, axis)
            matrix[:3, 3] += matrix[:3, axis] * (ijk.shape[axis] - 1)
            matrix[:3, axis] *= -1
    return Volume(np.ascontiguousarray(ijk.transpose(2, 1, 0)), matrix)


def linear_ct(
    shape: tuple[int, int, int] = (24, 26, 28), ijk_to_ras: np.ndarray | None = None
) -> tuple:
    """Return (voxels int16 (k,j,i), ijk_to_ras) of the linear scan, 3 x 3.2 x 3.5 mm unless told."""
    if ijk_to_ras is None:
        ijk_to_ras = centred_affine(np.diag((3.0, 3.2, 3.5)), shape)
    return np.rint(true_hu(voxel_positions(shape, ijk_to_ras))).astype(np.int16), ijk_to_ras


def stack_positions(
    origin_lps: Iterable[float], step_lps: Iterable[float], numbers: Iterable[float]
) -> np.ndarray:
    """(N,3) LPS mm of the first voxel of each slice."""
    return np.array(origin_lps) + np.array(list(numbers))[:, None] * np.array(step_lps)


def write_linear_series(
    folder: Path,
    positions_lps: np.ndarray,
    orientation: Iterable[float] = SUPINE,
    pixel_spacing: tuple[float, float] = (3.2, 3.0),
    size: tuple[int, int] = (26, 28),
    rescale: Iterable[tuple[float, float]] | None = None,
    compress: bool = False,
    **tags: object,
) -> list[Path]:
    """Write one slice of the linear scan per position; size is (rows, columns).

    rescale: (slope, intercept) per slice. tags: DICOM keywords for every slice, such as Modality or ImageType.
    """
    folder.mkdir(parents=True, exist_ok=True)
    row, column = np.array(list(orientation)).reshape(2, 3)
    rescale = list(rescale or [(1.0, -1024.0)] * len(positions_lps))
    series = tags.pop("SeriesInstanceUID", None) or generate_uid()
    paths = []
    for number, (position, (slope, intercept)) in enumerate(
        zip(positions_lps, rescale, strict=True), start=1
    ):
        j, i = np.indices(size)
        lps = (
            position
            + i[..., None] * row * pixel_spacing[1]
            + j[..., None] * column * pixel_spacing[0]
        )
        stored = np.rint((true_hu(lps * (-1, -1, 1)) - intercept) / slope).astype(np.int16)
        is_ct = tags.get("Modality", "CT") == "CT"
        dataset = dicom_dataset(
            CTImageStorage if is_ct else MRImageStorage,
            Modality="CT", ImageType=["ORIGINAL", "PRIMARY", "AXIAL"], PatientID="test", StudyInstanceUID="1.2.3",
            SeriesInstanceUID=series, **pixel_tags(stored, 16),
        )  # fmt: skip
        dataset.InstanceNumber = number
        dataset.ImagePositionPatient = [f"{v:.6f}" for v in position]
        dataset.ImageOrientationPatient = [f"{v:.8f}" for v in (*row, *column)]
        dataset.PixelSpacing = list(pixel_spacing)
        dataset.RescaleSlope = slope
        dataset.RescaleIntercept = intercept
        for keyword, value in tags.items():
            setattr(dataset, keyword, value)
        if compress:
            dataset.compress(RLELossless)
        # Random names: only the positions in the headers tell the order.
        path = folder / f"{generate_uid().rsplit('.', 1)[1]}.dcm"
        dataset.save_as(path, enforce_file_format=True)
        paths.append(path)
    return paths


def dicom_dataset(sop_class: str, **tags: object) -> FileDataset:
    """Return a data set of one object with UIDs of its own and these attributes."""
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = sop_class
    meta.MediaStorageSOPInstanceUID = generate_uid()
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    dataset = FileDataset("", {}, file_meta=meta, preamble=b"\0" * 128)
    dataset.SOPClassUID = sop_class
    dataset.SOPInstanceUID = meta.MediaStorageSOPInstanceUID
    for keyword, value in tags.items():
        setattr(dataset, keyword, value)
    return dataset


def pixel_tags(stored: np.ndarray, bits: int) -> dict[str, object]:
    """Return the attributes of a grey image (rows, columns); `bits` of 16 are used."""
    return {
        "Rows": stored.shape[0], "Columns": stored.shape[1], "SamplesPerPixel": 1,
        "PhotometricInterpretation": "MONOCHROME2", "BitsAllocated": 16, "BitsStored": bits, "HighBit": bits - 1,
        "PixelRepresentation": int(stored.dtype.kind == "i"), "PixelData": stored.tobytes(),
    }  # fmt: skip


def patient(shape: tuple[int, int, int] = (30, 34, 38)) -> Volume:
    """An elliptic cylinder of uneven tissue in air, 4 x 3.6 x 5 mm, away from the world's origin."""
    affine = centred_affine(np.diag((4.0, 3.6, 5.0)), shape)
    affine[:3, 3] += (17.3, -21.9, 431.1)
    k, j, i = np.indices(shape)
    middle_j, middle_i = (np.array(shape[1:]) - 1) / 2
    body = ((j - middle_j) / 13) ** 2 + ((i - middle_i) / 16) ** 2 < 1
    noise = np.random.default_rng(0).normal(0, 20, shape)
    hu = 40 + 80 * np.sin(k / 4) + 60 * np.cos(j / 3 + i / 5) + noise
    return Volume(np.where(body, hu, -1000).astype(np.int16), affine, name="patient")
