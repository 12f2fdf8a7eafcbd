"""Test the command `anatemb followup`, called as a user calls it."""

import csv
from pathlib import Path

import numpy as np
import pytest
from cli_runs import assert_refused

from AnatomicalEmbedding.errors import PointsError
from AnatomicalEmbedding.followup.lesion_lists import read_lesions
from AnatomicalEmbedding.followup.lesions import CONFIRMED, MARKED, PROPOSED
from AnatomicalEmbedding.followup.record import FollowUp
from AnatomicalEmbedding.followup.record_file import read_record, write_record
from AnatomicalEmbedding.scan.markups import control_point, markup, write_file
from AnatomicalEmbedding.scan.volume import Volume

pytestmark = pytest.mark.usefixtures("kept_maps", "by_maps")


DATES = ("--date", "2024-01-05", "--date", "2024-03-02")


def keys_of(record: FollowUp) -> list[str]:
    return [study.key for study in record.studies]


def test_writes_a_record_a_table_and_a_page(anatemb, place, expected, tmp_path: Path) -> None:
    out = tmp_path / "new" / "out"
    outcome = anatemb(
        "followup", place.template, place.points, place.target, "-o", out, *DATES, *place.model
    )
    assert (outcome.code, outcome.err) == (0, "")
    assert sorted(path.name for path in out.iterdir()) == [
        "patient.csv",
        "patient.followup.json",
        "patient.html",
    ]
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


@pytest.fixture
def three(place, tmp_path: Path) -> list[Path]:
    """Scans of three years, all called ct.nii.gz."""
    first, second = (Volume.read(path) for path in (place.template, place.target))
    last = Volume(first.voxels[:-1], first.ijk_to_ras)
    paths = [tmp_path / f"y{n}" / "ct.nii.gz" for n in range(3)]
    for path, volume in zip(paths, (first, second, last), strict=True):
        volume.write(path)
    return paths


def dated(*years: int) -> list[str]:
    return [word for year in years for word in ("--date", f"{year}-01-01")]


def test_a_year_later_nothing_moves_to_another_scan(
    anatemb, place, three, expected, tmp_path: Path
) -> None:
    base = ("--no-report", *place.model)
    words = (three[0], place.points, three[1], "-o", tmp_path / "out")
    assert anatemb("followup", *words, *base, *dated(2023, 2024)).code == 0
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


def test_a_record_is_replaced_only_where_it_is_continued(anatemb, place, tmp_path: Path) -> None:
    scans = (place.template, place.points, place.target)
    words = ("followup", *scans, "-o", tmp_path, "--no-report", *place.model)
    path = tmp_path / "patient.followup.json"
    assert anatemb(*words).code == 0
    record = read_record(path)
    write_record(path, record.confirm("L2", keys_of(record)[1]))
    kept = path.read_bytes()
    assert_refused(
        anatemb(*words), f"{path}: this record would be overwritten", f"add --record {path}"
    )
    assert path.read_bytes() == kept
    assert anatemb(*words, "--record", path).code == 0
    assert read_record(path).finding("L2", keys_of(record)[1]).state == CONFIRMED


def test_lines_bring_their_long_axes_and_half_a_line_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "lesions.mrk.json"
    ends = [control_point(1, "", [-5.0, -10.0, 3.0]), control_point(2, "", [-5.0, 10.0, 3.0])]
    write_file(
        path,
        [
            markup("Line", "liver", ends),
            markup("Fiducial", "F", [control_point(1, "lung", [0, 0, 0])]),
        ],
    )
    line, point = read_lesions(path)
    assert (line.name, line.point_ras, line.long_axis) == (
        "liver",
        (5, 0, 3),
        ((5, 10, 3), (5, -10, 3)),
    )
    assert (point.name, point.long_axis) == ("lung", None)
    write_file(path, [markup("Line", "liver", ends[:1])])
    with pytest.raises(PointsError, match=r"lesions\.mrk\.json: the line 'liver' has only one end"):
        read_lesions(path)


def test_wrong_arguments_are_refused_before_any_work(anatemb, place, tmp_path: Path) -> None:
    base = ("followup", place.template, place.points, place.target, "-o", tmp_path / "out")
    assert_refused(
        anatemb(*base, "--date", "2024-01-05"), "--date", "1 dates are given for 2 scans"
    )
    assert_refused(
        anatemb(*base, "--date", "5.1.2024", "--date", "2024-03-02"),
        "write each date as YYYY-MM-DD",
    )
    assert_refused(
        anatemb(*base, "--record", tmp_path / "no.followup.json"),
        "no.followup.json",
        "no such file",
    )
    assert not (tmp_path / "out").exists()
