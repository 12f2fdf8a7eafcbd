"""A follow-up saved as .mrb is complete after a restart: lesions, response, lines, colours, export, without copies."""

import json

from driver.follow_up import mark, measure, state, table_text, volumes
from driver.scans import add_patient, patient
from driver.waiting import pause

NAMES = ("carina", "heart_apex")


def run(user):
    add_patient(0, "Prior").SetAttribute("AnatomicalEmbedding.StudyDate", "2024-01-15")
    add_patient(1, "Current").SetAttribute("AnatomicalEmbedding.StudyDate", "2024-04-11")
    panel = user.open("LesionFollowUp")
    user.wait(lambda: len(volumes(panel)) == 2, 10)
    user.prepare(panel)
    user.click(panel.ui.showButton)
    for name in NAMES:
        lesion = mark(user, panel, patient(0).points_ras[name])
        user.wait(lambda lesion=lesion: state(panel, lesion, 1) == "proposed", 30)
        for number, length in ((0, 20.0), (1, 26.0)):
            measure(user, panel, lesion, number, length, length / 2)
        user.tick(panel.ui.targetCheckBox)
    pause(0.5)
    assert panel.ui.responseTable.rowCount > 0
    (user.folder / "before.json").write_text(json.dumps(_state(panel)))
    user.picture("before")
    user.save_scene("follow-up.mrb")


def run_after_restart(user):
    user.load_scene("follow-up.mrb")
    panel = user.open("LesionFollowUp")
    user.wait(lambda: len(panel.logic.record.lesions) == len(NAMES), 10)
    pause(1.0)
    user.picture("after")
    before = json.loads((user.folder / "before.json").read_text())
    after = _state(panel)
    for what, value in before.items():
        assert after[what] == value, f"{what}: {after[what]}, before {value}"
    assert panel.ui.exportButton.enabled, "Export is grey"
    assert "once the scans are prepared" not in panel.ui.nextStepLabel.text
    user.views.assert_none_is_black(volumes(panel))


def _state(panel):
    import slicer

    points = [
        n
        for n in slicer.util.getNodesByClass("vtkMRMLMarkupsFiducialNode")
        if n.GetName().startswith("Lesions")
    ]
    lines = slicer.util.getNodesByClass("vtkMRMLMarkupsLineNode")
    return {
        "lesions": table_text(panel.lesionTable.widget),
        "response": table_text(panel.ui.responseTable),
        "point lists": sorted(node.GetName() for node in points),
        "lines": sorted(node.GetName() for node in lines),
        "colours": [
            [round(x, 2) for x in node.GetDisplayNode().GetSelectedColor()] for node in points
        ],
    }
