"""The test kit: modules are loaded, opened and closed as in Slicer, and nothing that goes wrong goes unseen."""

import numpy as np
import pytest
from kit_demo import ALL_SELECTORS, write_demo


@pytest.fixture
def demo(kit, tmp_path):
    """The demo module, loaded and open, over two volumes: its widget."""
    import slicer

    for name in ("First", "Second"):
        slicer.util.addVolumeFromArray(np.zeros((3, 4, 5), np.int16), name=name)
    return kit.open(kit.load_module(write_demo(tmp_path / "module")))


def test_module_life_follows_the_application(kit, demo, tmp_path):
    import slicer

    assert slicer.modules.kitdemo.path.endswith("KitDemo.py")
    assert slicer.modules.KitDemoWidget is demo
    assert slicer.util.getModuleWidget("KitDemo") is demo
    assert demo.parent.isEntered
    assert kit.sample_data[0].fileNames == ["one.nrrd"], "startupCompleted() was not sent"
    calls = demo.calls
    assert calls[-1] == "enter"
    slicer.util.selectModule("Markups")
    assert calls[-1] == "exit"
    assert not demo.parent.isEntered
    slicer.util.selectModule("KitDemo")
    assert calls[-1] == "enter"
    kit.close(demo)
    assert calls[-2:] == ["exit", "cleanup"]
    again = kit.open("KitDemo")
    assert again is not demo
    kit.close(again, leave=False)
    assert again.calls == ["enter", "cleanup"]


def test_closing_the_scene_resets_parameters_and_tells_observers(kit, demo):
    demo.node.count = 7
    demo.calls.clear()
    kit.close_scene()
    assert [call for call in demo.calls if call != "modified"] == ["start close", "end close"]
    assert demo.node.count == 3
    assert demo.ui.countBox.value == 3
    assert demo.ui.scanSelector.currentNode() is None


def test_module_header_has_only_the_fields_of_the_original(kit, tmp_path):
    path = write_demo(tmp_path / "module")
    path.write_text(path.read_text().replace("parent.title =", "parent.titel ="))
    with pytest.raises(AttributeError, match="titel"):
        kit.load_module(path)


def test_a_selector_without_scene_connection_stays_empty(kit, tmp_path):
    import slicer

    slicer.util.addVolumeFromArray(np.zeros((3, 4, 5), np.int16), name="First")
    connected = tuple(name for name in ALL_SELECTORS if name != "scanSelector")
    widget = kit.open(kit.load_module(write_demo(tmp_path / "module", connected=connected)))
    assert widget.ui.scanSelector.currentNode() is None
    assert widget.ui.scanSelector.nodeCount() == 0
    assert not widget.ui.scanSelector.enabled
    assert widget.ui.scansSelector.nodeCount() == 1


@pytest.mark.parametrize(
    ("text", "instead", "message"),
    [
        ("qSlicerMarkupsPlaceWidget", "qSlicerMarkupPlaceWidget", "class qSlicerMarkupPlaceWidget"),
        ('<property name="singleStep">', '<property name="singlStep">', "no property singlStep"),
        ("<sender>pointsSelector", "<sender>pointSelector", "names 'pointSelector'"),
        ("currentNodeChanged(vtkMRMLNode*)", "currentNodeChange(vtkMRMLNode*)", "no signal currentNodeChange"),
        ("setCurrentNode(vtkMRMLNode*)", "setNode(vtkMRMLNode*)", "no slot setNode"),
        ('name="countBox"', 'name="scoreSlider"', "scoreSlider is given to two"),
    ],
)
def test_mistakes_in_ui_files_raise(kit, tmp_path, text, instead, message):
    module = kit.load_module(write_demo(tmp_path / "module", replace=(text, instead)))
    with pytest.raises(ValueError, match=message):
        kit.open(module)


def test_click_is_that_of_a_user(kit, demo):
    demo.ui.applyButton.enabled = False
    with pytest.raises(AssertionError, match="disabled"):
        kit.click(demo.ui.applyButton)
    demo.ui.inputs.collapsed = True
    with pytest.raises(AssertionError, match="hidden"):
        kit.click(demo.ui.jumpBox)
    demo.ui.inputs.collapsed = False
    kit.click(demo.ui.jumpBox)
    assert demo.node.jump is False


def test_errors_are_shown_to_the_user_and_raised(kit, demo):
    with kit.expect_slot_error(ValueError, "no engine") as caught:
        kit.click(demo.ui.applyButton)
    assert len(caught) == 1
    (dialog,) = kit.dialogs.of("error")
    assert dialog.text == "Demo failed.\n\nno engine"
    assert "ValueError" in dialog.details["detailedText"]


def test_an_error_that_does_not_come_is_missed(kit, demo):
    with pytest.raises(AssertionError, match="expected one ValueError"), kit.expect_slot_error(ValueError):
        kit.click(demo.ui.jumpBox)


def test_spin_waits_and_gives_up(kit):
    import qt

    done = []
    qt.QTimer.singleShot(20, lambda: done.append(1))
    kit.spin(lambda: done)
    with pytest.raises(AssertionError, match="not so within"):
        kit.spin(lambda: len(done) > 1, seconds=0.05)


def test_subject_hierarchy_items_follow_nodes(kit, tmp_path):
    import slicer
    import vtk

    def names():
        hierarchy = slicer.vtkMRMLSubjectHierarchyNode.GetSubjectHierarchyNode(kit.scene)
        items = vtk.vtkIdList()
        hierarchy.GetItemChildren(hierarchy.GetSceneItemID(), items, True)
        return sorted(hierarchy.GetItemName(items.GetId(index)) for index in range(items.GetNumberOfIds()))

    points = kit.scene.AddNewNodeByClass("vtkMRMLMarkupsFiducialNode", "Points")
    kit.scene.AddNewNodeByClass("vtkMRMLScriptedModuleNode", "Parameters")
    volume = slicer.util.addVolumeFromArray(np.zeros((3, 4, 5), np.int16), name="CT")
    assert names() == ["CT", "Points"]
    kit.scene.RemoveNode(points)
    assert names() == ["CT"]
    kit.save_scene(tmp_path / "scene.mrb")
    kit.close_scene()
    assert names() == []
    kit.load_scene(tmp_path / "scene.mrb")
    assert names() == ["CT"]
    assert volume.GetScene() is None


def test_new_views_fall_back_to_offset_0_when_events_are_processed(kit):
    """As in Slicer, where a signal of their sliders waits: what was set right after the layout is lost."""
    window = kit.open_window()
    node = kit.scene.GetFirstNodeByClass("vtkMRMLLayoutNode")
    view = (
        '<item><view class="vtkMRMLSliceNode" singletontag="Own"><property name="orientation">Axial</property></view>'
    )
    node.AddLayoutDescription(5999, f'<layout type="horizontal">{view}</item></layout>')
    node.SetViewArrangement(5999)
    shown = window.sliceWidget("Own").mrmlSliceNode()
    shown.SetSliceOffset(70.0)
    kit.process_events()
    assert shown.GetSliceOffset() == 0
    shown.SetSliceOffset(70.0)
    kit.process_events()
    assert shown.GetSliceOffset() == 70
