"""Read DICOM segmentations (SEG) and radiotherapy structure sets (RTSTRUCT) as label maps on the grid of a scan."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import SimpleITK as sitk

from ..anatomy.codes import site_words
from ..anatomy.names import canonical_name, known_name
from ..errors import PointsError, VolumeError, require
from ..scan.checks import check_claimed
from ..scan.geometry import LPS_FROM_RAS, RAS_FROM_LPS, to_image, transform_points
from ..scan.label_map import LabelMap
from .reading import read_whole
from .segmentations import BOX
from .source import load_highdicom
from .sr_items import code_in

if TYPE_CHECKING:
    from pydicom import Dataset

_REMEDY = "give a DICOM SEG or RTSTRUCT"


def outlined_series(path: Path) -> set[str] | None:
    """Return the UIDs of the image series in which a SEG or an RTSTRUCT has outlines; None for another DICOM file.

    Raises AnatomicalEmbeddingError if pydicom is not installed.
    """
    pydicom = require("pydicom", "pydicom", "DICOM files need", "dicom")
    tags = ["Modality", "ReferencedSeriesSequence", "ReferencedFrameOfReferenceSequence"]
    try:
        document = pydicom.dcmread(path, stop_before_pixels=True, specific_tags=tags)
        referenced = {
            str(element.value)
            for element in document.iterall()
            if element.keyword == "SeriesInstanceUID"
        }
    except Exception:  # pydicom raises exceptions of many classes for damaged files
        return None
    return referenced if document.get("Modality") in _READERS else None


def read_dicom_labels(path: Path, shape: tuple[int, int, int], ijk_to_ras: np.ndarray) -> LabelMap:
    """Read the outlines in a SEG or an RTSTRUCT. Outlines may overlap.

    Names come from the labels of segments or ROIs; for a label that is not in the vocabulary, the code of the segment
    is used if it is known.

    Args:
        path: the file.
        shape: (k, j, i) of the scan.
        ijk_to_ras: (4, 4) of the scan.

    Returns:
        The structures on the grid of the scan.

    Raises:
        AnatomicalEmbeddingError: the file is missing, damaged or of another kind; no outline lies in the scan; or two
            structures have the same name.
    """
    document = read_whole(path, _REMEDY)
    reader = _READERS.get(str(document.get("Modality")))
    if reader is None:
        raise VolumeError(f"{path}: is DICOM, but contains no outlines; {_REMEDY}.")
    try:
        texts = dict[str, str]()
        outlines = _distinct(reader(document, path, shape, ijk_to_ras), path, texts)
        labels = replace(LabelMap.from_masks(outlines, shape, ijk_to_ras), texts=texts)
    except (
        AttributeError,
        LookupError,
        MemoryError,
        RuntimeError,
        TypeError,
        ValueError,
    ) as error:
        problem = str(error) or "the header states a grid that is too large"
        raise VolumeError(
            f"{path}: its outlines cannot be read ({problem}); export them again."
        ) from error
    if not labels.voxels.any():
        raise VolumeError(f"{path}: no outline lies in the scan; give the outlines of this scan.")
    return labels


_SAME_PLANE = 0.2  # slices: contours at a smaller distance lie in one plane; by hand
# the name of each structure, its name as the file writes it, and its mask (k, j, i) bool
_Outlines = Iterator[tuple[str, str, np.ndarray]]


def _distinct(
    outlines: _Outlines, path: Path, texts: dict[str, str]
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield names and masks, and add the names as the file writes them to `texts`: name -> text. Raises PointsError if
    two structures have the same name."""
    for name, text, mask in outlines:
        if name in texts:
            raise PointsError(
                f"{path}: several structures have the name {name}; give each structure its own name."
            )
        texts[name] = text.strip()
        yield name, mask


