"""The main thread is never held while scans are prepared for the first time in a Slicer: torch is loaded meanwhile."""

from driver.heartbeat import Heartbeat
from driver.scans import add_patient
from driver.settings import keep_no_maps
from driver.waiting import pause

MOST_MS = 200.0


def run(user):
    import sys

    keep_no_maps()
    for number in range(2):
        add_patient(number, f"Scan {number + 1}")
    panel = user.open("AnatomicalLandmarks")
    pause(2.0)  # the views have drawn what they show
    assert "torch" not in sys.modules, "torch was loaded before anybody asked for it"
    with Heartbeat() as before:
        pause(3.0)
    user.click(panel.preparation.button)
    with Heartbeat() as beat:
        user.wait_until_prepared(panel)
    told = f"held for {beat.longest_ms:.0f} ms; at rest this Slicer is held for {before.longest_ms:.0f} ms"
    assert beat.longest_ms < max(MOST_MS, 2 * before.longest_ms), told
