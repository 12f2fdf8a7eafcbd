"""Test outlines in DICOM SEG and RTSTRUCT as labels, on grids that differ from the grid of the outlines."""

import shutil
from pathlib import Path

import numpy as np
import pydicom
import pytest
import SimpleITK as sitk
from dicom_series import write_ct_series
from pydicom.dataset import Dataset
from pydicom.uid import RTStructureSetStorage
from scan_files import dicom_dataset, voxel_positions
from test_dicom_seg import labelled, masks_of

from AnatomicalEmbedding.audit.dataset import list_entries, read_entry_labels
from AnatomicalEmbedding.dicom.outlines import read_dicom_labels
from AnatomicalEmbedding.dicom.segmentations import write_box_seg, write_label_seg
from AnatomicalEmbedding.dicom.source import read_source
from AnatomicalEmbedding.errors import AnatomicalEmbeddingError, PointsError, VolumeError
from AnatomicalEmbedding.scan.geometry import transform_points
from AnatomicalEmbedding.scan.label_map import LabelMap
from AnatomicalEmbedding.scan.volume import Volume
from AnatomicalEmbedding.segmentation.examples import read_examples
from AnatomicalEmbedding.structures.labelled_scans import load_cases
from AnatomicalEmbedding.structures.segments import read_segments, write_segments

pytest.importorskip("highdicom")


def write_structure_set(path: Path, rois: dict[str, list[np.ndarray]], series: str = "") -> None:
    """rois: name -> contours, (n, 3) RAS mm. series: UID of the CT series to which the contours refer."""
    document = dicom_dataset(RTStructureSetStorage, Modality="RTSTRUCT")
    document.StructureSetROISequence = []
    document.ROIContourSequence = []
    if series:
        frame = Dataset()
        study = Dataset()
        outlined = Dataset()
        outlined.SeriesInstanceUID = series
        study.RTReferencedSeriesSequence = [outlined]
        frame.RTReferencedStudySequence = [study]
        document.ReferencedFrameOfReferenceSequence = [frame]
    for number, (name, contours) in enumerate(rois.items(), start=7):
        title = Dataset()
        outline = Dataset()
        title.ROINumber = number
        title.ROIName = name
        outline.ReferencedROINumber = number
        outline.ContourSequence = []
        for contour in contours:
            item = Dataset()
            item.ContourGeometricType = "CLOSED_PLANAR"
            item.NumberOfContourPoints = len(contour)
            item.ContourData = [f"{value:.3f}" for value in (contour * (-1, -1, 1)).ravel()]
            outline.ContourSequence.append(item)
        document.StructureSetROISequence.append(title)
        document.ROIContourSequence.append(outline)
    document.save_as(path, enforce_file_format=True)


def circle(middle: np.ndarray, radius: float, z: float) -> np.ndarray:
    angle = np.linspace(0, 2 * np.pi, 400, endpoint=False)
    return np.column_stack(
        [
            middle[0] + radius * np.cos(angle),
            middle[1] + radius * np.sin(angle),
            np.full(angle.size, z),
        ]
    )


@pytest.fixture(scope="module")
def scan(phantom_pair) -> Volume:
    return phantom_pair[1].volume


@pytest.fixture(scope="module")
def seg(scan, phantom_pair, tmp_path_factory) -> Path:
    """The folder "patient" of a DICOM series, and its outlines in patient.seg.dcm."""
    folder = tmp_path_factory.mktemp("labels")
    write_ct_series(folder / "patient", scan)
    path = folder / "patient.seg.dcm"
    names = ("liver", "kidney_left", "Herd")
    write_label_seg(
        labelled(masks_of(phantom_pair[1]), scan.ijk_to_ras, names),
        read_source("x", folder / "patient"),
        path,
    )
    return path


def test_a_segmentation_has_the_labels_that_were_written(seg, scan, phantom_pair):
    read = read_dicom_labels(seg, scan.shape, scan.ijk_to_ras)
    labels = read.voxels
    values = read.values
    assert values == {"liver": 1, "kidney_left": 2, "Herd": 3}
    assert np.array_equal(labels, masks_of(phantom_pair[1]))


def test_a_segmentation_is_placed_on_another_grid(seg, scan, phantom_pair):
    """Slices from head to feet, rows and columns exchanged, and fewer of each."""
    to_scan = np.array([[0, 1, 0, 9], [1, 0, 0, 4], [0, 0, -1, scan.shape[0] - 3], [0, 0, 0, 1.0]])
    shape = (scan.shape[0] - 6, scan.shape[2] - 12, scan.shape[1] - 8)  # k, j, i
    labels = read_dicom_labels(seg, shape, scan.ijk_to_ras @ to_scan).voxels
    k, j, i = np.indices(shape)
    x, y, z = transform_points(to_scan, np.stack([i, j, k], axis=-1).reshape(-1, 3)).astype(int).T
    assert np.array_equal(labels, masks_of(phantom_pair[1])[z, y, x].reshape(shape))


