"""Preparation is cancelled and continued; the scene is closed, and later Slicer is ended, during the work."""

from driver.landmarks import answer, new_list, place_point
from driver.scans import add_patient, keep_no_maps, patient
from driver.waiting import pause

ENDS_AT_WORK = True


def run(user):
    keep_no_maps()
    panel = user.open("AnatomicalLandmarks")
    for round_ in range(2):
        prior = add_patient(0, "Prior")
        current = add_patient(1, "Current")
        user.wait(lambda: panel.ui.gridButton.enabled, 10, "both scans are listed")
        user.click(panel.ui.gridButton)
        button = panel.preparation.button
        user.click(button)
        user.wait(lambda: panel.session.store.busy, 5)
        assert button.text == "Cancel"
        user.views.scroll(prior, 3)  # slices can be looked at meanwhile
        user.click(button)
        user.wait(lambda: not panel.session.store.busy, 60, "Cancel ends the work")
        assert button.text == "Prepare scans"
        user.click(button)
        user.wait(lambda: panel.session.store.busy, 5)
        if round_ == 0:
            new_list(panel)
            place_point(user, panel, prior, patient(0).points_ras["carina"])
            user.close_scene()
            user.wait(lambda: not panel.session.store.busy, 60, "closing the scene ends the work")
            assert panel.matchTable.widget.rowCount == 0
            assert panel.ui.templateSelector.currentNode() is None
            assert user.views.count() <= 3, "the views of the scans that are gone stay"
    user.wait_until_prepared(panel)
    new_list(panel)
    place_point(user, panel, prior, patient(0).points_ras["carina"])
    user.wait(lambda: answer(panel, current) is not None)
    add_patient(2, "Third")
    pause(0.5)
    user.click(panel.preparation.button)
    user.wait(lambda: panel.session.store.busy, 5)  # Slicer ends now
