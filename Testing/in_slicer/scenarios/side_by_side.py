"""Layouts: all views show scans at the first press, from a maximised view, with three saved rows, with four scans."""

from driver.landmarks import answer, new_list, place_point
from driver.scans import add_patient, patient
from driver.waiting import pause


def run(user):
    prior = add_patient(0, "Prior")
    current = add_patient(1, "Current")
    panel = user.open("AnatomicalLandmarks")
    user.prepare(panel)
    user.click(panel.ui.gridButton)  # the first time in this Slicer that these views are made
    user.views.assert_none_is_black([prior, current])
    user.views.assert_on_screen([prior, current], (1280, 800), 150)
    user.picture("first-press")
    _assert_soft_tissue([prior, current])

    # a view that fills the window gives way
    user.views.maximise(prior)
    assert user.views.count() == 1
    user.click(panel.ui.gridButton)
    pause(0.5)
    assert user.views.count() == 4

    # the wheel scrolls all views of a row's orientation through their own scan
    before = user.views.middle(prior)[2]
    user.views.scroll(prior, 5)
    user.wait(lambda: abs(user.views.middle(prior)[2] - before) > 1, 5, "the wheel scrolls")

    # points move along when a view's background is changed in its bar
    new_list(panel)
    place_point(user, panel, prior, patient(0).points_ras["carina"])
    user.wait(lambda: answer(panel, current) is not None)
    view = user.views.put_instead(prior, current)
    shown = panel.logic.answersIn(current).node.GetDisplayNode()
    user.wait(lambda: shown.IsDisplayableInView(view), 5, "answers follow their scan")
    assert not panel.logic.points.GetDisplayNode().IsDisplayableInView(view)

    # three rows are saved with the scene; four scans have views that are large enough to see something
    add_patient(2, "Third")
    user.wait(lambda: len(panel.logic.targets) == 2, 10)
    user.click(panel.ui.gridButton)
    pause(0.5)
    assert user.views.count() == 6
    user.save_scene("rows.mrb")
    add_patient(3, "Fourth")
    user.wait(lambda: len(panel.logic.targets) == 3, 10)
    user.click(panel.ui.gridButton)
    volumes = [user.node(name) for name in ("Prior", "Current", "Third", "Fourth")]
    user.views.assert_none_is_black(volumes)
    user.views.assert_on_screen(volumes, (1280, 800), 100)
    user.picture("four-scans")
    user.click(panel.ui.axialButton)
    pause(0.5)
    assert user.views.count() == 4, "one axial view for each scan"
    user.views.assert_none_is_black(volumes)
    user.views.assert_on_screen(volumes, (1280, 800), 150)
    user.picture("four-axial")


def run_after_restart(user):
    user.load_scene("rows.mrb")
    volumes = [user.node(name) for name in ("Prior", "Current", "Third")]
    user.views.assert_none_is_black(volumes)
    before = [user.views.middle(volume)[2] for volume in volumes]
    user.views.scroll(volumes[0], 3)
    user.wait(lambda: abs(user.views.middle(volumes[0])[2] - before[0]) > 1, 5, "the wheel scrolls")
    assert [user.views.middle(volume)[2] for volume in volumes[1:]] == before[1:], (
        "other scans scroll along"
    )
    user.views.assert_none_is_black(volumes)
    panel = user.open("AnatomicalLandmarks")
    user.click(panel.ui.gridButton)
    user.views.assert_none_is_black(volumes)
    user.picture("rows-again")


def _assert_soft_tissue(volumes):
    for volume in volumes:
        display = volume.GetDisplayNode()
        problem = (
            f"{volume.GetName()}: window {display.GetWindow():.0f}, level {display.GetLevel():.0f}"
        )
        assert (display.GetWindow(), display.GetLevel()) == (400, 40), problem
