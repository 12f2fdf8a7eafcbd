"""Test proposed pairs of lesions marked in two studies: accepting all pairs is one step for undo."""

import pytest
from follow_up_bench import FollowUpBench
from scans import add_patient, finish, make_store, patient

from AnatomicalEmbedding.followup.record import FollowUp


@pytest.fixture
def apart(scene, map_folder):
    """Two studies, prepared; carina and liver dome marked in the prior, carina and a kidney's pole in the current."""
    from AnatomicalEmbeddingLib.followup.Pairing import Pairing

    made = FollowUpBench(scene, make_store(scene, map_folder))
    for number, day in enumerate(("20230101", "20240101")):
        made.study(day, volume=add_patient(number, f"CT {day}"))
    made.keys = made.open()
    made.logic.prepare()
    finish(made.store)
    for number, names in enumerate(
        (("carina", "liver_dome"), ("carina", "kidney_left_lower_pole"))
    ):
        for name in names:
            mark(made, number, name)
    made.pairing = Pairing(made.logic)
    made.pairing.setStudies(*made.keys)
    yield made
    made.pairing.close()
    made.close()


def mark(bench, number, name):
    bench.logic.mark(bench.keys[number], tuple(patient(number).points_ras[name].tolist()))


def test_the_offer_changes_nothing_and_agreeing_is_one_step(apart):
    before = apart.logic.record
    marked = apart.finding(apart.keys[1], "L3")
    apart.pairing.begin()
    (sentence,) = apart.pairing.changes
    assert sentence.startswith("L1 in 2023-01-01 and L3 in 2024-01-01 are the same lesion, L1: ")
    gone, new = apart.pairing.notes
    assert gone.startswith("L2 in 2023-01-01 has no matching lesion in 2024-01-01")
    assert new.startswith("L4 in 2024-01-01 is new")
    assert apart.logic.record == before
    assert apart.pairing.agree()
    assert [lesion.id for lesion in apart.logic.record.lesions] == ["L1", "L2", "L4"]
    assert apart.finding(apart.keys[1], "L1") == marked
    apart.logic.undo()
    assert apart.logic.record == before


def test_an_offer_is_withdrawn_when_its_findings_change(apart):
    apart.pairing.begin()
    apart.logic.apply(FollowUp.describe, "L1", name="hilar")
    assert apart.pairing.offer is not None, "a name changes no pair"
    apart.logic.apply(FollowUp.not_visible, "L1", apart.keys[1])
    before = apart.logic.record
    assert not apart.pairing.agree()
    assert apart.logic.record == before


def test_the_reason_why_lesions_cannot_be_paired(bench, pair):
    from AnatomicalEmbeddingLib.followup.Pairing import Pairing

    pairing = Pairing(bench.logic)
    pairing.setStudies(pair[0], "")
    assert pairing.reason == "Choose two studies as prior and current first."
    pairing.setStudies(*pair)
    bench.logic.mark(pair[0], (1.0, 1.0, 1.0))
    assert pairing.reason.startswith("2024-01-01: has no lesion of its own; ")
    bench.logic.mark(pair[1], (1.0, 1.0, 1.0))
    assert pairing.reason == "2023-01-01: is not prepared; press Prepare scans."
    pairing.close()
