"""Draw the panels' pictures for the README, on synthetic patients: Resources/Screenshots/MODULE.png.

python Testing/widgets/make_screenshots.py [--training-run FOLDER]   (a folder that a run of the trainer has left)
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
_TESTING = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_TESTING), str(_TESTING.parent / "SlicerModules")]

OUTPUT = _TESTING.parent / "Resources" / "Screenshots"
_POINTS = ("carina", "diaphragm_dome_right", "kidney_left_lower_pole", "aortic_bifurcation", "liver_dome")
_LESIONS = ("carina", "liver_dome", "kidney_left_lower_pole", "diaphragm_dome_right")
_SIZES = {  # long and short axis at baseline, and at the second study, mm
    "L1": ((24, 17), (19, 13)),
    "L2": ((31, 22), (25, 18)),
    "L3": ((17, 15), (9, 7)),
    "L4": ((14, 11), (12, 9)),
}
_REPORT = "Mass in the upper pole of the left kidney, 3 cm. Liver is normal. No metastasis in the brain."
_STRUCTURES = ["liver", "spleen", "kidney_left", "aorta", "brain"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--training-run", type=Path, help="draw the training panel with the curves of this run")
    options = parser.parse_args()
    from slicer_kit import install

    kit = install()
    with tempfile.TemporaryDirectory() as folder:
        for draw in (_landmarks, _boxes, _outlines, _follow_up):
            _fresh(kit, Path(folder))
            draw(kit)
        if options.training_run is not None:
            _fresh(kit, Path(folder))
            _training(kit, options.training_run)
        kit.reset()


def _fresh(kit, folder: Path) -> None:
    from AnatomicalEmbeddingLib.panels import ModuleSettings

    kit.reset(folder / "Slicer.ini")
    ModuleSettings.setCacheFolder(str(folder / "maps"))
    ModuleSettings.setDevice("cpu")


def _picture(kit, panel) -> None:
    """What the panel shows once its timers have had their say, at the width of the picture."""
    name = panel.moduleName
    _grab(kit, panel, OUTPUT / f"{name}.png")
    panel.parent.show()
    end = time.monotonic() + 1.0
    while time.monotonic() < end:
        kit.process_events()
    _grab(kit, panel, OUTPUT / f"{name}.png")
    print(OUTPUT / f"{name}.png")


def _grab(kit, widget, path: Path, width: int = 480) -> None:
    """Screenshot of a module's panel, as high as its contents."""
    panel = widget.parent
    panel.resize(width, 200)
    panel.show()
    for _ in range(3):  # word wrap settles the height only after the width
        kit.process_events()
        panel.resize(width, panel.layout().totalHeightForWidth(width))
    kit.process_events()
    if not panel.grab().save(str(path)):
        raise OSError(f"{path}: the screenshot could not be written")
    panel.hide()


def _prepare(kit, panel) -> None:
    kit.click(panel.preparation.button)
    kit.spin(lambda: not panel.session.store.busy, 300)


def _place(points, names: tuple[str, ...]) -> None:
    import vtk
    from scans import patient

    for name in names:
        points.AddControlPointWorld(vtk.vtkVector3d(*patient(0).points_ras[name]), name)


def _landmarks(kit) -> None:
    from scans import add_patient, patient

    nodes = [add_patient(n, name) for n, name in enumerate(("CT 2024-03", "CT 2025-01", "Another patient"))]
    panel = kit.open(kit.load_module("AnatomicalLandmarks"))
    _prepare(kit, panel)
    points = panel.ui.pointsSelector.addNode()
    _place(points, _POINTS)
    second = panel.logic.rows()[1].pointId
    panel.logic.setByHand(second, nodes[2], patient(2).points_ras[_POINTS[1]])
    _picture(kit, panel)
    _find(kit, panel)


def _find(kit, panel) -> None:
    """The section "Find by words" alone."""
    panel.ui.reportBox.collapsed = False
    panel.ui.reportEdit.plainText = _REPORT
    kit.click(panel.ui.reportButton)
    kit.spin(lambda: not panel.words.busy, 60)
    panel.ui.reportList.itemClicked.emit(panel.ui.reportList.item(0))
    kit.spin(lambda: not panel.words.busy, 60)
    path = OUTPUT / "AnatomicalLandmarks-find.png"
    _grab(kit, panel, path)  # the panel takes the height that it needs now
    panel.parent.show()
    kit.process_events()
    panel.ui.findSection.grab().save(str(path))
    print(path)


