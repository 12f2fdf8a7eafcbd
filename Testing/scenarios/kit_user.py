"""The person of the scenarios at the test kit's application, where Slicer itself is not there.

Panels are real widgets and get real events. There are no pictures of scans: a slice view here is its node, and a click
in it is the point that Slicer's view would have placed. Dialogs do not open; they are answered.
"""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import slicer
import vtk
from driver.user import MODULES, User
from driver.waiting import pause

ORIENTATIONS = ("Axial", "Sagittal", "Coronal")


class KitUser(User):
    def __init__(self, kit, folder: Path, pictures: Path) -> None:
        self.kit = kit
        self.folder, self.pictures = folder, pictures
        self.views = NodeViews(kit.scene)
        self.dialogs = SimpleNamespace(unexpected=[])
        self.figures: dict[str, str] = {}
        self._pictures = 0
        for name in MODULES:
            kit.load_module(name)

    def open(self, name: str):
        panel = self.kit.open(name)
        panel.parent.resize(480, 1400)
        panel.parent.show()
        pause(0.1)
        return panel

    def load_sample(self, name: str) -> None:
        from AnatomicalEmbedding.resources import resource

        source = next(each for each in self.kit.sample_data if each.sampleName == name)
        files = sorted(resource("SampleData").iterdir())
        paths = [next(file for file in files if uri.endswith(file.name)) for uri in source.uris]
        for path, node, kind in zip(paths, source.nodeNames, source.loadFileType, strict=True):
            _load(self.kit.scene, kind, path, node)

    def import_dicom(self, folder: Path) -> None:
        """Volumes, patient and studies in the scene as the DICOM module leaves them, and what its database knows."""
        import pydicom

        from AnatomicalEmbedding.scan.volume import Volume

        files: dict[str, str] = {}
        for series in sorted(path for path in folder.iterdir() if path.is_dir()):
            headers = {path: pydicom.dcmread(path, stop_before_pixels=True) for path in series.iterdir()}
            uids = {str(header.SOPInstanceUID): str(path) for path, header in headers.items()}
            volume = Volume.read(series)
            node = slicer.util.addVolumeFromArray(volume.voxels, volume.ijk_to_ras, name=f"CT {series.name}")
            node.CreateDefaultDisplayNodes()
            node.SetAttribute("DICOM.instanceUIDs", " ".join(uids))
            _put_into_study(self.kit.scene, node, next(iter(headers.values())))
            files |= uids
        slicer.dicomDatabase = SimpleNamespace(isOpen=True, fileForInstance=files.get)
        pause(0.2)

    def close_scene(self) -> None:
        self.kit.close_scene()
        pause(0.1)

    def save_scene(self, name: str) -> Path:
        return self.kit.save_scene(self.folder / name)

    def load_scene(self, name: str) -> None:
        self.kit.load_scene(self.folder / name)
        pause(0.2)

    def press(self, keys: str, widget=None) -> None:
        module = self.kit.modules[self.kit.selected_module].widget
        self.kit.press(widget or module, keys)
        pause(0.05)

    def start_placing(self, place_widget) -> None:
        place_widget.setPlaceModeEnabled(True)

    def stop_placing(self, place_widget) -> None:
        place_widget.setPlaceModeEnabled(False)

    @contextmanager
    def answering(self, path):
        self.kit.dialogs.answer("directory", str(path))
        self.kit.dialogs.answer("open_file", str(path))
        self.kit.dialogs.answer("open_files", [part for part in str(path).split('"') if part.strip()])
        yield

    def picture(self, name: str) -> None:
        self._pictures += 1
        module = self.kit.modules.get(self.kit.selected_module)
        if module is not None and module.panel is not None:
            module.panel.grab().save(str(self.pictures / f"{self._pictures:02d}-{name}.png"))


