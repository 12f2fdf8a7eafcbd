"""The main thread is blocked only briefly: by the first preparation, "Show side by side", answers and boxes."""

import slicer
from driver.heartbeat import Heartbeat
from driver.landmarks import answer, new_list
from driver.scans import add_patient, keep_no_maps, patient
from driver.waiting import pause

MOST_MS = 200.0


def run(user):
    """The first preparation in a Slicer loads torch, which takes seconds."""
    keep_no_maps()
    panel = _start(user)
    assert user.is_first_use_of("torch"), "torch was loaded before anybody asked for it"
    with Heartbeat() as before:
        pause(3.0)
    user.click(panel.preparation.button)
    with Heartbeat() as beat:
        user.wait_until_prepared(panel)
    held = f"held for {beat.longest_ms:.0f} ms; at rest this Slicer is held for {before.longest_ms:.0f} ms"
    assert beat.longest_ms < max(MOST_MS, 2 * before.longest_ms), held


def run_side_by_side(user):
    """Six views are made: the main thread is held for each as long as Slicer needs for one, and never for several."""
    panel = _start(user)
    with Heartbeat() as one:
        user.views.add_one()
        pause(1.0)
    with Heartbeat() as beat:
        user.click(panel.ui.gridButton)
        pause(1.0)
    held = f"held for {beat.longest_ms:.0f} ms; by one view of Slicer's own for {one.longest_ms:.0f} ms"
    user.figures["first Show side by side"] = held
    assert beat.longest_ms < max(MOST_MS, 2 * one.longest_ms), held


def run_first_answers_and_boxes(user):
    """Four scans side by side for the first time, the first click, and all boxes of the library in one scan."""
    scans = [add_patient(number, f"CT {number}") for number in range(4)]
    panel = user.open("AnatomicalLandmarks")
    user.prepare(panel)
    with Heartbeat() as one:
        user.views.add_one()
        pause(1.0)
    most = max(MOST_MS, 2 * one.longest_ms)
    with Heartbeat() as beat:
        user.click(panel.ui.gridButton)
        pause(1.0)
    user.figures["four scans side by side"] = f"held for {beat.longest_ms:.0f} ms"
    assert beat.longest_ms < most, user.figures
    new_list(panel)
    place = patient(0).points_ras["carina"]
    user.start_placing(panel.ui.placeWidget)
    with Heartbeat() as beat:
        user.views.click(scans[0], place)
        user.wait(lambda: answer(panel, scans[3]) is not None)
    user.figures["first click"] = f"held for {beat.longest_ms:.0f} ms"
    assert beat.longest_ms < most, user.figures
    user.stop_placing(panel.ui.placeWidget)
    panel = user.open("AnatomicalROI")
    with Heartbeat() as beat:
        panel.boxes.find(scans[:1], panel.boxes.libraryStructures(), 0.95)
        user.wait(lambda: not panel.boxes.busy, 120, "boxes are found")
    pause(1.0)
    with Heartbeat() as one_more:  # what Slicer itself needs to add a box to so many
        slicer.mrmlScene.StartState(slicer.mrmlScene.BatchProcessState)
        box = slicer.mrmlScene.AddNewNodeByClass("vtkMRMLMarkupsROINode", "One more")
        box.CreateDefaultDisplayNodes()
        slicer.mrmlScene.EndState(slicer.mrmlScene.BatchProcessState)
        pause(1.0)
    user.figures["Find boxes"] = (
        f"held for {beat.longest_ms:.0f} ms; by Slicer's own one more box for {one_more.longest_ms:.0f} ms"
    )
    assert beat.longest_ms < max(most, 2 * one_more.longest_ms), user.figures


def _start(user):
    user.load_sample("Phantom pair")  # made beforehand: drawing a patient would load torch
    panel = user.open("AnatomicalLandmarks")
    pause(2.0)  # the views have drawn what they show
    return panel
