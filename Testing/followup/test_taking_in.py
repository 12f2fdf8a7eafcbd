"""What comes from an earlier session: what a person has said here stays, the other record fills in the rest."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from record_steps import STUDIES, records, steps, taken

from AnatomicalEmbedding.followup.lesions import MERGED, NOT_VISIBLE, Guess, Measurement
from AnatomicalEmbedding.followup.merge_records import TakenIn, joined, taken_in
from AnatomicalEmbedding.followup.record import FollowUp, Proposal

LONG, SHORT = ((0.0, 0.0, 0.0), (0.0, 20.0, 0.0)), ((0.0, 5.0, 0.0), (8.0, 5.0, 0.0))


@pytest.fixture
def base(empty: FollowUp) -> FollowUp:
    """Two lesions marked in the first study, and proposed in the second."""
    marked = empty.mark("a", (1, 1, 1)).mark("a", (2, 2, 2))
    return marked.propose("b", {name: Proposal((3, 3, 3), Guess("matched", "a")) for name in ("L1", "L2")})


@st.composite
def sessions(draw: st.DrawFn) -> tuple[FollowUp, FollowUp]:
    """Two that went on from the same record."""
    here = there = draw(records())
    for step in draw(st.lists(steps, max_size=6)):
        here = taken(here, step)
    for step in draw(st.lists(steps, max_size=6)):
        there = taken(there, step)
    return here, there


def cells(record: FollowUp) -> dict:
    """(Tracking UID, study) -> finding."""
    return {(lesion.tracking_uid, key): found for lesion in record.lesions for key, found in lesion.findings.items()}


def by_uid(record: FollowUp, kept) -> set:
    return {(record.lesion(lesion).tracking_uid, study) for lesion, study in kept}


@given(records())
def test_a_record_takes_in_itself_and_nothing_without_change(record):
    assert taken_in(record, record) == TakenIn(record, (), ())
    assert taken_in(record, FollowUp()).record == record
    assert taken_in(FollowUp(), record).record == joined(FollowUp(), record)


@given(sessions())
def test_words_entered_here_stay_and_others_come_or_are_reported(both):
    here, there = both
    found = taken_in(here, there)
    now, mine, theirs = cells(found.record), cells(here), cells(there)
    told = by_uid(found.record, found.kept)
    for cell, said in mine.items():
        if said.reviewed:
            assert replace(now[cell], size=said.size) == said
            assert now[cell].size == said.size or not said.size.confirmed or cell in theirs
            for name in ("long_axis", "short_axis", "volume_ml"):
                assert not said.size.confirmed or getattr(said.size, name) in (None, getattr(now[cell].size, name))
    for cell, said in theirs.items():
        if said.reviewed and not (cell in mine and mine[cell].reviewed):
            came = now.get(cell)
            assert (came is not None and came.state == said.state and came.point_ras == said.point_ras) or (
                said.state == MERGED and cell in told
            )
        elif said.reviewed and not mine[cell].visible and said.visible:
            assert cell in told
    assert told <= {cell for cell, said in theirs.items() if said.reviewed}
    assert now.keys() <= mine.keys() | theirs.keys()


@given(sessions())
def test_what_was_taken_in_is_not_taken_in_again(both):
    here, there = both
    once = taken_in(here, there)
    assert taken_in(once.record, there) == once


@given(sessions())
def test_no_lesion_merges_with_itself_in_the_end(both):
    record = taken_in(*both).record
    for study in record.studies:
        for lesion in record.lesions:
            found = record.finding(record.stands_for(lesion.id, study.key), study.key)
            assert found is None or found.state != MERGED


def test_words_entered_here_stay_where_the_other_has_something_else(base):
    here = base.not_visible("L1", "b").move("L2", "b", (4, 4, 4))
    there = base.confirm("L1", "b").move("L2", "b", (4, 4, 5)).mark("c", (9, 9, 9), "L2")
    found = taken_in(here, there)
    assert found.record.finding("L1", "b").state == NOT_VISIBLE
    assert found.record.finding("L2", "b").point_ras == (4, 4, 4)
    assert found.record.finding("L2", "c").point_ras == (9, 9, 9)
    assert found.kept == (("L1", "b"), ("L2", "b"))


def test_a_place_of_a_person_takes_that_of_a_proposal_and_a_proposal_stays_beside_another(base):
    there = base.move("L1", "b", (4, 4, 4)).propose("b", {"L2": Proposal((8, 8, 8), Guess("matched", "c"))})
    found = taken_in(base, there)
    assert found.record.finding("L1", "b") == there.finding("L1", "b")
    assert found.record.finding("L2", "b") == base.finding("L2", "b")
    assert found.kept == ()


def test_seen_at_the_same_place_is_the_same_word_whoever_found_it(base):
    """A report has places in single precision, and lesions that a person accepted as marked."""
    here = base.confirm("L1", "b").measure("L1", "b", LONG, None)
    there = base.mark("b", (3.00001, 3, 3), "L1").measure("L1", "b", ((0.0, 0.0, 0.0), (0.0, 20.00001, 0.0)), None)
    found = taken_in(here, there)
    assert found.record == here
    assert found.kept == ()


@pytest.mark.parametrize(
    ("mine", "theirs", "size", "kept"),
    [
        (None, (LONG, SHORT), (LONG, SHORT), ()),
        ((LONG, None), (LONG, SHORT), (LONG, SHORT), ()),
        ((LONG, SHORT), (LONG, None), (LONG, SHORT), ()),
        ((SHORT, None), (LONG, SHORT), (SHORT, None), (("L1", "a"),)),
    ],
    ids=["not measured here", "one axis here", "one axis there", "measured otherwise"],
)
def test_sizes_of_the_same_place_come_where_there_are_none(base, mine, theirs, size, kept):
    here = base if mine is None else base.measure("L1", "a", *mine)
    found = taken_in(here, base.measure("L1", "a", *theirs, volume_ml=3.0))
    measured = found.record.finding("L1", "a").size
    assert (measured.long_axis, measured.short_axis) == size
    assert measured.confirmed
    assert measured.volume_ml == (None if kept else 3.0)
    assert found.kept == kept


def test_a_size_comes_from_no_proposal(base):
    """A file may say what this program does not write."""
    lesion = base.lesions[0]
    proposed = replace(lesion.findings["b"], size=Measurement(LONG, SHORT, None, confirmed=True))
    there = FollowUp(STUDIES, (replace(lesion, findings={**lesion.findings, "b": proposed}),))
    here = base.move("L1", "b", (9, 9, 9))
    assert taken_in(here, there).record == here


def test_axes_that_were_only_carried_over_do_not_count_there_nor_stay_here(base):
    carried = {"L1": Proposal((3, 3, 3), Guess("matched", "a"), Measurement(LONG, SHORT))}
    confirmed = base.propose("b", carried).confirm("L1", "b")
    assert taken_in(base.confirm("L1", "b"), confirmed).record == base.confirm("L1", "b")
    found = taken_in(confirmed, base.confirm("L1", "b").measure("L1", "b", SHORT, None))
    assert found.record.finding("L1", "b").size == Measurement(SHORT, None, None, confirmed=True)
    assert found.kept == ()


def test_a_merger_with_what_is_not_seen_here_is_left_out_and_reported(base):
    """Else L2 would count as gone, 0 mm, which nobody has said."""
    there = base.confirm("L1", "b").merge("L2", "b", "L1")
    found = taken_in(base.not_visible("L1", "b"), there)
    assert found.record.finding("L2", "b") == base.finding("L2", "b")
    assert found.kept == (("L1", "b"), ("L2", "b"))
    assert taken_in(base.move("L1", "b", (5, 5, 5)), there).record.finding("L2", "b").into == "L1"


def test_a_merger_comes_with_what_both_say_has_itself_merged(base):
    base = base.mark("a", (9, 9, 9)).merge("L1", "b", "L3")
    there = FollowUp(STUDIES, base.lesions).forget("L1", "b").merge("L2", "b", "L1").merge("L1", "b", "L3")
    found = taken_in(base, there)
    assert found.record.stands_for("L2", "b") == "L3"
    assert found.kept == ()


def test_a_merger_that_both_report_is_not_reported_as_different(base):
    here, there = base.merge("L2", "b", "L1").not_visible("L1", "b"), base.confirm("L1", "b").merge("L2", "b", "L1")
    assert taken_in(here, there).kept == (("L1", "b"),)


def test_mergers_into_each_other_do_not_both_count(base):
    here, there = (FollowUp(STUDIES, base.lesions).forget(one, "b") for one in ("L1", "L2"))
    found = taken_in(here.merge("L2", "b", "L1"), there.merge("L1", "b", "L2"))
    assert found.record.finding("L2", "b").into == "L1"
    assert found.record.finding("L1", "b") is None
    assert found.kept == (("L1", "b"),)


def test_merged_with_another_lesion_than_there_stays_so_and_is_reported(base):
    base = base.mark("a", (9, 9, 9))
    here, there = base.merge("L1", "b", "L2"), base.merge("L1", "b", "L3")
    found = taken_in(here, there)
    assert (found.record, found.kept) == (here, (("L1", "b"),))


def test_a_merger_names_its_lesion_by_the_id_here(empty, base):
    here = empty.mark("a", (7, 7, 7))
    there = base.confirm("L1", "b").merge("L2", "b", "L1")
    found = taken_in(here, there)
    ids = {lesion.tracking_uid: lesion.id for lesion in found.record.lesions}
    one, two = (ids[lesion.tracking_uid] for lesion in there.lesions)
    assert (here.lesions[0].id, one, two) == ("L1", "L3", "L2")
    assert found.record.finding(two, "b").into == one
    assert found.record.lesions[0] == here.lesions[0]


@pytest.mark.parametrize(
    ("mine", "theirs", "result", "is_told"),
    [
        ({}, {"name": "dome", "site": "liver"}, {"name": "dome", "site": "liver"}, False),
        ({"name": "apex"}, {"name": "dome"}, {"name": "apex"}, True),
        ({"site": "kidney_left"}, {"site": "left kidney"}, {"site": "kidney_left"}, False),
        ({"site": "My organ"}, {"site": "my organ "}, {"site": "My organ"}, False),
        ({"target": False}, {}, {"target": False}, True),
        ({}, {"nodal": True}, {"nodal": False}, True),
        ({}, {"split_from": "L2"}, {"split_from": "L2"}, False),
    ],
)
def test_a_lesion_is_described_as_here_and_else_as_there(base, mine, theirs, result, is_told):
    found = taken_in(base.describe("L1", **mine), base.describe("L1", **theirs))
    lesion = found.record.lesion("L1")
    assert {name: getattr(lesion, name) for name in result} == result
    assert found.described == (("L1",) if is_told else ())
