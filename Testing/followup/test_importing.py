"""Test adding a second record: entries of a person stay, all others are added, and differences are reported."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st
from record_steps import STUDIES, records, steps, taken

from AnatomicalEmbedding.followup.importing import add_record
from AnatomicalEmbedding.followup.lesions import PROPOSED, Finding, Guess, Study
from AnatomicalEmbedding.followup.record import FollowUp
from AnatomicalEmbedding.followup.study_inputs import same_studies

LONG, SHORT = ((0.0, 0.0, 0.0), (0.0, 20.0, 0.0)), ((0.0, 5.0, 0.0), (8.0, 5.0, 0.0))
LATER = Study("d", "scan d", date(2025, 1, 1))


@pytest.fixture
def base(empty: FollowUp) -> FollowUp:
    """Two lesions marked in the first study, and proposed in the second."""
    marked = empty.mark("a", (1, 1, 1)).mark("a", (2, 2, 2))
    return marked.propose("b", {name: Finding(PROPOSED, (3, 3, 3), Guess("matched", "a")) for name in ("L1", "L2")})


@st.composite
def sessions(draw: st.DrawFn) -> tuple[FollowUp, FollowUp]:
    """Two sessions that continue the same record."""
    here = there = draw(records())
    for step in draw(st.lists(steps, max_size=6)):
        here = taken(here, step)
    for step in draw(st.lists(steps, max_size=6)):
        there = taken(there, step)
    return here, there


@given(records())
def test_adding_a_record_to_itself_or_an_empty_one_changes_nothing(record) -> None:
    assert add_record(record, record) == (record, ())
    assert add_record(record, FollowUp()) == (record, ())
    assert add_record(FollowUp(), record)[0].lesions == record.lesions


@given(sessions())
def test_entries_of_a_person_stay_and_every_other_finding_is_added_or_named(both) -> None:
    here, there = both
    found, named = add_record(here, there)
    assert add_record(found, there) == (found, named)
    ids = {lesion.tracking_uid: lesion.id for lesion in found.lesions}
    assert len(set(ids.values())) == len(found.lesions)
    for lesion in here.lesions:
        for key, finding in lesion.findings.items():
            now = found.finding(ids[lesion.tracking_uid], key)
            assert not finding.reviewed or (now.state, now.point_ras) == (finding.state, finding.point_ras)
    for lesion in there.lesions:
        for key, finding in lesion.findings.items():
            lesion_id = ids[lesion.tracking_uid]
            now = found.finding(lesion_id, key)
            is_named = f"{lesion_id} in {found.study(key).label}" in named
            assert is_named or not finding.reviewed or now.state == finding.state or now.visible == finding.visible


def test_a_different_entry_stays_and_is_named(base) -> None:
    here = base.not_visible("L1", "b").move("L2", "b", (4, 4, 4))
    there = base.confirm("L1", "b").move("L2", "b", (4, 4, 5)).mark("c", (9, 9, 9), "L2")
    found, named = add_record(here, there)
    assert found.lesion("L1") == here.lesion("L1")
    assert found.finding("L2", "b").point_ras == (4, 4, 4)
    assert found.finding("L2", "c").point_ras == (9, 9, 9)
    assert named == ("L1 in 2024-03-05", "L2 in 2024-03-05")


def test_a_report_in_single_precision_states_the_same(base) -> None:
    here = base.confirm("L1", "b").measure("L1", "b", LONG, None)
    there = base.mark("b", (3.00001, 3, 3), "L1").measure("L1", "b", ((0.0, 0.0, 0.0), (0.0, 20.00001, 0.0)), None)
    assert add_record(here, there) == (here, ())


@pytest.mark.parametrize(
    ("mine", "theirs", "size", "differing"),
    [
        (None, (LONG, SHORT), (LONG, SHORT), ()),
        ((LONG, None), (LONG, SHORT), (LONG, None), ()),
        ((SHORT, None), (LONG, SHORT), (SHORT, None), ("L1 in 2024-01-05",)),
    ],
    ids=["not measured here", "one axis here", "measured differently"],
)
def test_a_size_is_added_where_there_is_none(base, mine, theirs, size, differing) -> None:
    here = base if mine is None else base.measure("L1", "a", *mine)
    found, named = add_record(here, base.measure("L1", "a", *theirs))
    measured = found.finding("L1", "a").size
    assert ((measured.long_axis, measured.short_axis), measured.confirmed) == (size, True)
    assert named == differing


def test_a_merger_with_a_lesion_that_is_not_there_is_left_out(base) -> None:
    """It would count as 0 mm, which no person stated."""
    there = base.confirm("L1", "b").merge("L2", "b", "L1")
    found, named = add_record(base.not_visible("L1", "b"), there)
    assert found.finding("L2", "b") == base.finding("L2", "b")
    assert named == ("L1 in 2024-03-05", "L2 in 2024-03-05")
    assert add_record(base.move("L1", "b", (5, 5, 5)), there)[0].finding("L2", "b").into == "L1"
    here, there = (FollowUp(STUDIES, base.lesions).forget(one, "b") for one in ("L1", "L2"))
    loop, _named = add_record(here.merge("L2", "b", "L1"), there.merge("L1", "b", "L2"))
    assert (loop.finding("L2", "b").into, loop.finding("L1", "b")) == ("L1", None)


def test_ids_and_keys_follow_the_record(empty, base) -> None:
    one = empty.with_studies([replace(study, series_uid=f"1.{n}") for n, study in enumerate(STUDIES)])
    one = one.mark("a", (7, 7, 7))
    other = base.with_studies([replace(study, key=f"x{study.key}") for study in one.studies])
    other = replace(other, lesions=tuple(
        replace(lesion, findings={f"x{key}": f for key, f in lesion.findings.items()}) for lesion in base.lesions
    ))  # fmt: skip
    other = other.propose("xc", {"L1": Finding(PROPOSED, (3, 3, 3), Guess("matched", "xa"))})
    other = other.confirm("L1", "xb").merge("L2", "xb", "L1").describe("L2", split_from="L1")
    both = add_record(one, other)[0]
    ids = {lesion.tracking_uid: lesion.id for lesion in both.lesions}
    first, second = (ids[lesion.tracking_uid] for lesion in other.lesions)
    assert (both.studies, both.lesions[0]) == (one.studies, one.lesions[0])
    assert (first, second) == ("L3", "L2")
    assert (both.finding(second, "b").into, both.lesion(second).split_from) == (first, first)
    assert both.finding(first, "c").guess.source == "a"


@pytest.mark.parametrize(
    ("mine", "theirs", "result", "differing"),
    [
        ({}, {"name": "dome", "site": "liver"}, {"name": "dome", "site": "liver"}, ()),
        ({"name": "apex"}, {"name": "dome"}, {"name": "apex"}, ("kind of L1",)),
        ({"site": "kidney_left"}, {"site": "left kidney"}, {"site": "kidney_left"}, ()),
        ({"target": False}, {}, {"target": False}, ("kind of L1",)),
    ],
)
def test_words_are_added_where_there_are_none(base, mine, theirs, result, differing) -> None:
    found, named = add_record(base.describe("L1", **mine), base.describe("L1", **theirs))
    lesion = found.lesion("L1")
    assert {name: getattr(lesion, name) for name in result} == result
    assert named == differing


def test_studies_stay_in_order_and_get_dates() -> None:
    here = FollowUp().with_studies([Study("a", "a"), Study("b", "b", date(2024, 7, 1)), Study("u", "u")])
    there = FollowUp().with_studies([Study("e", "e", date(2023, 1, 1)), Study("a", "a", date(2024, 1, 1))])
    both = add_record(here, there)[0]
    assert [study.key for study in both.studies] == ["e", "a", "b", "u"]
    assert both.studies[1].date == date(2024, 1, 1)


HERE = (Study("k1", "prior"), Study("k2", "renamed", series_uid="1.2"), Study("k3", "else", date(2024, 5, 1)))
THERE = Study("x", "prior", date(2024, 1, 1))


@pytest.mark.parametrize(
    ("here", "there", "same"),
    [
        (HERE, (THERE, Study("y", "now", series_uid="1.2")), {"x": "k1", "y": "k2"}),
        (HERE, (Study("k3", "prior"), Study("y", "no name", series_uid="9.9")), {"k3": "k3"}),
        ((*HERE, Study("k4", "prior")), (THERE,), {}),
        ((*HERE, Study("k4", "prior", date(2024, 1, 2))), (THERE,), {"x": "k1"}),
        (HERE, (THERE, Study("y", "prior")), {}),
        (HERE, (Study("x", "else", date(2024, 6, 1)),), {}),
        ((replace(HERE[0], study_uid="2.1"),), (replace(THERE, study_uid="2.2"),), {}),
        ((Study("x", "scan_1"),), (Study("y", "scan_2"),), {}),
        ((Study("x", "xs"),), (Study("y", "yt"),), {}),
    ],
    ids=[
        "by name and by series", "by key before name", "two here of a name", "the date tells two apart",
        "two there of a name", "another day", "another DICOM study", "a number that belongs to the name", "other names",
    ],
)  # fmt: skip
def test_studies_are_the_same_by_key_or_series_or_by_a_name_without_doubt(here, there, same) -> None:
    assert same_studies(here, there) == same
