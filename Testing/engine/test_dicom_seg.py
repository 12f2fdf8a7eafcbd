"""Test segmentations as DICOM SEG: other programs read the same voxels, and a DICOM checker accepts them."""

from dataclasses import replace

import numpy as np
import pydicom
import pytest
from cli_runs import assert_refused
from dicom_series import write_ct_series
from report_checks import check
from scan_files import voxel_positions

from AnatomicalEmbedding.dicom.outlines import read_dicom_labels
from AnatomicalEmbedding.dicom.segmentations import write_box_seg, write_label_seg
from AnatomicalEmbedding.dicom.source import read_source
from AnatomicalEmbedding.scan.boxes import read_rois
from AnatomicalEmbedding.scan.geometry import RAS_FROM_LPS, rotations, transform_points
from AnatomicalEmbedding.scan.label_map import LabelMap
from AnatomicalEmbedding.scan.volume import Volume

highdicom = pytest.importorskip("highdicom")
NAMES = ("liver", "kidney_left", "L\u00e4sion \u816b\u7624 " + "x" * 60)


def tilted(volume: Volume) -> Volume:
    """Turn a scan about R and S."""
    about_x, _, about_z = rotations(np.array([0.2, 0.0, 0.3]))
    matrix = np.eye(4)
    matrix[:3, :3] = about_x @ about_z
    return replace(volume, ijk_to_ras=matrix @ volume.ijk_to_ras)


def labelled(labels: np.ndarray, ijk_to_ras: np.ndarray, names=NAMES) -> LabelMap:
    return LabelMap(
        labels, ijk_to_ras, {name: number for number, name in enumerate(names, start=1)}
    )


def masks_of(phantom) -> np.ndarray:
    """A label map of two organs, and of a small cube that no vocabulary names."""
    number = {name: value for value, name in phantom.label_names.items()}
    labels = np.zeros(phantom.labels.shape, np.uint8)
    for n, name in enumerate(NAMES[:2], start=1):
        labels[phantom.labels == number[name]] = n
    labels[1:3, 1:3, 1:3] = 3
    return labels


def places_of(path, segment: int) -> np.ndarray:
    """RAS mm of the voxels of a segment, as highdicom reads them, sorted."""
    volume = highdicom.seg.segread(path).get_volume(
        segment_numbers=[segment], combine_segments=True, relabel=True
    )
    return sorted_mm(transform_points(RAS_FROM_LPS @ volume.affine, np.argwhere(volume.array)))


def sorted_mm(points: np.ndarray) -> np.ndarray:
    return np.array(sorted(points.round(2).tolist()))


@pytest.fixture(scope="module")
def ct(phantom_pair, tmp_path_factory):
    """A folder with the DICOM series of the second torso."""
    folder = tmp_path_factory.mktemp("seg") / "patient"
    write_ct_series(folder, phantom_pair[1].volume)
    return folder


@pytest.mark.parametrize("turned", [False, True])
def test_highdicom_reads_the_same_voxels_at_the_same_places(phantom_pair, tmp_path, turned):
    volume = phantom_pair[1].volume
    labels = masks_of(phantom_pair[1])
    if turned:
        volume = tilted(volume)
    write_ct_series(tmp_path / "ct", volume, SliceThickness=None)
    path = tmp_path / "outlines.dcm"
    write_label_seg(labelled(labels, volume.ijk_to_ras), read_source("ct", tmp_path / "ct"), path)
    for number in (1, 2, 3):
        true = transform_points(volume.ijk_to_ras, np.argwhere(labels == number)[:, ::-1])
        assert np.abs(places_of(path, number) - sorted_mm(true)).max() < 0.02
    assert check(path, "Segmentation") == []


def test_segments_have_names_codes_and_their_images(phantom_pair, ct, tmp_path):
    source = read_source("ct", ct)
    labels = masks_of(phantom_pair[1])
    write_label_seg(labelled(labels, phantom_pair[1].volume.ijk_to_ras), source, tmp_path / "a.dcm")
    found = highdicom.seg.segread(tmp_path / "a.dcm")
    liver, kidney, other = map(found.get_segment_description, (1, 2, 3))
    assert (liver.segment_label, liver.segmented_property_type.value) == ("liver", "10200004")
    assert kidney.segmented_property_type.value == "64033007"
    side = kidney.SegmentedPropertyTypeCodeSequence[0].SegmentedPropertyTypeModifierCodeSequence[0]
    assert (side.CodeValue, side.CodeMeaning) == ("7771000", "Left")
    assert (other.segment_label, other.segmented_property_type.meaning) == (
        NAMES[2].encode()[:64].decode(),
        "Tissue",
    )
    # each frame names the slice that it covers, and no slice without outlines has a frame
    used = {
        each.SOPInstanceUID
        for each in source.slices
        if labels[_k_of(each, phantom_pair[1].volume)].any()
    }
    named = [
        each.DerivationImageSequence[0].SourceImageSequence[0]
        for each in found.PerFrameFunctionalGroupsSequence
    ]
    assert {each.ReferencedSOPInstanceUID for each in named} == used
    assert (found.PatientID, found.StudyInstanceUID) == ("P1", source.slices[0].StudyInstanceUID)


def _k_of(header, volume: Volume) -> int:
    place = np.array([header.ImagePositionPatient], dtype=float) * (-1, -1, 1)
    return round(transform_points(volume.ras_to_ijk, place)[0, 2])


