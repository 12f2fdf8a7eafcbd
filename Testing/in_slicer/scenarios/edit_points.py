"""Points are placed, renamed in the table, and deleted in a view with the Delete key; undo works for each action."""

from driver.landmarks import answer, answer_place, cell, new_list, place_point, world
from driver.scans import add_patient, patient


def run(user):
    prior = add_patient(0, "Prior")
    current = add_patient(1, "Current")
    panel = user.open("AnatomicalLandmarks")
    user.prepare(panel)
    user.click(panel.ui.gridButton)
    points = new_list(panel)
    table = panel.matchTable.widget
    for name in ("carina", "heart_apex"):
        place_point(user, panel, prior, patient(0).points_ras[name])
    user.wait(lambda: answer(panel, current, 1) is not None)
    assert (table.rowCount, table.columnCount) == (2, 2)

    user.type_in_cell(table, 0, 0, "bifurcation")
    assert points.GetNthControlPointLabel(0) == "bifurcation"
    assert panel.logic.answersIn(current).node.GetNthControlPointLabel(0) == "bifurcation"

    user.click_cell(table, 0, 1, twice=True)  # all views go to the first point again
    user.wait(
        lambda: user.views.shows(current, answer_place(panel, current), 3.0),
        5,
        "a double click shows the point",
    )

    user.press("N")  # the next point, then the one before it
    user.wait(lambda: user.views.shows(prior, world(points, 1), 3.0), 5, "N shows the next point")
    user.press("P")
    user.wait(
        lambda: user.views.shows(current, answer_place(panel, current), 3.0),
        5,
        "P shows the point before",
    )
    user.open("AnatomicalROI")
    user.press("N")
    user.open("AnatomicalLandmarks")
    assert user.views.shows(current, answer_place(panel, current), 3.0), (
        "keys do nothing while another module is open"
    )
    for button in (panel.ui.axialButton, panel.ui.gridButton):
        user.click(button)
        user.wait(
            lambda: user.views.shows(current, answer_place(panel, current), 3.0),
            5,
            "layouts keep the place",
        )

    user.views.hover(prior, world(points, 0))
    user.views.press(prior, "Delete")
    user.wait(
        lambda: points.GetNumberOfControlPoints() == 1,
        5,
        "Delete removes the point under the mouse",
    )
    assert table.rowCount == 1
    assert cell(panel, 0, 0) != "bifurcation"
    user.press("Ctrl+Z")
    user.wait(lambda: points.GetNumberOfControlPoints() == 2, 5, "Undo brings it back")
    assert "bifurcation" in [cell(panel, row, 0) for row in range(2)]
    user.press("Ctrl+Y")
    assert points.GetNumberOfControlPoints() == 1
    user.picture("one-point-left")

    # what was said of a click in another scan is gone with its list
    place_point(user, panel, current, patient(1).points_ras["liver_dome"])
    user.wait(
        lambda: "was found by matching" in panel.ui.statusLabel.text,
        10,
        "the panel says where the click went",
    )
    new_list(panel)
    user.wait(lambda: not panel.ui.statusLabel.text, 5, "nothing of it stays with another list")
