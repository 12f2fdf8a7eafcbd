"""Reading a patient in the follow-up panel: marking, confirming, moving, measuring, by buttons and keys."""

import numpy as np
import pytest
from follow_up_actions import choose
from scans import patient

from AnatomicalEmbedding.followup.lesions import CONFIRMED, MARKED, MERGED, MOVED, NOT_VISIBLE, OUTSIDE, PROPOSED
from AnatomicalEmbeddingLib.shared.Views import isPlacing


def test_the_header_is_complete(module):
    header = module.instance.parent
    assert header.title == "Lesion Follow-up"
    for name in ("RECIST 1.1", "confirmed", "not a medical device"):
        assert name in header.helpText
    for name in ("Goncharov", "MICCAI 2024", "Yan", "2022", "Eisenhauer"):
        assert name in header.acknowledgementText


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
    assert "Nobody has reviewed this place. It was found from 2023-03-01." in table.item(0, 2).toolTip()


def test_marking_first_starts_the_preparation(kit, reader):
    reader.mark("carina")
    kit.spin(lambda: reader.panel.preparation.button.text == "Cancel")
    kit.spin(lambda: "mm" in reader.cell(0, 3), 60)


def test_a_lesion_can_be_marked_in_any_study(prepared):
    prepared.mark("carina", number=2)
    assert prepared.state("L3", 2) == MARKED
    assert prepared.state("L3", 0) == PROPOSED
    assert (prepared.choice.lesion, prepared.choice.study) == ("L3", prepared.keys[2]), "it is the one to go on with"
    assert prepared.cell(2, 3) == "✓ new?"
    for number in (0, 1):
        prepared.go("L3", number)
        prepared.press("N")
    assert prepared.cell(2, 3) == "✓ new", "once somebody has looked for it before"


def test_buttons_say_what_the_user_sees(prepared):
    kit, ui = prepared.kit, prepared.ui
    prepared.go("L1", 2)
    kit.click(ui.confirmButton)
    assert prepared.state("L1", 2) == CONFIRMED
    assert prepared.cell(0, 3) == "✓ confirmed"
    prepared.go("L1", 1)
    kit.click(ui.outsideButton)
    assert prepared.state("L1", 1) == OUTSIDE
    assert prepared.cell(0, 2) == "✕ outside scan"
    prepared.go("L2", 2)
    kit.click(ui.notVisibleButton)
    assert prepared.state("L2", 2) == NOT_VISIBLE
    assert prepared.cell(1, 3) == "✕ disappeared"
    prepared.go("L2", 1)
    kit.click(ui.moveButton)
    prepared.click_in(1, patient(1).points_ras["carina"])
    assert prepared.state("L2", 1) == MOVED
    assert np.allclose(prepared.logic.placeOf("L2", prepared.keys[1]), patient(1).points_ras["carina"])


@pytest.mark.parametrize(("key", "state"), [("C", CONFIRMED), ("N", NOT_VISIBLE), ("O", OUTSIDE)])
def test_keys_say_it_too(prepared, key, state):
    prepared.go("L1", 2)
    prepared.press(key)
    assert prepared.state("L1", 2) == state
    assert prepared.state("L1", 1) == PROPOSED
    assert prepared.state("L2", 2) == PROPOSED


def test_keys_for_the_mouse(prepared):
    prepared.press("W")
    assert isPlacing(prepared.kit.scene)
    assert "Click in a slice view: L3" in prepared.ui.nextStepLabel.text
    prepared.click_in(0, patient(0).points_ras["liver_dome"])
    assert prepared.state("L3", 0) == MARKED
    prepared.go("L1", 2)
    for key, what in (("M", "L1"), ("L", "L1 long"), ("S", "L1 short")):
        prepared.press(key)
        assert prepared.logic.placing.what == what
    prepared.press("Esc")
    assert not isPlacing(prepared.kit.scene)


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
    assert (prepared.choice.lesion, prepared.choice.study) == places[0], "what was looked at is passed over"


def test_keys_do_not_fire_in_text_fields(prepared):
    prepared.go("L1", 2)
    prepared.ui.nameEdit.selectAll()
    prepared.kit.press(prepared.ui.nameEdit, "C")
    prepared.kit.press(prepared.ui.nameEdit, "N")
    assert prepared.ui.nameEdit.text.lower() == "cn"
    assert prepared.state("L1", 2) == PROPOSED


def test_after_return_in_a_text_field_keys_act_again(prepared):
    prepared.go("L1", 0)
    for field in (prepared.ui.nameEdit, prepared.ui.siteEdit):
        prepared.kit.press(field, "Return")
        assert not field.hasFocus()


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


