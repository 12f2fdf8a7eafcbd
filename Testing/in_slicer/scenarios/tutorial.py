"""The tutorial of docs/slicer.md, step by step."""

from driver.landmarks import answer, answer_place, distance, new_list, place_of, place_point, world
from driver.waiting import pause

CLOSE_MM = 10.0


def run(user):
    # 1. Load two CTs, or Sample Data, AnatomicalEmbedding, Phantom pair.
    user.load_sample("Phantom pair")
    prior = user.node("PhantomA")
    current = user.node("PhantomB")
    known = user.node("Phantom A landmarks")
    truth = user.node("Phantom B truth")
    start = place_of(known, "carina")
    goal = place_of(truth, "carina")
    for each in (known, truth):  # the answers are not to be read off
        each.GetDisplayNode().SetVisibility(False)

    # 2. Open Anatomical Landmarks. The first scan is the template, all others are targets. Press Prepare scans.
    panel = user.open("AnatomicalLandmarks")
    ui = panel.ui
    assert ui.templateSelector.currentNode() is prior
    assert panel.logic.targets == [current]
    user.prepare(panel)
    user.picture("prepared")

    # 3. Press Show side by side: a row of views for each scan.
    user.click(ui.gridButton)
    user.views.assert_none_is_black([prior, current])
    assert [len(user.views.all_of(volume)) for volume in (prior, current)] == [2, 2]
    user.picture("side-by-side")

    # 4. Choose "Create new" beside Points, press the place button, click in the template. The answer appears in the
    #    other scan: green matched, amber uncertain, none where the scan does not show the point. All views jump there.
    points = new_list(panel)
    place_point(user, panel, prior, start)
    user.wait(lambda: answer(panel, current) is not None, 30, "the click is answered")
    assert distance(world(points), start) < 3.0
    assert distance(answer_place(panel, current), goal) < CLOSE_MM
    assert answer(panel, current).status == "matched"
    user.wait(
        lambda: user.views.shows(prior, world(points), 3.0),
        5,
        "the template's views jump to the point",
    )
    user.wait(
        lambda: user.views.shows(current, answer_place(panel, current), 3.0),
        5,
        "the other views jump too",
    )
    user.picture("answered")
    place_point(user, panel, prior, place_of(known, "iliac_crest_left"))
    user.wait(lambda: answer(panel, current, 1) is not None)
    assert answer(panel, current, 1).status == "absent", "the other scan ends above the iliac crest"
    user.wait(
        lambda: all("not in this scan" in text for text in user.views.texts(current)),
        5,
        "its views say so",
    )
    user.click(ui.undoButton)
    assert points.GetNumberOfDefinedControlPoints() == 1, (
        f"{points.GetNumberOfControlPoints()} points"
    )

    # A click in another scan's views works too: its place in the template is found first.
    heart = place_of(truth, "heart_apex")
    place_point(user, panel, current, heart)
    user.wait(lambda: distance(world(points, 1), place_of(known, "heart_apex")) < 2 * CLOSE_MM)
    assert distance(answer_place(panel, current, 1), heart) < 3.0
    user.click(ui.undoButton)

    # 5. Drag the point: the answer follows on release.
    before = answer_place(panel, current)
    point = world(points)
    user.views.drag(prior, point, point + [-25, 0, 0])
    user.wait(
        lambda: distance(world(points), point + [-25, 0, 0]) < 4.0, 5, "the point follows the mouse"
    )
    user.wait(
        lambda: answer_place(panel, current)[0] < before[0] - 10, 10, "the answer follows the point"
    )

    #    Undo and Redo take back any of it.
    user.click(ui.undoButton)
    assert distance(world(points), point) < 0.01
    assert distance(answer_place(panel, current), before) < 0.01
    user.click(ui.redoButton)
    assert distance(world(points), point) > 20
    user.click(ui.undoButton)

    #    Drag an answer: it becomes yours, and no matching overwrites it.
    found = answer_place(panel, current)
    user.views.drag(current, found, found + [20, 0, 0])
    user.wait(lambda: answer(panel, current).status == "moved", 5, "the answer becomes the user's")
    mine = answer_place(panel, current)
    assert distance(mine, found + [20, 0, 0]) < 4.0
    user.click(ui.againButton)
    pause(0.5)
    assert distance(answer_place(panel, current), mine) < 0.01

    #    A right click in the table says "not visible" or matches again.
    user.right_click_cell(panel.matchTable.widget, 0, 1)
    user.choose_in_menu("Not visible")
    user.wait(lambda: answer(panel, current).status == "removed", 5)
    user.right_click_cell(panel.matchTable.widget, 0, 1)
    user.choose_in_menu("Match again")
    user.wait(lambda: answer(panel, current).status == "matched", 5)

    # 6. Anatomical crosshair (Ctrl+Shift+X): move the mouse in one scan, all others show the same place.
    user.press("Ctrl+Shift+X")
    assert ui.crosshairCheckBox.checked
    user.views.hover(prior, place_of(known, "liver_dome"))
    user.wait(
        lambda: panel.crosshair.markers.of(current) is not None, 5, "the other scan gets a marker"
    )
    there = world(panel.crosshair.markers.of(current))
    assert distance(there, place_of(truth, "liver_dome")) < 2 * CLOSE_MM
    user.wait(lambda: user.views.shows(current, there, 3.0), 5, "the other views follow the mouse")
    user.picture("crosshair")
    user.press("Ctrl+Shift+X")
    assert not ui.crosshairCheckBox.checked

    # 7. Save the scene (.mrb): points, answers, corrections and choices are kept. To table writes a table.
    final = answer_place(panel, current)
    found = world(panel.logic.points)
    user.save_scene("tutorial.mrb")
    user.load_scene("tutorial.mrb")
    current = user.node("PhantomB")
    assert ui.templateSelector.currentNode().GetName() == "PhantomA"
    assert distance(world(panel.logic.points), found) < 0.01
    user.wait(lambda: answer(panel, current) is not None, 60)
    assert distance(answer_place(panel, current), final) < 0.01
    user.click(ui.exportButton)
    table = user.node("* matches")
    assert table.GetNumberOfRows() > 0
    assert table.GetName() in ui.statusLabel.text
