"""The section "Cohort" of Anatomical Landmarks: places in many scans, one loaded by a double click."""

import numpy as np
import slicer.util
from scans import add_patient, patient

from AnatomicalEmbeddingLib.shared import Views


def write_places(folder, count: int = 2) -> str:
    lines = ["scan,status,probability,expected_error_mm,r,a,s"]
    for number in range(count):
        path = folder / f"patient_{number}.nii"
        patient(number).volume.write(path)
        r, a, s = patient(number).points_ras["carina"]
        chance = ("matched,0.93,4.1", "uncertain,,")[number]
        lines.append(f"{path},{chance},{r:.2f},{a:.2f},{s:.2f}")
    lines.append(f"{folder / 'head.nii'},absent,0.01,,,,")
    (folder / "places.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(folder / "places.csv")


def cells(table) -> list[list[str]]:
    return [[table.item(row, column).text() for column in range(table.columnCount)] for row in range(table.rowCount)]


def open_places(kit, panel, path):
    kit.dialogs.answer("open_file", str(path))
    kit.click(panel.ui.cohortButton)


def test_places_are_listed_and_a_double_click_loads_the_scan(kit, tmp_path):
    add_patient(2, "Template")
    panel = kit.open(kit.load_module("AnatomicalLandmarks"))
    assert panel.ui.cohortSection.collapsed
    panel.ui.cohortSection.collapsed = False
    assert not panel.ui.cohortTable.visible
    open_places(kit, panel, write_places(tmp_path))
    table = panel.ui.cohortTable
    assert cells(table) == [["patient_0.nii", "93%", "4.1 mm"], ["patient_1.nii", "unknown", ""]]
    assert "2 scans hold the place, 1 do not" in panel.ui.cohortLabel.text
    table.cellDoubleClicked.emit(1, 0)
    assert "Reading patient_1.nii" in panel.ui.cohortLabel.text
    kit.spin(lambda: panel.hits.loading is None, 30)
    node = slicer.util.getNodesByClass("vtkMRMLScalarVolumeNode")[-1]
    assert node.GetName() == "patient_1.nii"
    assert node in list(panel.logic.targets)
    table.cellDoubleClicked.emit(0, 2)
    kit.spin(lambda: panel.hits.loading is None, 30)
    assert [each.GetName() for each in panel.logic.targets] == ["patient_1.nii", "patient_0.nii"]
    assert not kit.dialogs.of("error")


def test_the_first_double_click_leaves_the_users_views_and_marks_the_place(kit, tmp_path):
    window = kit.open_window()
    for number, name in enumerate(("Mine", "Mine too")):
        add_patient(number, name)
    panel = kit.open(kit.load_module("AnatomicalLandmarks"))
    kit.click(panel.ui.gridButton)
    panel.ui.cohortSection.collapsed = False
    open_places(kit, panel, write_places(tmp_path))
    panel.ui.cohortTable.cellDoubleClicked.emit(0, 0)
    kit.spin(lambda: panel.hits.loading is None, 30)
    seen = [window.sliceWidget(name).mrmlSliceNode() for name in window.sliceViewNames()]
    shown = {Views.volumeIn(kit.scene, view).GetName() for view in seen if window.is_shown(view)}
    assert shown == {"Mine", "Mine too", "patient_0.nii"}
    scan = slicer.util.getNode("patient_0.nii")
    display = panel.hits.marker(scan).GetDisplayNode()
    place = panel.hits.marker(scan).GetNthControlPointPositionWorld(0)
    assert np.allclose(place, patient(0).points_ras["carina"], atol=0.01)
    own = Views.viewsOf(kit.scene, scan)
    assert own
    assert [display.IsDisplayableInView(view.GetID()) for view in seen] == [view in own for view in seen]


def test_a_bad_table_is_a_sentence_and_the_next_one_is_taken(kit, tmp_path):
    panel = kit.open(kit.load_module("AnatomicalLandmarks"))
    panel.ui.cohortSection.collapsed = False
    bad = tmp_path / "bad.csv"
    bad.write_text("a,b\n1,2\n")
    open_places(kit, panel, bad)
    assert "bad.csv: has other columns" in panel.ui.cohortLabel.text
    open_places(kit, panel, write_places(tmp_path))
    assert "bad.csv" not in panel.ui.cohortLabel.text
    assert panel.ui.cohortTable.rowCount == 2
    (tmp_path / "patient_0.nii").unlink()
    panel.ui.cohortTable.cellDoubleClicked.emit(0, 0)
    kit.spin(lambda: panel.hits.loading is None, 30)
    assert "patient_0.nii: no such file" in panel.ui.cohortLabel.text


def test_a_cancelled_dialog_changes_nothing(kit, tmp_path):
    panel = kit.open(kit.load_module("AnatomicalLandmarks"))
    panel.ui.cohortSection.collapsed = False
    open_places(kit, panel, write_places(tmp_path))
    open_places(kit, panel, "")
    assert panel.ui.cohortTable.rowCount == 2
