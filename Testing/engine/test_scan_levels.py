"""Test the levels of vertebrae, discs, ribs and slices, and the command levels."""

import json
from dataclasses import replace

import numpy as np
import pytest
from cli_runs import assert_refused, rows_of
from exact_patients import exact_map, patient
from exact_spines import spine_of

from AnatomicalEmbedding.scan.markups import read_markups
from AnatomicalEmbedding.scan.points import read_points
from AnatomicalEmbedding.spine.comparison import differing_levels
from AnatomicalEmbedding.words import PlaceFinder
from AnatomicalEmbedding.words.scan_levels import VERTEBRA, find_levels


@pytest.fixture(scope="module")
def shown():
    return patient(404)


@pytest.fixture(scope="module")
def found(shown):
    return find_levels(PlaceFinder(exact_map(shown), shown.volume), shown.volume)


def test_vertebrae_discs_and_slices_have_the_true_levels(shown, found):
    middles = {
        name[10:]: point
        for name, point in shown.points_ras.items()
        if name.startswith("vertebrae_")
    }
    vertebrae = {
        place.name[10:]: (k, place.point_ras)
        for k, place in found.places
        if place.name.startswith(VERTEBRA)
    }
    assert {"T10", "T12", "L1", "L3", "L5"} <= vertebrae.keys()
    for name in ("T10", "T12", "L1", "L3", "L5"):
        k, point = vertebrae[name]
        assert abs(point[2] - middles[name][2]) < 9
        assert k == round((shown.volume.ras_to_ijk @ [*point, 1])[2])
        assert name == next(each.level for each in found.slices if each.slice == k)
    discs = {
        place.name: place.point_ras[2]
        for _, place in found.places
        if place.name.startswith("disc_")
    }
    for upper, lower in (("T12", "L1"), ("L1", "L2"), ("L3", "L4")):
        assert middles[lower][2] < discs[f"disc_{upper}_{lower}"] < middles[upper][2]
    assert [each.slice for each in found.slices] == sorted({each.slice for each in found.slices})


def test_without_an_end_of_the_spine_both_levels_are_named(found):
    """The exact map has no organs, so the scan shows no sacrum, no lung apices and no skull base."""
    third = next(place for _, place in found.places if place.name == "vertebrae_L3")
    assert third.levels in ("L3 or L4", "L2 or L3")
    assert third.status == "uncertain"
    remark = next(each.remark for each in found.slices if each.level == "L3")
    assert remark == f"the level is not certain: {third.levels}"
    assert "no sacrum" in found.basis
    assert "not certain" in found.basis
    assert all(each.remark for each in found.slices)


def test_ribs_lie_in_the_true_ribs(shown, found):
    ribs = [place for _, place in found.places if place.name.startswith("rib_")]
    values = {name: value for value, name in shown.label_names.items()}
    ijk = np.rint([(shown.volume.ras_to_ijk @ [*place.point_ras, 1])[:3] for place in ribs]).astype(
        int
    )
    right = [
        shown.labels[k, j, i] == values.get(rib.name)
        for rib, (i, j, k) in zip(ribs, ijk, strict=True)
    ]
    assert len(ribs) >= 8
    assert np.mean(right) >= 0.6


def test_the_command_writes_tables_points_and_a_page(anatemb, real_data, tmp_path):
    scan = real_data / "dev" / "ts_example.nii.gz"
    outcome = anatemb("levels", scan, "-o", tmp_path, "--device", "cpu", "--json")
    assert outcome.code == 0
    (answer,) = json.loads(outcome.out)["scans"]
    assert answer["basis"].startswith("numbered from S1")
    rows = {row["place"]: row for row in rows_of(tmp_path / "levels.csv")}
    # S of the labels' middles, RAS mm
    heights = {"L1": 386.0, "L2": 352.0, "L3": 315.0, "L4": 279.0, "L5": 242.0}
    for name, s in heights.items():
        assert abs(float(rows[f"vertebrae_{name}"]["s"]) - s) < 5
        assert rows[f"vertebrae_{name}"]["remark"] == ""
    levels = {
        int(row["slice"]): row["level"] for row in rows_of(tmp_path / "ts_example.slices.csv")
    }
    assert levels[int(rows["vertebrae_L3"]["slice"])] == "L3"
    assert len(read_markups(tmp_path / "ts_example.levels.mrk.json")) == 3
    assert len(read_points(tmp_path / "ts_example.levels.mrk.json")) == len(rows)
    page = (tmp_path / "ts_example.levels.html").read_text(encoding="utf-8")
    assert "L3 vertebra</h2>" in page
    assert f"slice {rows['vertebrae_L3']['slice']}</div>" in page


def test_a_scan_without_a_spine_is_refused(anatemb, place, tmp_path):
    """The small weights are not trained, so their map shows no spine."""
    outcome = anatemb(
        "levels", place.target, "-o", tmp_path / "levels", "--no-report", *place.model
    )
    assert_refused(outcome, "target", "too little of the spine")
    assert not (tmp_path / "levels").exists()


def with_spine(*names: str, chances: float = 0.99):
    return spine_of(names, chances)


def test_the_level_at_a_height_names_its_vertebra_its_chance_and_the_two_candidates():
    spine = spine_of(("L1", "L2", "L3"))  # 390 to 300 mm
    level = spine.level_at(345.0)
    assert (level.vertebra, level.chance, level.text, level.doubt) == (
        "L2",
        pytest.approx(0.99),
        "L2",
        "",
    )
    assert spine.level_at(299.0) is None
    assert spine.level_at(390.0) is None, "the upper boundary belongs to the vertebra above"
    lower = np.array([[0.0, 0.6, 0.4]] * 3)  # perhaps one level nearer the feet
    doubtful = replace(spine, chances=lower).level_at(345.0)
    assert (doubtful.vertebra, doubtful.text, doubtful.possible) == ("L2", "L2 or L3", ["L2", "L3"])
    assert replace(spine, chances=lower[:, [2, 1, 0]]).level_at(345.0).text == "L1 or L2"


def test_no_level_is_certain_if_the_scan_shows_no_end_of_the_spine():
    """The lowest ribs are no end: some people have one pair of ribs more or fewer."""
    for anchors in ((), ("ribs",)):
        level = replace(spine_of(("L1", "L2", "L3")), anchors=anchors).level_at(345.0)
        assert level.vertebra == "L2"
        assert " or " in level.text


def test_levels_of_one_point_in_two_scans_contradict_each_other():
    one = with_spine("T12", "L1", "L2", "L3")
    other = with_spine("L1", "L2", "L3", "L4")
    # in L1 and in L2
    at_spine = np.array([10.0, 0.0, 375.0])
    in_liver = np.array([80.0, 0.0, 375.0])
    assert differing_levels(one, at_spine, other, at_spine, 4.0) == ("L1", "L2")
    assert differing_levels(one, at_spine, one, at_spine, 4.0) is None
    assert differing_levels(one, in_liver, other, in_liver, 4.0) is None, (
        "an organ moves by one vertebra with breath"
    )
    lower = in_liver - [0.0, 0.0, 30.0]
    assert differing_levels(one, in_liver, other, lower, 4.0) == ("L1", "L3")
    assert differing_levels(one, at_spine, other, at_spine, 20.0) is None, (
        "the place may be 20 mm higher"
    )
    assert differing_levels(one, at_spine, None, at_spine, 4.0) is None
    assert differing_levels(None, at_spine, one, at_spine, 4.0) is None
