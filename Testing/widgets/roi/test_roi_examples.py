"""Examples of a user's own in the ROI panel: drawn, placed, taken from segmentations, and removed."""

from box_bench import add_roi, add_segmentation, truth
from roi_actions import cells, find, node

CHOSEN = ["liver", "spleen"]


def test_a_box_is_drawn_and_added(kit, panel):
    ui = panel.ui
    ui.structureTabs.currentIndex = 1
    kit.click(ui.newBoxButton)
    roi = ui.markingSelector.currentNode()
    assert roi.GetClassName() == "vtkMRMLMarkupsROINode"
    assert ui.placeWidget.placeModeEnabled
    assert "Choose the scan" in ui.addExampleButton.toolTip
    ui.exampleVolumeSelector.setCurrentNode(node("Prior"))
    assert "Give the structure a name" in ui.addExampleButton.toolTip
    ui.structureEdit.text = "Left kidney"
    kit.click(ui.addExampleButton)
    assert "is not drawn yet" in ui.statusLabel.text
    box = truth(0)["kidney_left"].box_ras
    roi.SetCenter(*box.mean(axis=0))
    roi.SetSize(*(box[1] - box[0]))
    kit.click(ui.addExampleButton)
    assert cells(ui.exampleTable) == [["Kidney left", "Example box (box)", "Prior"]]
    assert ui.structureTabs.tabText(1) == "My examples (1)"
    assert list(panel._parameterNode.structures) == ["kidney_left"]
    find(kit, panel)
    assert cells(ui.boxTable) == [["Kidney left", "\u2605 example", "\u2713 whole"]]
    assert "by your examples" in ui.boxTable.item(0, 2).toolTip()


def test_six_points_are_placed_one_after_the_other(kit, panel):
    ui = panel.ui
    ui.structureTabs.currentIndex = 1
    kit.click(ui.newPointsButton)
    points = ui.markingSelector.currentNode()
    assert points.GetClassName() == "vtkMRMLMarkupsFiducialNode"
    assert ui.placeWidget.placeModeEnabled
    assert ui.placeWidget.placeModePersistency
    ui.exampleVolumeSelector.setCurrentNode(node("Prior"))
    ui.structureEdit.text = "liver"
    for point in truth(0)["liver"].extremes_ras[:5]:
        points.AddControlPoint(*point)
    kit.click(ui.addExampleButton)
    assert "has 5 points; place six" in ui.statusLabel.text
    points.AddControlPoint(*truth(0)["liver"].extremes_ras[5])
    kit.click(ui.addExampleButton)
    assert cells(ui.exampleTable) == [["Liver", "Six points (six points)", "Prior"]]


def test_a_box_is_drawn_once_even_after_six_points(kit, panel):
    ui = panel.ui
    ui.structureTabs.currentIndex = 1
    kit.click(ui.newPointsButton)
    kit.click(ui.newBoxButton)
    assert ui.placeWidget.placeModeEnabled
    assert not ui.placeWidget.placeModePersistency  # in Slicer each further click would begin another box


def test_a_segmentation_gives_all_its_segments_or_one(kit, panel):
    ui = panel.ui
    ui.structureTabs.currentIndex = 1
    volume = node("Prior")
    segmentation = add_segmentation(kit.scene, 0, volume, {"liver": "Liver", "spleen": "my spleen"})
    segmentation.SetReferenceImageGeometryParameterFromVolumeNode(volume)
    ui.markingSelector.setCurrentNode(segmentation)
    assert ui.exampleVolumeSelector.currentNode() is volume
    assert [ui.segmentSelector.itemText(n) for n in range(3)] == ["All segments, by their names", "Liver", "my spleen"]
    assert not ui.structureEdit.enabled
    kit.click(ui.addExampleButton)
    assert [row[0] for row in cells(ui.exampleTable)] == ["Liver", "my spleen"]
    ui.segmentSelector.currentIndex = 2
    assert ui.structureEdit.enabled
    ui.structureEdit.text = "spleen"
    kit.click(ui.addExampleButton)
    assert [row[:2] for row in cells(ui.exampleTable)] == [
        ["Liver", "Liver (segment)"],
        ["Spleen", "my spleen (segment)"],
    ]
    ui.markingSelector.setCurrentNode(None)
    assert ui.segmentSelector.isHidden()


def test_a_found_box_that_was_put_right_can_be_an_example(kit, panel):
    find(kit, panel, "Liver")
    ui = panel.ui
    ui.structureTabs.currentIndex = 1
    ui.markingSelector.setCurrentNode(node("liver in Current"))
    assert ui.exampleVolumeSelector.currentNode() is node("Current")
    assert ui.structureEdit.text == "liver"
    kit.click(ui.addExampleButton)
    assert cells(ui.boxTable) == [["Liver", "\u2713 whole", "\u2605 example"]]


def test_examples_are_unticked_and_removed(kit, panel):
    from PySide6.QtCore import Qt

    ui = panel.ui
    ui.structureTabs.currentIndex = 1
    for name in CHOSEN:
        panel.boxes.examples.add(name, add_roi(kit.scene, truth(0)[name].box_ras, f"{name} box"), node("Prior"))
    panel._parameterNode.structures = CHOSEN
    assert [ui.exampleTable.item(row, 0).checkState().value for row in (0, 1)] == [2, 2]
    ui.exampleTable.item(0, 0).setCheckState(Qt.CheckState.Unchecked)
    assert list(panel._parameterNode.structures) == ["spleen"]
    assert panel.structureList.chosen == ["spleen"]  # the library's of the same name is the same wish
    ui.exampleTable.selectRow(1)
    kit.click(ui.removeExampleButton)
    assert [row[0] for row in cells(ui.exampleTable)] == ["Liver"]
    assert node("spleen box") is not None
