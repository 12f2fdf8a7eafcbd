"""Test pairs of lesions that were marked separately in two studies, and the record after a person accepts."""

import numpy as np
import pytest
from followed_scans import EMPTY, MIDDLE, STEPS, moved_map

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
from AnatomicalEmbedding.followup.assignment import assign_in_record
from AnatomicalEmbedding.followup.record import FollowUp

MAPS = {key: moved_map(key) for key in STEPS}


def _mark(record: FollowUp, study: str, across: float, radius: float | None = 5.0) -> FollowUp:
    """Mark a lesion `across` mm to the right of the middle, in the anatomy's frame."""
    place = MIDDLE + STEPS[study] + [across, 0, 0]
    lesion_id = record.free_id()
    record = record.mark(study, place)
    half = np.array([0, radius or 0, 0])
    return (
        record
        if radius is None
        else record.measure(lesion_id, study, (place - half, place + half), None)
    )


def test_the_same_lesions_become_one_and_keep_the_earlier_name() -> None:
    record = _mark(_mark(_mark(EMPTY, "a", -40), "a", 20), "b", 21)  # L1, L2; L3
    record = _mark(record, "b", 55, radius=None)  # L4, new
    told = assign_in_record(record, "a", "b", MAPS)
    assert told.same == (("L2", "L3"),)
    assert told.earlier == {"L1": "disappeared"}
    assert told.later == {"L4": "new"}
    off_mm, expected_mm = told.distances["L2", "L3"]
    assert off_mm == pytest.approx(1.0, abs=0.5)  # it was marked 1 mm farther to the right
    assert off_mm <= expected_mm
    after = told.put_into(record)
    assert [lesion.id for lesion in after.lesions] == ["L1", "L2", "L4"]
    assert after.finding("L2", "b") == record.finding("L3", "b")
    assert after.finding("L1", "b") is None  # that it is gone is for a person to say


def test_pairs_that_were_distinguished_in_a_third_study_stay_apart_and_the_others_do_not() -> None:
    record = _mark(_mark(EMPTY, "a", -50), "a", 0, 14)  # L1, L2
    record = _mark(_mark(record, "b", -50), "b", -4)  # L3 is L1; L4 may be L2
    assert [
        lesion.id for lesion in assign_in_record(record, "a", "b", MAPS).put_into(record).lesions
    ] == ["L1", "L2"]

    # a person: L2 is not L4
    apart = record.mark("c", MIDDLE + STEPS["c"], "L2").not_visible("L4", "c")
    told = assign_in_record(apart, "a", "b", MAPS)
    assert (told.same, told.apart) == ((("L1", "L3"),), (("L2", "L4"),))
    after = told.put_into(apart)
    assert [lesion.id for lesion in after.lesions] == ["L1", "L2", "L4"]
    with pytest.raises(AnatomicalEmbeddingError, match="'L3': is not in this record"):
        told.put_into(after)
