"""Test the inputs of "Segment the rest like these". The scenario `outline_the_rest` tests a whole run."""

from box_bench import add_segmentation
from roi_actions import node
from scans import add_patient


def tick(kit, panel, number, name):
    """A segmentation of a patient's scan, ticked as an example."""
    segmentation = add_segmentation(kit.scene, number, node(name), {"liver": "My liver"})
    segmentation.SetReferenceImageGeometryParameterFromVolumeNode(node(name))
    panel.ui.outlineExamplesSelector.setCheckState(segmentation, 2)
    return segmentation


def test_a_missing_example_or_scan_is_stated(kit, panel):
    button = panel.ui.outlineButton
    assert not button.enabled
    assert "Tick at least one segmentation" in button.toolTip
    lost = kit.scene.AddNewNodeByClass("vtkMRMLSegmentationNode", "Lost")
    panel.ui.outlineExamplesSelector.setCheckState(lost, 2)
    assert "Lost: the scan of this segmentation is not known" in button.toolTip
    kit.scene.RemoveNode(lost)
    add_patient(2, "Later")
    tick(kit, panel, 0, "Prior")
    assert button.enabled
    assert button.text == "Segment 2 scans"
    panel.ui.allTargetsCheckBox.checked = False
    for name in ("Current", "Later"):
        panel.ui.targetSelector.setCheckState(node(name), 0)
    assert not button.enabled
    assert "are all examples" in button.toolTip


def test_folder_and_examples_are_kept(kit, panel, tmp_path):
    from AnatomicalEmbeddingLib.shared.panels import ModuleSettings

    panel.ui.outlineFolderEdit.currentPath = str(tmp_path / "out")
    example = tick(kit, panel, 0, "Prior")
    assert ModuleSettings.value("outlineFolder", "") == str(tmp_path / "out")
    assert list(panel._parameterNode.outlineExamples) == [example]
    kit.save_scene(tmp_path / "scene.mrb")
    kit.close_scene()
    assert panel.ui.outlineExamplesSelector.checkedNodes() == []
    kit.load_scene(tmp_path / "scene.mrb")
    kit.spin(
        lambda: [each.GetName() for each in panel.outlinePanel.examples] == ["Segmentation"], 20
    )
