"""The doubles of Slicer's scene widgets behave like the originals on the real scene."""

import numpy as np
import pytest


@pytest.fixture
def volumes(kit):
    """Three volumes in the scene: a CT, another and a label map."""
    import slicer

    first, second = (slicer.util.addVolumeFromArray(np.zeros((3, 4, 5), np.int16), name=name) for name in "AB")
    labels = slicer.util.addVolumeFromArray(
        np.zeros((3, 4, 5), np.uint8), name="L", nodeClassName="vtkMRMLLabelMapVolumeNode"
    )
    return first, second, labels


@pytest.fixture
def selector(kit):
    import slicer

    widget = slicer.qMRMLNodeComboBox()
    widget.nodeTypes = ["vtkMRMLScalarVolumeNode"]
    return widget


def test_selector_is_empty_until_it_gets_the_scene(kit, volumes, selector):
    assert (selector.nodeCount(), selector.currentNode(), selector.enabled) == (0, None, False)
    selector.setMRMLScene(kit.scene)
    assert selector.enabled
    assert selector.currentNode() is volumes[0], "without None the first node selects itself"


def test_selector_lists_subclasses_unless_told(kit, volumes, selector):
    selector.setMRMLScene(kit.scene)
    assert selector.nodes() == list(volumes)
    selector.showChildNodeTypes = False
    assert selector.nodes() == list(volumes[:2])
    selector.showChildNodeTypes = True
    selector.hideChildNodeTypes = ["vtkMRMLLabelMapVolumeNode"]
    assert selector.nodes() == list(volumes[:2])


def test_selector_follows_hiding_attributes_and_names(kit, volumes, selector):
    selector.setMRMLScene(kit.scene)
    volumes[0].SetHideFromEditors(True)
    volumes[0].Modified()
    assert selector.currentNode() is volumes[1]
    selector.addAttribute("vtkMRMLScalarVolumeNode", "Kind", "CT")
    assert selector.nodes() == []
    volumes[2].SetAttribute("Kind", "CT")
    assert selector.nodes() == [volumes[2]]


def test_none_can_be_selected_and_is_told(kit, volumes, selector):
    nodes, valid, ids = [], [], []
    selector.noneEnabled = True
    selector.setMRMLScene(kit.scene)
    assert selector.currentNode() is None
    selector.connect("currentNodeChanged(vtkMRMLNode*)", nodes.append)
    selector.connect("currentNodeChanged(bool)", valid.append)
    selector.connect("currentNodeIDChanged(QString)", ids.append)
    selector.setCurrentNode(volumes[1])
    selector.setCurrentNodeID("")
    selector.setCurrentNode(None)
    assert (nodes, valid) == ([volumes[1], None], [True, False])
    assert ids == [volumes[1].GetID(), ""]


def test_removed_node_leaves_the_selector(kit, volumes, selector):
    selector.setMRMLScene(kit.scene)
    selector.setCurrentNode(volumes[1])
    kit.scene.RemoveNode(volumes[1])
    assert selector.nodes() == [volumes[0], volumes[2]]
    assert selector.currentNode() is volumes[2]
    kit.close_scene()
    assert selector.currentNode() is None
    assert selector.currentNodeID == ""


def test_node_of_another_type_or_an_id_is_not_selected(kit, volumes, selector):
    selector.setMRMLScene(kit.scene)
    selector.setCurrentNode(kit.scene.AddNewNodeByClass("vtkMRMLTextNode"))
    assert selector.currentNode() is None
    with pytest.raises(TypeError, match="setCurrentNodeID"):
        selector.setCurrentNode(volumes[0].GetID())


def test_another_text_for_none_moves_an_empty_selector_to_its_first_node(kit, volumes, selector):
    """As qMRMLNodeComboBox does: its model's first item is replaced."""
    selector.noneEnabled = True
    selector.setMRMLScene(kit.scene)
    assert selector.currentNode() is None
    selector.noneDisplay = "Template"
    assert selector.currentNode() is volumes[0]
    selector.setCurrentNode(volumes[1])
    selector.noneDisplay = "Other"
    assert selector.currentNode() is volumes[1]


def test_user_adds_nodes(kit, selector):
    selector.setMRMLScene(kit.scene)
    selector.baseName = "Scan"
    node = selector.addNode()
    assert node.GetName() == "Scan"
    assert selector.currentNode() is node
    assert selector.addNode("vtkMRMLTextNode") is None


def test_place_mode_is_a_state_of_the_scene(kit):
    import slicer

    widget, told = slicer.qSlicerMarkupsPlaceWidget(), []
    widget.connect("activeMarkupsPlaceModeChanged(bool)", told.append)
    points = kit.scene.AddNewNodeByClass("vtkMRMLMarkupsFiducialNode")
    widget.setMRMLScene(kit.scene)
    widget.placeModeEnabled = True
    assert not widget.placeModeEnabled, "nothing to place"
    widget.setCurrentNode(points)
    kit.click(widget.placeButton())
    interaction = kit.scene.GetNodeByID("vtkMRMLInteractionNodeSingleton")
    selection = kit.scene.GetNodeByID("vtkMRMLSelectionNodeSingleton")
    assert interaction.GetCurrentInteractionMode() == interaction.Place
    assert selection.GetActivePlaceNodeID() == points.GetID()
    assert widget.placeModeEnabled
    interaction.SetCurrentInteractionMode(interaction.ViewTransform)  # Esc, or the last point was placed
    assert not widget.placeModeEnabled
    assert not widget.placeButton().checked
    assert told == [True, False]


def test_place_widget_forces_many_points_or_one(kit):
    import slicer

    widget = slicer.qSlicerMarkupsPlaceWidget()
    widget.setMRMLScene(kit.scene)
    widget.setCurrentNode(kit.scene.AddNewNodeByClass("vtkMRMLMarkupsFiducialNode"))
    widget.placeMultipleMarkups = slicer.qSlicerMarkupsPlaceWidget.ForcePlaceMultipleMarkups
    widget.setPlaceModeEnabled(True)
    assert widget.placeModePersistency
    widget.placeMultipleMarkups = slicer.qSlicerMarkupsPlaceWidget.ForcePlaceSingleMarkup
    widget.setPlaceModeEnabled(True)
    assert not widget.placeModePersistency


def test_widgets_outlived_by_the_scene_are_left_alone(kit, volumes, selector):
    selector.setMRMLScene(kit.scene)
    selector.deleteLater()
    kit.process_events()
    kit.scene.RemoveNode(volumes[0])
    volumes[1].SetName("C")
