"""Place mode: moving the mouse adds no undo step, and two clicks give exactly one box."""

from driver.landmarks import new_list, place_point
from driver.scans import add_patient, patient
from driver.waiting import pause


def run(user):
    prior = add_patient(0, "Prior")
    add_patient(1, "Current")
    panel = user.open("AnatomicalLandmarks")
    user.prepare(panel)
    user.click(panel.ui.gridButton)
    points = new_list(panel)
    place = patient(0).points_ras["carina"]
    for shift in (0, 20):
        place_point(user, panel, prior, place + [shift, 0, 0])
    user.start_placing(panel.ui.placeWidget)
    for shift in (10, 30, 50):
        user.views.hover(prior, place + [0, shift, 0])
        pause(0.1)
    user.views.leave(prior)
    user.stop_placing(panel.ui.placeWidget)
    pause(0.3)
    user.click(panel.ui.undoButton)
    assert points.GetNumberOfDefinedControlPoints() == 1, (
        "Undo takes back the last click, and only that"
    )

    user.start_placing(panel.ui.placeWidget)  # several points in a row
    for shift in (20, 40):
        user.views.click(prior, place + [shift, 0, 0])
    assert points.GetNumberOfDefinedControlPoints() == 3, "each click places a point"
    user.stop_placing(panel.ui.placeWidget)

    roi = user.open("AnatomicalROI")
    roi.ui.structureTabs.setCurrentWidget(roi.ui.examplesTab)
    user.click(roi.ui.newBoxButton)
    box = roi.ui.markingSelector.currentNode()
    for corner in (-30, 30):
        user.views.click(prior, place + [corner, corner, 0])
    user.wait(lambda: box.GetNumberOfDefinedControlPoints() > 0, 5, "two clicks draw a box")
    assert slicer_boxes() == [box], "one pair of clicks gives one box"
    user.picture("one-box")


def slicer_boxes():
    import slicer

    return list(slicer.util.getNodesByClass("vtkMRMLMarkupsROINode"))
