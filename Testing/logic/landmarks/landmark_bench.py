"""Landmarks of synthetic patients in a scene, and the actions of a user on them."""

import numpy as np
import slicer
import vtk
from scans import add_points, finish, make_store, patient

from AnatomicalEmbedding.scan.cropping import crop_voxels
from AnatomicalEmbeddingLib.landmarks.LandmarkLogic import LandmarkLogic
from AnatomicalEmbeddingLib.shared.maps.SceneRelations import SceneRelations

NAMES = ("liver_dome", "diaphragm_dome_right", "kidney_left_lower_pole")


def tell(list_node, event: str, index: int) -> None:
    """Invoke an event of a point, as Slicer's markups widgets do for the mouse."""
    number = getattr(slicer.vtkMRMLMarkupsNode, event)
    list_node.InvokeCustomModifiedEvent(number, np.array([index], dtype=np.int32))


def add_upper_half(number: int):
    """Add the part of a patient that ends 12 cm above the lower pole of the left kidney."""
    whole = patient(number).volume
    low, high = whole.bounds_ras.copy()
    low[2] = patient(number).points_ras["kidney_left_lower_pole"][2] + 120.0
    upper = crop_voxels(whole, np.stack([low, high]))
    return slicer.util.addVolumeFromArray(upper.voxels, upper.ijk_to_ras, name="Upper half")


class LandmarkBench:
    """A template, targets and a logic, with the maps ready."""

    def __init__(self, scene, folder) -> None:
        self.scene = scene
        self.store = make_store(scene, folder)
        self.relations = SceneRelations(scene, self.store)
        self.logic = LandmarkLogic(scene, self.relations)
        self.reported: list[str] = []
        self.logic.reported.connect(self.reported.append)

    def ready(self, template, *targets) -> None:
        self.logic.setScans(template, targets)
        self.logic.prepare()
        finish(self.store)

    def place(self, name: str, number: int = 0, node=None) -> str:
        """Put a known point of a patient into the template's list, as a click does; returns its ID."""
        if self.logic.points is None:
            self.logic.setPoints(add_points(self.scene, {}))
        world = patient(number).points_ras[name] if node is None else node
        points = self.logic.points
        return points.GetNthControlPointID(
            points.AddControlPointWorld(vtk.vtkVector3d(*world), name)
        )

    def drag(self, list_node, point_id: str, world) -> None:
        """Drag a point, with the events of a mouse."""
        index = list_node.GetControlPointIndexByID(point_id)
        tell(list_node, "PointStartInteractionEvent", index)
        list_node.SetNthControlPointPositionWorld(index, *world)
        tell(list_node, "PointEndInteractionEvent", index)

    def answer(self, point_id: str, volume):
        return self.logic.answersIn(volume).answers[point_id]

    def found(self, point_id: str, volume):
        each = self.logic.answersIn(volume)
        return each.worldOf(each.answers[point_id])
