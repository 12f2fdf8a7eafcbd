"""Boxes of organs are found with the library, shown only over their scan, edited by hand, and used for crops."""

import numpy as np
import qt
import slicer
from driver.scans import add_patient, box_of
from driver.waiting import pause

ORGANS = ("liver", "kidney_left", "kidney_right")


def run(user):
    scans = [add_patient(0, "Prior"), add_patient(1, "Current")]
    landmarks = user.open("AnatomicalLandmarks")
    user.click(landmarks.ui.gridButton)
    panel = user.open("AnatomicalROI")
    ui = panel.ui
    assert abs(ui.recallSpinBox.value - 0.95) < 1e-9, "0.95 is what most people want"
    user.prepare(panel)
    user.wait(lambda: user.is_above_the_fold(ui.findButton), 5, "Find boxes lies above the fold")
    tick_structures(user, ui, ORGANS)
    user.click(ui.findButton)
    user.wait(lambda: panel.boxes.busy or ui.boxTable.rowCount > 0, 10)
    user.wait(lambda: not panel.boxes.busy, 120, "boxes are found")
    assert ui.boxTable.rowCount == len(ORGANS)
    pause(1.0)  # the last views draw names
    user.picture("boxes")

    from AnatomicalEmbeddingLib.boxes.BoxNodes import boxesIn

    ratios = []
    for number, scan in enumerate(scans):
        boxes = boxesIn(slicer.mrmlScene, scan)
        assert set(boxes) == set(ORGANS)
        for organ, box in boxes.items():
            low, high = box.box
            truth = box_of(number, organ)
            missed = np.maximum(low - truth[0], 0).max(), np.maximum(truth[1] - high, 0).max()
            assert max(missed) < 15, f"{organ} in {scan.GetName()} is cut by {max(missed):.0f} mm"
            ratio = np.prod(high - low) / np.prod(truth[1] - truth[0])
            ratios.append(ratio)
            assert ratio < 4, (
                f"the box of {organ} in {scan.GetName()} is {ratio:.1f} times as large as the organ's"
            )
            _assert_only_in_own_views(user, box.node, scan, scans)

    assert np.median(ratios) < 2.5, ratios

    # one scan's boxes are on no other scan either when the scan has no view of its own
    user.views.put_everywhere(scans[1])
    pause(2.0)
    for box in boxesIn(slicer.mrmlScene, scans[0]).values():
        assert not _drawn_in_slices(user, box.node, scans[1]), (
            f"{box.node.GetName()} is drawn on the other scan"
        )
    user.click_cell(ui.boxTable, 0, 1, twice=True)
    user.wait(
        lambda: user.views.all_of(scans[0]), 5, "a double click shows a scan that no view shows"
    )
    panel = user.open("AnatomicalLandmarks")
    user.click(panel.ui.gridButton)
    panel = user.open("AnatomicalROI")

    # a double click in the table shows the box, whose handle the mouse then drags
    user.click_cell(ui.boxTable, 0, 1, twice=True)
    box = boxesIn(slicer.mrmlScene, scans[0])[_structure(panel, 0)]
    middle = box.box.mean(axis=0)
    user.wait(lambda: user.views.shows(scans[0], middle, 5.0), 5, "the views jump to the box")
    high = middle.copy()
    high[0] = box.box[1][0]
    user.views.drag(scans[0], high, high + [20, 0, 0])
    user.wait(lambda: box.box[1][0] > high[0] + 10, 5, "the handle moves the box's side")
    user.wait(
        lambda: "edited" in ui.boxTable.item(0, 1).text(),
        5,
        "the table says that the box is edited",
    )

    # a crop has exactly the voxels of its scan, and is seen
    user.click(ui.cropButton)
    crop = user.node("Prior crop")
    assert set(np.unique(slicer.util.arrayFromVolume(crop))) <= set(
        np.unique(slicer.util.arrayFromVolume(scans[0]))
    )
    assert user.views.all_of(crop), "the crop is shown"
    user.picture("crop")

    user.click(ui.removeBoxesButton)
    pause(0.5)
    assert not boxesIn(slicer.mrmlScene, scans[0])


def tick_structures(user, ui, organs):
    from AnatomicalEmbeddingLib.boxes.StructureNames import titled

    for organ in organs:
        ui.searchEdit.text = ""
        rows = [ui.structureList.item(n) for n in range(ui.structureList.count)]
        item = next(each for each in rows if each.text() == titled(organ))
        ui.structureList.scrollToItem(item)
        item.setCheckState(qt.Qt.Checked)
    user.wait(lambda: ui.findButton.enabled, 5, "structures are ticked")


def _structure(panel, row):
    return panel.boxTable.structures[row]


def _assert_only_in_own_views(user, node, scan, scans):
    assert _drawn_in_slices(user, node, scan), f"{node.GetName()} is not drawn on its own scan"
    for other in scans:
        if other is not scan:
            assert not _drawn_in_slices(user, node, other), (
                f"{node.GetName()} is drawn on {other.GetName()}"
            )


def _drawn_in_slices(user, node, scan):
    display = node.GetDisplayNode()
    shown = display.GetVisibility() and display.GetVisibility2D()
    return bool(shown) and any(
        display.IsDisplayableInView(view.GetID()) for view in user.views.nodes(scan)
    )
