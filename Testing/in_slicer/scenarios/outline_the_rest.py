"""Segment the rest like these: an organ segmented in one scan is outlined in another scan, in the background."""

import slicer
from driver.scans import add_patient, box_of, patient
from driver.waiting import pause


def run(user):
    scans = [add_patient(0, "Prior"), add_patient(1, "Current")]
    panel = user.open("AnatomicalROI")
    ui = panel.ui
    assert ui.outlinesSection.collapsed, "folded away by default"
    user.open_section(ui.outlinesSection)
    assert not ui.outlineButton.enabled
    example = segment_liver(scans[0])
    ui.outlineFolderEdit.currentPath = str(user.folder / "outlines")
    ui.outlineExamplesSelector.setCheckState(example, 2)
    user.wait(lambda: ui.outlineButton.enabled, 5, "one scan can be outlined")
    start = panel.outlines.process.start
    brief = ("--steps", "20")  # the organ of a synthetic patient is learned at once
    panel.outlines.process.start = lambda words, *rest: start(
        [*words, *(brief if words[0] == "train" else ())], *rest
    )

    # stopped, and gone on with
    user.click(ui.outlineButton)
    user.wait(lambda: panel.outlines.process.running, 60, "the scans are saved")
    user.click(ui.outlineButton)
    user.wait(lambda: not panel.outlines.busy, 300, "Cancel stops")
    assert "press Segment to continue" in ui.outlineStatusLabel.text
    user.click(ui.outlineButton)
    user.wait(lambda: panel.outlines.busy, 10)
    user.wait(lambda: not panel.outlines.busy, 600, "the other scan is outlined")
    pause(0.5)
    user.picture("outlined")

    assert ui.outlineTable.rowCount == 1
    assert ui.outlineTable.item(0, 0).text() == "Current"
    assert float(ui.outlineTable.item(0, 2).text()) > 300, "ml of a liver"
    found = user.node("Current outlined")
    assert found.GetSegmentation().GetNthSegment(0).GetName() == "The liver"

    # a double click shows the structure
    user.click_cell(ui.outlineTable, 0, 1, twice=True)
    user.wait(
        lambda: user.views.shows(scans[1], box_of(1, "liver").mean(axis=0), 20.0),
        5,
        "the views jump to it",
    )

    # closing a scene with several segmentations, whoever made them, Slicer logs a critical line for every second one
    slicer.mrmlScene.RemoveNode(example)


def segment_liver(scan):
    """A segmentation that was drawn on the first patient's scan."""
    import numpy as np

    from AnatomicalEmbeddingLib.boxes.Segments import addSegment

    node = slicer.mrmlScene.AddNewNodeByClass("vtkMRMLSegmentationNode", "Drawn by hand")
    node.CreateDefaultDisplayNodes()
    node.SetReferenceImageGeometryParameterFromVolumeNode(scan)
    label = next(value for value, name in patient(0).label_names.items() if name == "liver")
    addSegment(
        node,
        np.asarray(patient(0).labels == label),
        patient(0).volume.ijk_to_ras,
        "The liver",
        (0.8, 0.4, 0.3),
    )
    return node
