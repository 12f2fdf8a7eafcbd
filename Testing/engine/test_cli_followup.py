"""`anatemb followup` as a user would call it."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from cli_runs import assert_refused
from followup.dicom_series import write_ct_series

from AnatomicalEmbedding.errors import PointsError
from AnatomicalEmbedding.followup.lesion_lists import read_lesions
from AnatomicalEmbedding.followup.lesions import MARKED, PROPOSED
from AnatomicalEmbedding.followup.record_file import read_record, write_record
from AnatomicalEmbedding.markups import control_point, markup, write_file
from AnatomicalEmbedding.points import PointList, write_markups
from AnatomicalEmbedding.volume import Volume

pytestmark = pytest.mark.usefixtures("kept_maps")
DATES = ("--date", "2024-01-05", "--date", "2024-03-02")


def _lps(point: np.ndarray) -> list[float]:
    return [-point[0], -point[1], point[2]]


@pytest.fixture
def lines(place, tmp_path: Path) -> Path:
    """Two lesions with long axes of 20 mm, drawn as lines, and one as a point."""
    half = np.array([0.0, 10.0, 0.0])
    drawn = [
        markup("Line", name, [control_point(1, "", _lps(p - half)), control_point(2, "", _lps(p + half))])
        for name, p in zip(("liver", "node"), place.points_ras, strict=False)
    ]
    point = markup("Fiducial", "F", [control_point(1, "lung", _lps(place.points_ras[2]))])
    path = tmp_path / "lesions.mrk.json"
    write_file(path, [*drawn, point])
    return path


def test_writes_a_record_a_table_and_a_page(anatemb, place, expected, tmp_path: Path) -> None:
    out = tmp_path / "new" / "out"
    outcome = anatemb("followup", place.template, place.points, place.target, "-o", out, *DATES, *place.model)
    assert (outcome.code, outcome.err) == (0, "")
    assert sorted(path.name for path in out.iterdir()) == ["patient.csv", "patient.followup.json", "patient.html"]
    record = read_record(out / "patient.followup.json")
    assert [study.label for study in record.studies] == ["2024-01-05", "2024-03-02"]
    assert [lesion.name for lesion in record.lesions] == list(place.labels)
    for lesion, here, there in zip(record.lesions, place.points_ras, expected, strict=True):
        assert lesion.findings["template"].state == MARKED
        assert lesion.findings["target"].state == PROPOSED
        np.testing.assert_allclose(lesion.findings["template"].point_ras, here, atol=0.01)
        np.testing.assert_allclose(lesion.findings["target"].point_ras, there, atol=0.01)
    with (out / "patient.csv").open(newline="", encoding="utf-8-sig") as file:
        flags = {row["study"]: row["flags"] for row in csv.DictReader(file)}
    assert flags["target"] == "UNCONFIRMED"
    assert f"{len(place.labels)} places are proposals" in outcome.out


def test_lines_bring_their_long_axes(anatemb, place, lines: Path, tmp_path: Path) -> None:
    words = ("followup", place.template, lines, place.target, "-o", tmp_path, "--no-report", "--json")
    outcome = anatemb(*words, *place.model)
    assert outcome.code == 0
    answer = json.loads(outcome.out)
    assert [Path(path).name for path in answer["files"]] == ["patient.csv", "patient.followup.json"]
    record = read_record(tmp_path / "patient.followup.json")
    assert [lesion.name for lesion in record.lesions] == ["liver", "node", "lung"]
    for lesion, long_mm in zip(record.lesions, (20.0, 20.0, None), strict=True):
        here, there = lesion.findings["template"].size, lesion.findings["target"].size
        assert (here.long_mm, there.long_mm) == pytest.approx((long_mm, long_mm))
        assert here.confirmed == (long_mm is not None)
        assert not there.confirmed


def test_goes_on_from_a_record_and_keeps_what_a_person_said(anatemb, place, lines: Path, tmp_path: Path) -> None:
    base = ("--no-report", *place.model)
    assert anatemb("followup", place.template, lines, place.target, "-o", tmp_path, *base).code == 0
    path = tmp_path / "patient.followup.json"
    record = read_record(path)
    said = record.not_visible("L1", "target").move("L2", "target", record.finding("L2", "target").point_ras)
    write_record(path, said.describe("L3", site="lung"))
    again = ("followup", place.template, lines, place.target, "--record", path, "-o", tmp_path / "again")
    assert anatemb(*again, *base).code == 0
    after = read_record(tmp_path / "again" / "patient.followup.json")
    assert len(after.lesions) == 3
    for name in ("L1", "L2"):
        assert after.finding(name, "target") == said.finding(name, "target")
    assert after.lesion("L3").site == "lung"
    assert [lesion.tracking_uid for lesion in after.lesions] == [lesion.tracking_uid for lesion in record.lesions]


def test_dicom_studies_are_ordered_by_their_dates_and_known_by_their_series(anatemb, place, tmp_path: Path) -> None:
    for path, day, uid in ((place.template, "20240601", "1.2.3"), (place.target, "20240131", "1.2.4")):
        name = path.name.split(".")[0]
        tags = {"StudyDate": day, "SeriesInstanceUID": uid, "StudyInstanceUID": f"{uid}.0"}
        write_ct_series(tmp_path / name, Volume.read(path), **tags)
    prior, earlier, out = tmp_path / "template", tmp_path / "target", tmp_path / "out"
    outcome = anatemb("followup", prior, place.points, earlier, "-o", out, "--no-report", *place.model)
    assert (outcome.code, outcome.err) == (0, "")
    first, second = read_record(out / "patient.followup.json").studies
    assert (first.key, first.series_uid, first.study_uid, first.label) == ("1.2.4", "1.2.4", "1.2.4.0", "2024-01-31")
    assert (second.key, second.label) == ("1.2.3", "2024-06-01")
    twice = anatemb("followup", prior, place.points, prior, "-o", out, *place.model)
    assert_refused(twice, "is the same scan as another one")


def test_a_structured_report_of_a_dicom_study_brings_its_lesions_back(anatemb, place, tmp_path: Path) -> None:
    pytest.importorskip("highdicom")
    from AnatomicalEmbedding.followup.sr_reading import read_sr

    write_ct_series(tmp_path / "prior", Volume.read(place.template))
    outcome = anatemb(
        "followup", tmp_path / "prior", place.points, place.target, "-o", tmp_path / "out", "--no-report", "--sr",
        *place.model,
    )  # fmt: skip
    assert (outcome.code, outcome.err) == (0, "")
    (report,) = (tmp_path / "out").glob("*.sr.dcm")
    kept, back = read_record(tmp_path / "out" / "patient.followup.json"), read_sr(report)
    assert [lesion.tracking_uid for lesion in back.lesions] == [lesion.tracking_uid for lesion in kept.lesions]
    places = np.array([next(iter(lesion.findings.values())).point_ras for lesion in back.lesions])
    assert np.abs(places - place.points_ras).max() < 1e-2
    assert "no DICOM slices of it were given" in outcome.out


def _points(folder: Path, points_ras: np.ndarray) -> Path:
    path = folder / "points.mrk.json"
    write_markups(path, PointList(tuple(f"F-{n}" for n in range(len(points_ras))), points_ras))
    return path


class TestRefusals:
    def test_before_any_work(self, anatemb, place, tmp_path: Path) -> None:
        base = ("followup", place.template, place.points, place.target, "-o", tmp_path / "out")
        assert_refused(anatemb(*base, "--date", "2024-01-05"), "--date", "1 dates for 2 scans")
        assert_refused(anatemb(*base, "--date", "5.1.2024", "--date", "2024-03-02"), "--date", "2024-03-01")
        assert_refused(anatemb(*base, "--record", tmp_path / "no.followup.json"), "no.followup.json", "no such file")
        assert not (tmp_path / "out").exists()

    def test_a_lesion_outside_the_prior(self, anatemb, place, tmp_path: Path) -> None:
        far = _points(tmp_path, place.points_ras[:2] + [[0, 0, 0], [0, 0, 5000.0]])
        outcome = anatemb("followup", place.template, far, place.target, "-o", tmp_path / "out", *place.model)
        assert_refused(outcome, "lesion 2", "outside", "template.nii.gz")

    def test_a_scan_that_is_not_there(self, anatemb, place, tmp_path: Path) -> None:
        words = ("followup", place.template, place.points, place.target, tmp_path / "none.nii.gz", "-o", tmp_path)
        assert_refused(anatemb(*words), "none.nii.gz", "no such file")

    def test_half_a_line(self, tmp_path: Path) -> None:
        path = tmp_path / "line.mrk.json"
        write_file(path, [markup("Line", "liver", [control_point(1, "", [0, 0, 0])])])
        with pytest.raises(PointsError, match=r"line\.mrk\.json: line 'liver' has one end only"):
            read_lesions(path)
