"""The section "Align volumes": what it offers, says and does, on the real scene, logic and engine."""

import numpy as np
import pytest
import slicer.util
import vtk
from scans import add_transform, patient
from view_nodes import add_view

WIDGETS = ("alignFixedSelector", "alignMovingSelector", "alignKindComboBox", "alignTransformSelector")


def node(name):
    return slicer.util.getNode(name)


def choose_kind(panel, kind):
    combo = panel.ui.alignKindComboBox
    combo.setCurrentIndex(combo.findData(kind))


def align(kit, panel, kind="affine"):
    choose_kind(panel, kind)
    kit.click(panel.ui.alignButton)
    kit.spin(lambda: not panel.alignment.busy, 120)


def test_the_section_is_closed_at_first_and_takes_template_and_first_target(panel):
    ui = panel.ui
    assert ui.alignSection.collapsed
    assert (panel.alignPanel.fixed, panel.alignPanel.moving) == (node("Prior"), node("Current"))
    assert ui.alignFixedSelector.currentNode() is None
    assert ui.alignFixedSelector.noneDisplay == "Template (Prior)"
    assert ui.alignMovingSelector.noneDisplay == "First other scan (Current)"
    assert ui.alignKindComboBox.currentData == "deformable"
    assert ui.alignButton.enabled
    assert not ui.alignUndoButton.enabled
    assert not ui.alignLabel.text


def test_the_default_is_never_the_same_scan_twice(kit, panel):
    panel.ui.templateSelector.setCurrentNode(node("Current"))
    assert (panel.alignPanel.fixed, panel.alignPanel.moving) == (node("Current"), node("Prior"))
    panel.ui.alignFixedSelector.setCurrentNode(node("Prior"))
    assert panel.alignPanel.moving is node("Current")
    assert panel.ui.alignButton.enabled


def test_every_kind_says_what_it_does_and_how_long_it_takes(panel):
    combo, tips = panel.ui.alignKindComboBox, set()
    assert [combo.itemText(n) for n in range(combo.count)] == ["Rigid", "Affine", "Coarse", "Deformable"]
    for n in range(combo.count):
        combo.setCurrentIndex(n)
        assert "second" in combo.toolTip
        tips.add(combo.toolTip)
    assert len(tips) == combo.count


def test_a_kind_that_another_version_knew_is_taken_for_the_usual_one(kit, panel):
    panel._parameterNode.alignKind = "diffeomorphic"
    assert panel.ui.alignKindComboBox.currentData == "deformable"
    assert panel.ui.alignButton.enabled


def test_what_is_in_the_way_is_the_buttons_tool_tip(kit, panel):
    ui = panel.ui
    ui.alignFixedSelector.setCurrentNode(node("Current"))
    ui.alignMovingSelector.setCurrentNode(node("Current"))
    assert not ui.alignButton.enabled
    assert "Current: is chosen as fixed and as moving" in ui.alignButton.toolTip
    assert not ui.alignShowButton.enabled
    ui.alignMovingSelector.setCurrentNode(None)
    assert ui.alignButton.enabled
    assert "Lay Prior on Current" in ui.alignButton.toolTip
    add_transform(kit.scene, np.eye(4), "Linear")
    ui.alignTransformSelector.setCurrentNode(node("Linear"))
    assert "Linear: is for transforms of another sort" in ui.alignButton.toolTip
    choose_kind(panel, "rigid")
    assert ui.alignButton.enabled


def test_one_scan_alone_cannot_be_aligned(kit, panel):
    for name in ("Prior", "Current"):
        kit.scene.RemoveNode(node(name))
    kit.process_events()
    assert not panel.ui.alignButton.enabled
    assert panel.ui.alignButton.toolTip.startswith("Load two CTs")


def test_aligning_prepares_shows_progress_and_tells_the_result(kit, panel):
    ui, seen = panel.ui, set()
    ui.alignSection.collapsed = False
    assert ui.alignProgressBar.isHidden()
    kit.click(ui.alignButton)
    assert ui.alignButton.text == "Cancel"
    assert not ui.alignProgressBar.isHidden()
    assert not any(getattr(ui, name).enabled for name in WIDGETS)

    def ended():
        seen.add(ui.alignProgressBar.format)
        return not panel.alignment.busy

    kit.spin(ended, 120)
    assert "comparing the images  %p%" in seen
    assert ui.alignProgressBar.isHidden()
    assert all(getattr(ui, name).enabled for name in WIDGETS)
    assert ui.alignLabel.text.startswith("Current lies on Prior (deformable).")
    assert node("Current").GetParentTransformNode().GetName() == "Current to Prior"
    assert not kit.dialogs


def test_landmarks_of_an_aligned_scan_move_with_it(kit, panel):
    points = panel.ui.pointsSelector.addNode()
    points.AddControlPointWorld(vtk.vtkVector3d(*patient(0).points_ras["carina"]), "carina")
    kit.spin(lambda: not panel.session.store.busy, 60)
    answers = panel.logic.answersIn(node("Current"))

    def apart():
        found = answers.worldOf(next(iter(answers.answers.values())))
        return np.linalg.norm(found - patient(0).points_ras["carina"])

    before = apart()
    align(kit, panel)
    kit.spin(lambda: apart() != before)
    assert apart() < min(before, 30.0)  # another patient, affine
    assert panel.matchTable.widget.item(0, 1).text().endswith("mm")
    kit.click(panel.ui.alignUndoButton)
    kit.spin(lambda: apart() == pytest.approx(before))