def test_a_key_that_can_do_nothing_says_why(prepared):
    prepared.go("L1", 0)
    prepared.press("C")
    assert prepared.reported() == "L1 has been reviewed here already."
    prepared.go("L1", 2)
    prepared.press("A")
    assert prepared.reported() == "L1 has no axes here: draw them."
    prepared.press("O")
    assert prepared.reported() == ""


def test_axes_are_drawn_carried_over_and_accepted(prepared):
    kit, ui = prepared.kit, prepared.ui
    prepared.go("L1", 0)
    prepared.measure(0, 23.0, 14.0)
    assert prepared.cell(0, 1) == "✓ baseline\n23×14 mm"
    assert "(23×14)" in prepared.cell(0, 3)
    assert "count for nothing" in prepared.table.item(0, 3).toolTip()
    prepared.go("L1", 2)
    kit.click(ui.acceptSizeButton)
    assert prepared.cell(0, 3) == "✓ confirmed\n23×14 mm"
    assert not ui.acceptSizeButton.enabled
    assert ui.acceptSizeButton.toolTip == "The axes are accepted already."


def test_a_lesion_merges_with_another_and_comes_apart_by_undo(prepared):
    prepared.go("L2", 2)
    menu = prepared.panel.actions.mergeMenu()
    assert [action.text for action in menu.actions()] == ["L1"]
    menu.actions()[0].trigger()
    assert prepared.state("L2", 2) == MERGED
    assert prepared.cell(1, 3) == "✓ merged with L1"
    prepared.kit.click(prepared.ui.undoButton)
    assert prepared.state("L2", 2) == PROPOSED


def test_undo_and_redo(prepared):
    prepared.go("L1", 2)
    prepared.press("C")
    prepared.kit.click(prepared.ui.undoButton)
    assert prepared.state("L1", 2) == PROPOSED
    prepared.kit.click(prepared.ui.redoButton)
    assert prepared.state("L1", 2) == CONFIRMED
    prepared.kit.click(prepared.ui.removeButton)
    assert prepared.table.rowCount == 1
    prepared.kit.click(prepared.ui.undoButton)
    assert prepared.table.rowCount == 2
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
    assert (lesion.name, lesion.site, lesion.target, lesion.nodal) == ("hilar", "mediastinum", False, True)
    assert lesion.split_from == "L1"
    assert prepared.cell(1, 0) == "L2 hilar\nnon-target node"
    assert prepared.table.item(1, 0).toolTip() == "Site: mediastinum. Split off from L1."
    prepared.go("L1", 2)
    assert (ui.nameEdit.text, ui.siteEdit.text, ui.targetCheckBox.checked) == ("", "", True)
    assert prepared.logic.record.lesion("L1").target


def test_a_name_that_is_half_written_stays_while_places_come_in(prepared):
    prepared.go("L1", 2)
    prepared.kit.press(prepared.ui.nameEdit, "A")
    prepared.logic.changed.emit()
    assert prepared.ui.nameEdit.text.lower() == "a"
    prepared.go("L2", 2)
    assert prepared.ui.nameEdit.text == ""


def test_undo_takes_a_name_back_while_its_field_has_the_focus(prepared):
    prepared.go("L1", 2)
    prepared.kit.press(prepared.ui.nameEdit, "A")
    prepared.kit.press(prepared.ui.nameEdit, "Return")
    assert prepared.logic.record.lesion("L1").name.lower() == "a"
    prepared.logic.undo()
    assert prepared.ui.nameEdit.text == ""


def test_the_study_that_is_chosen_is_the_one_that_is_shown(prepared, three):
    node = prepared.panel._parameterNode
    prepared.go("L1", 1)
    assert node.current is three[1]
    assert prepared.ui.currentSelector.currentText == "2023-09-01   B"
    prepared.go("L1", 0)
    assert (node.prior, node.current) == (three[0], three[1])


def test_choosing_a_lesion_jumps_in_prior_and_current(prepared, monkeypatch):
    shown = []
    monkeypatch.setattr(prepared.logic, "jumpTo", shown.append)
    prepared.go("L1", 2)
    prepared.table.cellDoubleClicked.emit(1, 3)
    assert shown[0] == "L1"
    assert set(shown[1:]) == {"L2"}


def test_the_current_cell_is_the_place_that_is_chosen(prepared):
    prepared.choice.choose("L2", prepared.keys[2])
    assert (prepared.table.currentRow(), prepared.table.currentColumn()) == (1, 3)
    prepared.table.setCurrentCell(0, 0)
    assert (prepared.choice.lesion, prepared.choice.study) == ("L1", prepared.keys[2]), "the current study is meant"


def test_cells_are_read_only(prepared):
    import qt

    flags = [prepared.table.item(0, n).flags() & qt.Qt.ItemIsEditable for n in range(4)]
    assert not any(flags)
