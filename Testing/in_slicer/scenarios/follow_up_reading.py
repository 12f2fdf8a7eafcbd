"""Reading on a screen of 1280 x 800: two rows of views fit, show soft tissue, and show a lesion enlarged."""

from driver.follow_up import mark, place, state, volumes
from driver.scans import add_patient, patient
from driver.waiting import pause


def run(user):
    add_patient(0, "Prior").SetAttribute("AnatomicalEmbedding.StudyDate", "2024-01-15")
    add_patient(1, "Current").SetAttribute("AnatomicalEmbedding.StudyDate", "2024-04-11")
    panel = user.open("LesionFollowUp")
    user.wait(lambda: len(volumes(panel)) == 2, 10)
    prior, current = volumes(panel)
    user.prepare(panel)
    user.click(panel.ui.showButton)
    user.views.assert_none_is_black([prior, current])
    pause(0.5)
    user.views.assert_on_screen([prior, current], (1280, 800), 100)
    for volume in (prior, current):
        display = volume.GetDisplayNode()
        assert (display.GetWindow(), display.GetLevel()) == (400, 40), (
            "the window is not soft tissue"
        )
    user.picture("side-by-side")

    # after marking, the other study's views go to the proposal; J shows it close up
    lesion = mark(user, panel, patient(0).points_ras["liver_dome"])
    user.wait(lambda: state(panel, lesion, 1) == "proposed", 30)
    there = place(panel, lesion, 1)
    user.wait(
        lambda: user.views.shows(current, there, 3.0),
        5,
        "the views go to the proposal when it comes",
    )
    user.press("J")
    user.wait(lambda: user.views.field_of_view(current) < 160, 5, "J shows the lesion close up")
    assert user.views.shows(current, there, 3.0)
    user.picture("close-up")