def _read_seg(
    document: Dataset, path: Path, shape: tuple[int, int, int], ijk_to_ras: np.ndarray
) -> _Outlines:
    """Yield the segments of a SEG on the grid of the scan. Raises ValueError if its slices form no volume."""
    segmentation = load_highdicom().seg.Segmentation.from_dataset(document, copy=False)
    geometry = segmentation.get_volume_geometry()
    if geometry is None:
        raise ValueError("the slices are not equally spaced")
    check_claimed(geometry.spatial_shape, 1, None, str(path))
    grid = to_image(np.zeros(shape, np.uint8), ijk_to_ras)

    def read(numbers: list[int]) -> np.ndarray:
        """Return labels (k, j, i) on the scan's grid: n where the n-th of the given segments is, from 1."""
        volume = segmentation.get_volume(
            segment_numbers=numbers, combine_segments=True, relabel=True, dtype=np.uint16
        )
        kji_to_ras = RAS_FROM_LPS @ volume.affine  # highdicom counts slice, row, column
        to_ras = kji_to_ras[:, [2, 1, 0, 3]]
        on_grid = sitk.Resample(
            to_image(volume.array, to_ras), grid, sitk.Transform(), sitk.sitkNearestNeighbor
        )
        return sitk.GetArrayFromImage(on_grid)

    numbers = list(segmentation.segment_numbers)
    # pairs of segment numbers and their labels: all segments at once, or each by itself
    try:
        parts = iter([(numbers, read(numbers))])
    except RuntimeError:  # segments overlap: one label for a voxel is not enough
        parts = (([number], read([number])) for number in numbers)
    for part, labels in parts:
        for label, number in enumerate(part, start=1):
            segment = segmentation.get_segment_description(number)
            yield _name_of(segment), str(segment.SegmentLabel), labels == label


def _name_of(segment: Dataset) -> str:
    """Return the name of the structure in a segment: its label, if the vocabulary has it, else the name of its code.

    The label of a box stays as it is, so that no box is taken for the outline of its structure.
    """
    label = str(segment.SegmentLabel)
    # a code is its value, its scheme and a text; the text may differ
    if code_in(segment.SegmentedPropertyCategoryCodeSequence[0])[:2] == BOX[:2]:
        return label
    kind = segment.SegmentedPropertyTypeCodeSequence[0]
    sides = kind.get("SegmentedPropertyTypeModifierCodeSequence") or ()
    coded = site_words(code_in(kind), code_in(sides[0]) if sides else None)
    return known_name(label) or known_name(coded) or canonical_name(label)


def _read_structure_set(
    document: Dataset, path: Path, shape: tuple[int, int, int], ijk_to_ras: np.ndarray
) -> _Outlines:
    """Yield the structures of an RTSTRUCT on the grid of the scan. Contours outside its slices are left out.

    Raises ValueError if a contour is oblique to the slices.
    """
    titles = {roi.ROINumber: str(roi.ROIName) for roi in document.StructureSetROISequence}
    to_ijk = np.linalg.inv(LPS_FROM_RAS @ ijk_to_ras)
    for roi in document.ROIContourSequence:
        mask = np.zeros(shape, bool)
        planes: dict[float, np.ndarray] = {}  # index k of each plane with contours -> its mask
        for contour in roi.get("ContourSequence") or ():
            if contour.ContourGeometricType == "CLOSED_PLANAR":
                points = np.array(contour.ContourData, float).reshape(-1, 3)
                ijk = transform_points(to_ijk, points)
                k = float(ijk[:, 2].mean())
                if np.ptp(ijk[:, 2]) > 1:
                    raise ValueError("a contour is not parallel to the slices of the scan")
                # contours of one plane differ by rounding errors, or because they are tilted a little
                k = next((plane for plane in planes if abs(plane - k) < _SAME_PLANE), k)
                # a contour in another contour of its plane is a hole
                planes[k] = planes.get(k, False) ^ _fill(ijk[:, :2], shape[1:])
        for k, plane in planes.items():  # planes may lie between slices
            number = math.floor(k + 0.5)
            if 0 <= number < shape[0]:
                mask[number] |= plane
        if mask.any():
            title = titles[roi.ReferencedROINumber]
            yield canonical_name(title), title, mask


def _fill(corners_ij: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return (j, i) bool: True where the centre of a pixel lies in a polygon. corners_ij: (n, 2); shape: (j, i)."""
    # along a row, the polygon begins and ends where the row crosses an edge
    i, j = corners_ij.T
    next_i, next_j = np.roll(i, -1), np.roll(j, -1)
    mask = np.zeros(shape, bool)
    columns = np.arange(shape[1])
    first = max(int(np.ceil(j.min())), 0)
    last = min(int(np.floor(j.max())), shape[0] - 1)
    for row in range(first, last + 1):
        crossed = (j <= row) != (next_j <= row)
        share = (row - j[crossed]) / (next_j - j)[crossed]  # of the edge, up to the row
        crossings = i[crossed] + share * (next_i - i)[crossed]
        mask[row] = (np.searchsorted(np.sort(crossings), columns) % 2).astype(bool)
    return mask


_READERS = {"SEG": _read_seg, "RTSTRUCT": _read_structure_set}  # by the modality of the file
