"""Places of words: a place is shown and shaded in all scans, Enter shows the next, and at the end all is removed."""

import numpy as np
import slicer
from driver.landmarks import distance
from driver.scans import add_patient, patient
from driver.waiting import pause


def run(user):
    volumes = [add_patient(0, "Prior"), add_patient(1, "Current")]
    panel = user.open("AnatomicalLandmarks")
    user.prepare(panel)
    user.click(panel.ui.gridButton)
    user.views.assert_none_is_black(volumes)

    # the place is found in both scans, their views go there, and its region is shaded in its own scan
    field = panel.ui.findEdit
    user.type(field, "liver and spleen and brain")
    user.wait(lambda: all(panel.words.found(volume) for volume in volumes), 60, "both scans answer")
    assert "1 of 3: liver" in panel.ui.findLabel.text
    for number, volume in enumerate(volumes):
        place = panel.words.found(volume).world
        assert distance(place, _middle_of_liver(number)) < 60
        user.wait(
            lambda volume=volume, place=place: user.views.shows(volume, place, 3.0),
            5,
            "the views go there",
        )
    assert [node.GetName() for node in _regions()] == ["liver", "liver"]
    user.picture("liver")
    user.click(panel.ui.keepButton)
    kept = ["liver in Prior", "liver in Current"]
    assert [node.GetName() for node in _regions()] == kept

    # Enter goes on; what the scans do not show is said
    user.press("Return", field)
    user.wait(lambda: all(panel.words.found(volume) for volume in volumes), 30)
    assert "2 of 3: spleen" in panel.ui.findLabel.text
    user.press("Return", field)
    user.wait(lambda: all(panel.words.found(volume) for volume in volumes), 30)
    assert panel.ui.findLabel.text.count("not in this scan") == 2
    assert [node.GetName() for node in _regions()] == kept
    for node in _regions():
        slicer.mrmlScene.RemoveNode(node)

    # a sentence of a report
    user.open_section(panel.ui.reportBox)
    panel.ui.reportEdit.setPlainText("No change. Cyst of the left kidney.")
    user.click(panel.ui.reportButton)
    user.wait(lambda: panel.ui.reportList.count == 2, 10, "the report is read")
    lines = panel.ui.reportList.viewport().height / panel.ui.reportList.fontMetrics().height()
    assert lines > 5, f"the list of sentences has room for {lines:.1f} lines"
    user.click_item(panel.ui.reportList, 1)
    user.wait(lambda: all(panel.words.found(volume) for volume in volumes), 30)
    assert "left kidney" in panel.ui.findLabel.text

    # the name under the mouse
    place = panel.words.found(volumes[1]).world
    user.press("Ctrl+Shift+X")
    user.views.hover(volumes[1], place)
    user.wait(
        lambda: panel.ui.nameLabel.text.startswith("left kidney"),
        10,
        "the name is shown once the mouse rests",
    )
    user.picture("name")

    # an empty field, another module and a closed scene leave nothing
    user.type(field, "liver")
    user.wait(lambda: len(_regions()) == 2, 30)
    user.open("AnatomicalROI")
    assert _regions() == []
    user.open("AnatomicalLandmarks")
    user.type(field, "liver")
    user.close_scene()
    pause(0.5)
    assert _regions() == []


def _regions() -> list:
    return slicer.util.getNodesByClass("vtkMRMLSegmentationNode")


def _middle_of_liver(number: int) -> np.ndarray:
    phantom = patient(number)
    value = next(value for value, name in phantom.label_names.items() if name == "liver")
    ijk = np.argwhere(phantom.labels == value)[:, ::-1].mean(axis=0)
    return (phantom.volume.ijk_to_ras @ [*ijk, 1.0])[:3]
