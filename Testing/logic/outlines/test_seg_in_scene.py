"""Test that a DICOM SEG lies on the organs of its CT in the MRML scene.

slicer-core reads no DICOM. So GDCM reads the voxels, and the places come from the attributes of each frame, without
highdicom, which wrote the SEG.
"""

from pathlib import Path

import numpy as np
import pydicom
import pytest
import SimpleITK as sitk
import slicer
import slicer.util
from dicom_series import write_ct_series
from test_dicom_seg import NAMES, labelled, masks_of, tilted

from AnatomicalEmbedding.dicom.segmentations import write_label_seg
from AnatomicalEmbedding.dicom.source import read_source
from AnatomicalEmbedding.scan.volume import Volume

pytest.importorskip("highdicom")


def segments_of(path: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Voxels (k, j, i) and IJK to RAS matrix of each segment of a SEG."""
    document = pydicom.dcmread(path)
    voxels = sitk.GetArrayFromImage(sitk.ReadImage(path))
    shared = document.SharedFunctionalGroupsSequence[0]
    row, column = np.array(
        shared.PlaneOrientationSequence[0].ImageOrientationPatient, dtype=float
    ).reshape(2, 3)
    between_rows, between_columns = map(float, shared.PixelMeasuresSequence[0].PixelSpacing)
    frames = document.PerFrameFunctionalGroupsSequence
    origins = np.array(
        [frame.PlanePositionSequence[0].ImagePositionPatient for frame in frames], dtype=float
    )
    numbers = np.array(
        [frame.SegmentIdentificationSequence[0].ReferencedSegmentNumber for frame in frames]
    )
    found = {}
    for segment in document.SegmentSequence:
        own = np.flatnonzero(numbers == segment.SegmentNumber)
        own = own[np.argsort(origins[own] @ np.cross(row, column))]
        matrix = np.eye(4)
        step = (origins[own[-1]] - origins[own[0]]) / (len(own) - 1)
        matrix[:3] = np.stack(
            [row * between_columns, column * between_rows, step, origins[own[0]]], axis=1
        )
        assert np.allclose(
            origins[own], matrix[:3, 3] + np.arange(len(own))[:, None] * step, atol=1e-3
        )
        found[segment.SegmentLabel] = voxels[own], np.diag([-1.0, -1.0, 1.0, 1.0]) @ matrix
    return found


@pytest.mark.parametrize("turned", [False, True])
def test_each_segment_covers_the_same_voxels_of_the_ct(scene, phantom_pair, tmp_path, turned):
    # GDCM misreads the last voxels of frames whose number of voxels is no multiple of 8
    whole = phantom_pair[1].volume
    volume = Volume(whole.voxels[:, :80, :96], whole.ijk_to_ras)
    labels = masks_of(phantom_pair[1])[:, :80, :96]
    if turned:
        volume = tilted(volume)
    write_ct_series(tmp_path / "ct", volume)
    write_label_seg(
        labelled(labels, volume.ijk_to_ras), read_source("ct", tmp_path / "ct"), tmp_path / "a.dcm"
    )
    ct = slicer.util.addVolumeFromArray(volume.voxels, volume.ijk_to_ras, "CT")
    segments = segments_of(tmp_path / "a.dcm")
    assert len(segments) == len(NAMES)
    for number, (label, (voxels, matrix)) in enumerate(segments.items(), start=1):
        node = scene.AddNewNodeByClass("vtkMRMLLabelMapVolumeNode", label)
        slicer.util.updateVolumeFromArray(node, (voxels > 0).astype(np.uint8))
        node.SetIJKToRASMatrix(slicer.util.vtkMatrixFromArray(matrix))
        segmentation = scene.AddNewNodeByClass("vtkMRMLSegmentationNode", label)
        assert slicer.vtkSlicerSegmentationsModuleLogic.ImportLabelmapToSegmentationNode(
            node, segmentation
        )
        (name,) = segmentation.GetSegmentation().GetSegmentIDs()
        shown = slicer.util.arrayFromSegmentBinaryLabelmap(segmentation, name, ct)
        assert np.array_equal(shown > 0, labels == number)
