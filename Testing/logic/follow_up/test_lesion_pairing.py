"""Lesions marked in two studies separately: the offer in sentences, and one step once a person agrees."""

import pytest
from follow_up_bench import FollowUpBench
from scans import add_patient, finish, make_store, patient

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
from AnatomicalEmbedding.followup.lesions import MARKED, MERGED


@pytest.fixture
def pairing(scene):
    from AnatomicalEmbeddingLib.followup import Pairing as Pairing

    return Pairing


@pytest.fixture
def apart(scene, map_folder):
    """Two studies, prepared; carina and liver dome marked in the prior, carina and a kidney's pole in the current."""
    made = FollowUpBench(scene, make_store(scene, map_folder))
    for number, day in enumerate(("20230101", "20240101")):
        made.study(day, volume=add_patient(number, f"CT {day}"))
    made.keys = made.open()
    made.logic.prepare()
    finish(made.store)
    for number, names in enumerate((("carina", "liver_dome"), ("carina", "kidney_left_lower_pole"))):
        for name in names:
            mark(made, number, name)
    yield made
    made.close()


def mark(bench, number, name, off=(0.0, 0.0, 0.0), radius=None):
    x, y, z = (float(a) + b for a, b in zip(patient(number).points_ras[name], off, strict=True))
    lesion = bench.logic.mark(bench.keys[number], (x, y, z))
    if radius is not None:
        bench.logic.measure(lesion, bench.keys[number], ((x, y - radius, z), (x, y + radius, z)), None)
    return lesion


def test_the_offer_says_what_it_would_do_and_changes_nothing(apart, pairing):
    before = apart.logic.record
    offer = pairing.offerPairing(apart.logic, *reversed(apart.keys))
    (said,) = offer.changes
    assert said.startswith("L1 in 2023-01-01 and L3 in 2024-01-01 are one lesion, L1: ")
    assert " mm apart after matching" in said
    assert offer.notes == (
        "L2 in 2023-01-01 has no partner in 2024-01-01: look there, and press Not visible if it has gone.",
        "L4 in 2024-01-01 is new: nothing marked in 2023-01-01 lies at its place.",
    )
    assert apart.logic.record == before


def test_agreeing_is_one_step(apart, pairing):
    before = apart.logic.record
    marked = apart.finding(apart.keys[1], "L3")
    assert pairing.agree(apart.logic, pairing.offerPairing(apart.logic, *apart.keys))
    assert [lesion.id for lesion in apart.logic.record.lesions] == ["L1", "L2", "L4"]
    assert apart.finding(apart.keys[1], "L1") == marked
    assert apart.labels(apart.keys[1])[0] == "L1"
    apart.logic.undo()
    assert apart.logic.record == before


def test_an_offer_falls_with_what_it_was_made_of(apart, pairing):
    offer = pairing.offerPairing(apart.logic, *apart.keys)
    apart.logic.describe("L1", name="hilar")
    assert offer.stillHolds(apart.logic), "a name changes nothing"
    apart.logic.notVisible("L1", apart.keys[1])
    before = apart.logic.record
    assert not pairing.agree(apart.logic, offer)
    assert apart.reported[-1] == "The lesions have changed since they were compared; press Pair lesions again."
    assert apart.logic.record == before


def test_parts_and_unions_are_reported_and_noted(apart, pairing):
    for lesion in ("L1", "L2", "L3", "L4"):
        apart.logic.remove(lesion)
    mark(apart, 0, "carina", radius=16)  # L1 splits
    for off in (-9.0, 9.0):
        mark(apart, 1, "carina", (0.0, off, 0.0), radius=6)
        mark(apart, 0, "liver_dome", (0.0, off, 0.0), radius=6)
    whole = mark(apart, 1, "liver_dome", radius=16)
    offer = pairing.offerPairing(apart.logic, *apart.keys)
    assert sum(" has split off from L1: " in said for said in offer.changes) == 1
    assert sum(" has merged into " in said for said in offer.changes) == 1
    assert pairing.agree(apart.logic, offer)
    record = apart.logic.record
    assert [lesion.split_from for lesion in record.lesions if lesion.split_from] == ["L1"]
    (gone,) = [each for each in record.lesions if (f := each.findings.get(apart.keys[1])) and f.state == MERGED]
    into = gone.findings[apart.keys[1]].into
    assert record.finding(into, apart.keys[1]).state == MARKED
    assert whole not in [lesion.id for lesion in record.lesions], "it has the number that it had before"


def test_what_was_seen_side_by_side_in_a_third_study_stays_apart(apart, pairing):
    apart.study("20250101", volume=add_patient(2, "CT 20250101"))
    third = apart.open()[2]
    for lesion, x in (("L1", 0.0), ("L3", 30.0)):
        place = patient(2).points_ras["carina"]
        apart.logic.mark(third, (float(place[0]) + x, float(place[1]), float(place[2])), lesion)
    offer = pairing.offerPairing(apart.logic, *apart.keys)
    assert offer.changes == ()
    assert offer.notes[0] == (
        "L1 and L3 look like one lesion, but both were reviewed in another study, so they stay apart."
    )


def test_why_lesions_cannot_be_paired(bench, pair, pairing):
    prior, current = pair
    assert pairing.whyNotPair(bench.logic, prior, "") == "Choose two studies as prior and current first."
    bench.logic.mark(prior, (1.0, 1.0, 1.0))
    assert pairing.whyNotPair(bench.logic, prior, current) == (
        "Pairing is for lesions marked in both studies separately; 2024-01-01 has none of its own."
    )
    bench.logic.mark(current, (1.0, 1.0, 1.0))
    assert pairing.whyNotPair(bench.logic, prior, current) == "2023-01-01: is not prepared; press Prepare scans."
    with pytest.raises(AnatomicalEmbeddingError, match="not prepared"):
        pairing.offerPairing(bench.logic, prior, current)


def test_an_offer_ends_with_the_order_of_the_studies(apart, pairing):
    from AnatomicalEmbeddingLib.followup.StudyOrder import patients, setDate

    offer = pairing.offerPairing(apart.logic, *apart.keys)
    first = apart.logic.volumes[apart.keys[0]]
    setDate(first, "2030-01-01")
    apart.logic.setPatient(patients(apart.scene)[0])
    assert [study.key for study in apart.logic.record.studies] == [*apart.keys[1:], apart.keys[0]]
    assert not offer.stillHolds(apart.logic)
    assert not pairing.agree(apart.logic, offer)
