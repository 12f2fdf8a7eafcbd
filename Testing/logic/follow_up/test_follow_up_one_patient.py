"""Test proposals in two studies of one patient, bent by a known transform: matched first, then registered."""

import numpy as np
import pytest
from follow_up_bench import FollowUpBench
from scans import add_bent_copy, add_patient, bent_copy, finish, make_store, patient

from AnatomicalEmbedding.followup.lesions import CONFIRMED, PROPOSED
from AnatomicalEmbedding.followup.record import FollowUp

PLACES = ("liver_dome", "diaphragm_dome_right")


@pytest.fixture
def reading(scene, map_folder):
    """The bent copy is the later study: the true places of its points in the earlier study are known exactly."""
    made = FollowUpBench(scene, make_store(scene, map_folder))
    made.study("20230101", volume=add_patient(0, "Earlier"))
    made.study("20240101", volume=add_bent_copy())
    made.keys = made.open()
    made.logic.prepare()
    finish(made.store)
    yield made
    made.close()


def inside(name: str) -> np.ndarray:
    """A point of the bent copy, 25 mm below a known point of patient 0."""
    return patient(0).points_ras[name] - [0.0, 0.0, 25.0]


def off_mm(reading, lesion: str, point: np.ndarray) -> float:
    found = reading.finding(reading.keys[0], lesion).point_ras
    return float(np.linalg.norm(found - bent_copy().to_original(point[None])[0]))


def test_a_proposal_settles_when_the_correspondence_is_ready_unless_a_person_has_reviewed_it(reading):
    earlier, later = reading.keys
    for name in PLACES:
        reading.logic.mark(later, tuple(inside(name)))
    assert reading.finding(earlier, "L1").state == PROPOSED
    reading.logic.apply(FollowUp.confirm, "L2", earlier)
    confirmed = reading.finding(earlier, "L2").point_ras
    finish(reading.store, 300.0, correspondences=True)
    assert off_mm(reading, "L1", inside(PLACES[0])) < 3.0
    assert reading.finding(earlier, "L2").state == CONFIRMED
    assert reading.finding(earlier, "L2").point_ras == confirmed
    reading.logic.undo()
    assert reading.finding(earlier, "L2").state == PROPOSED
    assert off_mm(reading, "L2", inside(PLACES[1])) < 3.0


def test_both_ends_of_an_axis_are_carried(reading):
    earlier, later = reading.keys
    point = inside(PLACES[0])
    axis = np.array([point - [9.0, 0.0, 0.0], point + [9.0, 0.0, 0.0]])
    reading.logic.mark(later, tuple(point))
    reading.logic.measure("L1", later, tuple(map(tuple, axis)), None)
    finish(reading.store, 300.0, correspondences=True)
    size = reading.finding(earlier, "L1").size
    apart = np.linalg.norm(np.array(size.long_axis) - bent_copy().to_original(axis), axis=1)
    assert apart.max() < 3.0
    assert not size.confirmed


def test_a_lesion_is_proposed_when_its_study_was_removed(reading, scene):
    earlier, later = reading.keys
    reading.logic.mark(later, tuple(inside(PLACES[0])))
    kept = reading.logic.record
    assert kept.finding("L1", later).query
    before = reading.finding(earlier, "L1").point_ras
    reading.delete(reading.logic.volumes[later])
    reading.logic.apply(FollowUp.forget, "L1", earlier)
    found = reading.finding(earlier, "L1")
    assert (found.state, found.guess.source) == (PROPOSED, later)
    assert np.linalg.norm(np.subtract(found.point_ras, before)) < 6.0  # the kept query has no image to compare
