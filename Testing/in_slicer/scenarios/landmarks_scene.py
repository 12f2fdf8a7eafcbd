"""A saved scene of landmarks after a restart: points, answers, corrections, table and choices are unchanged."""

import json

import numpy as np
from driver.landmarks import answer, answer_place, cell, new_list, place_point, world
from driver.scans import add_patient, patient


def run(user):
    prior, current = add_patient(0, "Prior"), add_patient(1, "Current")
    panel = user.open("AnatomicalLandmarks")
    user.prepare(panel)
    user.click(panel.ui.gridButton)
    new_list(panel)
    for name in ("carina", "heart_apex"):
        place_point(user, panel, prior, patient(0).points_ras[name])
    user.wait(lambda: answer(panel, current, 1) is not None)
    found = answer_place(panel, current)
    user.views.drag(current, found, found + [15, 0, 0])
    user.wait(lambda: answer(panel, current).status == "moved", 5)
    user.tick(panel.ui.jumpCheckBox, False)
    for volume in (prior, current):
        user.views.scroll(volume, 4)
    (user.folder / "before.json").write_text(json.dumps(_state(user, panel, current)))
    user.save_scene("landmarks.mrb")


def run_after_restart(user):
    user.load_scene("landmarks.mrb")
    panel = user.open("AnatomicalLandmarks")
    current = user.node("Current")
    user.wait(
        lambda: panel.session.store.map(current) is not None,
        60,
        "maps on the disk are read after loading",
    )
    user.wait(
        lambda: panel.ui.targetSelector.checkedNodes()[0] is current,
        5,
        "the boxes of the scans are ticked",
    )
    user.wait(lambda: answer(panel, current, 1) is not None, 60)
    before = json.loads((user.folder / "before.json").read_text())
    after = _state(user, panel, current)
    places = [np.array(state.pop("places shown")) for state in (before, after)]
    assert np.abs(places[1] - places[0]).max() < 0.1, (
        f"places shown: {places[1]}, before {places[0]}"
    )
    for what, value in before.items():
        assert after[what] == value, f"{what}: {after[what]}, before {value}"
    user.views.assert_none_is_black([user.node("Prior"), current])
    user.picture("as-it-was")


def _state(user, panel, current):
    ui, points = panel.ui, panel.logic.points
    scans = [user.node("Prior"), current]
    return {
        "places shown": [list(map(float, user.views.middle(volume))) for volume in scans],
        "points": [
            [round(x, 2) for x in world(points, n)]
            for n in range(points.GetNumberOfControlPoints())
        ],
        "answers": [[round(x, 2) for x in answer_place(panel, current, row)] for row in range(2)],
        "statuses": [answer(panel, current, row).status for row in range(2)],
        "table": [[cell(panel, row, column) for column in range(2)] for row in range(2)],
        "choice": ui.jumpCheckBox.checked,
    }
