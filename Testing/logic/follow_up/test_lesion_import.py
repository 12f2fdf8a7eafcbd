"""Test the import of lesions from point lists and records of earlier sessions."""

from datetime import date

import pytest
import vtk
from follow_up_bench import LISTS

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
from AnatomicalEmbedding.followup.lesions import MARKED, Study
from AnatomicalEmbedding.followup.record import FollowUp
from AnatomicalEmbedding.followup.record_file import write_record


@pytest.fixture
def importing(scene):
    from AnatomicalEmbeddingLib.followup import FollowUpFiles

    return FollowUpFiles


def add_list(bench, points, name="Points", volume=None):
    """points: label -> world mm."""
    node = bench.scene.AddNewNodeByClass(LISTS, name)
    for label, place in points.items():
        index = node.AddControlPointWorld(vtk.vtkVector3d(*place), label)
        if volume is not None:
            node.SetNthControlPointAssociatedNodeID(index, volume.GetID())
    return node


# -- point lists


def test_points_become_lesions_of_their_study_and_keep_their_names(bench, pair, importing):
    prior, current = pair
    node = add_list(
        bench, {"apex": (1, 2, 3), "dome": (4, 5, 6)}, volume=bench.logic.volumes[current]
    )
    assert importing.studiesOfPoints(bench.logic, node, prior) == [current]
    assert importing.importPoints(bench.logic, node, prior) == [
        "Points: new lesions: L1 apex, L2 dome."
    ]
    assert [lesion.label for lesion in bench.logic.record.lesions] == ["L1 apex", "L2 dome"]
    assert bench.finding(current, "L2").point_ras == (4.0, 5.0, 6.0)
    assert bench.finding(current, "L2").state == MARKED
    assert bench.finding(prior, "L2") is None
    bench.logic.undo()
    assert bench.logic.record.lesions == (), "one step"


# -- files


@pytest.fixture
def dicom(bench):
    """Keys of two studies that know their DICOM series."""
    bench.study("20230101", series="1.2.1")
    bench.study("20240101", series="1.2.2")
    return bench.open()


@pytest.fixture
def load(bench, importing, tmp_path):
    """load(record): import it as a file of an earlier session."""

    def run(record):
        write_record(tmp_path / "old.followup.json", record)
        return importing.importRecord(bench.logic, tmp_path / "old.followup.json")

    return run


def earlier_session(*series, day=date(2023, 1, 1)):
    """A record over the series, under keys of its own, with one lesion in all of them."""
    studies = [Study(f"key {uid}", f"scan {uid}", day, series_uid=uid) for uid in series]
    record = (
        FollowUp()
        .with_studies(studies)
        .mark(studies[0].key, (1.0, 1.0, 1.0))
        .describe("L1", name="apex")
    )
    for study in studies[1:]:
        record = record.mark(study.key, (2.0, 2.0, 2.0), "L1")
    return record


def test_a_record_of_an_earlier_session_is_matched_by_series(bench, dicom, importing, tmp_path):
    write_record(tmp_path / "old.followup.json", earlier_session("1.2.2", "1.2.1"))
    assert importing.importRecord(bench.logic, tmp_path / "old.followup.json") == [
        "old.followup.json: new lesions: L1 apex."
    ]
    assert [study.key for study in bench.logic.record.studies] == dicom
    assert bench.finding(dicom[1]).point_ras == (1.0, 1.0, 1.0)
    assert bench.finding(dicom[0]).point_ras == (2.0, 2.0, 2.0)
    assert bench.labels(dicom[0]) == ["L1 apex"]
    bench.logic.undo()
    assert bench.logic.record.lesions == ()


def test_a_record_does_not_replace_lesions_that_are_marked_here(bench, dicom, load):
    bench.logic.mark(dicom[0], (5.0, 5.0, 5.0))
    before = bench.logic.record
    with pytest.raises(
        AnatomicalEmbeddingError, match=r"old\.followup\.json: this follow-up already has lesions"
    ):
        load(earlier_session("1.2.1"))
    assert bench.logic.record == before


def test_scans_without_series_are_known_by_name_and_get_their_dates(bench, load):
    for name in ("first", "second"):
        bench.study("").SetName(name)
    first, second = bench.open()
    studies = [
        Study("a", "second", date(2024, 5, 6)),
        Study("b", "first"),
        Study("c", "third", date(2020, 1, 1)),
    ]
    old = (
        FollowUp().with_studies(studies).mark("a", (1.0, 1.0, 1.0)).mark("b", (2.0, 2.0, 2.0), "L1")
    )
    assert load(old) == [
        "old.followup.json: new lesions: L1.",
        "Scans that got their date from the file (Undo does not remove the date): second 2024-05-06.",
    ]
    assert bench.open() == [second, first], "the dated one comes first"
    assert [study.date for study in bench.logic.record.studies] == [date(2024, 5, 6), None]
    assert bench.finding(second).point_ras == (1.0, 1.0, 1.0)
    assert bench.finding(first).point_ras == (2.0, 2.0, 2.0)


def test_a_record_of_other_scans_is_refused(bench, dicom, importing, tmp_path):
    write_record(tmp_path / "other.followup.json", earlier_session("9.9"))
    with pytest.raises(
        AnatomicalEmbeddingError, match=r"other\.followup\.json: contains no study of a loaded scan"
    ):
        importing.importRecord(bench.logic, tmp_path / "other.followup.json")
    assert bench.logic.record.lesions == ()
