"""Acts as the person of the scenarios in the test kit, without 3D Slicer.

Panels are real widgets and get real events. Slice views exist only as nodes, without pictures: a click places the point
that a view of 3D Slicer would have placed. Dialogs are not shown; they are answered at once.
"""

import json
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import SimpleITK as sitk
import slicer
import vtk
from driver.user import MODULES, User
from driver.views import SliceViews
from driver.waiting import pause
from film_nodes import add_picture

from AnatomicalEmbeddingLib.shared.SideBySide import layoutOf, viewTag

_AT_START = 999  # layout: three views that show what is chosen last, as after a start of Slicer


class KitUser(User):
    def __init__(self, kit, folder: Path, pictures: Path) -> None:
        self.kit = kit
        self.folder = folder
        self.pictures = pictures
        self.views = NodeViews(kit)
        self.dialogs = SimpleNamespace(unexpected=[])
        self.figures: dict[str, str] = {}
        self._pictures = 0
        for name in MODULES:
            kit.load_module(name)

    def open(self, name: str):
        if name not in self.kit.modules:  # one of Slicer's own, which is not here
            for each in self.kit.modules:
                self.kit.leave(each)
            return None
        panel = self.kit.open(name)
        for module in self.kit.modules.values():  # Slicer shows one panel
            if module.panel is not None:
                module.panel.hide()
        panel.parent.resize(480, 1400)
        panel.parent.show()
        pause(0.1)
        return panel

    def load_sample(self, name: str) -> None:
        from AnatomicalEmbedding.resources import resource

        source = next(each for each in self.kit.sample_data if each.sampleName == name)
        files = sorted(resource("SampleData").iterdir())
        paths = [next(file for file in files if uri.endswith(file.name)) for uri in source.uris]
        for path, node, kind in zip(paths, source.nodeNames, source.loadFileTypes, strict=True):
            class_name = (
                "vtkMRMLScalarVolumeNode" if kind == "VolumeFile" else "vtkMRMLMarkupsFiducialNode"
            )
            _load(
                self.kit.scene,
                class_name,
                path,
                None if class_name.endswith("FiducialNode") else node,
            )

    def import_dicom(self, folder: Path) -> None:
        """Volumes, patient and studies in the scene as the DICOM module leaves them, and what its database knows."""
        import pydicom
        from dicom_series import import_slices

        from AnatomicalEmbedding.scan.volume import Volume

        files: dict[str, str] = {}
        for series in sorted(path for path in folder.iterdir() if path.is_dir()):
            volume = Volume.read(series)
            node = slicer.util.addVolumeFromArray(
                volume.voxels, volume.ijk_to_ras, name=f"CT {series.name}"
            )
            node.CreateDefaultDisplayNodes()
            files |= import_slices(node, series.iterdir())
            _put_into_study(self.kit.scene, node, pydicom.dcmread(next(series.iterdir())))
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

    def load_file(self, path: Path):
        if path.suffix == ".png":  # the kit's ITK has no reader for pictures
            node = add_picture(sitk.GetArrayFromImage(sitk.ReadImage(str(path))), path.stem)
            node.CreateDefaultDisplayNodes()
            return node
        kind = "vtkMRMLTransformNode" if path.suffix == ".h5" else "vtkMRMLScalarVolumeNode"
        return _load(self.kit.scene, kind, path, path.name.partition(".")[0])

    def is_first_use_of(self, package: str) -> bool:
        """Other tests of this process have used all of them."""
        return True

    def reload(self, module: str) -> None:
        """The panel is closed and built anew; the module's file is loaded again."""
        self.kit.close(self.kit.modules[module].widget, leave=False)
        self.kit.load_module(module)

    def reload_and_test(self, module: str) -> None:
        self.reload(module)
        loaded = self.kit.modules[module]
        loaded.widgetRepresentation()
        loaded.instance.runTest()
        self.dialogs.unexpected += [each.text for each in self.kit.dialogs.of("error")]

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
        yield

    def picture(self, name: str) -> None:
        self._pictures += 1
        module = self.kit.modules.get(self.kit.selected_module)
        if module is not None and module.panel is not None:
            module.panel.grab().save(str(self.pictures / f"{self._pictures:02d}-{name}.png"))


