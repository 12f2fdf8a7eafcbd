"""The main thread is blocked only briefly by the first preparation and by the first "Show side by side"."""

from driver.heartbeat import Heartbeat
from driver.scans import keep_no_maps
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


def _start(user):
    user.load_sample("Phantom pair")  # made beforehand: drawing a patient would load torch
    panel = user.open("AnatomicalLandmarks")
    pause(2.0)  # the views have drawn what they show
    return panel
