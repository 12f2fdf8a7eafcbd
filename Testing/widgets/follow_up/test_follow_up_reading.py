"""Test how a person marks, confirms, moves and measures lesions in the follow-up panel, with buttons and keys."""

from dataclasses import replace

import numpy as np
from follow_up_actions import choose
from scans import patient

from AnatomicalEmbedding.followup.lesions import CONFIRMED, MARKED, PROPOSED, Guess
from AnatomicalEmbeddingLib.shared.Views import isPlacing


def test_a_lesion_marked_in_the_prior_is_proposed_where_it_is(prepared):
    table = prepared.table
    headers = [table.horizontalHeaderItem(n).text() for n in range(4)]
    assert headers == ["Lesion", "2023-03-01\nprior", "2023-09-01\n", "2024-03-01\ncurrent"]
    assert prepared.cell(0, 0) == "L1\ntarget"
    assert prepared.cell(0, 1) == "✓ baseline"
    for number in (1, 2):
        for row, name in enumerate(("carina", "heart_apex")):
            place = prepared.logic.placeOf(f"L{row + 1}", prepared.keys[number])
            assert np.linalg.norm(place - patient(number).points_ras[name]) < 10.0
            sign, *words = prepared.cell(row, number + 1).split()
            assert sign in "○?"
            assert words[-1] == "mm"
    assert (
        "No person has reviewed this place. This place was computed from the lesion's place in 2023-03-01."
        in table.item(0, 2).toolTip()
    )


def test_a_lesion_can_be_marked_in_any_study(prepared):
    prepared.mark("carina", number=2)
    assert prepared.state("L3", 2) == MARKED
    assert prepared.state("L3", 0) == PROPOSED
    assert (prepared.choice.lesion, prepared.choice.study) == ("L3", prepared.keys[2]), (
        "it is the one to go on with"
    )
    assert prepared.cell(2, 3) == "✓ new?"
    for number in (0, 1):
        prepared.go("L3", number)
        prepared.press("N")
    assert prepared.cell(2, 3) == "✓ new", "once somebody has looked for it before"


def test_keys_step_through_the_proposals_and_round_again(prepared):
    places = [(lesion, study) for study in prepared.keys[1:] for lesion in ("L1", "L2")]
    prepared.go("L1", 0)
    seen = []
    for _ in range(5):
        prepared.press("J")
        seen.append((prepared.choice.lesion, prepared.choice.study))
    assert seen == [*places, places[0]]
    prepared.press("K")
    assert (prepared.choice.lesion, prepared.choice.study) == places[-1]
    prepared.press("C")
    prepared.press("J")
    assert (prepared.choice.lesion, prepared.choice.study) == places[0], (
        "what was looked at is passed over"
    )
    prepared.press("Ctrl+Z")
    assert prepared.state("L2", 2) == PROPOSED
    prepared.press("Ctrl+Y")
    assert prepared.state("L2", 2) == CONFIRMED
    prepared.go("L1", 0)
    prepared.press("C")
    assert prepared.reported() == "L1 has already been reviewed in this study."
    prepared.press("O")
    assert prepared.reported() == ""


def test_keys_are_given_back_when_another_module_is_opened(prepared, module):
    prepared.go("L1", 2)
    prepared.press("W")
    prepared.kit.leave(module)
    assert not isPlacing(prepared.kit.scene)
    prepared.press("C")
    assert prepared.state("L1", 2) == PROPOSED
    prepared.kit.open(module)
    prepared.press("C")
    assert prepared.state("L1", 2) == CONFIRMED


def test_name_site_and_kind_are_edited_in_the_form(prepared):
    ui = prepared.ui
    prepared.go("L2", 2)
    ui.nameEdit.setText("hilar")
    ui.nameEdit.editingFinished.emit()
    ui.siteEdit.setText("mediastinum")
    ui.siteEdit.editingFinished.emit()
    ui.targetCheckBox.click()
    ui.nodalCheckBox.click()
    choose(prepared.kit, ui.splitSelector, "L1")
    lesion = prepared.logic.record.lesion("L2")
    assert (lesion.name, lesion.site, lesion.target, lesion.nodal) == (
        "hilar",
        "mediastinum",
        False,
        True,
    )
    assert lesion.split_from == "L1"
    assert prepared.cell(1, 0) == "L2 hilar\nnon-target node"
    assert prepared.table.item(1, 0).toolTip() == "Site: mediastinum. Split off from L1."
    prepared.go("L1", 2)
    assert (ui.nameEdit.text, ui.siteEdit.text, ui.targetCheckBox.checked) == ("", "", True)
    assert prepared.logic.record.lesion("L1").target
    for field in (ui.nameEdit, ui.siteEdit):  # keys act again
        prepared.kit.press(field, "Return")
        assert not field.hasFocus()


def test_an_uncertain_cell_says_why(prepared):
    record = prepared.logic.record
    key = prepared.keys[2]
    found = record.finding("L1", key)
    doubt = "L2 or L3: the level of the spine is not certain"
    guess = Guess("uncertain", found.guess.source, 3.7, 0.7, doubt)
    prepared.logic.history.refresh(record.propose(key, {"L1": replace(found, guess=guess)}))
    prepared.logic.changed.emit()
    assert prepared.cell(0, 3) == "? L2 or L3\n±4 mm"
    assert f"Uncertain: {doubt}." in prepared.table.item(0, 3).toolTip()
