"""What the viewer's follow-up is made of, without a browser: origins of scans, axes."""

import numpy as np
import pytest

pytest.importorskip("trame_slicer", reason="runs in an environment with trame-slicer[standalone]; `make test` makes it")

import slicer
import slicer.util
from AnatomicalEmbeddingViewer.logic.demo_follow_up import axes_of
from AnatomicalEmbeddingViewer.logic.origins import UNKNOWN, Origin, origin_in, place
from AnatomicalEmbeddingViewer.logic.session import Limits
from AnatomicalEmbeddingViewer.web.uploads import make_reader
from followup.dicom_series import write_ct_series
from scans import patient
from trame_slicer.core import SlicerApp

from AnatomicalEmbedding.scan.volume import Volume
from AnatomicalEmbeddingLib.followup.StudyOrder import patients

MATRIX = np.diag([1.5, 1.5, 2.0, 1.0])


@pytest.fixture
def scene(monkeypatch):
    made = SlicerApp().scene
    monkeypatch.setattr(slicer, "mrmlScene", made, raising=False)
    return made


def volume_of(voxels) -> Volume:
    return Volume(np.asarray(voxels, np.int16), MATRIX, name="scan")


def add(scene, name: str, origin: Origin):
    node = slicer.util.addVolumeFromArray(np.zeros((4, 4, 4), np.int16), MATRIX, name=name)
    place(scene, node, origin)
    return node


def test_an_upload_leaves_its_headers_and_no_pixels(tmp_path):
    import pydicom

    folder = tmp_path / "upload-1"
    scan = patient(0).volume
    paths = write_ct_series(folder, scan, PatientID="X7", StudyDate="20240203")
    for number, path in enumerate(paths, 1):
        path.rename(folder / f"{number:05d}.dcm")
    ((_volume, origin),) = make_reader(folder, [f"{n}.dcm" for n in range(len(paths))], Limits())(lambda: False)
    assert (origin.patient_id, origin.patient_name, origin.date) == ("X7", "Test Patient", "20240203")
    assert not folder.exists()
    assert len(origin.files) == len(scan.voxels)
    assert {path.parent for path in origin.files} == {origin.kept}
    assert origin.kept.parent == tmp_path
    headers = [pydicom.dcmread(path) for path in origin.files]
    assert {str(header.SeriesInstanceUID) for header in headers} == {origin.series_uid}
    assert not any("PixelData" in header for header in headers)


def test_files_that_are_no_dicom_and_other_series_are_passed_over(tmp_path):
    one = write_ct_series(tmp_path, volume_of(np.zeros((3, 4, 4))), SeriesInstanceUID="1.2.3")
    write_ct_series(tmp_path, volume_of(np.zeros((3, 4, 4))), SeriesInstanceUID="1.2.4")
    (tmp_path / "notes.dcm").write_bytes(b"no DICOM")
    assert set(origin_in(tmp_path, "1.2.3").files) == set(one)
    assert origin_in(tmp_path, "1.9") == UNKNOWN


def test_patients_and_dates_are_where_slicer_looks_for_them(scene):
    first = add(scene, "B", Origin("P1", "Ann", "1.1", "1.1.1", "20240301", "081500"))
    add(scene, "A", Origin("P1", "Ann", "1.2", "1.2.1", "20230301"))
    add(scene, "other", Origin("P2", "Bo", "1.3", "1.3.1", "20220301"))
    add(scene, "file", Origin(given_date="2021-05-06"))
    found = {each.name: [(s.volume.GetName(), s.dateText) for s in each.studies] for each in patients(scene)}
    assert found == {
        "Ann": [("A", "2023-03-01"), ("B", "2024-03-01")],
        "Bo": [("other", "2022-03-01")],
        "": [("file", "2021-05-06")],
    }
    assert next(each for each in patients(scene) if first in each.volumes).uid == "P1"


def test_patients_without_an_id_are_not_made_one(scene):
    add(scene, "one", Origin("", "", "1.1", "1.1.1", "20240301"))
    add(scene, "two", Origin("", "", "1.2", "1.2.1", "20230301"))
    (nobody,) = patients(scene)
    assert (nobody.name, nobody.uid) == ("", "")
    assert [study.dateText for study in nobody.studies] == ["2023-03-01", "2024-03-01"]


@pytest.mark.parametrize(("half", "angle"), [((14.0, 9.0), 0.0), ((12.0, 8.0), 0.6)])
def test_axes_of_an_ellipsoid(half, angle):
    middle = np.array([60.0, 66.0, 50.0])
    k, j, i = np.indices((50, 90, 90))
    away = np.stack([i, j, k], axis=-1) * (1.5, 1.5, 2.0) - middle
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    along = away[..., :2] @ turn
    inside = (along[..., 0] / half[0]) ** 2 + (along[..., 1] / half[1]) ** 2 + (away[..., 2] / 10) ** 2 < 1
    axes = axes_of(volume_of(np.where(inside, 60, -60)), tuple(middle), half[0])
    for (one, other), radius, direction in zip(axes, half, turn.T, strict=True):
        step = np.subtract(other, one)
        assert np.linalg.norm(step) == pytest.approx(2 * radius, abs=2.0)
        assert abs(step[:2] @ direction) > 0.97 * np.linalg.norm(step)
        assert np.linalg.norm(np.mean((one, other), axis=0) - middle) < 1.5
