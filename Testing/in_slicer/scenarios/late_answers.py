"""A point is placed before the scans are prepared: when its answer arrives, all views show the place."""

from driver.landmarks import answer, answer_place, new_list, place_point
from driver.scans import add_patient, keep_no_maps, patient


def run(user):
    keep_no_maps()
    prior = add_patient(0, "Prior")
    current = add_patient(1, "Current")
    panel = user.open("AnatomicalLandmarks")
    user.click(panel.ui.gridButton)
    user.views.assert_none_is_black([prior, current])
    assert panel.ui.jumpCheckBox.checked
    new_list(panel)
    before = user.views.middle(current)
    place_point(user, panel, prior, patient(0).points_ras["carina"])
    assert answer(panel, current) is None, "the scans are not prepared yet"
    user.wait_until_prepared(panel)
    user.wait(
        lambda: answer(panel, current) is not None,
        30,
        "the point is answered once the scans are ready",
    )
    there = answer_place(panel, current)
    assert not (abs(before - there) < 1).all()
    user.wait(
        lambda: user.views.shows(current, there, 3.0), 5, "the target's views jump to a late answer"
    )
    user.picture("late-answer")
