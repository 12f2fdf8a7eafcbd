"""The user says that two scans without DICOM show one patient: they are registered. Then the user says the opposite."""

import qt
import slicer
from driver.landmarks import answer, answer_place, distance, new_list, place_point
from driver.scans import followed, visible_lesions

REGISTRATION_SECONDS = 180


def run(user):
    earlier, later = (
        slicer.util.addVolumeFromArray(volume.voxels, volume.ijk_to_ras, name=name)
        for name, volume in zip(("Earlier", "Later"), followed().volumes, strict=True)
    )
    panel = user.open("AnatomicalLandmarks")
    user.prepare(panel)
    user.click(panel.ui.gridButton)
    new_list(panel)
    here, there = visible_lesions()[0]
    place_point(user, panel, earlier, here)
    user.wait(lambda: answer(panel, later) is not None)
    relations = panel.session.relations
    assert not relations.busy
    assert panel.ui.patientCheckBox.checkState() == qt.Qt.PartiallyChecked, "nobody has said it yet"
    user.click(panel.ui.patientCheckBox)
    user.wait(
        lambda: relations.computed(earlier, later) is not None,
        REGISTRATION_SECONDS,
        "the two scans are registered",
    )
    assert distance(answer_place(panel, later), there) < 10.0
    user.picture("one-patient")
    user.click(panel.ui.patientCheckBox)
    assert relations.computed(earlier, later) is None
    user.save_scene("apart.mrb")


def run_after_restart(user):
    user.load_scene("apart.mrb")
    panel = user.open("AnatomicalLandmarks")
    assert not panel.ui.patientCheckBox.checked
    assert panel.session.relations.areApart(panel.logic.template, panel.logic.targets[0])
