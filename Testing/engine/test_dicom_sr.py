"""Test points as DICOM structured reports: the same mm come back, with codes, errors and the nearest slices."""

import json

import numpy as np
import pydicom
import pytest
import SimpleITK as sitk
from cli_runs import rows_of
from dicom_series import write_ct_series
from report_checks import check

from AnatomicalEmbedding.anatomy.codes import site_codes
from AnatomicalEmbedding.dicom.source import read_source
from AnatomicalEmbedding.dicom.sr import read_any_points, write_points_report
from AnatomicalEmbedding.errors import AnatomicalEmbeddingError, PointsError
from AnatomicalEmbedding.followup.lesion_lists import read_lesions
from AnatomicalEmbedding.scan.points import Measurement, PointList

highdicom = pytest.importorskip("highdicom")


@pytest.fixture(scope="module")
def scans(phantom_pair, tmp_path_factory):
    """DICOM folders of the two torsos."""
    folder = tmp_path_factory.mktemp("sr")
    for phantom, name in zip(phantom_pair, ("prior", "current"), strict=True):
        write_ct_series(folder / name, phantom.volume, PatientID=name)
    return folder


@pytest.fixture
def points(phantom_pair) -> PointList:
    middle = phantom_pair[0].volume.bounds_ras.mean(axis=0)
    places = middle + np.array([[0, 0, 0], [30.123, -20.456, 50.789], [-40, 10, -60]])
    return PointList(
        ("left kidney", "Punkt \u70b9", "L3"),
        places,
        ("matched: expected error 3 mm", "", "uncertain"),
    )


def test_the_same_points_come_back(scans, points, tmp_path):
    source = read_source("prior", scans / "prior")
    write_points_report(points, source, tmp_path / "p.sr.dcm", [3.25, None, 12.0])
    back = read_any_points(tmp_path / "p.sr.dcm")
    assert back.labels == points.labels
    assert back.descriptions == points.descriptions
    assert np.abs(back.points_ras - points.points_ras).max() < 1e-3
    assert check(tmp_path / "p.sr.dcm") == []
    assert [lesion.name for lesion in read_lesions(tmp_path / "p.sr.dcm")] == list(points.labels)


def test_highdicom_reads_codes_errors_and_slices(scans, points, tmp_path, phantom_pair):
    source = read_source("prior", scans / "prior")
    uids = [f"1.2.3.{n}" for n in range(3)]
    write_points_report(points, source, tmp_path / "p.sr.dcm", [3.25, None, 12.0], uids)
    content = highdicom.sr.srread(tmp_path / "p.sr.dcm").content
    (kidney,) = content.get_image_measurement_groups(tracking_uid="1.2.3.0")
    assert kidney.finding_sites[0].value.value == "64033007"
    assert kidney.finding_sites[0].laterality.meaning == "Left"
    assert [each.value for each in kidney.get_measurements()] == [3.25]
    (other,) = content.get_image_measurement_groups(tracking_uid="1.2.3.1")
    assert other.finding_sites == []
    # the slice that a point refers to is at most half a slice away
    slices = {each.SOPInstanceUID: float(each.ImagePositionPatient[2]) for each in source.slices}
    for uid, place in zip(uids, points.points_ras, strict=True):
        (group,) = content.get_image_measurement_groups(tracking_uid=uid)
        near = group.source_images[0].ReferencedSOPSequence[0].ReferencedSOPInstanceUID
        assert abs(slices[near] - place[2]) <= phantom_pair[0].volume.spacing[2] / 2 + 1e-6


def test_measurements_are_groups_without_a_place(scans, points, tmp_path):
    source = read_source("prior", scans / "prior")
    measurements = [
        Measurement("axis", "Line", "length", "mm", 82.256, 9.1, "uncertain"),
        Measurement("Cobb", "Angle", "angle", "deg", 12.5, None, ""),
        Measurement("inlet", "ClosedCurve", "area", "mm2", 4700.0, 300.0, "matched"),
    ]
    write_points_report(points, source, tmp_path / "p.sr.dcm", measurements=measurements)
    assert check(tmp_path / "p.sr.dcm") == []
    assert read_any_points(tmp_path / "p.sr.dcm").labels == points.labels
    content = highdicom.sr.srread(tmp_path / "p.sr.dcm").content
    groups = content.get_image_measurement_groups()[len(points) :]
    stated = [
        [(item.name.meaning, item.value, item.unit.value) for item in group.get_measurements()]
        for group in groups
    ]
    margin = "Half width of the 90 % interval"
    assert stated == [
        [("Length", 82.26, "mm"), (margin, 9.1, "mm")],
        [("Angle", 12.5, "deg")],
        [("Area", 4700.0, "mm2"), (margin, 300.0, "mm2")],
    ]
    assert [group.tracking_identifier for group in groups] == ["axis", "Cobb", "inlet"]
    comments = [
        [item.TextValue for item in group[0].ContentSequence if item.name.meaning == "Comment"]
        for group in groups
    ]
    assert comments == [["uncertain"], [], ["matched"]]


