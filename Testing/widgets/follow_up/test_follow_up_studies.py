"""The studies in the follow-up panel: patients, dates, prior and current."""

import pytest
import qt_labels
import slicer.util
from follow_up_actions import Reader, choose, column, entries
from scans import add_patient

from AnatomicalEmbeddingLib.shared import Views


def test_studies_are_listed_by_date_and_first_and_last_are_chosen(panel, three):
    table = panel.studyTable.widget
    assert column(table, 0) == ["2023-03-01", "2023-09-01", "2024-03-01"]
    assert column(table, 1) == ["A", "B", "C"]
    assert column(table, 2) == ["prior, not prepared", "not prepared", "current, not prepared"]
    assert panel.ui.priorSelector.currentText == "2023-03-01   A"
    assert panel.ui.currentSelector.currentText == "2024-03-01   C"
    assert panel._parameterNode.prior is three[0]
    assert list(panel.logic.volumes.values()) == list(three)
    assert panel.ui.noteLabel.isHidden()


def test_an_empty_scene_says_what_to_load(kit, module):
    panel = kit.open(module)
    assert qt_labels.plain(panel.ui.noteLabel.text) == "Load CTs of a patient: two studies or more."
    assert not panel.ui.showButton.enabled
    assert panel.studyTable.widget.rowCount == 0


def test_a_single_study_is_not_enough(kit, module, import_study):
    import_study("Miller", "20240301", "A")
    panel = kit.open(module)
    assert "Load another study of this patient" in qt_labels.plain(panel.ui.noteLabel.text)
    assert len(panel.logic.volumes) == 1
    assert "two studies" in panel.ui.showButton.toolTip


def test_studies_loaded_while_the_panel_is_open_appear(kit, panel, import_study, three):
    first = import_study("Miller", "20220101", "Z", 1)
    kit.spin(lambda: column(panel.studyTable.widget, 1) == ["Z", "A", "B", "C"])
    assert panel._parameterNode.prior is three[0], "what was chosen stays"
    assert list(panel.logic.volumes.values()) == [first, *three]


def test_a_study_moved_to_the_patient_in_the_data_module_appears(kit, panel, hierarchy):
    loose = add_patient(1, "loose")
    item = hierarchy.CreateItem(hierarchy.GetSceneItemID(), loose)
    kit.spin(lambda: len(entries(panel.ui.patientSelector)) == 2)
    hierarchy.SetItemParent(item, hierarchy.GetItemByUID("DICOM", "Miller"))
    kit.spin(lambda: column(panel.studyTable.widget, 1) == ["A", "B", "C", "loose"])


def test_undated_studies_come_last_with_a_sentence_and_can_be_dated(kit, panel, hierarchy, three):
    assert panel.ui.studyArea.collapsed
    undated = add_patient(1, "U")
    hierarchy.CreateItem(hierarchy.GetItemByUID("DICOM", "Miller"), undated)
    kit.spin(lambda: column(panel.studyTable.widget, 1) == ["A", "B", "C", "U"])
    assert "U: has no study date" in qt_labels.plain(panel.ui.noteLabel.text)
    assert not panel.ui.studyArea.collapsed
    panel.studyTable.widget.item(3, 0).setText("2023-06-15")
    assert column(panel.studyTable.widget, 1) == ["A", "U", "B", "C"]
    assert list(panel.logic.volumes.values()) == [three[0], undated, three[1], three[2]]
    assert panel.ui.noteLabel.isHidden()
    assert undated.GetAttribute("AnatomicalEmbedding.StudyDate") == "2023-06-15"


def test_an_undated_study_is_not_the_current_one_by_itself(kit, module, hierarchy, three):
    hierarchy.CreateItem(hierarchy.GetItemByUID("DICOM", "Miller"), add_patient(1, "U"))
    panel = kit.open(module)
    assert panel.ui.currentSelector.currentText == "2024-03-01   C"


def test_a_wrong_date_is_reported_and_changes_nothing(kit, panel):
    panel.studyTable.widget.item(1, 0).setText("1.9.2023")
    assert panel.ui.statusLabel.text == 'B: "1.9.2023" is no date; write it as YYYY-MM-DD, such as 2024-01-31.'
    assert column(panel.studyTable.widget, 0) == ["2023-03-01", "2023-09-01", "2024-03-01"]
    assert not kit.dialogs


def test_only_dates_can_be_edited(panel):
    import qt

    flags = [bool(panel.studyTable.widget.item(0, n).flags() & qt.Qt.ItemIsEditable) for n in range(3)]
    assert flags == [True, False, False]


