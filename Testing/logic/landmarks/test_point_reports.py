"""Test the structured reports of points and lines: pydicom and highdicom read what the scene shows."""

from types import SimpleNamespace

import numpy as np
import pytest
import slicer
from dicom_series import import_slices, write_ct_series
from landmark_bench import NAMES
from report_checks import check
from scans import add_patient, add_transform, patient, turned

from AnatomicalEmbedding.dicom.sr import read_any_points

highdicom = pytest.importorskip("highdicom")


@pytest.fixture
def reports(scene):  # imported once the kit has put slicer.i18n in place
    from AnatomicalEmbeddingLib.landmarks import PointReports

    return PointReports


@pytest.fixture
def target(bench, tmp_path, monkeypatch):
    """A template and a target from DICOM, the target below a transform, and a target without DICOM. Gives the first
    target."""
    template, first, plain = (add_patient(n, name) for n, name in enumerate("ABC"))
    moved = add_transform(bench.scene, turned(20.0, (30.0, 0.0, 8.0)))
    first.SetAndObserveTransformNodeID(moved.GetID())
    files = {}
    for number, node in enumerate((template, first)):
        paths = write_ct_series(tmp_path / node.GetName(), patient(number).volume)
        files |= import_slices(node, paths)
    database = SimpleNamespace(isOpen=True, fileForInstance=files.get)
    monkeypatch.setattr(slicer, "dicomDatabase", database, raising=False)
    bench.ready(template, first, plain)
    return first


def groups_of(path):
    assert check(path) == []
    return highdicom.sr.srread(path).content.get_image_measurement_groups()


def test_each_scan_from_dicom_gets_a_report_of_the_points_that_it_shows(
    bench, target, reports, tmp_path
):
    ids = [bench.place(name) for name in NAMES]
    bench.logic.setByHand(ids[1], target, np.array(bench.found(ids[1], target)) + 4.0)
    bench.logic.setNotVisible(ids[2], target)
    sentences = reports.writeReports(bench.logic, tmp_path)
    assert sentences.endswith("B_Landmarks.sr.dcm.\nWithout DICOM files, and left out: C.")
    written = read_any_points(tmp_path / "A_Landmarks.sr.dcm")
    assert written.labels == NAMES
    true = [patient(0).points_ras[name] for name in NAMES]
    np.testing.assert_allclose(written.points_ras, true, atol=1e-3)

    answers = read_any_points(tmp_path / "B_Landmarks.sr.dcm")
    assert answers.labels == NAMES[:2]
    node = bench.logic.answersIn(target).node  # its coordinates are those of the scan
    places = [node.GetNthControlPointPosition(n) for n in range(2)]
    np.testing.assert_allclose(answers.points_ras, places, atol=1e-3)
    answer = bench.answer(ids[0], target)
    assert answers.descriptions == (answer.text, "placed by hand")
    groups = [groups_of(tmp_path / f"{scan}_Landmarks.sr.dcm") for scan in "AB"]
    errors = [[item.value for item in group.get_measurements()] for group in groups[1]]
    assert errors == [[pytest.approx(answer.errorMm, abs=0.01)], []]
    uids = [[group.tracking_uid for group in scan] for scan in groups]
    assert uids[1] == uids[0][:2]  # one point has one UID
