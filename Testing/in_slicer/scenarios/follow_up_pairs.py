"""Lesions marked separately in two studies are paired; changes in Slicer's module Markups change the record."""

from driver.follow_up import keys, mark, place, point_list, state, table_text, volumes
from driver.landmarks import distance, world
from driver.scans import add_patient, patient
from driver.waiting import pause

RELOADS = True


def dated_pair(user):
    """Two studies of a patient, dated in the table of studies."""
    add_patient(0, "Prior")
    add_patient(1, "Current")
    panel = user.open("LesionFollowUp")
    table = panel.ui.studyTable
    user.wait(lambda: table.rowCount == 2, 10)
    for name, day in (("Prior", "2024-01-15"), ("Current", "2024-04-11")):
        row = next(n for n in range(2) if table.item(n, 1).text() == name)
        user.type_in_cell(table, row, 0, day)
        pause(0.5)
    user.wait(lambda: [volume.GetName() for volume in volumes(panel)] == ["Prior", "Current"], 10)
    return panel


def run(user):
    panel = dated_pair(user)
    ui = panel.ui
    user.prepare(panel)
    user.click(ui.showButton)
    one = mark(user, panel, patient(0).points_ras["carina"], 0)
    other = mark(user, panel, patient(1).points_ras["carina"], 1)
    # the scans show two people, and the table says so when they cannot be registered
    words = "? two patients"
    user.wait(lambda: table_text(panel.lesionTable.widget)[0][2].startswith(words), 300, words)
    shown = point_list(panel, volumes(panel)[1])
    assert shown.GetNumberOfDefinedControlPoints() == 2, (
        "the proposal is still marked when the registration has ended"
    )
    assert distance(world(shown), place(panel, one, 1)) < 0.1
    assert "one patient" in panel.lesionTable.widget.item(0, 2).toolTip()
    user.wait(lambda: ui.pairButton.enabled, 10)
    user.click(ui.pairButton)
    user.wait(lambda: not ui.pairArea.isHidden(), 10, "an offer is made")
    assert len(panel.logic.record.lesions) == 2, "nothing is done before the user agrees"
    user.picture("offer")
    user.click(ui.agreeButton)
    assert [each.id for each in panel.logic.record.lesions] == [one]
    user.press("Ctrl+Z")
    assert [each.id for each in panel.logic.record.lesions] == [one, other]
    user.press("Ctrl+Y")
    assert [each.id for each in panel.logic.record.lesions] == [one]

    # in the Markups module: a deleted point comes back with a sentence
    points = point_list(panel, volumes(panel)[0])
    points.RemoveNthControlPoint(0)
    user.wait(lambda: points.GetNumberOfControlPoints() == 1, 5, "the point comes back")
    user.wait(lambda: bool(ui.statusLabel.text), 5, "a sentence says so")
    assert state(panel, one, 0) == "marked"
    assert len(keys(panel)) == 2

    # after a reload the keys work at once; one more CT changes no row
    user.reload("LesionFollowUp")
    panel = user.open("LesionFollowUp")
    user.press("W")
    user.wait(lambda: panel.logic.placing.active, 5, "the keys work after a reload")
    user.press("Escape")
    before = [row[0] for row in table_text(panel.lesionTable.widget)]
    add_patient(2, "Third")
    user.wait(lambda: panel.ui.studyTable.rowCount == 3, 10, "the third study is listed")
    assert [row[0] for row in table_text(panel.lesionTable.widget)] == before
