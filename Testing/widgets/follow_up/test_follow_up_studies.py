"""Test the studies in the follow-up panel: patients, dates, prior and current."""

import qt_labels
import slicer.util
from follow_up_actions import column
from scans import add_patient


def test_studies_are_listed_by_date_and_first_and_last_are_chosen(panel, three):
    table = panel.ui.studyTable
    assert column(table, 0) == ["2023-03-01", "2023-09-01", "2024-03-01"]
    assert column(table, 1) == ["A", "B", "C"]
    assert panel.ui.priorSelector.currentText == "2023-03-01   A"
    assert panel.ui.currentSelector.currentText == "2024-03-01   C"
    assert panel._parameterNode.prior is three[0]
    assert list(panel.logic.volumes.values()) == list(three)
    assert panel.ui.noteLabel.isHidden()


def test_undated_studies_come_last_with_a_sentence_and_can_be_dated(kit, panel, hierarchy, three):
    assert panel.ui.studyArea.collapsed
    undated = add_patient(1, "U")
    hierarchy.CreateItem(hierarchy.GetItemByUID("DICOM", "Miller"), undated)
    kit.spin(lambda: column(panel.ui.studyTable, 1) == ["A", "B", "C", "U"])
    assert "U: has no study date" in qt_labels.plain(panel.ui.noteLabel.text)
    assert not panel.ui.studyArea.collapsed
    panel.ui.studyTable.item(3, 0).setText("2023-06-15")
    assert column(panel.ui.studyTable, 1) == ["A", "U", "B", "C"]
    assert list(panel.logic.volumes.values()) == [three[0], undated, three[1], three[2]]
    assert panel.ui.noteLabel.isHidden()
    assert undated.GetAttribute("AnatomicalEmbedding.StudyDate") == "2023-06-15"


def test_a_wrong_date_is_reported_and_changes_nothing(kit, panel):
    panel.ui.studyTable.item(1, 0).setText("1.9.2023")
    assert (
        panel.ui.statusLabel.text
        == 'B: "1.9.2023" is not a date; write it as YYYY-MM-DD, such as 2024-01-31.'
    )
    assert column(panel.ui.studyTable, 0) == ["2023-03-01", "2023-09-01", "2024-03-01"]
    assert not kit.dialogs


def test_the_panel_leaves_room_for_the_views_on_a_small_screen(panel):
    """At 1280 pixels three slice views of 280 need what the panel leaves."""
    assert panel.parent.minimumSizeHint.width() <= 420
    sections = slicer.util.findChildren(panel.parent, className="ctkCollapsibleButton")
    for section in sections:
        assert section.layout().totalMinimumSize().width() <= 420, f"{section.text} is cut off"


def test_the_pair_follows_dates_that_turn_it_round(kit, module):
    newer = add_patient(0, "newer")
    older = add_patient(1, "older")
    panel = kit.open(module)
    table = panel.ui.studyTable
    assert (panel._parameterNode.prior, panel._parameterNode.current) == (newer, older)
    for name, day in (("newer", "2024-01-01"), ("older", "2023-01-01")):
        table.item(column(table, 1).index(name), 0).setText(day)
    kit.spin(lambda: column(table, 1) == ["older", "newer"])
    assert (panel._parameterNode.prior, panel._parameterNode.current) == (older, newer)
