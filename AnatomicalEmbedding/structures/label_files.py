"""Reads and writes the labels of scans, and the lists of names of labels.

The labels of the scan NAME.nii.gz, or of the DICOM series in the folder NAME, are in one of these files:

* NAME.seg.nii.gz, or another image, with NAME.labels.json, {"1": "liver", ...};
* NAME.seg.nrrd of 3D Slicer, which contains the names;
* NAME.seg.dcm, a DICOM SEG or RTSTRUCT.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import SimpleITK as sitk

from ..anatomy.names import canonical_name, spelling_key
from ..dicom.outlines import read_dicom_labels
from ..errors import PointsError, VolumeError
from ..files import parse_json, write_text
from ..scan.geometry import GRIDS_AGREE_MM, corner_distance_mm, image_affine, to_image
from ..scan.image_files import display_name, image_suffix, read_image, write_image
from ..scan.label_map import LabelMap
from ..scan.volume import Volume
from .segments import read_segments


def list_of_names(path: Path) -> Path:
    """Return the path NAME.labels.json next to a scan NAME or a label map NAME.seg.nii.gz."""
    return path.with_name(display_name(path).removesuffix(".seg") + ".labels.json")


def has_own_names(path: Path) -> bool:
    """Return True for a .seg.nrrd without a list of names: a segmentation of 3D Slicer."""
    return path.name.endswith(".seg.nrrd") and not list_of_names(path).exists()


def read_labels(path: Path, read_scan: Callable[[], Volume]) -> LabelMap:
    """Read the labels of a scan. Names are canonical; `texts` has the names as the file writes them.

    Args:
        path: one of the files that the module names.
        read_scan: returns the scan. Called for DICOM, whose outlines get the voxels of the scan.

    Raises:
        AnatomicalEmbeddingError: a file is missing or damaged; a voxel is a fraction; two structures have one name.
    """
    if not image_suffix(path):
        scan = read_scan()
        return read_dicom_labels(path, scan.shape, scan.ijk_to_ras)
    if has_own_names(path):
        return read_segments(path)
    voxels, ijk_to_ras = read_label_image(path)
    texts = read_texts(list_of_names(path))
    structures = canonical_names(texts, list_of_names(path))
    values = {name: value for value, name in structures.items()}
    as_written = {name: texts[value] for value, name in structures.items()}
    return LabelMap(voxels, ijk_to_ras, values, texts=as_written)


def read_label_image(path: Path, orientation: str = "") -> tuple[np.ndarray, np.ndarray]:
    """Read a label map without its names: integers (k, j, i), and ijk_to_ras (4, 4).

    Args:
        path: the image.
        orientation: directions of the axes i, j, k after reordering, such as "LPS"; "" keeps the axes of the file.

    Raises:
        VolumeError: the file is missing or damaged, or a voxel is a fraction.
    """
    image, _ = read_image(path)
    if orientation:
        image = sitk.DICOMOrient(image, orientation)
    voxels = sitk.GetArrayFromImage(image)
    if voxels.dtype.kind == "f":
        if not np.array_equal(voxels, np.rint(voxels)):
            raise VolumeError(
                f"{path}: the voxels contain fractions; give a label map of integers."
            )
        voxels = voxels.astype(np.int32)
    return voxels, image_affine(image)


def resampled(labels: LabelMap, scan: Volume, transform: sitk.Transform | None = None) -> LabelMap:
    """Return the same structures on the voxels of a scan. Each voxel gets the label of the nearest old voxel, or 0
    outside the old voxels.

    Args:
        labels: the structures.
        scan: the scan.
        transform: moves places of the scan to places of the old voxels, LPS mm; None: they are the same places.
    """
    grid = to_image(np.zeros(scan.shape, np.uint8), scan.ijk_to_ras)
    to_old = transform or sitk.Transform()
    layers = []
    for layer in (labels.voxels, *labels.covered):
        image = to_image(layer, labels.ijk_to_ras)
        layers.append(sitk.Resample(image, grid, to_old, sitk.sitkNearestNeighbor))
    voxels, *covered = map(sitk.GetArrayFromImage, layers)
    return replace(labels, voxels=voxels, ijk_to_ras=scan.ijk_to_ras, covered=tuple(covered))


def check_same_grid(
    path: Path, labels: LabelMap, shape: tuple[int, ...], ijk_to_ras: np.ndarray, scan: str
) -> None:
    """Raise VolumeError if a label map lies on other voxels than its scan.

    Args:
        path: file of the label map, for the message.
        labels: the label map.
        shape: (k, j, i) of the scan.
        ijk_to_ras: (4, 4) of the scan.
        scan: name of the scan, for the message.
    """
    if (
        labels.voxels.shape != tuple(shape)
        or corner_distance_mm(ijk_to_ras, labels.ijk_to_ras, shape) > GRIDS_AGREE_MM
    ):
        raise VolumeError(
            f"{path}: has another grid than {scan}; resample the label map to the grid of the scan."
        )


def read_texts(path: Path) -> dict[int, str]:
    """Read the names of labels as they are written: label -> name. Raises PointsError for other content.

    path: a `.labels.json` file, or nnU-Net's dataset.json, whose "labels" are {"liver": 1} or {"1": "liver"}.
    """
    content = read_json(path)
    try:
        if path.name == "dataset.json":
            content = _by_label(content["labels"])
        texts = {int(value): text.strip() for value, text in content.items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise PointsError(
            f'{path}: is not a list of label names; write {{"1": "liver", ...}}.'
        ) from error
    return texts


def _by_label(labels: dict) -> dict:
    """Return the labels of a dataset.json as label -> name. Lists are regions, which have no label of their own."""
    names = {}
    for key, value in labels.items():
        if isinstance(value, str):
            names[key] = value
        elif not isinstance(value, list):
            names[value] = key
    return names


def canonical_names(texts: Mapping[int, str], path: Path) -> dict[int, str]:
    """Return label -> canonical name. Raises PointsError, with the file `path`, if two labels have the same name."""
    names = {value: canonical_name(text) for value, text in texts.items()}
    keys = list(map(spelling_key, names.values()))
    twice = [name for name, key in zip(names.values(), keys, strict=True) if keys.count(key) > 1]
    if twice:
        raise PointsError(
            f"{path}: several labels have the name {twice[0]}; give each structure its own name."
        )
    return names


def read_json(path: Path) -> dict:
    """Read names or points from a JSON file. Raises PointsError if the file is missing or damaged."""
    try:
        return parse_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise PointsError(
            f"{path}: is missing; create this file with the names of structures or points."
        ) from error
    except (OSError, ValueError) as error:
        raise PointsError(f"{path}: the file is not valid JSON; correct the file.") from error


def write_nifti(folder: Path, name: str, labels: LabelMap) -> None:
    """Write a label map to NAME.seg.nii.gz and its names to NAME.labels.json.

    Where structures overlap, the file has the label of the smallest structure.

    Args:
        folder: folder of the files.
        name: name of the files.
        labels: the structures.
    """
    write_image(to_image(labels.voxels, labels.ijk_to_ras), folder / f"{name}.seg.nii.gz")
    names = {str(label): text for text, label in labels.values.items()}
    write_text(folder / f"{name}.labels.json", json.dumps(names, indent=1))