def test_slices_between_outlines_stay_empty(seg, scan, tmp_path):
    labels = np.zeros(scan.shape, np.uint8)
    labels[[10, 40], 20:30, 20:30] = 1
    source = read_source("x", seg.parent / "patient")
    write_label_seg(labelled(labels, scan.ijk_to_ras, ["liver"]), source, tmp_path / "few.dcm")
    assert np.array_equal(
        read_dicom_labels(tmp_path / "few.dcm", scan.shape, scan.ijk_to_ras).voxels, labels
    )


def test_a_label_without_meaning_is_named_by_its_code(seg, scan, tmp_path):
    renamed = pydicom.dcmread(seg)
    for number, label in enumerate(("Segment_1", "Niere", "left kidney")):
        renamed.SegmentSequence[number].SegmentLabel = label
    renamed.save_as(tmp_path / "a.dcm")
    with pytest.raises(PointsError, match="several structures have the name kidney_left"):
        read_dicom_labels(tmp_path / "a.dcm", scan.shape, scan.ijk_to_ras)
    renamed.SegmentSequence[2].SegmentLabel = "Herd"
    renamed.save_as(tmp_path / "a.dcm")
    assert list(read_dicom_labels(tmp_path / "a.dcm", scan.shape, scan.ijk_to_ras).values) == [
        "liver", "kidney_left", "Herd",
    ]  # fmt: skip


def test_contours_are_filled_inner_contours_are_holes_and_nested_ones_keep_their_voxels(
    scan, tmp_path
):
    middle = scan.bounds_ras.mean(axis=0)
    levels = [transform_points(scan.ijk_to_ras, np.array([[0, 0, k]]))[0, 2] for k in range(20, 30)]
    ring = [circle(middle, radius, z) for z in levels for radius in (61.0, 30.1)]
    step = levels[1] - levels[0]
    fine = [circle(middle, 40.3, z + shift * step) for z in levels for shift in (-0.3, 0.3)]
    between = [circle(middle, r, z + 0.5 * step) for z in levels[:-1] for r in (40.3, 20.2)]
    rois = {
        "Leber": ring,
        "Kidney_L": [circle(middle, 50.2, levels[0])],
        "Fein": fine,
        "Ring": between,
        "empty": [],
    }
    write_structure_set(tmp_path / "rt.dcm", rois)
    labels = read_dicom_labels(tmp_path / "rt.dcm", scan.shape, scan.ijk_to_ras)
    assert set(labels.values) == {"Leber", "kidney_left", "Fein", "Ring"}
    apart = np.linalg.norm(
        (voxel_positions(scan.shape, scan.ijk_to_ras) - middle)[..., :2], axis=-1
    )
    k = np.indices(scan.shape)[0]
    within = (k >= 20) & (k < 30)
    assert np.array_equal(labels.mask("Leber"), within & (apart < 61.0) & (apart > 30.1))
    assert np.array_equal(labels.mask("Fein"), within & (apart < 40.3)), "two planes in each slice"
    ring = (apart < 40.3) & (apart > 20.2)
    slices = [labels.mask("Ring")[number] for number in range(21, 29)]
    assert all(np.array_equal(part, ring[0]) for part in slices), "planes half-way between slices"
    assert np.array_equal(labels.mask("kidney_left"), (k == 20) & (apart < 50.2))


def test_overlapping_segments_of_a_segmentation_keep_their_voxels(seg, scan, tmp_path):
    masks = np.zeros((*scan.shape, 2), np.uint8)
    masks[20:30, 10:40, 10:40, 0] = 1
    masks[22:28, 20:30, 20:30, 1] = 1
    boxes = {}
    for n, name in enumerate(("liver", "spleen")):
        inside = np.argwhere(masks[..., n])[:, ::-1]
        ras = transform_points(scan.ijk_to_ras, inside)
        boxes[name] = np.stack([ras.min(axis=0) - 0.1, ras.max(axis=0) + 0.1])
    write_box_seg(
        boxes,
        scan.shape,
        scan.ijk_to_ras,
        read_source("x", seg.parent / "patient"),
        tmp_path / "boxes.dcm",
    )
    labels = read_dicom_labels(tmp_path / "boxes.dcm", scan.shape, scan.ijk_to_ras)
    for n, name in enumerate(labels.values):
        assert np.array_equal(labels.mask(name), masks[..., n] > 0)