class NodeViews(SliceViews):
    """The views of the kit's window: their nodes are the real ones, and nothing is drawn."""

    def __init__(self, kit) -> None:
        self.scene = kit.scene
        self._mouse_at = (0.0, 0.0, 0.0)
        layout = kit.open_window(1280).node
        layout.AddLayoutDescription(
            _AT_START, layoutOf([("", "")]).replace(viewTag(0, ""), "Start")
        )
        layout.SetViewArrangement(_AT_START)

    def click(self, volume, place, orientation: str = "Axial") -> None:
        assert self.all_of(volume), f"no view shows {volume.GetName()}"
        mouse = self.scene.GetNodeByID("vtkMRMLInteractionNodeSingleton")
        assert mouse.GetCurrentInteractionMode() == mouse.Place, "a click places nothing now"
        selection = self.scene.GetNodeByID("vtkMRMLSelectionNodeSingleton")
        node = self.scene.GetNodeByID(selection.GetActivePlaceNodeID())
        self._node(volume, orientation).JumpSliceByOffsetting(*place)
        # a point without a place, as the one that follows the mouse before the click
        before = node.StartModify()
        index = node.AddControlPointWorld(vtk.vtkVector3d(*place))
        node.SetNthControlPointPositionWorld(index, *place, node.PositionPreview)
        node.SetNthControlPointAssociatedNodeID(index, volume.GetID())
        node.EndModify(before)
        node.SetNthControlPointPositionWorld(index, *place)
        if not mouse.GetPlaceModePersistence() and node.GetControlPointPlacementComplete():
            mouse.SwitchToViewTransformMode()
        pause(0.05)

    def drag(self, volume, start, end, orientation: str = "Axial") -> None:
        if self._drag_side(volume, start, end):
            pause(0.05)
            return
        node, index = self._nearest(volume, start)
        node.InvokeEvent(node.PointStartInteractionEvent, index)
        for share in (0.5, 1.0):
            node.SetNthControlPointPositionWorld(
                index, *np.add(start, share * np.subtract(end, start))
            )
            node.InvokeEvent(node.PointModifiedEvent, index)
        node.InvokeEvent(node.PointEndInteractionEvent, index)
        pause(0.05)

    def _drag_side(self, volume, start, end) -> bool:
        """Drag the handle of a box's side, which moves that side alone."""
        view = self._node(volume).GetID()
        for box in slicer.util.getNodesByClass("vtkMRMLMarkupsROINode"):
            middle = np.array(box.GetCenterWorld())
            size = np.zeros(3)
            box.GetSizeWorld(size)
            for axis, sign in ((axis, sign) for axis in range(3) for sign in (-1, 1)):
                handle = middle + sign * size / 2 * np.eye(3)[axis]
                if (
                    box.GetDisplayNode().IsDisplayableInView(view)
                    and np.linalg.norm(handle - start) < 1
                ):
                    moved = np.subtract(end, start) * np.eye(3)[axis]
                    box.SetCenterWorld(*(middle + moved / 2))
                    box.SetSizeWorld(*(size + sign * moved))
                    return True
        return False

    def _nearest(self, volume, place):
        """The point that is drawn at a place in the views of a scan."""
        view = self._node(volume).GetID()
        found = []
        for n in range(self.scene.GetNumberOfNodesByClass("vtkMRMLMarkupsNode")):
            node = self.scene.GetNthNodeByClass(n, "vtkMRMLMarkupsNode")
            display = node.GetDisplayNode()
            if (
                display is None
                or not display.GetVisibility()
                or not display.IsDisplayableInView(view)
            ):
                continue
            for index in range(node.GetNumberOfControlPoints()):
                away = np.linalg.norm(
                    np.subtract(node.GetNthControlPointPositionWorld(index), place)
                )
                found.append((away, n, index))
        away, n, index = min(found)
        assert away < 5, f"nothing is drawn within 5 mm of {place}"
        return self.scene.GetNthNodeByClass(n, "vtkMRMLMarkupsNode"), index

    def hover(self, volume, place, orientation: str = "Axial") -> None:
        view = self._node(volume, orientation)
        self._mouse_at = place
        view.JumpSliceByOffsetting(*place)
        crosshair = self.scene.GetFirstNodeByClass("vtkMRMLCrosshairNode")
        to_view = np.linalg.inv(slicer.util.arrayFromVTKMatrix(view.GetXYToRAS()))
        # it finds the place by itself
        crosshair.SetCursorPositionXYZ((to_view @ [*place, 1.0])[:3].tolist(), view)
        pause(0.1)

    def press(self, volume, keys: str, orientation: str = "Axial") -> None:
        """Delete is the one key that a view takes: for the point under the mouse."""
        assert keys == "Delete"
        node, index = self._nearest(volume, self._mouse_at)
        node.RemoveNthControlPoint(index)
        pause(0.1)

    def scroll(self, volume, steps: int, orientation: str = "Axial") -> None:
        """As Slicer's view does it, so that linked views go along."""
        view = self._node(volume, orientation)
        view.SetInteractionFlags(view.SliceToRASFlag)
        view.InteractingOn()
        view.SetSliceOffset(view.GetSliceOffset() + 3.0 * steps)
        view.InteractingOff()

    def leave(self, volume, orientation: str = "Axial") -> None:
        """Nothing is drawn that could follow the mouse."""

    def assert_none_is_black(self, volumes) -> None:
        """Every scan is in some view; nothing is drawn here that could be black."""
        pause(0.2)
        for volume in volumes:
            assert self.all_of(volume), f"no view shows {volume.GetName()}"

    def assert_on_screen(self, volumes, size, smallest) -> None:
        """Views have no places here."""

    def _node(self, volume, orientation: str = "Axial"):
        return self.of(volume, orientation).mrmlSliceNode()

    def _is_in(self, widget, place, within_mm: float) -> bool:
        """Is a place in the slice? How large a view is nobody knows here."""
        to_slice = np.linalg.inv(
            slicer.util.arrayFromVTKMatrix(widget.mrmlSliceNode().GetSliceToRAS())
        )
        return abs((to_slice @ [*place, 1.0])[2]) <= within_mm


