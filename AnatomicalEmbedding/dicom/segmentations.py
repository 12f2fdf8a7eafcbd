"""Write segmentations as DICOM Segmentation objects (SEG), one segment for each structure."""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from .. import __version__
from ..anatomy.codes import STRUCTURE, Code, site_codes
from ..errors import AnatomicalEmbeddingError
from ..scan.geometry import LPS_FROM_RAS, transform_points
from ..scan.label_map import LabelMap
from .source import PRODUCT, SourceSeries, load_highdicom, result_attributes

# category of a box, which is no outline
BOX: Code = ("309825002", "SCT", "Spatial and Relational Concept")
_TISSUE: Code = ("85756007", "SCT", "Tissue")  # type of a structure whose name has no code
_METHOD: Code = ("123110", "DCM", "Artificial Intelligence")
# of the masks of boxes or outlines that may overlap, and so need an array each
_MOST_BYTES = 2 * 2**30
# DICOM's limit for a segment label (LO) is 64 characters; some readers count bytes
_LABEL_BYTES = 64


def write_label_seg(labels: LabelMap, source: SourceSeries, path: str | Path) -> None:
    """Write a label map as a SEG that refers to the images of the scan. Structures may overlap.

    Segment numbers are 1, 2, ... in the order of `labels.values`, because DICOM wants them so. A structure that the
    label map does not contain has a description in the SEG, but no frames. If the label map is empty, all structures
    have one empty frame.

    Args:
        labels: the structures.
        source: the DICOM images of the scan.
        path: the file.

    Raises:
        AnatomicalEmbeddingError: highdicom is not installed, the file cannot be written, or structures overlap and
            there are too many for the memory.
    """
    names = list(labels.values)
    if labels.covered:
        voxels = _stacked(names, labels.mask, labels.voxels.shape, source.label)
    else:
        voxels = labels.renumbered(
            {name: number for number, name in enumerate(names, start=1)}
        ).voxels
    _write(voxels, labels.ijk_to_ras, names, source, path, STRUCTURE)


def write_box_seg(
    boxes_ras: Mapping[str, np.ndarray],
    shape: tuple[int, int, int],
    ijk_to_ras: np.ndarray,
    source: SourceSeries,
    path: Path,
) -> None:
    """Write boxes as a SEG: the segment "NAME box" contains the voxels whose centre lies in the box.

    Args:
        boxes_ras: name of the structure -> (2, 3) lower and upper corner, RAS mm; at least one box.
        shape: (k, j, i) of the scan.
        ijk_to_ras: (4, 4) of the scan.
        source: the DICOM images of the scan.
        path: the file.

    Raises:
        AnatomicalEmbeddingError: there are too many boxes for the memory, and the errors of `write_label_seg`.
    """
    names = list(boxes_ras)
    voxels = _stacked(
        names, lambda name: _in_box(boxes_ras[name], shape, ijk_to_ras), shape, source.label
    )
    _write(voxels, ijk_to_ras, names, source, path, BOX)


def _stacked(
    names: Sequence[str], mask: Callable[[str], np.ndarray], shape: tuple[int, ...], scan: str
) -> np.ndarray:
    """Return masks (k, j, i, segment). mask: returns the mask (k, j, i) of a name. Raises AnatomicalEmbeddingError if
    there are too many."""
    most = _MOST_BYTES // math.prod(shape)
    if len(names) > most:
        raise AnatomicalEmbeddingError(
            f"{scan}: {len(names)} boxes or outlines that overlap are too many for one DICOM SEG of this scan;"
            f" choose at most {most} with --structures."
        )
    masks = np.zeros((*shape, len(names)), np.uint8)
    for n, name in enumerate(names):
        masks[..., n] = mask(name)
    return masks


def _in_box(box_ras: np.ndarray, shape: tuple[int, int, int], ijk_to_ras: np.ndarray) -> np.ndarray:
    """Return (k, j, i) bool: True where a voxel's centre lies in a box, (2, 3) RAS mm."""
    inside = np.ones(shape, bool)
    # the coordinate along one axis of RAS is a sum of parts that depend on k, on j and on i
    for axis in range(3):
        i, j, k = (ijk_to_ras[axis, n] * np.arange(shape[2 - n]) for n in range(3))
        place = k[:, None, None] + j[:, None] + i + ijk_to_ras[axis, 3]
        inside &= (place >= box_ras[0][axis]) & (place <= box_ras[1][axis])
    return inside


def _write(
    voxels: np.ndarray,
    ijk_to_ras: np.ndarray,
    names: Sequence[str],
    source: SourceSeries,
    path: str | Path,
    kind: Code,
) -> None:
    """Write a label map (k, j, i), or masks (k, j, i, segment).

    Args:
        voxels: labels 1, 2, ... or masks, in the order of `names`.
        ijk_to_ras: (4, 4) of the voxels.
        names: names of the segments.
        source: the DICOM images of the scan.
        path: the file.
        kind: category of all segments.
    """
    hd = load_highdicom()
    # the frames of slices below the first segment and above the last would be empty
    used = [k for k, plane in enumerate(voxels) if plane.any()] or [0]
    voxels = voxels[used[0] : used[-1] + 1]
    ijk_to_lps = LPS_FROM_RAS @ ijk_to_ras
    kji_to_lps = ijk_to_lps[:, [2, 1, 0, 3]]  # highdicom counts slice, row, column
    kji_to_lps[:3, 3] = transform_points(ijk_to_lps, np.array([[0, 0, used[0]]]))[0]
    title = "Boxes" if kind == BOX else "Outlines"
    channels: dict[str, Any] = {}
    if voxels.ndim == 4:
        channels = {"channels": {"SegmentNumber": list(range(1, len(names) + 1))}}
    with source.writing(path) as temporary:
        volume = hd.Volume(
            voxels, kji_to_lps, "PATIENT", frame_of_reference_uid=source.frame, **channels
        )
        segmentation = hd.seg.Segmentation(
            source_images=source.slices,
            pixel_array=volume,
            segmentation_type="BINARY",
            segment_descriptions=[
                _description(hd, number, name, kind) for number, name in enumerate(names, start=1)
            ],
            content_label="SEGMENTATION",
            **result_attributes(hd, "SEG", title),
        )
        segmentation.SpecificCharacterSet = "ISO_IR 192"  # UTF-8: names may be in any language
        segmentation.save_as(temporary)


def _description(hd: ModuleType, number: int, name: str, kind: Code) -> Any:
    """Return the description of segment `number`. A structure without a code of its own has the code for tissue."""
    code = hd.sr.CodedConcept
    organ, side = site_codes(name) or (_TISSUE, None)
    # cut by bytes; a character that is cut in two is dropped
    label = (f"{name} box" if kind == BOX else name).encode()[:_LABEL_BYTES].decode(errors="ignore")
    category = _TISSUE if (kind, organ) == (STRUCTURE, _TISSUE) else kind
    described = hd.seg.SegmentDescription(
        segment_number=number,
        segment_label=label,
        segmented_property_category=code(*category),
        segmented_property_type=code(*organ),
        algorithm_type="AUTOMATIC",
        algorithm_identification=hd.AlgorithmIdentificationSequence(
            PRODUCT, code(*_METHOD), __version__
        ),
        tracking_uid=hd.UID(),
        tracking_id=label,
    )
    if side is not None:
        described.SegmentedPropertyTypeCodeSequence[0].SegmentedPropertyTypeModifierCodeSequence = [
            code(*side)
        ]
    return described