def test_outlines_of_another_scan_and_other_files_are_refused(seg, scan, tmp_path):
    away = scan.ijk_to_ras.copy()
    away[2, 3] += 5000
    with pytest.raises(VolumeError, match="no outline lies in the scan"):
        read_dicom_labels(seg, scan.shape, away)
    with pytest.raises(VolumeError, match="contains no outlines; give a DICOM SEG or RTSTRUCT"):
        read_dicom_labels(next((seg.parent / "patient").iterdir()), scan.shape, scan.ijk_to_ras)
    (tmp_path / "cut.dcm").write_bytes(seg.read_bytes()[:-5000])
    with pytest.raises(AnatomicalEmbeddingError, match=r"cut\.dcm: is not DICOM or is truncated"):
        read_dicom_labels(tmp_path / "cut.dcm", scan.shape, scan.ijk_to_ras)
    steep = circle(scan.bounds_ras.mean(axis=0), 50, 0)
    steep[:, 2] = steep[:, 0]
    write_structure_set(tmp_path / "steep.dcm", {"liver": [steep]})
    with pytest.raises(VolumeError, match="not parallel to the slices"):
        read_dicom_labels(tmp_path / "steep.dcm", scan.shape, scan.ijk_to_ras)


def test_examples_are_read_from_dicom(seg, scan, phantom_pair):
    (example,) = read_examples(seg.parent)
    assert (example.id, example.outlined) == ("patient", ("liver", "kidney_left"))
    assert np.array_equal(example.labels.voxels, masks_of(phantom_pair[1]))
    (case,) = load_cases(seg.parent)
    assert set(case.structures) == {"liver", "kidney_left"}
    at = voxel_positions(scan.shape, scan.ijk_to_ras)[masks_of(phantom_pair[1]) == 1]
    assert case.structures["liver"][0] == pytest.approx(at.mean(axis=0), abs=0.01)


def test_an_audit_reads_outlines_of_the_series_to_which_they_refer(
    anatemb, seg, scan, phantom_pair, tmp_path
):
    shutil.copytree(seg.parent / "patient", tmp_path / "set" / "ct")
    shutil.copy(seg, tmp_path / "set" / "outlines.dcm")
    series = str(read_source("x", tmp_path / "set" / "ct").slices[0].SeriesInstanceUID)
    middle = scan.bounds_ras.mean(axis=0)
    levels = [transform_points(scan.ijk_to_ras, np.array([[0, 0, k]]))[0, 2] for k in range(20, 30)]
    liver = {"Liver": [circle(middle, 60, z) for z in levels]}
    write_structure_set(tmp_path / "set" / "rt.dcm", liver, series)
    write_structure_set(tmp_path / "set" / "alone.dcm", liver, "1.2.3")
    entries = {entry.labels[0].name: entry for entry in list_entries(tmp_path / "set")}
    assert entries.keys() == {"outlines.dcm", "rt.dcm", "alone.dcm"}
    labels = read_entry_labels(entries["outlines.dcm"])
    assert labels.values == {"liver": 1, "kidney_left": 2, "Herd": 3}
    assert np.array_equal(labels.voxels, masks_of(phantom_pair[1]))
    assert read_entry_labels(entries["rt.dcm"]).values == {"liver": 1}
    outcome = anatemb(
        "audit", tmp_path / "set", "-o", tmp_path / "out", "--labels-only", "--no-report"
    )
    assert "alone.dcm: its DICOM series is not in the data set" in outcome.err
    assert outcome.err.count("not audited") == 1


def test_register_carries_nested_structures_whole_with_the_names_of_the_file(
    anatemb, seg, scan, phantom_pair, tmp_path
):
    outer = masks_of(phantom_pair[1]) == 1
    nested = {
        "parotid_right": outer,
        "My Lesion": outer & (np.indices(outer.shape)[2] > np.argwhere(outer)[:, 2].mean()),
    }
    labels = LabelMap.from_masks(nested.items(), scan.shape, scan.ijk_to_ras)
    write_segments(tmp_path / "own.seg.nrrd", labels)
    write_label_seg(labels, read_source("x", seg.parent / "patient"), tmp_path / "own.dcm")
    sitk.WriteTransform(sitk.TranslationTransform(3, (0.0, 0.0, 0.0)), str(tmp_path / "still.tfm"))
    for name in ("own.seg.nrrd", "own.dcm"):
        out = tmp_path / f"from {name}"
        words = ("--transform", tmp_path / "still.tfm", "--labels", tmp_path / name, "-o", out)
        outcome = anatemb("register", seg.parent / "patient", seg.parent / "patient", *words)
        assert outcome.code == 0, outcome.err
        carried = read_segments(out / "labels_on_fixed.seg.nrrd")
        assert list(carried.texts.values()) == list(nested)
        for text, mask in nested.items():
            assert np.array_equal(carried.renamed(carried.texts).mask(text), mask)
        assert "(parotid_right and My Lesion)" in outcome.err
        assert "labels_on_fixed.seg.nrrd all are whole" in outcome.err
