"""Test what the section "Align volumes" offers and refuses. The scenario `align` tests a whole alignment."""

import slicer.util


def node(name):
    return slicer.util.getNode(name)


def choose_kind(panel, kind):
    combo = panel.ui.alignKindComboBox
    combo.setCurrentIndex(combo.findText(kind))


def test_the_default_is_never_the_same_scan_twice(kit, panel):
    ui = panel.ui
    assert ui.alignFixedSelector.noneDisplay == "Template (Prior)"
    assert ui.alignMovingSelector.noneDisplay == "First other scan (Current)"
    assert (panel.alignPanel.fixed, panel.alignPanel.moving) == (node("Prior"), node("Current"))
    ui.templateSelector.setCurrentNode(node("Current"))
    assert (panel.alignPanel.fixed, panel.alignPanel.moving) == (node("Current"), node("Prior"))
    ui.alignFixedSelector.setCurrentNode(node("Prior"))
    assert panel.alignPanel.moving is node("Current")
    assert ui.alignButton.enabled


def test_an_obstacle_is_the_buttons_tool_tip(kit, panel):
    ui = panel.ui
    ui.alignFixedSelector.setCurrentNode(node("Current"))
    ui.alignMovingSelector.setCurrentNode(node("Current"))
    assert not ui.alignButton.enabled
    assert "Current: is chosen as fixed and as moving" in ui.alignButton.toolTip
    assert not ui.alignShowButton.enabled
    ui.alignMovingSelector.setCurrentNode(None)
    assert "Align Prior with Current" in ui.alignButton.toolTip
    for name in ("Prior", "Current"):
        kit.scene.RemoveNode(node(name))
    kit.process_events()
    assert ui.alignButton.toolTip.startswith(
        "The fixed or the moving scan is missing; load two CTs"
    )


def test_the_choices_survive_an_mrb(kit, panel, tmp_path):
    panel.ui.alignFixedSelector.setCurrentNode(node("Other"))
    panel.ui.alignResampleCheckBox.checked = True
    panel._parameterNode.alignKind = "coarse"
    assert panel.ui.alignKindComboBox.currentText == "Deformable", (
        "a kind of another version becomes the usual one"
    )
    choose_kind(panel, "Affine")
    kit.save_scene(tmp_path / "scene.mrb")
    kit.load_scene(tmp_path / "scene.mrb")
    panel.enter()
    assert panel.alignPanel.fixed is node("Other")
    assert panel.ui.alignResampleCheckBox.checked
    assert panel.ui.alignKindComboBox.currentText == "Affine"
