"""Make the pictures of the modules for README and docs, with synthetic patients: `run.py SLICER --pictures` runs this
script in 3D Slicer and writes the pictures into Resources/Screenshots.
"""

from functools import cache

import numpy as np
import qt
import slicer
import vtk
from driver.follow_up import measure, volumes
from driver.landmarks import new_list
from driver.waiting import pause

ENDS_AT_WORK = True
SEEDS = (20_001, 20_002)
WINDOW = (1540, 880)
NAMES = ("CT 2024-03-01", "CT 2025-01-10")
POINTS = ("carina", "heart_apex", "diaphragm_dome_right", "kidney_left_lower_pole", "liver_dome")
REPORT = (
    "Mass in the upper pole of the left kidney, 3 cm. Liver is normal. No metastasis in the brain."
)
ORGANS = {"liver": (0.8, 0.45, 0.35), "kidney_left": (0.95, 0.85, 0.3), "spleen": (0.5, 0.55, 0.95)}
# mm, in both studies
SIZES = {"liver_dome": ((31, 22), (25, 18)), "kidney_left_lower_pole": ((17, 15), (19, 16))}


def run_landmarks(user):
    scans = _two_scans()
    panel = _side_by_side(user, "AnatomicalLandmarks")
    points = new_list(panel)
    for name in reversed(POINTS):
        points.AddControlPointWorld(vtk.vtkVector3d(*_patient(0).points_ras[name]), name)
    user.wait(
        lambda: (
            len(panel.logic.rows()) == len(POINTS)
            and all(each.answers for each in panel.logic.rows())
        ),
        30,
    )
    panel.logic.jumpTo(panel.logic.rows()[-1].pointId)
    panel.ui.placeWidget.setPlaceModeEnabled(False)
    assert panel.logic.answersIn(scans[1]) is not None
    _take(user, "AnatomicalLandmarks")


def run_find(user):
    scans = _two_scans()
    panel = _side_by_side(user, "AnatomicalLandmarks")
    user.open_section(panel.ui.reportBox)
    panel.ui.reportEdit.setPlainText(REPORT)
    user.click(panel.ui.reportButton)
    user.wait(lambda: panel.ui.reportList.count == 3, 20, "the report is read")
    user.click_item(panel.ui.reportList, 0)
    user.wait(lambda: all(panel.words.found(volume) for volume in scans), 120)
    _take(user, "AnatomicalLandmarks-find", panel.ui.reportList)


def run_boxes(user):
    scans = _two_scans()
    panel = _side_by_side(user, "AnatomicalROI")
    _tick(panel.ui.structureList, [*ORGANS, "aorta", "brain"])
    user.click(panel.ui.findButton)
    user.wait(lambda: panel.boxes.busy or panel.ui.boxTable.rowCount > 0, 20)
    user.wait(lambda: not panel.boxes.busy, 240, "boxes are found")
    _go_to_kidney(scans)
    _take(user, "AnatomicalROI")


def run_outlines(user):
    from AnatomicalEmbeddingLib.boxes.Segments import addSegment

    scans = _two_scans()
    panel = _side_by_side(user, "AnatomicalROI")
    example = slicer.mrmlScene.AddNewNodeByClass("vtkMRMLSegmentationNode", "Drawn by hand")
    example.CreateDefaultDisplayNodes()
    example.SetReferenceImageGeometryParameterFromVolumeNode(scans[0])
    made = _patient(0)
    for organ, colour in ORGANS.items():
        value = next(value for value, name in made.label_names.items() if name == organ)
        name = organ.replace("_", " ").capitalize()
        addSegment(example, np.asarray(made.labels == value), made.volume.ijk_to_ras, name, colour)
    panel.ui.outlineFolderEdit.currentPath = str(user.folder / "outlines")
    user.open_section(panel.ui.outlinesSection)
    panel.ui.outlineExamplesSelector.setCheckState(example, qt.Qt.Checked)
    user.click(panel.ui.outlineButton)
    user.wait(lambda: not panel.outlines.busy, 3000, "the other scan is outlined")
    panel.ui.outlineFolderEdit.currentPath = "outlines"
    _go_to_kidney(scans)
    _take(user, "AnatomicalROI-outlines", panel.ui.outlineTable)


def run_follow_up(user):
    from AnatomicalEmbedding.followup.record import FollowUp

    scans = _two_scans()
    for scan, day in zip(scans, ("2024-03-01", "2025-01-10"), strict=True):
        scan.SetAttribute("AnatomicalEmbedding.StudyDate", day)
    panel = _side_by_side(user, "LesionFollowUp")
    studies = list(panel.logic.volumes)
    for place, sizes in SIZES.items():
        lesion = panel.logic.mark(
            studies[0], tuple(float(x) for x in _patient(0).points_ras[place])
        )
        user.wait(
            lambda lesion=lesion: panel.logic.record.finding(lesion, studies[1]) is not None, 30
        )
        panel.logic.apply(FollowUp.describe, lesion, name=place.split("_")[0])
        for number, size in enumerate(sizes):
            measure(user, panel, lesion, number, *size)
    assert volumes(panel) == scans
    pause(1.0)
    _take(user, "LesionFollowUp", panel.lesionTable.widget)


def _take(user, name, above=None):
    """The main window, its panel at the top, or where a widget can be seen."""
    area = slicer.util.findChildren(slicer.util.mainWindow(), name="ScrollArea")
    for each in area:
        each.verticalScrollBar().value = 0
    if above is not None:
        user._show(above)
    pause(1.5)
    slicer.util.mainWindow().grab().save(str(user.pictures / f"{name}.png"))


def _side_by_side(user, module):
    slicer.util.mainWindow().resize(*WINDOW)
    panel = user.open(module)
    pause(1.0)
    user.prepare(panel)
    user.click(panel.ui.showButton if module == "LesionFollowUp" else panel.ui.gridButton)
    pause(1.0)
    return panel


def _tick(structures, organs):
    from AnatomicalEmbeddingLib.boxes.StructureNames import titled

    wanted = set(map(titled, organs))
    for row in range(structures.count):
        if structures.item(row).text() in wanted:
            structures.item(row).setCheckState(qt.Qt.Checked)


def _go_to_kidney(scans):
    from AnatomicalEmbeddingLib.shared.Views import jump

    for number, scan in enumerate(scans):
        jump(
            slicer.mrmlScene,
            scan,
            _patient(number).points_ras["kidney_left_lower_pole"] + (0, 0, 40),
        )


@cache
def _patient(number):
    from AnatomicalEmbedding.phantom import make_phantom

    return make_phantom(SEEDS[number], spacing=(1.5, 1.5, 2.0), coverage_mm=(190.0, 600.0))


def _two_scans():
    nodes = []
    for number, name in enumerate(NAMES):
        volume = _patient(number).volume
        nodes.append(slicer.util.addVolumeFromArray(volume.voxels, volume.ijk_to_ras, name=name))
        nodes[-1].CreateDefaultDisplayNodes()
    slicer.app.processEvents()
    return nodes
