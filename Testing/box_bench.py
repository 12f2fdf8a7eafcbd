"""Put boxes of synthetic patients into a scene, for the tests of boxes and crops. Their labels give the truth."""

from functools import cache
from pathlib import Path

import numpy as np
import slicer
import slicer.util
import vtk
from polling import poll_until
from scans import make_store, patient

from AnatomicalEmbedding.structures.examples import KnownStructure, phantom_structures
from AnatomicalEmbeddingLib.boxes.BoxLogic import BoxLogic
from AnatomicalEmbeddingLib.boxes.BoxNodes import boxesIn
from AnatomicalEmbeddingLib.shared.VolumeNodes import ijkToRas
from slicer_kit.scene import nodes_of_class


@cache
def truth(number: int) -> dict[str, KnownStructure]:
    """The structures that a patient's scan holds whole."""
    return phantom_structures(patient(number))


def share_inside(box: np.ndarray, points: np.ndarray) -> float:
    """Of points (n, 3), those in a box (2, 3)."""
    return float(((points >= box[0]) & (points <= box[1])).all(axis=1).mean())


def corners(box: np.ndarray) -> np.ndarray:
    """(8, 3) of a box (2, 3)."""
    return np.array([[r, a, s] for r in box[:, 0] for a in box[:, 1] for s in box[:, 2]])


def roi_corners_world(roi) -> np.ndarray:
    """(8, 3) world mm of an ROI, by MRML alone, in the order of `corners`."""
    size = np.array(roi.GetSize())
    matrix = roi.GetObjectToNodeMatrix()
    transform = vtk.vtkGeneralTransform()
    slicer.vtkMRMLTransformNode.GetTransformBetweenNodes(
        roi.GetParentTransformNode(), None, transform
    )
    local = corners(np.stack([-size / 2, size / 2]))
    return np.array(
        [transform.TransformPoint(*matrix.MultiplyPoint((*point, 1.0))[:3]) for point in local]
    )


def rois(scene) -> list:
    """All ROI nodes of a scene."""
    return nodes_of_class(scene, "vtkMRMLMarkupsROINode")


def add_turned(number: int, matrix: np.ndarray, name: str = "Turned"):
    """A patient's CT whose header is oblique, as that of a patient who lies askew by `matrix` (4, 4)."""
    volume = patient(number).volume
    return slicer.util.addVolumeFromArray(volume.voxels, matrix @ volume.ijk_to_ras, name=name)


def add_roi(scene, box: np.ndarray, name: str = "My box", parent=None):
    """An ROI drawn by hand: a box (2, 3) in the coordinates below its parent transform."""
    roi = scene.AddNewNodeByClass("vtkMRMLMarkupsROINode", name)
    roi.CreateDefaultDisplayNodes()
    if parent is not None:
        roi.SetAndObserveTransformNodeID(parent.GetID())
    roi.SetCenter(*box.mean(axis=0))
    roi.SetSize(*(box[1] - box[0]))
    return roi


def add_segmentation(scene, number: int, volume, structures: dict[str, str], parent=None):
    """A segmentation of a patient; structures: label of the phantom -> name of the segment."""
    node = scene.AddNewNodeByClass("vtkMRMLSegmentationNode", "Segmentation")
    node.CreateDefaultDisplayNodes()
    if parent is not None:
        node.SetAndObserveTransformNodeID(parent.GetID())
    known = {name: label for label, name in patient(number).label_names.items()}
    for label, name in structures.items():
        mask = np.ascontiguousarray(patient(number).labels == known[label]).astype(np.uint8)
        image = slicer.vtkOrientedImageData()
        image.SetDimensions(*mask.shape[::-1])
        image.AllocateScalars(vtk.VTK_UNSIGNED_CHAR, 1)
        vtk.util.numpy_support.vtk_to_numpy(image.GetPointData().GetScalars())[:] = mask.ravel()
        image.SetGeometryFromImageToWorldMatrix(slicer.util.vtkMatrixFromArray(ijkToRas(volume)))
        node.AddSegmentFromBinaryLabelmapRepresentation(image, name)
    return node


class BoxBench:
    """A scene with a store and a BoxLogic, and what was said."""

    def __init__(self, scene, folder: Path) -> None:
        self.scene = scene
        self.store = make_store(scene, folder)
        self.logic = BoxLogic(scene, self.store)
        self.reported: list[str] = []
        self.logic.reported.connect(self.reported.append)

    def step(self) -> None:
        self.store.poll()
        self.logic.poll()

    def finish(self, seconds: float = 120.0) -> None:
        """Poll until the search has ended."""
        poll_until(
            lambda: not self.logic.busy,
            self.step,
            seconds=seconds,
            problem=lambda: f"the search did not end: {self.logic.progress}, {self.reported}",
        )

    def find(self, volumes, structures, recall: float = 0.99, **more: object) -> None:
        assert self.logic.find(volumes, structures, recall, **more), self.reported
        self.finish()

    def boxes(self, volume) -> dict:
        return boxesIn(self.scene, volume)

    def close(self) -> None:
        self.logic.close()
        self.store.close()
