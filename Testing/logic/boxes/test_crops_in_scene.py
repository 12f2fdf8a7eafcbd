"""Test crops in a real scene: they contain exactly the source's voxels inside the boxes, at the same places."""

import numpy as np
import pytest
import slicer
import slicer.util
from box_bench import BoxBench, add_roi, add_turned, corners, share_inside, truth
from scans import add_patient, add_transform, turned

from AnatomicalEmbeddingLib.boxes import Crops
from AnatomicalEmbeddingLib.shared.VolumeNodes import ijkToRas


class CropBench(BoxBench):
    def box(self, volume, structure: str, box: np.ndarray):
        """A box of a structure without any search: the user's own example."""
        return self.logic.examples.add(
            structure, add_roi(self.scene, box, f"{structure} box"), volume
        )


@pytest.fixture
def bench(scene, map_folder):
    made = CropBench(scene, map_folder)
    yield made
    made.close()


def block_of(volume, crop) -> np.ndarray:
    """The source's voxels where the crop says that its own are; its grid must be the source's."""
    offset = np.linalg.inv(ijkToRas(volume)) @ ijkToRas(crop)
    np.testing.assert_allclose(offset[:3, :3], np.eye(3), atol=1e-12)
    first = np.round(offset[:3, 3]).astype(int)
    np.testing.assert_allclose(offset[:3, 3], first, atol=1e-9)
    i, j, k = first
    size = crop.GetImageData().GetDimensions()
    return slicer.util.arrayFromVolume(volume)[k : k + size[2], j : j + size[1], i : i + size[0]]


def assert_exact(volume, crop) -> None:
    mine = slicer.util.arrayFromVolume(crop)
    voxels = block_of(volume, crop)
    assert mine.dtype == slicer.util.arrayFromVolume(volume).dtype
    np.testing.assert_array_equal(mine, voxels)
    assert crop.GetTransformNodeID() == volume.GetTransformNodeID()


def bounds(volume) -> np.ndarray:
    """(2, 3) outer edges of an upright volume's voxels, its own RAS mm."""
    found = np.zeros(6)
    volume.GetBounds(found)
    return found.reshape(3, 2).T


def test_a_crop_holds_the_structure_and_exactly_its_voxels(bench):
    volume = add_patient(0)
    bench.find([volume], ["liver"])
    (crop,) = Crops.crop(bench.logic, volume, ["liver"])
    assert_exact(volume, crop)
    assert share_inside(bounds(crop), truth(0)["liver"].voxels_ras) >= 0.99
    box = np.clip(bench.boxes(volume)["liver"].box, *bounds(volume))
    assert (bounds(crop)[0] <= box[0] + 1e-6).all()
    assert (box[0] - bounds(crop)[0] < 4.0).all()
    assert (bounds(crop)[1] >= box[1] - 1e-6).all()
    assert (bounds(crop)[1] - box[1] < 4.0).all()


@pytest.mark.parametrize("dtype", [np.int16, np.uint8, np.float64])
def test_voxels_keep_their_type(bench, dtype):
    voxels = np.random.default_rng(0).integers(0, 200, (20, 30, 40)).astype(dtype)
    volume = slicer.util.addVolumeFromArray(voxels, np.diag([1.0, 1.5, 2.0, 1.0]), name="V")
    bench.box(volume, "thing", np.array([[4.6, 10.0, 7.0], [20.0, 25.0, 21.0]]))
    (crop,) = Crops.crop(bench.logic, volume, ["thing"])
    assert_exact(volume, crop)
    assert crop.GetImageData().GetScalarType() == volume.GetImageData().GetScalarType()
    np.testing.assert_array_equal(slicer.util.arrayFromVolume(crop), voxels[4:11, 7:18, 5:21])
    slicer.util.arrayFromVolume(crop)[:] = 0
    assert slicer.util.arrayFromVolume(volume).any()  # a copy, not a view


def test_oblique_volumes_below_transforms_are_cropped_on_their_own_grid(bench):
    matrix = turned(33.0, (10.0, -5.0, 100.0))
    volume = add_turned(0, turned(21.0, (4.0, 5.0, 6.0)))
    volume.SetAndObserveTransformNodeID(add_transform(bench.scene, matrix).GetID())
    bench.find([volume], ["spleen"])
    (crop,) = Crops.crop(bench.logic, volume, ["spleen"])
    assert_exact(volume, crop)
    to_ijk, to_scan = (np.linalg.inv(ijkToRas(node)) for node in (crop, volume))
    box = corners(bench.boxes(volume)["spleen"].box)
    ends = np.clip(
        box @ to_scan[:3, :3].T + to_scan[:3, 3],
        -0.5,
        np.array(volume.GetImageData().GetDimensions()) - 0.5,
    )
    # what the scan holds of it
    box = ends @ (to_ijk @ ijkToRas(volume))[:3, :3].T + (to_ijk @ ijkToRas(volume))[:3, 3]
    assert (box >= -0.5 - 1e-6).all()
    assert (box <= np.array(crop.GetImageData().GetDimensions()) - 0.5 + 1e-6).all()


def test_a_crop_keeps_its_source_looks_and_place_in_the_hierarchy(bench):
    hierarchy = slicer.vtkMRMLSubjectHierarchyNode.GetSubjectHierarchyNode(bench.scene)
    volume = add_patient(0)
    study = hierarchy.CreateStudyItem(
        hierarchy.CreateSubjectItem(hierarchy.GetSceneItemID(), "P"), "Study 1"
    )
    hierarchy.CreateItem(study, volume)
    volume.GetDisplayNode().SetAutoWindowLevel(False)
    volume.GetDisplayNode().SetWindowLevel(350.0, 40.0)
    bench.find([volume], ["liver", "spleen"], 0.9)
    (crop,), (again,) = (
        Crops.crop(bench.logic, volume, ["liver", "spleen"], marginMm=5.0) for _ in range(2)
    )
    assert [crop.GetName(), again.GetName()] == ["CT-1 crop", "CT-1 crop_1"]
    display = crop.GetDisplayNode()
    assert (display.GetWindow(), display.GetLevel(), display.GetAutoWindowLevel()) == (
        350.0,
        40.0,
        0,
    )
    assert crop.GetNodeReference("AnatomicalEmbedding.SourceVolume") is volume
    of = {
        what: crop.GetAttribute(f"AnatomicalEmbedding.Crop{what}")
        for what in ("Structures", "MarginMm")
    }
    assert of == {"Structures": "liver,spleen", "MarginMm": "5"}
    assert hierarchy.GetItemParent(hierarchy.GetItemByDataNode(crop)) == study
    folder = hierarchy.GetItemParent(hierarchy.GetItemByDataNode(bench.boxes(volume)["liver"].node))
    assert (hierarchy.GetItemName(folder), hierarchy.GetItemParent(folder)) == ("Boxes", study)
