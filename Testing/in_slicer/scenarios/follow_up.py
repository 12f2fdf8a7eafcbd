"""A follow-up of two DICOM studies: mark, propose, confirm, measure, export, and import the reports again."""

from driver.follow_up import (
    go_to,
    keys,
    measure,
    place,
    point_list,
    size,
    state,
    table_text,
    volumes,
)
from driver.landmarks import distance, world
from driver.scans import DATES, visible_lesions, write_studies
from driver.waiting import pause

LESIONS = 3


def run(user):
    series = write_studies(user.folder / "series")
    user.import_dicom(series)
    panel = user.open("LesionFollowUp")
    ui = panel.ui
    user.wait(lambda: len(volumes(panel)) == len(DATES), 10, "both studies are listed, by date")
    dates = [row[0].replace("-", "") for row in table_text(panel.ui.studyTable)]
    assert dates == list(DATES), dates
    user.prepare(panel)
    user.click(ui.showButton)
    user.views.assert_none_is_black(volumes(panel))
    user.picture("side-by-side")

    # New lesion (W), click in the prior; the place appears amber in the current study. J goes to it, C makes it green.
    lesions = []
    for count, (prior, current) in enumerate(visible_lesions()[:LESIONS], start=1):
        user.press("W")
        user.wait(lambda: panel.logic.placing.active, 5, "W asks for a click")
        user.views.click(volumes(panel)[0], prior)
        user.wait(lambda count=count: len(panel.logic.record.lesions) == count, 10)
        lesions.append(panel.logic.record.lesions[-1].id)
        user.wait(
            lambda: state(panel, lesions[-1], 1) == "proposed",
            30,
            "the place in the other study is proposed",
        )
        assert distance(place(panel, lesions[-1], 1), current) < 25
    for lesion in lesions:
        user.press("J")
        assert panel.choice.lesion == lesion
        assert user.views.shows(volumes(panel)[1], place(panel, lesion, 1), 3.0), (
            "J shows the proposal"
        )
        user.press("C")
        assert state(panel, lesion, 1) == "confirmed"
    shown = point_list(panel, volumes(panel)[1])
    assert all(shown.GetNthControlPointSelected(n) for n in range(LESIONS)), (
        "confirmed lesions are green"
    )

    # Move (M), Not visible (N), Outside (O), and Undo of each.
    moved = place(panel, lesions[0], 1) + [12, 0, 0]
    go_to(user, panel, lesions[0], 1)
    user.press("M")
    user.views.click(volumes(panel)[1], moved)
    user.wait(lambda: state(panel, lesions[0], 1) == "moved", 5)
    assert distance(place(panel, lesions[0], 1), moved) < 3
    user.click(ui.undoButton)
    for key, state_name in (("N", "not visible"), ("O", "outside")):
        go_to(user, panel, lesions[1], 1)
        user.press(key)
        assert state(panel, lesions[1], 1) == state_name
        user.click(ui.undoButton)
    assert state(panel, lesions[1], 1) == "confirmed"

    # L and S, two clicks each: a line with its length. Drag an end: it measures anew; Undo takes back one drag.
    for lesion in lesions:
        for number, length in ((0, 20.0), (1, 30.0)):
            measure(user, panel, lesion, number, length, length / 2)
            assert abs(size(panel, lesion, number).long_mm - length) < 4
    _, end = size(panel, lesions[0], 1).long_axis
    user.views.drag(volumes(panel)[1], end, [end[0] + 10, end[1], end[2]])
    user.wait(
        lambda: abs(size(panel, lesions[0], 1).long_mm - 40) < 5, 5, "a dragged end measures anew"
    )
    user.click(ui.undoButton)
    assert abs(size(panel, lesions[0], 1).long_mm - 30) < 4

    # Letters typed into Name are no keys.
    go_to(user, panel, lesions[0], 1)
    user.type(ui.nameEdit, "jocn")
    assert state(panel, lesions[0], 1) == "confirmed"
    assert not panel.logic.placing.active
    assert panel.logic.record.lesion(lesions[0]).label.endswith("jocn")
    user.tick(ui.targetCheckBox)
    user.picture("measured")

    # Export all kinds; what the table says comes back from the record alone.
    before = table_text(panel.lesionTable.widget)
    user.open_section(ui.exportSection)
    for box in (ui.csvBox, ui.reportBox, ui.srBox, ui.recordBox):
        user.tick(box)
    out = user.folder / "export"
    out.mkdir()
    with user.answering(out):
        user.click(ui.exportButton)
    user.wait(lambda: list(out.glob("*.followup.json")), 30, "files are written")
    reports = sorted(out.glob("*.sr.dcm"))
    assert len(reports) == len(DATES), ui.exportedLabel.text
    assert list(out.glob("*.csv"))
    assert list(out.glob("*.html"))
    user.picture("exported")
    user.close_scene()
    user.import_dicom(series)
    panel = user.open("LesionFollowUp")
    user.wait(lambda: len(volumes(panel)) == len(DATES), 10)
    assert not panel.logic.record.lesions
    user.click(panel.ui.importButton)
    with user.answering(next(out.glob("*.followup.json"))):
        user.choose_in_menu("Record")
    pause(1.0)
    assert len(panel.logic.record.lesions) == LESIONS, panel.ui.statusLabel.text
    after = table_text(panel.lesionTable.widget)
    assert [row[0] for row in after] == [row[0] for row in before], "names are as they were"
    assert abs(size(panel, lesions[0], 1).long_mm - 30) < 4
    assert len(keys(panel)) == len(DATES)
    assert world(point_list(panel, volumes(panel)[0])).any()
    pause(0.5)
    user.picture("imported")
