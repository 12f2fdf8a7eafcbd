"""Test that the labels of a scan are the same from each kind of file."""

import numpy as np
from ellipsoid_cases import FLIPPED, write_case

from AnatomicalEmbedding.audit.dataset import list_entries, read_entry_labels
from AnatomicalEmbedding.scan.geometry import mask_box
from AnatomicalEmbedding.scan.label_map import LabelMap
from AnatomicalEmbedding.structures.labelled_scans import load_case
from AnatomicalEmbedding.structures.segments import write_segments


def test_a_segmentation_of_slicer_is_read_like_a_label_map_with_names(tmp_path):
    write_case(tmp_path, "one", directions=FLIPPED)
    by_list = load_case(tmp_path / "one.nii.gz")
    labels = by_list.label_map
    # Slicer may cut a segmentation to its structures, which does not mean that the scan cuts them
    box = mask_box(labels.voxels > 0)
    first = labels.ijk_to_ras.copy()
    first[:3, 3] += first[:3, :3] @ [part.start for part in box[::-1]]
    (tmp_path / "one.seg.nii.gz").unlink()
    (tmp_path / "one.labels.json").unlink()
    write_segments(tmp_path / "one.seg.nrrd", LabelMap(labels.voxels[box], first, labels.values))

    case = load_case(tmp_path / "one.nii.gz")
    assert not case.left_out
    assert len(case.structures) == len(by_list.structures) == 3
    for name, points in by_list.structures.items():
        np.testing.assert_allclose(case.structures[name], points, atol=1e-3)
    (entry,) = list_entries(tmp_path)
    for name in labels.values:
        assert read_entry_labels(entry).mask(name).sum() == labels.mask(name).sum()
