"""The panel of Lesion Follow-up on a real scene, subject hierarchy and logic; matching with the shipped weights."""

import numpy as np
import pytest
import qt_labels
import slicer
import vtk
from scans import add_patient, patient

NAMES = ("carina", "heart_apex")


@pytest.fixture
def module(kit, map_folder):
    """The module, not opened yet; maps are kept from test to test."""
    from AnatomicalEmbeddingLib.Panels import ModuleSettings

    ModuleSettings.setCacheFolder(str(map_folder))
    ModuleSettings.setDevice("cpu")
    return kit.load_module("LesionFollowUp")


@pytest.fixture
def hierarchy(kit):
    return slicer.vtkMRMLSubjectHierarchyNode.GetSubjectHierarchyNode(kit.scene)


@pytest.fixture
def import_study(kit):
    """import_study(person, day, name, number): a CT as DICOM import leaves it."""

    def run(person, day, name, number=0):
        constants = slicer.vtkMRMLSubjectHierarchyConstants
        hierarchy = slicer.vtkMRMLSubjectHierarchyNode.GetSubjectHierarchyNode(kit.scene)
        item = hierarchy.GetItemByUID(constants.GetDICOMUIDName(), person)
        if not item:
            item = hierarchy.CreateSubjectItem(hierarchy.GetSceneItemID(), person)
            hierarchy.SetItemUID(item, constants.GetDICOMUIDName(), person)
        study = hierarchy.CreateStudyItem(item, f"study {day}")
        hierarchy.SetItemAttribute(study, constants.GetDICOMStudyDateAttributeName(), day)
        volume = add_patient(number, name)
        hierarchy.CreateItem(study, volume)
        return volume

    return run


@pytest.fixture
def three(import_study):
    """A patient's three studies, loaded out of order: prior, middle, latest."""
    latest = import_study("Miller", "20240301", "C", 2)
    prior = import_study("Miller", "20230301", "A", 0)
    middle = import_study("Miller", "20230901", "B", 1)
    return prior, middle, latest


@pytest.fixture
def panel(kit, module, three):
    return kit.open(module)


def choose(kit, combo_box, text):
    """Choose an entry as the user does."""
    index = [combo_box.itemText(n) for n in range(combo_box.count)].index(text)
    combo_box.setCurrentIndex(index)
    combo_box.activated.emit(index)
    kit.process_events()


def entries(combo_box):
    return [combo_box.itemText(n) for n in range(combo_box.count)]


def column(table, number):
    return [table.item(row, number).text() for row in range(table.rowCount)]


def mark(panel, *names, number=0):
    """Place lesions in the prior; returns the list."""
    lesions = panel._parameterNode.lesions or panel.ui.lesionsSelector.addNode()
    for name in names:
        lesions.AddControlPointWorld(vtk.vtkVector3d(*patient(number).points_ras[name]))
    return lesions


def prepare(kit, panel):
    kit.click(panel.preparation.button)
    kit.spin(lambda: not panel.session.store.busy, 60)
    kit.spin(lambda: not panel.preparation.button.enabled)


# -- studies


def test_the_header_is_complete_and_says_what_is_not_here(module):
    header = module.instance.parent
    assert header.title == "Lesion Follow-up"
    assert "does not measure" in header.helpText
    assert "RECIST" in header.helpText
    for name in ("Goncharov", "MICCAI 2024", "Yan", "2022"):
        assert name in header.acknowledgementText


def test_studies_are_listed_by_date_and_first_and_last_are_chosen(panel, three):
    table = panel.studyTable.widget
    assert column(table, 0) == ["2023-03-01", "2023-09-01", "2024-03-01"]
    assert column(table, 1) == ["A", "B", "C"]
    assert column(table, 2) == ["prior, not prepared", "not prepared", "current, not prepared"]
    assert panel.ui.priorSelector.currentText == "2023-03-01   A"
    assert panel.ui.currentSelector.currentText == "2024-03-01   C"
    assert panel.logic.template is three[0]
    assert panel.logic.targets == [three[1], three[2]]
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
    assert panel.logic.targets == []
    assert "two studies" in panel.ui.showButton.toolTip


def test_studies_loaded_while_the_panel_is_open_appear(kit, panel, import_study, three):
    first = import_study("Miller", "20220101", "Z", 1)
    kit.spin(lambda: column(panel.studyTable.widget, 1) == ["Z", "A", "B", "C"])
    assert panel.logic.template is three[0], "what was chosen stays"
    assert panel.logic.targets == [first, three[1], three[2]]


def test_a_study_moved_to_the_patient_in_the_data_module_appears(kit, panel, hierarchy):
    loose = add_patient(1, "loose")
    item = hierarchy.CreateItem(hierarchy.GetSceneItemID(), loose)
    kit.spin(lambda: len(panel.patients) == 2)
    hierarchy.SetItemParent(item, hierarchy.GetItemByUID("DICOM", "Miller"))
    kit.spin(lambda: column(panel.studyTable.widget, 1) == ["A", "B", "C", "loose"])