class NodeViews:
    """Slice nodes of the layout that the scene asks for, in place of the layout manager's views."""

    def __init__(self, scene) -> None:
        self.scene = scene
        self._mouse_at = (0.0, 0.0, 0.0)
        slicer.vtkMRMLSliceNode.AddDefaultSliceOrientationPresets(scene)
        node = slicer.vtkMRMLLayoutNode()
        self.layout = scene.AddNode(node)
        self._tags = [self.layout.AddObserver(vtk.vtkCommand.ModifiedEvent, lambda *_: self._lay_out())]

    def close(self) -> None:
        for tag in self._tags:
            self.layout.RemoveObserver(tag)
        for name in ("vtkMRMLSliceCompositeNode", "vtkMRMLSliceNode", "vtkMRMLLayoutNode"):
            for n in reversed(range(self.scene.GetNumberOfNodesByClass(name))):
                self.scene.RemoveNode(self.scene.GetNthNodeByClass(n, name))

    def _lay_out(self) -> None:
        """Make the views that the layout's description names."""
        root = self.layout.GetLayoutRootElement()
        for element in _views_in(root) if root is not None else ():
            tag = element.GetAttribute("singletontag")
            if element.GetAttribute("class") == "vtkMRMLSliceNode" and self._node(tag) is None:
                _add_view(self.scene, tag, _property(element, "orientation"))

    def _node(self, tag):
        return self.scene.GetSingletonNode(tag, "vtkMRMLSliceNode")

    def all_of(self, volume) -> list:
        from AnatomicalEmbeddingLib.scene.Views import viewsOf

        return viewsOf(self.scene, volume)

    def of(self, volume, orientation: str = "Axial"):
        return next(node for node in self.all_of(volume) if node.GetOrientation() == orientation)

    def click(self, volume, place, orientation: str = "Axial") -> None:
        assert self.all_of(volume), f"no view shows {volume.GetName()}"
        mouse = self.scene.GetNodeByID("vtkMRMLInteractionNodeSingleton")
        assert mouse.GetCurrentInteractionMode() == mouse.Place, "a click places nothing now"
        selection = self.scene.GetNodeByID("vtkMRMLSelectionNodeSingleton")
        node = self.scene.GetNodeByID(selection.GetActivePlaceNodeID())
        self.of(volume, orientation).JumpSliceByOffsetting(*place)
        before = node.StartModify()  # a point without a place, as the one that follows the mouse before the click
        index = node.AddControlPointWorld(vtk.vtkVector3d(*place))
        node.SetNthControlPointPositionWorld(index, *place, node.PositionPreview)
        node.SetNthControlPointAssociatedNodeID(index, volume.GetID())
        node.EndModify(before)
        node.SetNthControlPointPositionWorld(index, *place)
        pause(0.05)

    def drag(self, volume, start, end, orientation: str = "Axial") -> None:
        node, index = self._nearest(volume, start)
        node.InvokeEvent(node.PointStartInteractionEvent, index)
        for share in (0.5, 1.0):
            node.SetNthControlPointPositionWorld(index, *np.add(start, share * np.subtract(end, start)))
            node.InvokeEvent(node.PointModifiedEvent, index)
        node.InvokeEvent(node.PointEndInteractionEvent, index)
        pause(0.05)

    def _nearest(self, volume, place):
        """The point that is drawn at a place in the views of a scan."""
        view, found = self.of(volume).GetID(), []
        for n in range(self.scene.GetNumberOfNodesByClass("vtkMRMLMarkupsNode")):
            node = self.scene.GetNthNodeByClass(n, "vtkMRMLMarkupsNode")
            display = node.GetDisplayNode()
            if display is None or not display.GetVisibility() or not display.IsDisplayableInView(view):
                continue
            for index in range(node.GetNumberOfControlPoints()):
                away = np.linalg.norm(np.subtract(node.GetNthControlPointPositionWorld(index), place))
                found.append((away, n, index))
        away, n, index = min(found)
        assert away < 5, f"nothing is drawn within 5 mm of {place}"
        return self.scene.GetNthNodeByClass(n, "vtkMRMLMarkupsNode"), index

    def hover(self, volume, place, orientation: str = "Axial") -> None:
        view, self._mouse_at = self.of(volume, orientation), place
        view.JumpSliceByOffsetting(*place)
        crosshair = self.scene.GetFirstNodeByClass("vtkMRMLCrosshairNode")
        to_view = np.linalg.inv(slicer.util.arrayFromVTKMatrix(view.GetXYToRAS()))
        crosshair.SetCursorPositionXYZ((to_view @ [*place, 1.0])[:3].tolist(), view)  # it finds the place by itself
        pause(0.1)

    def press(self, volume, keys: str, orientation: str = "Axial") -> None:
        """Delete is the one key that a view takes: for the point under the mouse."""
        assert keys == "Delete"
        node, index = self._nearest(volume, self._mouse_at)
        node.RemoveNthControlPoint(index)
        pause(0.1)

    def middle(self, volume, orientation: str = "Axial") -> np.ndarray:
        matrix = self.of(volume, orientation).GetSliceToRAS()
        return np.array([matrix.GetElement(row, 3) for row in range(3)])

    def shows(self, volume, place, within_mm: float = 1.0) -> bool:
        """Is a place in the slice of every view of a scan? How large a view is nobody knows here."""
        for view in self.all_of(volume):
            to_slice = np.linalg.inv(slicer.util.arrayFromVTKMatrix(view.GetSliceToRAS()))
            if abs((to_slice @ [*place, 1.0])[2]) > within_mm:
                return False
        return True

    def foregrounds(self, volume) -> list:
        from AnatomicalEmbeddingLib.scene.Views import compositeOf

        composites = [compositeOf(self.scene, view) for view in self.all_of(volume)]
        return [self.scene.GetNodeByID(each.GetForegroundVolumeID() or "") for each in composites]

    def scroll(self, volume, steps: int, orientation: str = "Axial") -> None:
        view = self.of(volume, orientation)
        view.SetSliceOffset(view.GetSliceOffset() + 3.0 * steps)

    def assert_none_is_black(self, volumes) -> None:
        """Every scan is in some view; nothing is drawn here that could be black."""
        pause(0.2)
        for volume in volumes:
            assert self.all_of(volume), f"no view shows {volume.GetName()}"


