"""Test proposals in two studies of one patient, bent by a known transform: matched first, then registered."""

import numpy as np
import pytest
from follow_up_bench import FollowUpBench
from scans import add_bent_copy, add_patient, bent_copy, finish, make_store, patient, relate

from AnatomicalEmbedding.followup.export import CSV, HTML, RECORD, export
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


def test_a_proposal_settles_when_the_correspondence_is_ready_unless_a_person_has_reviewed_it(
    reading,
):
    earlier, later = reading.keys
    for name in PLACES:
        reading.logic.mark(later, tuple(inside(name)))
    assert reading.finding(earlier, "L1").state == PROPOSED
    reading.logic.apply(FollowUp.confirm, "L2", earlier)
    confirmed = reading.finding(earlier, "L2").point_ras
    relate(reading.relations, 300.0)
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
    relate(reading.relations, 300.0)
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
    # the kept query has no image to compare
    assert np.linalg.norm(np.subtract(found.point_ras, before)) < 6.0


def test_axes_drawn_after_the_place_was_confirmed_are_offered(reading):
    earlier, later = reading.keys
    point = inside(PLACES[0])
    reading.logic.mark(later, tuple(point))
    reading.logic.apply(FollowUp.confirm, "L1", earlier)
    reading.logic.measure(
        "L1", later, (tuple(point - [9.0, 0.0, 0.0]), tuple(point + [9.0, 0.0, 0.0])), None
    )
    offered = reading.finding(earlier, "L1").size
    assert offered.long_mm == pytest.approx(18, abs=3)
    assert not offered.confirmed
    reading.logic.undo()
    assert not reading.finding(earlier, "L1").size.axes


@pytest.fixture
def strangers(scene, map_folder):
    """Scans of two people without DICOM, followed as one patient."""
    made = FollowUpBench(scene, make_store(scene, map_folder))
    for number in range(2):
        add_patient(number)
    made.keys = made.open()
    made.logic.prepare()
    finish(made.store)
    yield made
    made.close()


def test_two_people_are_not_followed_as_one_in_silence(strangers, scene, tmp_path):
    one, other = strangers.keys
    strangers.logic.mark(one, tuple(patient(0).points_ras["carina"]))
    relate(strangers.relations, 300.0)
    guess = strangers.finding(other).guess
    assert guess.status == "uncertain"
    assert guess.doubt.startswith("two patients: ")
    assert "one patient" in guess.doubt.partition(":")[2]
    files, _ = export(strangers.logic.record, tmp_path, {}, {}, "patient", (CSV, HTML, RECORD))
    assert all(guess.doubt.partition(";")[0] in path.read_text() for path in files)
    points = strangers.list_in(other)
    assert guess.doubt in points.GetNthControlPointDescription(0)
    strangers.relations.say(list(strangers.logic.volumes.values()), isOne=False)
    strangers.open()
    assert list(strangers.logic.volumes) == [one], "each of them is a patient of their own"
