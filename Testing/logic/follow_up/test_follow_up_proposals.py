"""Test when the shipped weights propose places in the studies of a patient, and where."""

import numpy as np
import pytest
from follow_up_bench import FollowUpBench
from scans import add_patient, finish, make_store, patient

from AnatomicalEmbedding.followup.lesions import CONFIRMED, MOVED, PROPOSED
from AnatomicalEmbedding.followup.record import FollowUp

DAYS = ("20230101", "20230601", "20240101")


@pytest.fixture
def reading(scene, map_folder):
    """Three studies, prepared: synthetic people whose landmarks are known stand for one patient."""
    made = FollowUpBench(scene, make_store(scene, map_folder))
    for number, day in enumerate(DAYS):
        made.study(day, volume=add_patient(number, f"CT {day}"))
    made.keys = made.open()
    made.logic.prepare()
    finish(made.store)
    yield made
    made.close()


def place(number, name="carina"):
    return tuple(float(x) for x in patient(number).points_ras[name])


def off_mm(reading, number, name="carina", lesion="L1"):
    return np.linalg.norm(
        np.subtract(reading.finding(reading.keys[number], lesion).point_ras, place(number, name))
    )


def test_a_lesion_marked_anywhere_is_proposed_everywhere_else(reading):
    reading.logic.mark(reading.keys[1], place(1))
    for number in (0, 2):
        found = reading.finding(reading.keys[number])
        assert found.state == PROPOSED
        assert found.guess.source == reading.keys[1]
        assert off_mm(reading, number) < 10
    assert reading.logic.history.canUndo
    reading.logic.undo()
    assert reading.logic.record.lesions == (), "proposals are no step of their own"


def test_moving_the_source_moves_only_what_nobody_has_looked_at(reading):
    first, second, third = reading.keys
    reading.logic.mark(first, place(0))
    reading.logic.apply(FollowUp.confirm, "L1", second)
    confirmed = reading.finding(second).point_ras
    reading.logic.mark(second, place(1, "heart_apex"), "L1")
    assert reading.finding(second).state == MOVED
    assert off_mm(reading, 2, "heart_apex") < 10, "carried over from the nearest study in time"
    reading.logic.undo()
    assert reading.finding(second).state == CONFIRMED
    assert reading.finding(second).point_ras == confirmed
    assert off_mm(reading, 2) < 10
    assert reading.finding(third).state == PROPOSED


def test_a_proposal_falls_with_its_ground(reading):
    first, second, _third = reading.keys
    reading.logic.mark(first, place(0))
    reading.logic.apply(FollowUp.not_visible, "L1", first)
    assert reading.finding(second) is None, "nobody sees the lesion anywhere"
    reading.logic.undo()
    assert reading.finding(second).state == PROPOSED
