"""Lesions marked apart are paired, and known ones taken in, by buttons of the follow-up panel."""

import pytest
import slicer
import vtk
from scans import patient

from AnatomicalEmbedding.followup.lesions import MARKED
from AnatomicalEmbedding.followup.record_file import write_record


def texts(menu):
    return [action.text for action in menu.actions()]


def trigger(reader, text):
    (action,) = [each for each in reader.panel.importing.menu().actions() if text in each.text]
    action.trigger()
    reader.kit.process_events()


# -- pairing


@pytest.fixture
def apart(prepared):
    """The carina is marked in the current study too, as a lesion of its own."""
    prepared.mark("carina", number=2)
    return prepared


def test_pairing_says_why_it_cannot_be_done(reader):
    ui = reader.ui
    assert not ui.pairButton.enabled
    assert "2023-03-01 has none of its own" in ui.pairButton.toolTip
    assert ui.pairArea.isHidden()


def test_pairing_waits_for_the_scans(reader, tmp_path):
    from AnatomicalEmbeddingLib.shared.panels import ModuleSettings

    ModuleSettings.setCacheFolder(str(tmp_path))  # no map is kept there: the last scan takes seconds
    reader.mark("carina")
    reader.mark("carina", number=2)
    assert reader.ui.pairButton.toolTip.endswith(": is being prepared.")
    reader.panel.session.store.cancel()
    assert reader.ui.pairButton.toolTip.endswith(": is not prepared; press Prepare scans.")
    reader.prepare()
    assert reader.ui.pairButton.enabled


def test_the_offer_is_shown_and_done_on_agreeing(apart):
    kit, ui = apart.kit, apart.ui
    assert ui.pairButton.enabled
    kit.click(ui.pairButton)
    assert not ui.pairArea.isHidden()
    lines = ui.pairLabel.text.splitlines()
    assert lines[0].startswith("L1 in 2023-03-01 and L3 in 2024-03-01 are one lesion, L1: likely, ")
    assert lines[1].startswith("L2 in 2023-03-01 has no partner in 2024-03-01")
    assert len(apart.logic.record.lesions) == 3, "nothing is done yet"
    kit.click(ui.agreeButton)
    assert ui.pairArea.isHidden()
    assert [lesion.id for lesion in apart.logic.record.lesions] == ["L1", "L2"]
    assert apart.state("L1", 2) == MARKED
    kit.click(ui.undoButton)
    assert [lesion.id for lesion in apart.logic.record.lesions] == ["L1", "L2", "L3"]


def test_cancelling_changes_nothing(apart):
    before = apart.logic.record
    apart.kit.click(apart.ui.pairButton)
    apart.kit.click(apart.ui.cancelPairButton)
    assert apart.ui.pairArea.isHidden()
    assert apart.logic.record == before


def test_an_offer_goes_with_what_it_was_made_of(apart, import_study, kit):
    from follow_up_actions import choose, entries

    for end in ("undo", "other study", "other patient", "scene"):
        kit.click(apart.ui.pairButton)
        assert not apart.ui.pairArea.isHidden(), end
        if end == "undo":
            kit.click(apart.ui.undoButton)
            kit.click(apart.ui.redoButton)
        elif end == "other study":
            apart.go("L1", 1)
            assert apart.ui.pairArea.isHidden()
            apart.go("L1", 2)
        elif end == "other patient":
            import_study("Smith", "20230101", "S1", 1)
            kit.spin(lambda: len(entries(apart.ui.patientSelector)) == 2)
            choose(kit, apart.ui.patientSelector, "Smith")
            assert apart.ui.pairArea.isHidden()
            choose(kit, apart.ui.patientSelector, "Miller")
        else:
            kit.close_scene()
        assert apart.ui.pairArea.isHidden(), end
    assert not apart.ui.pairButton.enabled


def test_where_no_two_are_the_same_there_is_nothing_to_agree_to(prepared):
    prepared.mark("kidney_left_lower_pole", number=2)
    prepared.kit.click(prepared.ui.pairButton)
    assert prepared.ui.pairLabel.text.startswith("No two of these lesions are the same.")
    assert prepared.ui.agreeButton.isHidden()
    assert prepared.ui.cancelPairButton.text == "Close"


# -- taking in


def test_points_of_a_list_become_lesions_of_the_study_that_one_is_at(reader):
    points = reader.kit.scene.AddNewNodeByClass("vtkMRMLMarkupsFiducialNode", "Seen & known")
    points.AddControlPointWorld(vtk.vtkVector3d(*patient(2).points_ras["carina"]), "hilar")
    trigger(reader, "Points of Seen && known as lesions in 2024-03-01")
    assert reader.reported() == "Seen & known: new lesions: L1 hilar."
    assert reader.state("L1", 2) == MARKED
    assert reader.cell(0, 0).startswith("L1 hilar")
    reader.kit.spin(lambda: "mm" in reader.cell(0, 1), 60)  # and is found in the others


def test_a_file_is_taken_in_and_errors_are_sentences(reader, tmp_path):
    reader.mark("carina")
    write_record(tmp_path / "own.followup.json", reader.logic.record)
    (tmp_path / "bad.followup.json").write_text("{")
    reader.kit.click(reader.ui.removeButton)
    for name in ("bad", "own"):
        reader.kit.dialogs.answer("open_files", [str(tmp_path / f"{name}.followup.json")])
        trigger(reader, "Files")
        if name == "bad":
            assert "bad.followup.json: is not JSON" in reader.reported()
            assert not reader.logic.record.lesions
    assert reader.reported() == "own.followup.json: new lesions: L1."
    assert reader.state("L1", 0) == MARKED


def test_nothing_is_taken_in_without_a_file(reader):
    trigger(reader, "Files")
    assert reader.reported() == ""
    assert not reader.logic.canUndo


def test_another_follow_up_of_the_scene_can_be_taken_in(reader):
    reader.mark("carina")
    (own,) = slicer.util.getNodesByClass("vtkMRMLTextNode")
    copy = reader.kit.scene.AddNewNodeByClass("vtkMRMLTextNode", "Second")
    copy.SetAttribute("AnatomicalEmbedding.FollowUp", own.GetAttribute("AnatomicalEmbedding.FollowUp"))
    copy.SetText(own.GetText().replace('"L1"', '"L9"').replace('"2.25.', '"2.25.9'))
    assert texts(reader.panel.importing.menu())[-1] == "Second, which the scene holds too"
    trigger(reader, "Second")
    assert [lesion.id for lesion in reader.logic.record.lesions] == ["L1", "L9"]


def test_there_is_nothing_to_take_in_without_a_patient(kit, module):
    panel = kit.open(module)
    assert not panel.ui.importButton.enabled
    assert panel.ui.importButton.toolTip == "Load CTs of a patient first."
