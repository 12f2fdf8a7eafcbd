"""Test the import of lesions with the menu of the follow-up panel."""

import vtk
from scans import patient

from AnatomicalEmbedding.followup.lesions import MARKED
from AnatomicalEmbedding.followup.record_file import write_record


def trigger(reader, text):
    (action,) = [each for each in reader.panel.importing.menu().actions() if text in each.text]
    action.trigger()
    reader.kit.process_events()


def test_points_of_a_list_become_lesions_of_the_current_study(reader):
    points = reader.kit.scene.AddNewNodeByClass("vtkMRMLMarkupsFiducialNode", "Seen & known")
    points.AddControlPointWorld(vtk.vtkVector3d(*patient(2).points_ras["carina"]), "hilar")
    trigger(reader, "Points of Seen && known as lesions in 2024-03-01")
    assert reader.reported() == "Seen & known: new lesions: L1 hilar."
    assert reader.state("L1", 2) == MARKED
    assert reader.cell(0, 0).startswith("L1 hilar")
    reader.kit.spin(lambda: "mm" in reader.cell(0, 1), 60)  # and is found in the others


def test_a_record_is_imported_and_an_error_is_a_sentence(reader, tmp_path):
    reader.mark("carina")
    write_record(tmp_path / "own.followup.json", reader.logic.record)
    (tmp_path / "bad.followup.json").write_text("{")
    reader.kit.click(reader.ui.removeButton)
    for name in ("bad", "own"):
        reader.kit.dialogs.answer("open_file", str(tmp_path / f"{name}.followup.json"))
        trigger(reader, "Record")
        if name == "bad":
            assert "bad.followup.json: is not JSON" in reader.reported()
            assert not reader.logic.record.lesions
    assert reader.reported() == "own.followup.json: new lesions: L1."
    assert reader.state("L1", 0) == MARKED