def test_boxes_may_overlap_and_are_no_outlines(phantom_pair, ct, tmp_path):
    volume = phantom_pair[1].volume
    middle = volume.bounds_ras.mean(axis=0)
    boxes = {
        "liver": np.stack([middle - 50, middle + 50]),
        "spleen": np.stack([middle, middle + 80]),
    }
    write_box_seg(boxes, volume.shape, volume.ijk_to_ras, read_source("ct", ct), tmp_path / "b.dcm")
    centres = voxel_positions(volume.shape, volume.ijk_to_ras).reshape(-1, 3)
    for number, box in enumerate(boxes.values(), start=1):
        true = centres[((centres >= box[0]) & (centres <= box[1])).all(axis=1)]
        assert np.array_equal(places_of(tmp_path / "b.dcm", number), sorted_mm(true))
    liver = highdicom.seg.segread(tmp_path / "b.dcm").get_segment_description(1)
    assert (liver.segment_label, liver.segmented_property_category.value) == (
        "liver box",
        "309825002",
    )
    assert list(read_dicom_labels(tmp_path / "b.dcm", volume.shape, volume.ijk_to_ras).values) == [
        "liver box",
        "spleen box",
    ]
    assert check(tmp_path / "b.dcm", "Segmentation") == []


def test_localizers_copies_and_private_attributes_are_left_out(phantom_pair, tmp_path):
    volume = phantom_pair[1].volume
    files = write_ct_series(
        tmp_path / "ct", volume, PatientComments="private", OperatorsName="Some^One"
    )
    scout = pydicom.dcmread(files[0])
    scout.ImageType = ["ORIGINAL", "PRIMARY", "LOCALIZER"]
    scout.SOPInstanceUID = "1.2.3"
    scout.ImageOrientationPatient = [0, 1, 0, 0, 0, -1]
    scout.save_as(tmp_path / "ct" / "scout.dcm")
    (tmp_path / "ct" / "copy.dcm").write_bytes(files[1].read_bytes())
    source = read_source("ct", tmp_path / "ct")
    assert len(source.slices) == volume.shape[0]
    write_label_seg(
        labelled(masks_of(phantom_pair[1]), volume.ijk_to_ras), source, tmp_path / "a.dcm"
    )
    written = str(pydicom.dcmread(tmp_path / "a.dcm"))
    assert "private" not in written
    assert "Some^One" not in written


# -- the commands ------------------------------------------------------------------------------------------------------


@pytest.fixture
def cached(ct, monkeypatch):
    monkeypatch.setenv("ANATEMB_CACHE", str(ct.parent / "cache"))


@pytest.mark.usefixtures("cached")
def test_locate_writes_its_boxes(anatemb, ct, tmp_path):
    words = ("--structures", "liver,kidney_left", "--no-report", "--device", "cpu")
    outcome = anatemb("locate", ct, "-o", tmp_path, "--dicom", *words)
    assert outcome.code == 0, outcome.err
    boxes = read_rois(tmp_path / "patient.boxes.mrk.json")
    assert list(boxes) == ["liver", "kidney_left"]
    for number, box in enumerate(boxes.values(), start=1):
        places = places_of(tmp_path / "patient.boxes.dcm", number)
        # one voxel
        assert np.abs(np.stack([places.min(axis=0), places.max(axis=0)]) - box).max() < 4.0
    assert check(tmp_path / "patient.boxes.dcm", "Segmentation") == []


@pytest.mark.usefixtures("cached")
def test_crop_shows_its_boxes_and_pastes_outlines_back(anatemb, ct, phantom_pair, tmp_path):
    words = ("--structures", "liver,kidney_left", "--device", "cpu", "--dicom")
    outcome = anatemb("crop", ct, "-o", tmp_path / "crops", "--separate", *words)
    assert outcome.code == 0, outcome.err
    for number, name in enumerate(("liver", "kidney_left"), start=1):
        crop = Volume.read(tmp_path / "crops" / f"patient_{name}.nii.gz")
        places = places_of(tmp_path / "crops" / "patient_crop.seg.dcm", number)
        true = voxel_positions(crop.shape, crop.ijk_to_ras).reshape(-1, 3)
        assert np.abs(places - sorted_mm(true)).max() < 0.02
    labels = replace(
        phantom_pair[1].volume,
        voxels=np.where(masks_of(phantom_pair[1]) == 1, 7, 0).astype(np.int16),
    )
    labels.write(tmp_path / "patient_own.nii.gz")
    (tmp_path / "patient_own.labels.json").write_text('{"7": "liver"}')
    back = ("--paste-back", tmp_path / "patient_own.nii.gz", "-o", tmp_path / "whole")
    outcome = anatemb("crop", ct, *back, *words)
    assert outcome.code == 0, outcome.err
    true = transform_points(labels.ijk_to_ras, np.argwhere(labels.voxels)[:, ::-1])
    assert np.array_equal(places_of(tmp_path / "whole" / "patient_own.seg.dcm", 1), sorted_mm(true))
    for path in (
        tmp_path / "crops" / "patient_crop.seg.dcm",
        tmp_path / "whole" / "patient_own.seg.dcm",
    ):
        assert check(path, "Segmentation") == []


def test_a_scan_that_is_not_dicom_is_refused(anatemb, phantom_pair, tmp_path):
    phantom_pair[1].volume.write(tmp_path / "ct.nii.gz")
    outcome = anatemb(
        "locate", tmp_path / "ct.nii.gz", "-o", tmp_path / "out", "--dicom", "--device", "cpu"
    )
    assert_refused(outcome, "ct.nii.gz", "no DICOM slices", "leave out --dicom")
