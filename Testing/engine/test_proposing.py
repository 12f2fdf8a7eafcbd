"""Test proposed places of lesions in other studies, on maps whose answers are known exactly."""

from dataclasses import replace

import numpy as np
import pytest
from followed_scans import EMPTY, MIDDLE, STEPS, STUDIES, moved_map

from AnatomicalEmbedding.followup.lesions import CONFIRMED, MOVED, PROPOSED
from AnatomicalEmbedding.followup.proposing import find_places
from AnatomicalEmbedding.followup.record import FollowUp
from AnatomicalEmbedding.matching.match import Matches
from AnatomicalEmbedding.registration import BY_REGISTRATION
from AnatomicalEmbedding.relations.relation import MapRelation

MAPS = {key: moved_map(key) for key in STEPS}
PLACES = MIDDLE + np.array([[0.0, 0.0, 0.0], [20.0, -15.0, 25.0], [-30.0, 10.0, -20.0]])


def propose_places(record, study, maps):
    """The record with what `find_places` finds for one study."""
    return find_places(record, [study], maps)[0]


def _marked(study: str = "a") -> FollowUp:
    record = EMPTY
    for place in PLACES:
        record = record.mark(study, place)
    return record


def _assert_at(record: FollowUp, lesion_id: str, study: str, truth: np.ndarray) -> None:
    np.testing.assert_allclose(record.finding(lesion_id, study).point_ras, truth, atol=0.05)


@pytest.mark.parametrize(("source", "target"), [("a", "b"), ("a", "c"), ("b", "a"), ("c", "b")])
def test_places_forward_and_backward_in_time(source: str, target: str) -> None:
    record = propose_places(_marked(source), target, MAPS)
    for number, place in enumerate(PLACES, start=1):
        found = record.finding(f"L{number}", target)
        assert found.state == PROPOSED
        assert (found.guess.source, found.guess.status) == (
            source,
            "uncertain",
        )  # these weights have no calibration
        assert (found.guess.expected_error_mm, found.guess.probability) == (None, None)
        _assert_at(record, f"L{number}", target, place - STEPS[source] + STEPS[target])


def test_a_lesion_comes_from_the_study_nearest_in_time_in_which_it_was_seen() -> None:
    # a person put it 12 mm from where the first study says
    seen_elsewhere = PLACES[0] + STEPS["c"] + [12.0, 0, 0]
    record = EMPTY.mark("a", PLACES[0]).mark("c", seen_elsewhere, "L1")
    found = propose_places(record, "b", MAPS)
    assert found.finding("L1", "b").guess.source == "c"  # 30 days away, the first 152
    _assert_at(found, "L1", "b", PLACES[0] + STEPS["b"] + [12.0, 0, 0])
    undated = record.with_studies([replace(study, date=None) for study in STUDIES])
    # neighbours both: the earlier
    assert propose_places(undated, "b", MAPS).finding("L1", "b").guess.source == "a"
    without = {key: MAPS[key] for key in "ab"}
    assert propose_places(record, "b", without).finding("L1", "b").guess.source == "a"


def test_what_a_person_entered_is_not_asked_again() -> None:
    record = (
        propose_places(_marked(), "b", MAPS)
        .confirm("L1", "b")
        .move("L2", "b", MIDDLE)
        .not_visible("L3", "b")
    )
    assert find_places(record, ["b"], MAPS) == (record, {"b": {}})
    assert [record.finding(f"L{n}", "b").state for n in (1, 2)] == [CONFIRMED, MOVED]


def test_a_lesion_outside_the_patient_has_a_reason_instead_of_a_place() -> None:
    body = np.ones((16, 20, 24), dtype=bool)
    body[:, :, 18:] = False  # air from R = 54 mm on
    maps = {"a": moved_map("a", body), "b": MAPS["b"]}
    record = (
        EMPTY.mark("a", (60.0, 5.0, 396.0))
        .mark("a", (90.0, 5.0, 396.0))
        .mark("a", (500.0, 5.0, 396.0))
    )
    found, reasons = find_places(record, ["b"], maps)
    # on the skin
    assert [lesion.id for lesion in found.lesions if "b" in lesion.findings] == ["L1"]
    assert set(reasons["b"]) == {"L2", "L3"}
    assert (
        reasons["b"]["L2"]
        == "L2: its place in 2024-01-01 is outside the patient; correct this place."
    )