def test_undo_is_offered_where_there_is_something_to_undo(kit, panel):
    ui = panel.ui
    assert ui.alignUndoButton.toolTip == "The moving scan is not aligned."
    align(kit, panel, "rigid")
    assert ui.alignUndoButton.enabled
    kit.click(ui.alignUndoButton)
    assert node("Current").GetParentTransformNode() is None
    assert not ui.alignUndoButton.enabled
    assert not ui.alignLabel.text
    node("Current").SetAndObserveTransformNodeID(node("Current to Prior").GetID())
    kit.spin(lambda: ui.alignUndoButton.enabled)


def test_a_resampled_volume_is_made_if_ticked_and_becomes_no_target(kit, panel):
    panel.ui.alignResampleCheckBox.checked = True
    align(kit, panel)
    kit.process_events()
    assert node("Current on Prior").GetImageData().GetDimensions() == node("Prior").GetImageData().GetDimensions()
    assert [target.GetName() for target in panel.logic.targets] == ["Current", "Other"]


def test_show_lays_the_moving_scan_over_the_fixed_one_and_takes_it_away(kit, panel):
    from AnatomicalEmbeddingLib.shared.Views import compositeOf

    button = panel.ui.alignShowButton
    kit.click(button)
    assert "There are no slice views" in panel.ui.alignLabel.text
    composite = compositeOf(kit.scene, add_view(kit.scene, "Red", None))
    kit.click(button)
    assert composite.GetBackgroundVolumeID() == node("Prior").GetID()
    assert composite.GetForegroundVolumeID() == node("Current").GetID()
    assert button.text == "Show fixed alone"
    assert node("Current").GetDisplayNode().GetColorNodeID() == "vtkMRMLColorTableNodeRed"
    panel.ui.alignColoursCheckBox.checked = False
    assert node("Current").GetDisplayNode().GetColorNodeID() == "vtkMRMLColorTableNodeGrey"
    panel.ui.alignColoursCheckBox.checked = True
    kit.click(button)
    assert node("Prior").GetDisplayNode().GetColorNodeID() == "vtkMRMLColorTableNodeGrey"
    assert composite.GetForegroundVolumeID() is None
    assert button.text == "Show both"


def test_cancel_leaves_the_scene_as_it_was(kit, panel):
    before = kit.scene.GetNumberOfNodes()
    kit.click(panel.ui.alignButton)
    kit.click(panel.ui.alignButton)
    assert not panel.alignment.busy
    assert panel.ui.alignButton.text == "Align"
    kit.spin(lambda: not panel.session.store.busy, 60)
    assert kit.scene.GetNumberOfNodes() == before
    assert panel.ui.alignProgressBar.isHidden()
    assert not panel.ui.alignLabel.text


def test_errors_are_sentences_in_the_section(kit, panel, monkeypatch):
    engine = type(panel.session.store.engine)
    monkeypatch.setattr(engine, "missingPackages", staticmethod(lambda: ["torch"]))
    kit.click(panel.ui.alignButton)
    kit.spin(lambda: not panel.alignment.busy)
    assert "torch is not installed" in panel.ui.alignLabel.text
    monkeypatch.undo()
    align(kit, panel, "rigid")
    assert panel.ui.alignLabel.text.startswith("Current lies on Prior")
    assert not kit.dialogs


def test_closing_the_scene_meanwhile_leaves_an_empty_working_section(kit, panel):
    kit.click(panel.ui.alignButton)
    kit.close_scene()
    kit.process_events()
    assert not panel.alignment.busy
    assert not panel.ui.alignButton.enabled
    assert not panel.ui.alignLabel.text


def test_removing_a_scan_meanwhile_is_a_sentence(kit, panel):
    kit.click(panel.ui.alignButton)
    kit.scene.RemoveNode(node("Current"))
    kit.spin(lambda: not panel.alignment.busy)
    assert "Current: was removed" in panel.ui.alignLabel.text


def test_what_was_chosen_survives_an_mrb(kit, panel, tmp_path):
    panel.ui.alignFixedSelector.setCurrentNode(node("Other"))
    panel.ui.alignResampleCheckBox.checked = True
    choose_kind(panel, "coarse")
    kit.save_scene(tmp_path / "scene.mrb")
    kit.load_scene(tmp_path / "scene.mrb")
    panel.enter()
    assert panel.alignPanel.fixed is node("Other")
    assert panel.ui.alignResampleCheckBox.checked
    assert panel.ui.alignKindComboBox.currentData == "coarse"


def test_closing_the_panel_stops_an_alignment(kit, panel):
    import threading

    kit.click(panel.ui.alignButton)
    kit.spin(lambda: panel.alignment.progress[1] == "comparing the images", 120)
    kit.close(panel)
    assert not any(thread.name == "AnatomicalEmbedding" for thread in threading.enumerate())
