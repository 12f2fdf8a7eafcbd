"""`anatemb followup` as a user would call it."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from cli_runs import assert_refused
from followup.dicom_series import write_ct_series

from AnatomicalEmbedding.errors import PointsError
from AnatomicalEmbedding.followup.lesion_lists import read_lesions
from AnatomicalEmbedding.followup.lesions import CONFIRMED, MARKED, PROPOSED
from AnatomicalEmbedding.followup.record import FollowUp
from AnatomicalEmbedding.followup.record_file import read_record, write_record
from AnatomicalEmbedding.scan.markups import control_point, markup, write_file
from AnatomicalEmbedding.scan.points import PointList, write_markups
from AnatomicalEmbedding.scan.volume import Volume

pytestmark = pytest.mark.usefixtures("kept_maps")
DATES = ("--date", "2024-01-05", "--date", "2024-03-02")


def _lps(point: np.ndarray) -> list[float]:
    return [-point[0], -point[1], point[2]]


def keys_of(record: FollowUp) -> list[str]:
    return [study.key for study in record.studies]


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
    assert [study.name for study in record.studies] == ["template", "target"]
    prior, current = keys_of(record)
    assert [lesion.name for lesion in record.lesions] == list(place.labels)
    for lesion, here, there in zip(record.lesions, place.points_ras, expected, strict=True):
        assert lesion.findings[prior].state == MARKED
        assert lesion.findings[current].state == PROPOSED
        np.testing.assert_allclose(lesion.findings[prior].point_ras, here, atol=0.01)
        np.testing.assert_allclose(lesion.findings[current].point_ras, there, atol=0.01)
    with (out / "patient.csv").open(newline="", encoding="utf-8-sig") as file:
        flags = {row["study"]: row["flags"] for row in csv.DictReader(file)}
    assert flags["target"] == "UNCONFIRMED"
    assert f"{len(place.labels)} places are proposals" in outcome.out


def test_goes_on_from_a_record_and_keeps_what_a_person_entered(anatemb, place, lines: Path, tmp_path: Path) -> None:
    base = ("--no-report", *place.model)
    assert anatemb("followup", place.template, lines, place.target, "-o", tmp_path, *base).code == 0
    path = tmp_path / "patient.followup.json"
    record = read_record(path)
    current = keys_of(record)[1]
    said = record.not_visible("L1", current).move("L2", current, record.finding("L2", current).point_ras)
    write_record(path, said.describe("L3", site="lung"))
    again = ("followup", place.template, lines, place.target, "--record", path, "-o", tmp_path / "again")
    assert anatemb(*again, *base).code == 0
    after = read_record(tmp_path / "again" / "patient.followup.json")
    assert len(after.lesions) == 3
    for name in ("L1", "L2"):
        assert after.finding(name, current) == said.finding(name, current)
    assert after.lesion("L3").site == "lung"
    assert [lesion.tracking_uid for lesion in after.lesions] == [lesion.tracking_uid for lesion in record.lesions]


@pytest.fixture
def three(place, tmp_path: Path) -> list[Path]:
    """Scans of three years, all called ct.nii.gz."""
    folders = [tmp_path / f"y{n}" for n in range(3)]
    for folder, path in zip(folders, (place.template, place.target, place.template), strict=True):
        folder.mkdir()
        shutil.copy(path, folder / "ct.nii.gz")
    last = Volume.read(place.template)
    Volume(last.voxels[:-1], last.ijk_to_ras).write(folders[2] / "ct.nii.gz")
    return [folder / "ct.nii.gz" for folder in folders]


def dated(*years: int) -> list[str]:
    return [word for year in years for word in ("--date", f"{year}-01-01")]


def test_a_year_later_nothing_moves_to_another_scan(anatemb, place, three, expected, tmp_path: Path) -> None:
    base = ("--no-report", *place.model)
    first = ("followup", three[0], place.points, three[1], "-o", tmp_path / "out", *dated(2023, 2024))
    assert anatemb(*first, *base).code == 0
    path = tmp_path / "out" / "patient.followup.json"
    record = read_record(path)
    before, after = keys_of(record)
    entered = record.confirm("L1", after).not_visible("L2", after)
    write_record(path, entered)
    points = tmp_path / "new.csv"
    points.write_text(f"label,r,a,s\nfresh,{','.join(map(str, expected[3] + [0, 0, 2]))}\n")
    second = ("followup", three[1], points, three[2], "--record", path, "-o", tmp_path / "again")
    outcome = anatemb(*second, *base, *dated(2024, 2025))
    assert (outcome.code, outcome.err) == (0, "")
    now = read_record(tmp_path / "again" / "patient.followup.json")
    assert [study.label for study in now.studies] == ["2023-01-01", "2024-01-01", "2025-01-01"]
    assert [study.name for study in now.studies] == ["y0_ct", "y1_ct", "y2_ct"]
    assert keys_of(now)[:2] == [before, after]
    for lesion in entered.lesions:
        for key in (before, after):
            is_proposed = lesion.findings[key].state == PROPOSED
            assert now.finding(lesion.id, key) == entered.finding(lesion.id, key) or is_proposed
    assert (now.lesions[-1].label, now.lesions[-1].findings[after].state) == ("L5 fresh", MARKED)


def test_one_scan_under_two_names_is_refused(anatemb, place, three, tmp_path: Path) -> None:
    words = ("followup", place.template, place.points, three[0], "-o", tmp_path / "out")
    assert_refused(anatemb(*words), "y0/ct.nii.gz: is the same scan as another one")
    assert not (tmp_path / "out").exists()


def test_a_record_is_replaced_only_where_it_is_continued(anatemb, place, tmp_path: Path) -> None:
    words = ("followup", place.template, place.points, place.target, "-o", tmp_path, "--no-report", *place.model)
    path = tmp_path / "patient.followup.json"
    assert anatemb(*words).code == 0
    record = read_record(path)
    write_record(path, record.confirm("L2", keys_of(record)[1]))
    kept = path.read_bytes()
    assert_refused(anatemb(*words), f"{path}: holds a follow-up and would be replaced", f"add --record {path}")
    assert path.read_bytes() == kept
    assert anatemb(*words, "--record", path).code == 0
    assert read_record(path).finding("L2", keys_of(record)[1]).state == CONFIRMED


def test_a_scan_without_a_date_is_named(anatemb, place, three, tmp_path: Path) -> None:
    write_ct_series(tmp_path / "dicom", Volume.read(place.template), StudyDate="20240601")
    words = ("followup", tmp_path / "dicom", place.points, three[1], "-o", tmp_path / "out", "--no-report", "--json")
    outcome = anatemb(*words, *place.model)
    answer = json.loads(outcome.out)
    assert [study["date"] for study in answer["record"]["studies"]] == ["2024-06-01", None]
    (note,) = answer["notes"]
    assert note.startswith("ct: has no date, so it comes after dicom (2024-06-01), as listed; give --date")


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
    twice = anatemb("followup", prior, place.points, prior, "-o", out / "twice", *place.model)
    assert_refused(twice, "is the same scan as another one")


def test_scans_of_two_patients_are_reported(anatemb, place, tmp_path: Path) -> None:
    for path, patient in ((place.template, "one"), (place.target, "two")):
        write_ct_series(tmp_path / patient, Volume.read(path), PatientID=patient)
    words = ("followup", tmp_path / "one", place.points, tmp_path / "two", "-o", tmp_path / "out", "--no-report")
    outcome = anatemb(*words, "--json", *place.model)
    assert json.loads(outcome.out)["notes"][0].endswith("these are scans of 2 patients (one, two).")


def test_a_structured_report_of_a_dicom_study_brings_its_lesions_back(anatemb, place, tmp_path: Path) -> None:
    pytest.importorskip("highdicom")
    from AnatomicalEmbedding.followup.sr_reading import read_srs

    write_ct_series(tmp_path / "prior", Volume.read(place.template))
    outcome = anatemb(
        "followup", tmp_path / "prior", place.points, place.target, "-o", tmp_path / "out", "--no-report", "--sr",
        *place.model,
    )  # fmt: skip
    assert (outcome.code, outcome.err) == (0, "")
    (report,) = (tmp_path / "out").glob("*.sr.dcm")
    kept, back = read_record(tmp_path / "out" / "patient.followup.json"), read_srs([report])
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
        assert_refused(
            anatemb(*base, "--date", "5.1.2024", "--date", "2024-03-02"),
            "--date",
            "write it as YYYY-MM-DD, such as 2024-03-01",
        )
        assert_refused(anatemb(*base, "--record", tmp_path / "no.followup.json"), "no.followup.json", "no such file")
        assert not (tmp_path / "out").exists()

    def test_a_lesion_outside_the_prior(self, anatemb, place, tmp_path: Path) -> None:
        far = _points(tmp_path, place.points_ras[:2] + [[0, 0, 0], [0, 0, 5000.0]])
        outcome = anatemb("followup", place.template, far, place.target, "-o", tmp_path / "out", *place.model)
        assert_refused(outcome, "lesion 2", "outside", "template.nii.gz")

    def test_half_a_line(self, tmp_path: Path) -> None:
        path = tmp_path / "line.mrk.json"
        write_file(path, [markup("Line", "liver", [control_point(1, "", [0, 0, 0])])])
        with pytest.raises(PointsError, match=r"line\.mrk\.json: line 'liver' has one end only"):
            read_lesions(path)
