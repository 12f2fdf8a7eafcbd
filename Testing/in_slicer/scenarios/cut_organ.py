"""A scan ends inside an organ: its box is never called whole. A scan stored upside down is reported."""

import qt
import slicer
from driver.scans import add_patient, patient
from driver.waiting import pause

ENDS_MM = (257.0, 480.0)  # the height of the kidneys' middles


def run(user):
    scan = add_patient(0, "Cut", ENDS_MM)
    turned = add_patient(1, "Turned")
    slicer.util.updateVolumeFromArray(turned, slicer.util.arrayFromVolume(turned)[::-1].copy())
    panel = user.open("AnatomicalROI")
    ui = panel.ui
    user.prepare(panel)
    from AnatomicalEmbeddingLib.boxes.BoxNodes import absentIn, boxesIn
    from AnatomicalEmbeddingLib.boxes.StructureNames import titled

    kidneys = ("kidney_left", "kidney_right")
    assert all(name in patient(0, ENDS_MM).label_names.values() for name in kidneys)
    for n in range(ui.structureList.count):
        if ui.structureList.item(n).text() in map(titled, kidneys):
            ui.structureList.item(n).setCheckState(qt.Qt.Checked)
    user.wait(lambda: ui.findButton.enabled, 5)
    user.click(ui.findButton)
    user.wait(lambda: not panel.boxes.busy, 120)
    pause(0.5)
    boxes = boxesIn(slicer.mrmlScene, scan)
    absent = absentIn(scan)
    for kidney in kidneys:
        assert kidney in absent or boxes[kidney].found.status == "cut", f"{kidney} is called whole"
    assert "Turned: head and feet are swapped" in panel.preparation.label.text
    user.picture("cut")