def test_undated_studies_come_last_with_a_sentence_and_can_be_dated(kit, panel, hierarchy, three):
    undated = add_patient(1, "U")
    hierarchy.CreateItem(hierarchy.GetItemByUID("DICOM", "Miller"), undated)
    kit.spin(lambda: column(panel.studyTable.widget, 1) == ["A", "B", "C", "U"])
    assert "U: has no study date" in qt_labels.plain(panel.ui.noteLabel.text)
    panel.studyTable.widget.item(3, 0).setText("2023-06-15")
    assert column(panel.studyTable.widget, 1) == ["A", "U", "B", "C"]
    assert panel.logic.targets == [undated, three[1], three[2]]
    assert panel.ui.noteLabel.isHidden()
    assert undated.GetAttribute("AnatomicalEmbedding.StudyDate") == "2023-06-15"


def test_an_undated_study_is_not_the_current_one_by_itself(kit, module, hierarchy, three):
    hierarchy.CreateItem(hierarchy.GetItemByUID("DICOM", "Miller"), add_patient(1, "U"))
    panel = kit.open(module)
    assert panel.ui.currentSelector.currentText == "2024-03-01   C"


def test_a_wrong_date_is_said_and_changes_nothing(kit, panel):
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
    assert panel.logic.targets == [three[1], three[2]]
    choose(kit, panel.ui.patientSelector, "Smith")
    assert panel.logic.template is other[0]
    assert panel.logic.targets == [other[1]]
    assert column(panel.studyTable.widget, 1) == ["S1", "S2"]


def test_the_user_chooses_prior_and_current(kit, panel, three):
    choose(kit, panel.ui.priorSelector, "2023-09-01   B")
    assert panel.logic.template is three[1]
    assert panel.logic.targets == [three[0], three[2]]
    choose(kit, panel.ui.currentSelector, "2023-03-01   A")
    assert column(panel.studyTable.widget, 2) == ["current, not prepared", "prior, not prepared", "not prepared"]
    choose(kit, panel.ui.priorSelector, "2023-03-01   A")
    assert panel.ui.currentSelector.currentText == "2024-03-01   C", "a study is not compared with itself"


def test_a_deleted_prior_is_replaced(kit, panel, three):
    kit.scene.RemoveNode(three[0])
    kit.spin(lambda: column(panel.studyTable.widget, 1) == ["B", "C"])
    assert panel.logic.template is three[1]
    assert panel.logic.targets == [three[2]]


# -- lesions


def test_lesions_are_found_in_all_other_studies_where_they_are(kit, panel, three):
    prepare(kit, panel)
    mark(panel, *NAMES)
    table = panel.matchTable.widget
    assert column(table, 0) == ["L1", "L2"]
    assert [table.horizontalHeaderItem(n).text() for n in (1, 2)] == ["2023-09-01", "2024-03-01"]
    for number, volume in ((1, three[1]), (2, three[2])):
        each = panel.logic.answersIn(volume)
        for row, name in zip(panel.logic.rows(), NAMES, strict=True):
            error = each.worldOf(each.answers[row.pointId]) - patient(number).points_ras[name]
            assert np.linalg.norm(error) < 10.0, f"{name} in {volume.GetName()}"
    assert column(panel.studyTable.widget, 2) == ["prior, ready", "ready", "current, ready"]


def test_a_lesion_marked_first_starts_the_preparation(kit, panel):
    mark(panel, "carina")
    kit.spin(lambda: panel.preparation.button.text == "Cancel")
    kit.spin(lambda: panel.matchTable.widget.item(0, 2).text().endswith("mm"), 60)


def test_lesions_stay_with_the_prior_that_they_were_marked_in(kit, panel):
    lesions = mark(panel, "carina")
    choose(kit, panel.ui.priorSelector, "2023-09-01   B")
    assert panel.ui.lesionsSelector.currentNode() is None, "its points mean nothing in another scan"
    assert panel.logic.rows() == []
    choose(kit, panel.ui.priorSelector, "2023-03-01   A")
    assert panel.ui.lesionsSelector.currentNode() is lesions
    assert len(panel.logic.rows()) == 1


def test_choosing_a_list_chooses_its_prior(kit, panel, three):
    lesions = mark(panel, "carina")
    choose(kit, panel.ui.priorSelector, "2023-09-01   B")
    panel.ui.lesionsSelector.setCurrentNode(lesions)
    assert panel.logic.template is three[0]
    assert "was marked in A, which is the prior now" in panel.ui.statusLabel.text


def test_an_empty_list_goes_with_the_prior_it_is_chosen_for(kit, panel, three):
    empty = panel.ui.lesionsSelector.addNode()
    choose(kit, panel.ui.priorSelector, "2023-09-01   B")
    panel.ui.lesionsSelector.setCurrentNode(empty)
    assert panel.logic.template is three[1]
    assert panel.logic.points is empty


