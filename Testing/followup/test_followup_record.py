"""Test each action on a record: what the action changes, and that everything else stays the same."""

import math

import pytest
from hypothesis import given
from record_steps import IDS, STUDIES, cell_of, proposals, records, steps, taken

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
from AnatomicalEmbedding.followup.lesions import (
    MARKED,
    NOT_VISIBLE,
    PROPOSED,
)
from AnatomicalEmbedding.followup.record import FollowUp

AXIS = ((0.0, 0.0, 0.0), (10.0, 0.0, 0.0))


@given(records(), steps)
def test_a_step_changes_only_the_cell_that_it_is_about(record: FollowUp, step: tuple) -> None:
    lesion_id, study = cell_of(step)
    after = taken(record, step)
    for lesion in record.lesions:
        for key, found in lesion.findings.items():
            if key != study or (lesion_id is not None and lesion.id != lesion_id):
                assert after.finding(lesion.id, key) == found


@given(records(), proposals)
def test_proposals_never_overwrite_what_a_person_entered(record: FollowUp, places: dict) -> None:
    key = record.studies[-1].key
    known = {lesion.id for lesion in record.lesions}
    after = record.propose(key, {i: p for i, p in places.items() if i in known})
    for lesion in record.lesions:
        found = lesion.findings.get(key)
        if found is not None and found.reviewed:
            assert after.finding(lesion.id, key) == found
        elif lesion.id in places:
            proposed = after.finding(lesion.id, key)
            assert proposed.state == PROPOSED
            assert proposed.point_ras == places[lesion.id].point_ras
            assert not proposed.size.confirmed


def test_merged_lesions_are_measured_by_the_one_that_they_went_into(empty: FollowUp) -> None:
    record = (
        empty.mark("a", (0, 0, 0))
        .mark("a", (9, 0, 0))
        .mark("a", (0, 9, 0))
        .mark("b", (4, 0, 0), "L3")
    )
    record = (
        record.mark("b", (1, 1, 1), "L2")
        .merge("L1", "b", target_id="L2")
        .merge("L2", "b", target_id="L3")
    )
    assert [record.stands_for(name, "b") for name in IDS] == ["L3", "L3", "L3"]
    assert [record.stands_for(name, "a") for name in IDS] == list(IDS)
    with pytest.raises(AnatomicalEmbeddingError, match="choose L3"):
        record.merge("L3", "b", target_id="L2")
    with pytest.raises(AnatomicalEmbeddingError, match="into itself"):
        record.merge("L3", "b", target_id="L3")
    with pytest.raises(AnatomicalEmbeddingError, match="as its state is outside"):
        record.outside("L3", "b").merge("L1", "b", target_id="L3")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda r: r.mark("a", (math.nan, 0, 0)), "is not finite"),
        (lambda r: r.mark("z", (0, 0, 0)), "'z'"),
        (lambda r: r.mark("a", (0, 0, 0), "L9"), "'L9'"),
        (lambda r: r.confirm("L1", "c"), "no place in 2024"),
        (lambda r: r.describe("L1", split_from="L1"), "part of itself"),
        (
            lambda r: r.measure("L1", "a", ((1, 2, 3), (1, 2, 3)), None),
            "L1: its long axis is shorter than 0.1 mm; draw",
        ),
        (
            lambda r: r.measure("L1", "a", AXIS, ((1, 2, 3), (1, 2.09, 3))),
            "its short axis is shorter than 0.1 mm",
        ),
        (lambda r: r.with_studies([STUDIES[0], STUDIES[0]]), "same key"),
    ],
)
def test_wrong_steps_are_refused_with_a_reason(empty: FollowUp, wrong, says: str) -> None:
    with pytest.raises(AnatomicalEmbeddingError, match=says):
        wrong(empty.mark("a", (1, 2, 3)))


def test_a_part_of_a_node_is_a_node_and_that_of_a_non_target_no_target(empty: FollowUp) -> None:
    record = empty.mark("a", (1, 2, 3)).mark("b", (4, 5, 6)).mark("a", (7, 8, 9))
    assert record.describe("L2", split_from="L1").lesion("L2").target
    record = record.describe("L1", nodal=True, target=False)
    part = record.describe("L2", split_from="L1")
    assert (part.lesion("L2").nodal, part.lesion("L2").target) == (True, False)
    own = part.describe("L2", nodal=False).describe("L2", name="part", split_from="L1")
    assert not own.lesion("L2").nodal, "what was said of a part since stays"
    given = record.describe("L2", split_from="L1", target=True)
    assert (given.lesion("L2").nodal, given.lesion("L2").target) == (True, True)
    said = record.describe("L2", target=False, nodal=True).describe("L2", split_from="L3")
    assert (said.lesion("L2").nodal, said.lesion("L2").target) == (True, False), (
        "what was said of it before stays"
    )


def test_two_that_are_one_lesion_are_united(empty: FollowUp) -> None:
    record = empty.mark("a", (1, 2, 3)).mark("c", (4, 5, 6)).mark("c", (9, 9, 9))
    record = (
        record.describe("L2", name="liver")
        .describe("L3", split_from="L2")
        .mark("b", (7, 7, 7))
        .not_visible("L1", "b")
    )
    record = record.mark("b", (0, 0, 0), "L3").merge("L4", "b", target_id="L3")
    united = record.unite("L1", "L2")
    assert [lesion.id for lesion in united.lesions] == ["L1", "L3", "L4"]
    one = united.lesion("L1")
    assert one.tracking_uid == record.lesion("L1").tracking_uid
    assert one.name == "liver"
    assert {key: found.state for key, found in one.findings.items()} == {
        "a": MARKED,
        "b": NOT_VISIBLE,
        "c": MARKED,
    }
    assert united.lesion("L3").split_from == "L1"
    assert united.finding("L4", "b").into == "L3"


@given(records())
def test_united_lesions_leave_no_name_of_the_one_that_is_gone(record: FollowUp) -> None:
    if len(record.lesions) < 2:
        return
    one = record.lesions[0].id
    other = record.lesions[1].id
    try:
        united = record.unite(one, other)
    except AnatomicalEmbeddingError:
        return
    for lesion in united.lesions:
        assert other not in (lesion.id, lesion.split_from)
        assert all(found.into not in (other, lesion.id) for found in lesion.findings.values())