def _boxes(kit) -> None:
    from scans import add_patient

    from AnatomicalEmbeddingLib.scene.boxes.BoxNodes import boxesIn

    nodes = [add_patient(n, name) for n, name in enumerate(("CT 2024-03", "CT 2025-01", "Another patient"))]
    panel = kit.open(kit.load_module("AnatomicalROI"))
    panel._parameterNode.structures = _STRUCTURES
    kit.click(panel.ui.findButton)
    kit.spin(lambda: not panel.boxes.busy, 300)
    boxesIn(kit.scene, nodes[1])["spleen"].node.SetSize(50, 60, 70)
    _picture(kit, panel)


def _outlines(kit) -> None:
    from box_bench import add_segmentation
    from scans import add_patient

    from AnatomicalEmbeddingLib.panels import ModuleSettings

    nodes = [add_patient(n, name) for n, name in enumerate(("CT 2024-03", "CT 2025-01", "Another patient"))]
    example = add_segmentation(kit.scene, 0, nodes[0], {"liver": "Liver", "kidney_left": "Kidney left"})
    example.SetName("Drawn by hand")
    example.SetReferenceImageGeometryParameterFromVolumeNode(nodes[0])
    panel = kit.open(kit.load_module("AnatomicalROI"))
    panel.outlines.process.pythonCommand = [sys.executable]
    panel.ui.outlinesSection.collapsed = False
    panel.ui.outlineExamplesSelector.setCheckState(example, 2)
    with tempfile.TemporaryDirectory() as folder:
        ModuleSettings.setValue("outlineFolder", folder)
        kit.click(panel.ui.outlineButton)
        kit.spin(lambda: not panel.outlines.busy, 1200)
    panel.ui.outlineFolderEdit.currentPath = "outlines"
    panel.parent.resize(480, 1400)
    panel.parent.show()
    kit.process_events()
    path = OUTPUT / "AnatomicalROI-outlines.png"
    panel.ui.outlinesSection.grab().save(str(path))
    print(path)


def _follow_up(kit) -> None:
    import slicer
    from scans import add_patient

    hierarchy = slicer.vtkMRMLSubjectHierarchyNode.GetSubjectHierarchyNode(kit.scene)
    person = hierarchy.CreateSubjectItem(hierarchy.GetSceneItemID(), "PAT-0042")
    hierarchy.SetItemUID(person, "DICOM", "PAT-0042")
    for number, (day, name) in enumerate((("20230301", "CT chest"), ("20230901", "Thorax"), ("20240301", "CT chest"))):
        study = hierarchy.CreateStudyItem(person, name)
        hierarchy.SetItemAttribute(study, "DICOM.StudyDate", day)
        hierarchy.SetItemParent(hierarchy.GetItemByDataNode(add_patient(number, name)), study)
    panel = kit.open(kit.load_module("LesionFollowUp"))
    _prepare(kit, panel)
    _read(panel)
    _picture(kit, panel)


def _read(panel) -> None:
    """Four lesions: measured at baseline and six months later, half read in the last study."""
    from scans import patient

    logic = panel.logic
    first, second, last = logic.volumes
    names = ("hilar node", "", "", "")
    sites = ("mediastinum", "liver", "kidney", "liver")
    for place, name, site in zip(_LESIONS, names, sites, strict=True):
        lesion = logic.mark(first, tuple(float(x) for x in patient(0).points_ras[place]))
        logic.describe(lesion, name=name, site=site, nodal=bool(name))
    for lesion, (before, after) in _SIZES.items():
        _measure(logic, lesion, first, *before)
        _measure(logic, lesion, second, *after)
    _measure(logic, "L1", last, 16, 9)
    logic.confirm("L2", last)
    logic.acceptSize("L2", last)
    logic.notVisible("L3", last)
    panel.choice.choose("L4", last)


def _measure(logic, lesion: str, study: str, long_mm: float, short_mm: float) -> None:
    x, y, z = logic.record.finding(lesion, study).point_ras
    long_axis = (x - long_mm / 2, y, z), (x + long_mm / 2, y, z)
    logic.measure(lesion, study, long_axis, ((x, y - short_mm / 2, z), (x, y + short_mm / 2, z)))


def _training(kit, run: Path) -> None:
    panel = kit.open(kit.load_module("AnatomicalEmbeddingTraining"))
    panel.ui.runFolderEdit.currentPath = str(run)
    _picture(kit, panel)


if __name__ == "__main__":
    main()