def test_viewers_find_each_point_as_a_pixel_of_its_slice_first(
    scans, points, tmp_path, phantom_pair
):
    """OHIF draws only the first graphic of a group, and no 3-D coordinates."""
    beside = phantom_pair[0].volume.bounds_ras[1] + 20.0
    given = PointList((*points.labels, "beside"), np.vstack([points.points_ras, beside]))
    write_points_report(given, read_source("prior", scans / "prior"), tmp_path / "p.sr.dcm")
    files = {pydicom.dcmread(path).SOPInstanceUID: path for path in (scans / "prior").iterdir()}
    groups = highdicom.sr.srread(tmp_path / "p.sr.dcm").content.get_image_measurement_groups()
    graphics = [
        [item for item in group[0].ContentSequence if "GraphicData" in item] for group in groups
    ]
    assert [[item.ValueType for item in items] for items in graphics] == [
        ["SCOORD", "SCOORD3D"]
    ] * 3 + [["SCOORD3D"]]
    for (shown, _), group, place in zip(graphics[:3], groups, points.points_ras, strict=False):
        uid = shown.ContentSequence[0].ReferencedSOPSequence[0].ReferencedSOPInstanceUID
        assert uid == group.source_images[0].ReferencedSOPSequence[0].ReferencedSOPInstanceUID
        # DICOM counts from the corner of the first pixel
        column, row = np.array(shown.GraphicData) - 0.5
        lps = sitk.ReadImage(files[uid]).TransformContinuousIndexToPhysicalPoint((column, row, 0.0))
        assert np.abs(np.array(lps[:2]) + place[:2]).max() < 1e-3


def test_what_is_no_report_of_points_is_refused(scans, tmp_path):
    with pytest.raises(AnatomicalEmbeddingError, match="not a structured report"):
        read_any_points(next((scans / "prior").iterdir()))
    (tmp_path / "cut.dcm").write_bytes(b"\0" * 128 + b"DICM" + b"\1" * 40)
    with pytest.raises(AnatomicalEmbeddingError, match=r"cut\.dcm: is (not DICOM|DICOM, but)"):
        read_any_points(tmp_path / "cut.dcm")
    with pytest.raises(PointsError, match="no point lies in this scan"):
        write_points_report(
            PointList((), np.zeros((0, 3))), read_source("x", scans / "prior"), tmp_path / "p.dcm"
        )


# -- the commands ------------------------------------------------------------------------------------------------------


@pytest.fixture
def cached(scans, monkeypatch):
    monkeypatch.setenv("ANATEMB_CACHE", str(scans / "cache"))


@pytest.mark.usefixtures("cached")
def test_match_reports_both_scans_and_a_report_gives_the_points(anatemb, scans, points, tmp_path):
    write_points_report(points, read_source("prior", scans / "prior"), tmp_path / "given.sr.dcm")
    words = ("--dicom", "--no-report", "--device", "cpu")
    outcome = anatemb(
        "match",
        scans / "prior",
        tmp_path / "given.sr.dcm",
        scans / "current",
        "-o",
        tmp_path,
        *words,
    )
    assert outcome.code == 0, outcome.err
    rows = [row for row in rows_of(tmp_path / "matches.csv") if row["status"] != "absent"]
    told = read_any_points(tmp_path / "current.sr.dcm")
    assert rows
    assert list(told.labels) == [row["label"] for row in rows]
    table = np.array([[float(row[axis]) for axis in "ras"] for row in rows])
    assert np.abs(told.points_ras - table).max() < 1e-3
    prior, current = (
        highdicom.sr.srread(tmp_path / f"{name}.sr.dcm").content
        for name in ("prior.template", "current")
    )
    for row in rows:  # one anatomical point has one tracking UID
        ids = [
            {
                group.tracking_uid
                for group in content.get_image_measurement_groups()
                if group.tracking_identifier == row["label"]
            }
            for content in (prior, current)
        ]
        assert len(ids[0]) == 1
        assert ids[0] == ids[1]
    for name in ("prior.template", "current"):
        assert check(tmp_path / f"{name}.sr.dcm") == []


@pytest.mark.usefixtures("cached")
def test_levels_reports_vertebrae_with_their_codes(anatemb, scans, tmp_path):
    outcome = anatemb(
        "levels",
        scans / "current",
        "-o",
        tmp_path,
        "--dicom",
        "--no-report",
        "--json",
        "--no-cache",
    )
    assert outcome.code == 0
    (report,) = tmp_path.glob("*.sr.dcm")
    listed = [place for scan in json.loads(outcome.out)["scans"] for place in scan["places"]]
    back = read_any_points(report)
    assert [site_codes(label) for label in back.labels] == [
        site_codes(place["place"]) for place in listed
    ]
    np.testing.assert_allclose(
        back.points_ras, [[place[axis] for axis in "ras"] for place in listed], atol=0.06
    )
    assert check(report) == []
