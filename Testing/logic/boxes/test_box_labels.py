"""Test the names of boxes in views: each name is at the corner of its box, and in that view only."""

import numpy as np
import pytest
import slicer
from scans import add_patient
from view_nodes import add_view

from AnatomicalEmbeddingLib.boxes.BoxLabels import BoxLabels
from AnatomicalEmbeddingLib.boxes.BoxNodes import WHOLE, BoxNode, FoundBox
from AnatomicalEmbeddingLib.shared import Views

SIZE = 40.0


class Bench:
    """A scan and another, a view of each, and a box around the middle of the first."""

    def __init__(self, scene, parent=None) -> None:
        slicer.vtkMRMLSliceNode.AddDefaultSliceOrientationPresets(scene)
        self.scene = scene
        self.volumes = [add_patient(0, "Prior", parent), add_patient(0, "Current", parent)]
        self.views = [add_view(scene, f"Named{n}", volume) for n, volume in enumerate(self.volumes)]
        for view, volume in zip(self.views, self.volumes, strict=True):
            view.SetDimensions(400, 300, 1)
            Views.fit(scene, volume)
        bounds = [0.0] * 6
        self.volumes[0].GetRASBounds(bounds)
        self.middle = np.array(bounds).reshape(3, 2).mean(axis=1)
        self.labels = BoxLabels(scene)

    def add_box(self, structure: str):
        local = self.middle  # of a volume that is not moved
        box = BoxNode.create(self.scene, structure, self.volumes[0], (1.0, 0.5, 0.0))
        box.write(
            np.array([local - SIZE, local + SIZE]),
            FoundBox(structure, WHOLE, 0.95, 1.0, (3.0,) * 6),
        )
        return box

    def shown(self) -> dict[str, np.ndarray]:
        """Name -> world mm; of lists that are shown in the first view, as all must be."""
        found = {}
        for node in Views.nodesOf(self.scene, "vtkMRMLMarkupsFiducialNode"):
            assert list(node.GetDisplayNode().GetViewNodeIDs()) == [self.views[0].GetID()]
            assert not node.GetSaveWithScene()
            for n in range(node.GetNumberOfControlPoints()):
                found[node.GetNthControlPointLabel(n)] = np.array(
                    node.GetNthControlPointPositionWorld(n)
                )
        return found


def test_a_name_follows_the_slices_that_cut_its_box(scene):
    bench = Bench(scene)
    bench.add_box("vertebra_l1")
    for above in (0.0, 25.0):
        at = bench.middle + (0, 0, above)
        bench.views[0].JumpSliceByOffsetting(*at)
        bench.labels.follow(1)
        (label,) = bench.shown().items()
        assert label[0] == "vertebrae L1"
        # the view's left is the patient's right, its top the front
        assert label[1] == pytest.approx(at + (SIZE, SIZE, 0), abs=1e-3)
    bench.views[0].JumpSliceByOffsetting(*(bench.middle + (0, 0, SIZE + 1)))
    bench.labels.follow(1)
    assert bench.shown() == {}
