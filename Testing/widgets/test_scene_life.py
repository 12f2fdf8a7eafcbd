"""Test that closed scenes leave no volumes in memory, and that saved scenes can be opened."""

import gc

import pytest
from engines import add_ct

MODULES = ("AnatomicalLandmarks", "AnatomicalROI", "LesionFollowUp")


@pytest.mark.parametrize("name", MODULES)
def test_a_closed_scene_takes_its_scans_with_it_while_the_module_is_left(kit, name):
    kit.load_module(name)
    gone = []
    for scan in ("A", "B"):
        add_ct(scan).AddObserver("DeleteEvent", lambda *_, scan=scan: gone.append(scan))
    widget = kit.open(name)
    if name == "AnatomicalROI":
        widget.ui.coverageSection.collapsed = False
    widget.session.tick()
    kit.leave(name)
    kit.close_scene()
    widget.session.tick()
    gc.collect()
    assert sorted(gone) == ["A", "B"]


def wrappers(kind: type) -> int:
    """How many parameter nodes' wrappers are kept alive, if only by an observer that nobody can remove any more."""
    gc.collect()
    return sum(type(each) is kind for each in gc.get_objects())


def test_coming_back_and_new_scenes_leave_no_wrappers_behind(kit):
    name = MODULES[0]
    kit.load_module(name)
    widget = kit.open(name)
    kind = type(widget._parameterNode)
    for _ in range(3):
        kit.leave(name)
        kit.open(name)
    assert wrappers(kind) == 1
    for _ in range(3):
        kit.close_scene()
    assert widget._parameterNode is not None
    assert wrappers(kind) == 1
    kit.close(widget)
    assert wrappers(kind) == 0


def is_placing(kit) -> bool:
    mouse = kit.scene.GetNodeByID("vtkMRMLInteractionNodeSingleton")
    return mouse.GetCurrentInteractionMode() == mouse.Place


@pytest.mark.parametrize("leave", [True, False])
@pytest.mark.parametrize("name", ["AnatomicalLandmarks", "LesionFollowUp"])
def test_a_module_that_ends_gives_the_mouse_back(kit, name, leave):
    kit.load_module(name)
    for scan in ("A", "B"):
        add_ct(scan)
    widget = kit.open(name)
    if name == "LesionFollowUp":
        widget.logic.placeLesion()
    else:
        widget.ui.pointsSelector.addNode()
        widget.ui.placeWidget.setPlaceModeEnabled(True)
    assert is_placing(kit)
    kit.close(widget, leave=leave)
    assert not is_placing(kit)
