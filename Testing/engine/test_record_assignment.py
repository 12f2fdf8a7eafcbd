"""Lesions of a record that were marked in two studies: which are the same, and the record once a person agrees."""

from __future__ import annotations

import numpy as np
import pytest
from followed_scans import EMPTY, MIDDLE, STEPS, moved_map

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
from AnatomicalEmbedding.followup.assignment import assign_in_record
from AnatomicalEmbedding.followup.lesions import MARKED, MERGED
from AnatomicalEmbedding.followup.record import FollowUp

MAPS = {key: moved_map(key) for key in STEPS}


def _mark(record: FollowUp, study: str, across: float, radius: float | None = 5.0) -> FollowUp:
    """Mark a lesion `across` mm to the right of the middle, in the anatomy's frame."""
    place = MIDDLE + STEPS[study] + [across, 0, 0]
    lesion_id = record.free_id()
    record = record.mark(study, place)
    half = np.array([0, radius or 0, 0])
    return record if radius is None else record.measure(lesion_id, study, (place - half, place + half), None)


def test_the_same_lesions_become_one_and_keep_the_earlier_name() -> None:
    record = _mark(_mark(_mark(EMPTY, "a", -40), "a", 20), "b", 21)  # L1, L2; L3
    record = _mark(record, "b", 55, radius=None)  # L4, new
    told = assign_in_record(record, "a", "b", MAPS)
    assert told.same == (("L2", "L3"),)
    assert told.earlier == {"L1": "disappeared", "L2": "same"}
    assert told.later == {"L3": "same", "L4": "new"}
    near = told.nearness["L2", "L3"]
    assert near.off_mm == pytest.approx(1.0, abs=0.5)  # it was marked 1 mm farther to the right
    assert near.is_likely
    after = told.put_into(record)
    assert [lesion.id for lesion in after.lesions] == ["L1", "L2", "L4"]
    assert after.finding("L2", "b") == record.finding("L3", "b")
    assert after.finding("L1", "b") is None  # that it is gone is for a person to say


def test_parts_and_unions_are_noted() -> None:
    record = _mark(_mark(_mark(EMPTY, "a", -50, 6), "a", -32, 7), "a", 40, 14)  # L1, L2 merge; L3 splits
    record = _mark(_mark(_mark(record, "b", -41, 18), "b", 31, 6), "b", 49, 5)  # L4; L5, L6
    told = assign_in_record(record, "a", "b", MAPS)
    assert set(told.nearness) == {*told.same, *told.split, *told.merged}
    after = told.put_into(record)
    kept = dict(told.same)
    assert {kept["L3"]} | {part for part, _ in told.split} == {"L5", "L6"}
    (part,) = (lesion for lesion in after.lesions if lesion.split_from)
    assert part.split_from == "L3"
    (gone,) = (lesion for lesion in after.lesions if "b" in lesion.findings and lesion.findings["b"].state == MERGED)
    assert {gone.id, gone.findings["b"].into} == {"L1", "L2"}
    assert len(after.lesions) == 4


def test_what_is_known_in_both_stays_and_may_have_parts() -> None:
    record = _mark(EMPTY, "a", 0, 14)
    record = record.mark("b", MIDDLE + STEPS["b"] + [9, 0, 0], "L1")
    half = np.array([0, 7.0, 0])
    place = np.array(record.finding("L1", "b").point_ras)
    record = _mark(record.measure("L1", "b", (place - half, place + half), None), "b", -9, 6)
    told = assign_in_record(record, "a", "b", MAPS)
    assert (told.same, told.split) == ((), (("L2", "L1"),))


def test_what_a_person_has_marked_as_gone_is_not_paired() -> None:
    record = _mark(_mark(EMPTY, "a", 0), "b", 1).not_visible("L1", "b")
    told = assign_in_record(record, "a", "b", MAPS)
    assert (told.same, told.earlier, told.later) == ((), {}, {"L2": "new"})


def test_pairs_that_were_distinguished_in_a_third_study_stay_apart_and_the_others_do_not() -> None:
    record = _mark(_mark(EMPTY, "a", -50), "a", 0, 14)  # L1, L2
    record = _mark(_mark(_mark(record, "b", -50), "b", -9, 6), "b", 9, 5)  # L3 is L1; L4 and L5 are parts of L2
    agreed = assign_in_record(record, "a", "b", MAPS).put_into(record)
    assert [lesion.id for lesion in agreed.lesions if lesion.split_from == "L2"] == ["L5"]

    apart = record.mark("c", MIDDLE + STEPS["c"], "L2").not_visible("L4", "c")  # a person: L2 is not L4
    told = assign_in_record(apart, "a", "b", MAPS)
    assert set(told.same) == {("L1", "L3"), ("L2", "L4")}
    found, kept_apart = told.without_conflicts(apart)
    assert (found.same, found.split) == ((("L1", "L3"),), ())
    assert kept_apart == (("L2", "L4"),)
    after = told.put_into(apart)
    assert [lesion.id for lesion in after.lesions] == ["L1", "L2", "L4", "L5"]
    assert not any(lesion.split_from for lesion in after.lesions)
    with pytest.raises(AnatomicalEmbeddingError, match="'L3': is not in this follow-up"):
        told.put_into(after)


def test_parts_take_over_what_kind_of_lesion_the_whole_is() -> None:
    record = _mark(EMPTY, "a", 0, 14).describe("L1", nodal=True, target=False)
    record = _mark(_mark(record, "b", -9, 6), "b", 9, 5)
    after = assign_in_record(record, "a", "b", MAPS).put_into(record)
    assert {(lesion.nodal, lesion.target) for lesion in after.lesions} == {(True, False)}
    assert len(after.lesions) == 2


def test_a_study_with_nothing_marked_and_one_without_a_map() -> None:
    record = _mark(EMPTY, "a", 0)
    assert assign_in_record(record, "a", "b", MAPS).earlier == {"L1": "disappeared"}
    with pytest.raises(AnatomicalEmbeddingError, match="2024-06-01: is not prepared"):
        assign_in_record(record, "a", "b", {"a": MAPS["a"]})


def test_a_lesion_outside_the_patient_is_left_out_with_a_reason() -> None:
    record = _mark(EMPTY, "a", 0).mark("a", (900, 0, 0))
    told = assign_in_record(_mark(record, "b", 0), "a", "b", MAPS)
    assert told.same == (("L1", "L3"),)
    assert "outside the patient" in told.unread["L2"]
    assert told.put_into(_mark(record, "b", 0)).finding("L2", "a").state == MARKED