def _load(scene, kind: str, path: Path, name: str) -> None:
    class_name = "vtkMRMLScalarVolumeNode" if kind == "VolumeFile" else "vtkMRMLMarkupsFiducialNode"
    node = scene.AddNewNodeByClass(class_name)
    node.CreateDefaultDisplayNodes()
    node.AddDefaultStorageNode(str(path))
    assert node.GetStorageNode().ReadData(node), f"{path} cannot be read"
    node.SetName(name)


def _put_into_study(scene, volume, header) -> None:
    """Below a study with its date, below the patient of the DICOM header."""
    constants = slicer.vtkMRMLSubjectHierarchyConstants
    hierarchy = slicer.vtkMRMLSubjectHierarchyNode.GetSubjectHierarchyNode(scene)
    patient = hierarchy.GetItemByUID(constants.GetDICOMUIDName(), str(header.PatientID))
    if not patient:
        patient = hierarchy.CreateSubjectItem(hierarchy.GetSceneItemID(), str(header.PatientName))
        hierarchy.SetItemUID(patient, constants.GetDICOMUIDName(), str(header.PatientID))
    study = hierarchy.CreateStudyItem(patient, str(header.StudyDescription))
    hierarchy.SetItemAttribute(study, constants.GetDICOMStudyDateAttributeName(), str(header.StudyDate))
    series = hierarchy.GetItemByDataNode(volume)
    hierarchy.SetItemUID(series, constants.GetDICOMUIDName(), str(header.SeriesInstanceUID))
    hierarchy.SetItemParent(series, study)


def _views_in(element):
    if element.GetName() == "view":
        yield element
    for n in range(element.GetNumberOfNestedElements()):
        yield from _views_in(element.GetNestedElement(n))


def _property(element, name: str) -> str:
    nested = [element.GetNestedElement(n) for n in range(element.GetNumberOfNestedElements())]
    return next(each.GetCharacterData() for each in nested if each.GetAttribute("name") == name)


def _add_view(scene, tag: str, orientation: str) -> None:
    for kind in ("vtkMRMLSliceNode", "vtkMRMLSliceCompositeNode"):
        node = scene.CreateNodeByClass(kind)
        node.UnRegister(None)
        node.SetSingletonTag(tag)
        node.SetLayoutName(tag)
        node.SetName(tag)
        if kind == "vtkMRMLSliceNode":
            node.SetOrientation(orientation)
        scene.AddNode(node)