class Grown:
    """A true field: tissue grows by a quarter along R and moves by 7 mm along S, which `match` cannot know."""

    found_by = BY_REGISTRATION
    refusal = ""

    @staticmethod
    def carry(points_ras: np.ndarray) -> np.ndarray:
        return (points_ras - MIDDLE) * [1.25, 1.0, 1.0] + MIDDLE + [0.0, 0.0, 7.0]

    def points(self, points_ras: np.ndarray) -> Matches:
        count = len(points_ras)
        status = np.full(count, "matched")
        error = np.full(count, 2.0)
        share = np.full(count, 0.9)
        return Matches(self.carry(points_ras), np.ones(count), status, error, share, share, share)


def test_a_correspondence_carries_the_place_and_both_ends_of_each_axis() -> None:
    axis = np.array([PLACES[1] - [8, 0, 0], PLACES[1] + [8, 2, 0]])
    record = _marked().measure("L2", "a", tuple(axis), None)
    relations = {("a", "b"): Grown(), ("a", "c"): MapRelation(MAPS["a"], MAPS["c"])}
    found, _ = find_places(record, ["b", "c"], MAPS, relation_of=lambda *pair: relations[pair])
    for number, place in enumerate(PLACES, start=1):
        np.testing.assert_allclose(found.finding(f"L{number}", "b").point_ras, Grown.carry(place))
        _assert_at(found, f"L{number}", "c", place + STEPS["c"])
    grown = found.finding("L2", "b")
    assert (grown.guess.source, grown.guess.status, grown.guess.expected_error_mm) == (
        "a",
        "matched",
        2.0,
    )
    np.testing.assert_allclose(grown.size.long_axis, Grown.carry(axis))
    assert not grown.size.confirmed
    np.testing.assert_allclose(
        found.finding("L2", "c").size.long_axis, axis + STEPS["c"], atol=0.05
    )


class Changed(Grown):
    """A true field of tissue that has changed: the places are known, but the images differ. As in a real field, the
    stated chance that the tissue is the same is high.
    """

    def points(self, points_ras: np.ndarray) -> Matches:
        found = super().points(points_ras)
        return replace(
            found, status=np.full(len(found), "uncertain"), present=np.full(len(found), 0.97)
        )


def guess_in_b(maps, relation):
    """What is said of the first lesion, which was marked in study "a", in study "b"."""
    record = EMPTY.mark("a", PLACES[0])
    return (
        find_places(record, ["b"], maps, relation_of=lambda *_: relation)[0]
        .finding("L1", "b")
        .guess
    )


def test_an_uncertain_proposal_says_why() -> None:
    assert (guess_in_b(MAPS, Grown()).status, guess_in_b(MAPS, Grown()).doubt) == ("matched", "")
    assert (guess_in_b(MAPS, Changed()).status, guess_in_b(MAPS, Changed()).doubt) == (
        "uncertain",
        "tissue changed",
    )
    refused = guess_in_b(
        MAPS, MapRelation(MAPS["a"], MAPS["b"], refusal="the scans seem to show two people.")
    )
    assert (refused.status, refused.doubt) == (
        "uncertain",
        "two patients: the scans seem to show two people.",
    )
    air = np.ones((16, 20, 24), dtype=bool)
    air[6:] = False  # no body from S = 372 mm on, where the lesion would lie
    nowhere = guess_in_b({**MAPS, "b": moved_map("b", air)}, Grown())
    assert (nowhere.status, nowhere.doubt) == ("uncertain", "not in the body")


def test_axes_drawn_after_a_place_was_confirmed_are_offered_there() -> None:
    record = propose_places(EMPTY.mark("a", PLACES[0]), "b", MAPS)
    record = record.confirm("L1", "b").move("L1", "b", PLACES[0] + [3.0, 0, 0])
    axis = PLACES[0] - [8, 0, 0], PLACES[0] + [8, 2, 0]
    measured = record.measure("L1", "a", axis, None)
    for relation, stretch in (
        (MapRelation(MAPS["a"], MAPS["b"]), [1, 1, 1]),
        (Grown(), [1.25, 1, 1]),
    ):
        found, _ = find_places(
            measured, ["b"], MAPS, relation_of=lambda *_, relation=relation: relation
        )
        finding = found.finding("L1", "b")
        assert (finding.state, finding.point_ras) == (MOVED, record.finding("L1", "b").point_ras)
        ends = (np.array(axis) - PLACES[0]) * stretch + finding.point_ras
        np.testing.assert_allclose(finding.size.long_axis, ends)
        assert not finding.size.confirmed
    accepted = found.accept_size("L1", "b")
    longer = accepted.measure("L1", "a", (PLACES[0] - [20, 0, 0], PLACES[0] + [20, 0, 0]), None)
    assert (
        propose_places(longer, "b", MAPS).finding("L1", "b").size
        == accepted.finding("L1", "b").size
    )