def _load(scene, class_name: str, path: Path, name: str | None):
    """name: of the node; None: that of the file, which a list of points has inside."""
    node = scene.AddNewNodeByClass(class_name)
    node.CreateDefaultDisplayNodes()
    node.AddDefaultStorageNode(str(path))
    assert node.GetStorageNode().ReadData(node), f"{path} cannot be read"
    node.SetName(name or json.loads(path.read_text())["markups"][0]["name"])
    return node


def _put_into_study(scene, volume, header) -> None:
    """Below a study with its date, below the patient of the DICOM header."""
    constants = slicer.vtkMRMLSubjectHierarchyConstants
    hierarchy = slicer.vtkMRMLSubjectHierarchyNode.GetSubjectHierarchyNode(scene)
    patient = hierarchy.GetItemByUID(constants.GetDICOMUIDName(), str(header.PatientID))
    if not patient:
        patient = hierarchy.CreateSubjectItem(hierarchy.GetSceneItemID(), str(header.PatientName))
        hierarchy.SetItemUID(patient, constants.GetDICOMUIDName(), str(header.PatientID))
    study = hierarchy.CreateStudyItem(patient, str(header.StudyDescription))
    hierarchy.SetItemAttribute(
        study, constants.GetDICOMStudyDateAttributeName(), str(header.StudyDate)
    )
    series = hierarchy.GetItemByDataNode(volume)
    hierarchy.SetItemUID(series, constants.GetDICOMUIDName(), str(header.SeriesInstanceUID))
    hierarchy.SetItemParent(series, study)
