"""The studies of a patient in a scene, the follow-up logic, and the user's actions in the views."""

import numpy as np
import slicer
import slicer.util
import vtk

from AnatomicalEmbedding.followup.lesions import NO_SIZE, PROPOSED, Finding, Guess
from AnatomicalEmbeddingLib.followup.FollowUpLogic import FollowUpLogic
from AnatomicalEmbeddingLib.followup.StudyOrder import patients
from AnatomicalEmbeddingLib.shared.maps.Engine import Engine
from AnatomicalEmbeddingLib.shared.maps.MapStore import MapStore
from AnatomicalEmbeddingLib.shared.maps.SceneRelations import SceneRelations
from AnatomicalEmbeddingLib.shared.SceneNodes import removeNode

LISTS, LINES = "vtkMRMLMarkupsFiducialNode", "vtkMRMLMarkupsLineNode"
LONG = ((-10.0, 0.0, 0.0), (10.0, 0.0, 0.0))
SHORT = ((0.0, -6.0, 0.0), (0.0, 6.0, 0.0))


class NoEngine(Engine):
    """Of a computer without the packages: nothing is embedded, all else works."""

    def problem(self):
        return "torch is not installed; press Install."


class FollowUpBench:
    """The scene's studies are imported with `study`; `open` takes up a patient."""

    def __init__(self, scene, store=None) -> None:
        self.scene = scene
        self.store = store or MapStore(scene, NoEngine())
        self.relations = SceneRelations(scene, self.store)
        self.logic = FollowUpLogic(scene, self.relations)
        self.reported: list[str] = []
        self.logic.reported.connect(self.reported.append)

    def study(self, day, person="Miller", volume=None, series=""):
        """A CT as DICOM import leaves it; returns the volume node."""
        hierarchy = slicer.vtkMRMLSubjectHierarchyNode.GetSubjectHierarchyNode(self.scene)
        item = hierarchy.GetItemByUID("DICOM", person)
        if not item:
            item = hierarchy.CreateSubjectItem(hierarchy.GetSceneItemID(), person)
            hierarchy.SetItemUID(item, "DICOM", person)
        study = hierarchy.CreateStudyItem(item, f"study {day}")
        hierarchy.SetItemAttribute(study, "DICOM.StudyDate", day)
        if volume is None:
            volume = slicer.util.addVolumeFromArray(np.zeros((9, 9, 9), np.int16), name=f"CT {day}")
        own = hierarchy.CreateItem(study, volume)
        if series:
            hierarchy.SetItemUID(own, "DICOM", series)
        return volume

    def open(self, number=0, shown=True):
        """Take up a patient; returns the keys of the loaded studies, in order."""
        patient = patients(self.scene)[number]
        self.logic.setPatient(patient)
        if shown:
            self.logic.setShown(patient.volumes)
        return list(self.logic.volumes)

    def propose(
        self, study, source, lesion="L1", place=(1.0, 2.0, 3.0), status="matched", size=NO_SIZE
    ):
        """As matching does, which has no maps here."""
        proposal = Finding(PROPOSED, place, Guess(status, source, 3.2, 0.9), size)
        self.logic.history.refresh(self.logic.record.propose(study, {lesion: proposal}))
        self.logic._renew()

    def finding(self, study, lesion="L1"):
        return self.logic.record.finding(lesion, study)

    def nodes(self, class_name):
        return slicer.util.getNodesByClass(class_name)

    def list_in(self, study):
        """The point list of a study."""
        volume = self.logic.volumes[study]
        found = [
            n
            for n in self.nodes(LISTS)
            if n.GetNodeReference("AnatomicalEmbedding.Volume") is volume
        ]
        assert len(found) == 1, f"{len(found)} lists in {volume.GetName()}"
        return found[0]

    def labels(self, study):
        node = self.list_in(study)
        return [node.GetNthControlPointLabel(n) for n in range(node.GetNumberOfControlPoints())]

    def line(self, name):
        """The only line of this name."""
        (node,) = [node for node in self.nodes(LINES) if node.GetName() == name]
        return node

    def click(self, volume, *places):
        """The mouse places points: each knows the volume that it was placed in."""
        selection = self.scene.GetNodeByID("vtkMRMLSelectionNodeSingleton")
        node = self.scene.GetNodeByID(selection.GetActivePlaceNodeID())
        for place in places:
            # the mouse sets the view's volume before the point is defined
            before = node.StartModify()
            index = node.AddControlPointWorld(vtk.vtkVector3d(*place))
            if volume is not None:
                node.SetNthControlPointAssociatedNodeID(index, volume.GetID())
            node.EndModify(before)

    def delete(self, node):
        """As in the application, where a node's item in the subject hierarchy goes with it."""
        removeNode(self.scene, node)

    def close(self):
        self.logic.close()
        self.relations.close()
        self.store.close()


def drag(node, index, place):
    """Take a control point elsewhere, as the mouse does; place: in the node's own coordinates."""
    node.InvokeEvent(node.PointStartInteractionEvent)
    for share in (0.5, 1.0):
        node.SetNthControlPointPosition(index, *(share * np.array(place)))
    node.InvokeEvent(node.PointEndInteractionEvent)
