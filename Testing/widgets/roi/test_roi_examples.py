"""Test the user's own examples in the ROI panel: drawn boxes, segments, and removing examples."""

from box_bench import add_segmentation, truth
from roi_actions import cells, find, node


def test_a_box_is_drawn_once_and_added(kit, panel):
    ui = panel.ui
    ui.structureTabs.currentIndex = 1
    kit.click(ui.newBoxButton)
    assert ui.placeWidget.placeModeEnabled
    # in Slicer each further click would begin another box
    assert not ui.placeWidget.placeModePersistency
    kit.click(ui.addExampleButton)
    assert "choose a scan" in ui.statusLabel.text
    ui.exampleVolumeSelector.setCurrentNode(node("Prior"))
    kit.click(ui.addExampleButton)
    assert "give the structure a name" in ui.statusLabel.text
    ui.structureEdit.text = "Left kidney"
    kit.click(ui.addExampleButton)
    assert "is not drawn yet" in ui.statusLabel.text
    box = truth(0)["kidney_left"].box_ras
    ui.markingSelector.currentNode().SetCenter(*box.mean(axis=0))
    ui.markingSelector.currentNode().SetSize(*(box[1] - box[0]))
    kit.click(ui.addExampleButton)
    assert cells(ui.exampleTable) == [["Kidney left", "Example box (box)", "Prior"]]
    assert ui.structureTabs.tabText(1) == "My examples (1)"
    assert list(panel._parameterNode.structures) == ["kidney_left"]
    find(kit, panel)
    assert cells(ui.boxTable) == [["Kidney left", "\u2605 example", "\u2713 whole"]]
    assert "with your examples" in ui.boxTable.item(0, 2).toolTip()


def test_a_segmentation_gives_all_its_segments_or_one(kit, panel):
    ui = panel.ui
    ui.structureTabs.currentIndex = 1
    volume = node("Prior")
    segmentation = add_segmentation(kit.scene, 0, volume, {"liver": "Liver", "spleen": "my spleen"})
    segmentation.SetReferenceImageGeometryParameterFromVolumeNode(volume)
    ui.markingSelector.setCurrentNode(segmentation)
    assert ui.exampleVolumeSelector.currentNode() is volume
    texts = [ui.segmentSelector.itemText(n) for n in range(3)]
    assert texts == ["All segments, with their names", "Liver", "my spleen"]
    kit.click(ui.addExampleButton)
    assert [row[0] for row in cells(ui.exampleTable)] == ["Liver", "my spleen"]
    ui.segmentSelector.currentIndex = 2
    ui.structureEdit.text = "spleen"
    kit.click(ui.addExampleButton)
    assert cells(ui.exampleTable)[1][:2] == ["Spleen", "my spleen (segment)"]
