"""Write and read registrations: DICOM Spatial Registration (a matrix) and Deformable Spatial Registration (a grid).

The module attributes are in DICOM PS3.3, C.20.2 and C.20.3. The registered coordinate system is the frame of reference
of the fixed scan. A Spatial Registration maps the moving scan to it; a Deformable Spatial Registration maps it to the
moving scan.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import SimpleITK as sitk

from ..errors import VolumeError
from ..scan.checks import check_claimed
from ..scan.geometry import LPS_FROM_RAS
from .reading import read_whole
from .source import PRODUCT, SourceSeries, load_highdicom, result_attributes

if TYPE_CHECKING:
    from pydicom import Dataset

_SPATIAL, _DEFORMABLE = "1.2.840.10008.5.1.4.1.1.66.1", "1.2.840.10008.5.1.4.1.1.66.3"
_METHOD = ("125024", "DCM", "Image Content-based Alignment")
_AROUND = ("Pre", "Post")  # a matrix may be applied before, and after the displacements


def write_matrix(
    affine_ras: np.ndarray,
    kind: str,
    fixed: SourceSeries,
    moving: SourceSeries,
    comment: str,
    path: Path,
) -> None:
    """Write a Spatial Registration.

    Args:
        affine_ras: (4, 4) RAS mm fixed -> moving.
        kind: "RIGID" or "AFFINE".
        comment: a text that states the error, at most 64 characters.

    Raises:
        AnatomicalEmbeddingError: highdicom is not installed, or the file cannot be written.
    """
    to_fixed = LPS_FROM_RAS @ np.linalg.inv(affine_ras) @ LPS_FROM_RAS
    with fixed.writing(path) as temporary:
        document = _document(_SPATIAL, fixed, moving)
        document.RegistrationSequence = []
        for series, matrix, name in ((fixed, np.eye(4), "RIGID"), (moving, to_fixed, kind)):
            step = _item(**_comment_attributes(comment), MatrixSequence=[_matrix(matrix, name)])
            item = _item(
                FrameOfReferenceUID=series.frame,
                ReferencedImageSequence=_references(series),
                MatrixRegistrationSequence=[step],
            )
            document.RegistrationSequence.append(item)
        document.save_as(temporary)


def write_displacements(
    field: sitk.Image, fixed: SourceSeries, moving: SourceSeries, comment: str, path: str | Path
) -> None:
    """Write a Deformable Spatial Registration.

    Args:
        field: displacement vectors, LPS mm, fixed -> moving, on a grid that covers the fixed scan.
        fixed, moving: the two scans. DICOM calls the moving scan the source.
        comment: a text that states the error, at most 64 characters.
        path: the file.

    Raises:
        AnatomicalEmbeddingError: highdicom is not installed, or the file cannot be written.
    """
    direction = np.reshape(field.GetDirection(), (3, 3))
    vectors = sitk.GetArrayViewFromImage(field)
    origin = field.GetOrigin()
    # the third axis of DICOM is the cross product of row and column: for other grids, the last slice becomes the first
    if np.linalg.det(direction) < 0:
        vectors = vectors[::-1]
        origin = field.TransformIndexToPhysicalPoint((0, 0, field.GetSize()[2] - 1))
    with fixed.writing(path) as temporary:
        document = _document(_DEFORMABLE, fixed, moving)
        grid = _item(
            ImageOrientationPatient=_decimals([*direction[:, 0], *direction[:, 1]]),
            ImagePositionPatient=_decimals(origin),
            GridDimensions=list(field.GetSize()),
            GridResolution=list(field.GetSpacing()),
            VectorGridData=vectors.astype("<f4").tobytes(),
        )
        # DICOM has a matrix before and one after the displacements: no motion
        still = {
            f"{name}DeformationMatrixRegistrationSequence": [_matrix(np.eye(4), "RIGID")]
            for name in _AROUND
        }
        item = _item(
            SourceFrameOfReferenceUID=moving.frame,
            ReferencedImageSequence=_references(moving),
            **_comment_attributes(comment),
            **still,
            DeformableRegistrationGridSequence=[grid],
        )
        document.DeformableRegistrationSequence = [item]
        document.save_as(temporary)


def _document(kind: str, fixed: SourceSeries, moving: SourceSeries) -> Any:
    """Make an object of the SOP class `kind` in the study of the fixed scan, with references to all images."""
    hd = load_highdicom()
    header = fixed.slices[0]
    document = hd.base.SOPClass(
        study_instance_uid=header.StudyInstanceUID,
        sop_class_uid=kind,
        modality="REG",
        **result_attributes(hd, "REG", "Registration"),
    )
    document.copy_patient_and_study_information(header)
    document.SpecificCharacterSet = "ISO_IR 192"  # UTF-8: names may be in any language
    document.FrameOfReferenceUID = fixed.frame
    document.PositionReferenceIndicator = ""
    document.Laterality = ""
    document.ContentLabel = "REGISTRATION"
    document.ContentDescription = ""
    document.ContentCreatorName = PRODUCT
    document.ReferencedSeriesSequence = [_series_item(fixed)]
    if moving.study == fixed.study:
        document.ReferencedSeriesSequence.append(_series_item(moving))
    else:
        document.StudiesContainingOtherReferencedInstancesSequence = [
            _item(StudyInstanceUID=moving.study, ReferencedSeriesSequence=[_series_item(moving)])
        ]
    return document


def _series_item(series: SourceSeries) -> Dataset:
    return _item(
        SeriesInstanceUID=series.slices[0].SeriesInstanceUID,
        ReferencedInstanceSequence=_references(series),
    )


def _references(series: SourceSeries) -> list[Dataset]:
    """Return one item for each slice of a series that refers to this slice."""
    return [
        _item(
            ReferencedSOPClassUID=image.SOPClassUID, ReferencedSOPInstanceUID=image.SOPInstanceUID
        )
        for image in series.slices
    ]


def _matrix(matrix_lps: np.ndarray, kind: str) -> Dataset:
    """Return a matrix (4, 4), LPS mm, as an item of a MatrixSequence. kind: "RIGID" or "AFFINE"."""
    return _item(
        FrameOfReferenceTransformationMatrix=_decimals(matrix_lps.ravel()),
        FrameOfReferenceTransformationMatrixType=kind,
    )


def _item(**attributes: Any) -> Dataset:
    """Make a DICOM item with these attributes, by their DICOM keywords."""
    from pydicom import Dataset

    item = Dataset()
    for keyword, value in attributes.items():
        setattr(item, keyword, value)
    return item


def _comment_attributes(comment: str) -> dict[str, Any]:
    """Return the attributes that state the method and the error of a registration."""
    method = load_highdicom().sr.CodedConcept(*_METHOD)
    return {
        "FrameOfReferenceTransformationComment": comment,
        "RegistrationTypeCodeSequence": [method],
    }


def _decimals(values: Iterable[float]) -> list[str]:
    """Write numbers as DICOM decimal strings: at most 16 characters each."""
    from pydicom.valuerep import format_number_as_ds

    return [format_number_as_ds(float(value)) for value in values]


def read_registration(path: str | Path) -> sitk.Transform:
    """Read a Spatial or Deformable Spatial Registration.

    Returns:
        The transform of points of the fixed scan to the moving scan, LPS mm, as SimpleITK uses it for resampling.

    Raises:
        VolumeError: the file is missing, damaged, not a registration, or relates more than two frames of reference.
    """
    document = read_whole(Path(path), "give a DICOM registration")
    try:
        if document.SOPClassUID == _SPATIAL:
            return _read_matrix(document, path)
        if document.SOPClassUID == _DEFORMABLE:
            return _read_displacements(document, path)
    except (AttributeError, IndexError, TypeError, ValueError, np.linalg.LinAlgError) as error:
        raise VolumeError(
            f"{path}: is a damaged registration ({error}); export the registration again."
        ) from error
    raise VolumeError(f"{path}: is DICOM, but not a registration; give a file of modality REG.")


def _read_matrix(document: Dataset, path: str | Path) -> sitk.Transform:
    """Return the transform, in LPS mm, from the fixed to the moving scan. DICOM stores its inverse.

    Only a scan that moves is counted; without such a scan, the result is the identity.
    """
    moved = []  # the matrix of each scan that moves, to the registered coordinate system
    for item in document.RegistrationSequence:
        matrix = np.eye(4)
        for step in item.MatrixRegistrationSequence[0].MatrixSequence:
            matrix = _matrix_of(step) @ matrix
        if item.get("FrameOfReferenceUID") != document.FrameOfReferenceUID or not np.allclose(
            matrix, np.eye(4)
        ):
            moved.append(matrix)
    if len(moved) > 1:
        raise _too_many(path, len(moved))
    return _affine(np.linalg.inv(moved[0]) if moved else np.eye(4))


def _read_displacements(document: Dataset, path: str | Path) -> sitk.Transform:
    """Return the transform, in LPS mm, from the fixed to the moving scan: a matrix, offsets on a grid, a matrix.

    A point p moves to after(before(p) + offset(p)). The offsets are stored at the points p of the grid.
    """
    items = document.DeformableRegistrationSequence
    if len(items) != 1:
        raise _too_many(path, len(items))
    item = items[0]
    matrices = []
    for name in _AROUND:
        sequence = item.get(f"{name}DeformationMatrixRegistrationSequence")
        matrices.append(_matrix_of(sequence[0]) if sequence else np.eye(4))
    before, after = matrices
    grid = item.DeformableRegistrationGridSequence[0]
    size = [int(n) for n in grid.GridDimensions]
    check_claimed(size, 1, None, str(path))
    offsets = np.frombuffer(grid.VectorGridData, dtype="<f4")
    vectors = offsets.reshape(*size[::-1], 3).astype(np.float64)  # (k, j, i, xyz)
    if not np.isfinite(vectors).all():
        raise VolumeError(
            f"{path}: is undefined in a part of its grid; export a registration of the whole scan."
        )
    row, column = np.array(grid.ImageOrientationPatient, float).reshape(2, 3)
    axes = np.column_stack([row, column, np.cross(row, column)])
    field = sitk.GetImageFromArray(vectors, isVector=True)
    field.SetOrigin([float(value) for value in grid.ImagePositionPatient])
    field.SetSpacing([float(value) for value in grid.GridResolution])
    field.SetDirection(axes.ravel().tolist())
    # displacement of p before the second matrix: before(p) - p + offset(p)
    if not np.array_equal(before, np.eye(4)):
        moved = sitk.TransformToDisplacementField(
            _affine(before),
            sitk.sitkVectorFloat64,
            size,
            field.GetOrigin(),
            field.GetSpacing(),
            field.GetDirection(),
        )
        field = sitk.Add(field, moved)
    # SimpleITK applies the last transform of the list first
    return sitk.CompositeTransform([_affine(after), sitk.DisplacementFieldTransform(field)])


def _too_many(path: str | Path, scans: int) -> VolumeError:
    return VolumeError(
        f"{path}: registers {scans} scans; give a registration of one scan with another."
    )


def _matrix_of(item: Dataset) -> np.ndarray:
    """Return the matrix (4, 4), LPS mm, of an item of a MatrixSequence."""
    return np.array(item.FrameOfReferenceTransformationMatrix, float).reshape(4, 4)


def _affine(matrix_lps: np.ndarray) -> sitk.AffineTransform:
    return sitk.AffineTransform(matrix_lps[:3, :3].ravel().tolist(), matrix_lps[:3, 3].tolist())