def test_patients_are_kept_apart(kit, module, import_study, three):
    other = import_study("Smith", "20230101", "S1", 1), import_study("Smith", "20240101", "S2", 2)
    panel = kit.open(module)
    assert entries(panel.ui.patientSelector) == ["Miller", "Smith"]
    assert list(panel.logic.volumes.values()) == [*three]
    choose(kit, panel.ui.patientSelector, "Smith")
    assert list(panel.logic.volumes.values()) == [*other]
    assert column(panel.studyTable.widget, 1) == ["S1", "S2"]


def test_the_user_chooses_prior_and_current(kit, panel, three):
    choose(kit, panel.ui.priorSelector, "2023-09-01   B")
    assert panel._parameterNode.prior is three[1]
    choose(kit, panel.ui.currentSelector, "2023-03-01   A")
    assert column(panel.studyTable.widget, 2) == ["current, not prepared", "prior, not prepared", "not prepared"]
    choose(kit, panel.ui.priorSelector, "2023-03-01   A")
    assert panel.ui.currentSelector.currentText == "2024-03-01   C", "a study is not compared with itself"


def test_a_deleted_prior_is_replaced(kit, panel, three):
    kit.scene.RemoveNode(three[0])
    kit.spin(lambda: column(panel.studyTable.widget, 1) == ["B", "C"])
    assert panel._parameterNode.prior is three[1]
    assert list(panel.logic.volumes.values()) == [*three[1:]]


def test_side_by_side_shows_prior_and_current(kit, panel, three):
    layout = kit.scene.AddNewNodeByClass("vtkMRMLLayoutNode")
    kit.click(panel.ui.showButton)
    shown = layout.GetLayoutDescription(layout.GetViewArrangement())
    assert 'item name="A"' in shown
    assert 'item name="C"' in shown
    assert 'item name="B"' not in shown


def test_the_panel_leaves_room_for_the_views_on_a_small_screen(panel):
    """At 1280 pixels three slice views of 280 need what the panel leaves."""
    assert panel.parent.minimumSizeHint.width() <= 420
    sections = slicer.util.findChildren(panel.parent, className="ctkCollapsibleButton")
    for section in sections:
        assert section.layout().totalMinimumSize().width() <= 420, f"{section.text} is cut off"


def test_the_other_studies_views_go_to_a_new_lesion_once_it_is_proposed(kit, module, three):
    kit.open_window()
    panel = kit.open(module)
    reader = Reader(kit, panel)
    kit.click(panel.ui.showButton)
    reader.mark("carina")
    (lesion,) = panel.logic.record.lesions
    assert panel.logic.placeOf(lesion.id, reader.keys[2]) is None, "the scans are not prepared yet"
    kit.spin(lambda: not panel.session.store.busy, 60)
    for study, volume in ((reader.keys[0], three[0]), (reader.keys[2], three[2])):
        views = Views.viewsOf(kit.scene, volume)
        assert len(views) == 3
        for view in views:
            matrix = view.GetSliceToRAS()
            assert [matrix.GetElement(n, 3) for n in range(3)] == pytest.approx(panel.logic.placeOf(lesion.id, study))
            assert min(view.GetFieldOfView()[:2]) == pytest.approx(150)


def test_without_views_side_by_side_says_so(kit, panel):
    kit.click(panel.ui.showButton)
    assert panel.ui.statusLabel.text == "There are no views to lay out."


def test_sample_data_is_there_once_slicer_has_started(kit, module):
    told = {source.sampleName: source.uris for source in kit.sample_data}
    assert list(told) == ["Phantom pair", "Chest CT", "Heart CTA", "Liver CT"]
    kit.app.startupCompleted.emit()  # four modules tell the same, which the Sample Data module passes over
    assert {source.sampleName: source.uris for source in kit.sample_data} == told


def test_the_pair_follows_dates_that_turn_it_round(kit, module):
    newer, older = add_patient(0, "newer"), add_patient(1, "older")
    panel = kit.open(module)
    table = panel.studyTable.widget
    assert (panel._parameterNode.prior, panel._parameterNode.current) == (newer, older)
    for name, day in (("newer", "2024-01-01"), ("older", "2023-01-01")):
        table.item(column(table, 1).index(name), 0).setText(day)
    kit.spin(lambda: column(table, 1) == ["older", "newer"])
    assert (panel._parameterNode.prior, panel._parameterNode.current) == (older, newer)