def test_answers_are_not_taken_for_lesions(kit, panel, three):
    prepare(kit, panel)
    mark(panel, "carina")
    answers = panel.logic.answersIn(three[1]).node
    panel.ui.lesionsSelector.setCurrentNode(answers)
    assert "holds answers; choose the list of the lesions" in panel.ui.statusLabel.text
    assert panel.ui.lesionsSelector.currentNode() is None
    assert panel.logic.points is None


def test_lesions_are_placed_with_the_button_of_the_panel(kit, panel):
    assert not panel.ui.placeWidget.isEnabled()
    lesions = panel.ui.lesionsSelector.addNode()
    assert panel.ui.placeWidget.isEnabled()
    panel.ui.placeWidget.setPlaceModeEnabled(True)
    interaction = kit.scene.GetNodeByID("vtkMRMLInteractionNodeSingleton")
    assert interaction.GetCurrentInteractionMode() == interaction.Place
    assert kit.scene.GetNodeByID("vtkMRMLSelectionNodeSingleton").GetActivePlaceNodeID() == lesions.GetID()
    panel.exit()
    assert interaction.GetCurrentInteractionMode() != interaction.Place


def test_undo_and_redo(kit, panel):
    prepare(kit, panel)
    mark(panel, *NAMES)
    kit.click(panel.ui.undoButton)
    assert column(panel.matchTable.widget, 0) == ["L1"]
    kit.click(panel.ui.redoButton)
    assert column(panel.matchTable.widget, 0) == ["L1", "L2"]


def test_side_by_side_shows_prior_and_current(kit, panel, three):
    layout = kit.scene.AddNewNodeByClass("vtkMRMLLayoutNode")
    kit.click(panel.ui.showButton)
    shown = layout.GetLayoutDescription(layout.GetViewArrangement())
    assert 'item name="A"' in shown
    assert 'item name="C"' in shown
    assert 'item name="B"' not in shown


def test_without_views_side_by_side_says_so(kit, panel):
    kit.click(panel.ui.showButton)
    assert panel.ui.statusLabel.text == "There are no views to lay out."


def test_the_test_that_runs_in_slicer_passes_here(module, map_folder):
    module.python.LesionFollowUpTest().runTest()


# -- coming and going


def test_everything_is_there_again_after_saving(kit, panel, tmp_path):
    prepare(kit, panel)
    mark(panel, *NAMES)
    choose(kit, panel.ui.currentSelector, "2023-09-01   B")
    before = [column(panel.matchTable.widget, n) for n in range(3)]
    path = kit.save_scene(tmp_path / "follow-up.mrb")
    kit.close_scene()
    assert panel.studyTable.widget.rowCount == 0
    kit.load_scene(path)
    kit.spin(lambda: panel.ui.priorSelector.currentText == "2023-03-01   A")
    assert panel.ui.currentSelector.currentText == "2023-09-01   B"
    assert [column(panel.matchTable.widget, n) for n in range(3)] == before


def test_closing_the_scene_while_working_empties_the_panel(kit, panel):
    mark(panel, "carina")
    kit.close_scene()
    assert panel.studyTable.widget.rowCount == 0
    assert panel.matchTable.widget.rowCount == 0
    assert entries(panel.ui.priorSelector) == []
    assert not panel.session.store.busy
    kit.spin(lambda: qt_labels.plain(panel.preparation.label.text) == "No scans chosen.")


def test_closing_the_scene_empties_the_panel_behind_another_module(kit, module, panel):
    kit.leave(module)
    kit.close_scene()
    assert panel.studyTable.widget.rowCount == 0
    assert panel.logic.template is None


def test_the_panel_closed_while_working_gives_everything_back(kit, module, three):
    import threading

    panel = kit.open(module)
    mark(panel, "carina")
    store = panel.session.store
    assert store.busy
    kit.close(panel)
    assert not store.busy
    assert not panel.session.attached
    assert not [thread for thread in threading.enumerate() if thread.name == "AnatomicalEmbedding"]


def test_lesions_of_an_older_scene_are_not_shown_in_a_new_one(kit, panel, import_study):
    mark(panel, "carina")
    kit.close_scene()
    import_study("Jones", "20240101", "J1", 1)
    import_study("Jones", "20240201", "J2", 2)
    kit.spin(lambda: column(panel.studyTable.widget, 1) == ["J1", "J2"])
    assert panel.ui.lesionsSelector.currentNode() is None
    assert panel.logic.rows() == []


def test_sample_data_is_there_once_slicer_has_started(kit, module):
    told = {source.sampleName: source.uris for source in kit.sample_data}
    assert list(told) == ["Phantom pair", "Chest CT", "Heart CTA", "Liver CT"]
    kit.app.startupCompleted.emit()  # four modules tell the same, which the Sample Data module passes over
    assert {source.sampleName: source.uris for source in kit.sample_data} == told
