"""A user's own examples: marked by boxes, segments or six points, read exactly, kept with the scene, searched by."""

import json

import numpy as np
import pytest
import slicer.util
import vtk
from box_bench import add_roi, add_segmentation, add_turned, corners, share_inside, truth
from scans import add_patient, add_points, add_transform, patient, turned

from AnatomicalEmbedding.errors import PointsError
from AnatomicalEmbedding.scan.boxes import intersection_over_union
from AnatomicalEmbeddingLib.boxes.BoxNodes import WHOLE
from AnatomicalEmbeddingLib.boxes.StructureExamples import BOX, POINTS, SEGMENT, StructureExamples
from slicer_kit.scene import nodes_of_class, read_mrb, write_mrb

LIVER = "liver"
IDENTITY = np.eye(4)


@pytest.fixture
def examples(scene):
    made = StructureExamples(scene)
    yield made
    made.close()


def moved(matrix: np.ndarray, points: np.ndarray) -> np.ndarray:
    return points @ matrix[:3, :3].T + matrix[:3, 3]


def six_points(scene, number: int, structure: str, matrix=IDENTITY, order=(3, 0, 5, 1, 4, 2)):
    """Clicked in any order, world mm, in a patient who is moved by `matrix`."""
    points = moved(matrix, truth(number)[structure].extremes_ras[list(order)])
    return add_points(scene, {f"F-{n}": point for n, point in enumerate(points)}, "Six points")


# -- what is marked is read exactly


def test_a_segment_has_the_box_and_the_extreme_points_of_its_voxels(scene, examples):
    """The same as the engine's own examples are made of."""
    volume = add_patient(0)
    node = add_segmentation(scene, 0, volume, {"liver": "Liver", "kidney_left": "left kidney"})
    added, refused = examples.addSegments(node, volume)
    assert refused == []
    assert [example.structure for example in added] == ["liver", "kidney_left"]
    for example in added:
        known, read = truth(0)[example.structure], example.read()
        np.testing.assert_allclose(read.box, known.box_ras, atol=1e-3)
        np.testing.assert_allclose(read.extremes, known.extremes_ras, atol=1e-3)


def test_segments_of_oblique_scans_below_other_transforms_are_read_where_they_are(scene, examples):
    """Segmentation and volume each below a transform of its own, and both at the same place in the world."""
    askew, first, second = turned(25.0, (9.0, 8.0, 7.0)), turned(40.0, (0, 0, 50.0)), turned(-70.0, (20.0, 0, 0))
    volume = add_turned(0, askew)
    node = add_segmentation(scene, 0, volume, {"liver": LIVER})
    plain = examples.add(LIVER, node, volume, node.GetSegmentation().GetNthSegmentID(0)).read()
    other = add_turned(0, np.linalg.inv(first) @ askew, "Other")
    other.SetAndObserveTransformNodeID(add_transform(scene, first).GetID())
    shifted = add_segmentation(scene, 0, add_turned(0, np.linalg.inv(second) @ askew, "Grid"), {"liver": LIVER})
    shifted.SetAndObserveTransformNodeID(add_transform(scene, second).GetID())
    read = examples.add(LIVER, shifted, other, shifted.GetSegmentation().GetNthSegmentID(0)).read()
    voxels = moved(np.linalg.inv(first) @ askew, truth(0)[LIVER].voxels_ras)
    assert share_inside(read.box, voxels) == 1.0
    assert share_inside(plain.box, moved(askew, truth(0)[LIVER].voxels_ras)) == 1.0
    labels = patient(0).labels == next(n for n, name in patient(0).label_names.items() if name == LIVER)
    centres = np.argwhere(labels)[:, ::-1] @ (np.linalg.inv(first) @ askew @ patient(0).volume.ijk_to_ras)[:3, :3].T
    half = np.abs((np.linalg.inv(first) @ askew @ patient(0).volume.ijk_to_ras)[:3, :3]).sum(axis=1) / 2
    size = centres.max(axis=0) - centres.min(axis=0) + 2 * half
    np.testing.assert_allclose(read.box[1] - read.box[0], size, atol=1e-3)


def test_a_turned_roi_below_another_transform_is_read_as_the_box_around_it(scene, examples):
    volume = add_patient(0, parent=add_transform(scene, turned(30.0, (5.0, 0.0, 0.0))))
    tilt = turned(20.0, (-60.0, 0.0, 300.0))
    roi = add_roi(scene, np.array([[-30.0, -20.0, -10.0], [30.0, 20.0, 10.0]]), parent=add_transform(scene, tilt))
    to_volume = np.linalg.inv(turned(30.0, (5.0, 0.0, 0.0))) @ tilt
    expected = moved(to_volume, corners(np.array([[-30.0, -20.0, -10.0], [30.0, 20.0, 10.0]])))
    volume.SetOrigin(*(np.array(volume.GetOrigin()) + expected.mean(axis=0) - _middle(volume)))
    read = examples.add(LIVER, roi, volume).read()
    np.testing.assert_allclose(read.box, [expected.min(axis=0), expected.max(axis=0)], atol=1e-4)


def _middle(volume) -> np.ndarray:
    bounds = np.zeros(6)
    volume.GetBounds(bounds)
    return bounds.reshape(3, 2).mean(axis=1)


def test_six_points_are_read_in_any_order_through_transforms(scene, examples):
    matrix = turned(50.0, (40.0, 0.0, 10.0))
    volume = add_patient(0, parent=add_transform(scene, matrix))
    read = examples.add(LIVER, six_points(scene, 0, LIVER, matrix), volume).read()
    extremes = truth(0)[LIVER].extremes_ras
    np.testing.assert_allclose(read.box, [extremes.min(axis=0), extremes.max(axis=0)], atol=1e-4)
    assert sorted(map(tuple, np.round(read.points, 2))) == sorted(map(tuple, np.round(extremes, 2)))


# -- found by examples


@pytest.mark.parametrize("kind", [BOX, SEGMENT, POINTS])
def test_each_kind_of_example_finds_the_structure(bench, kind):
    source, target = add_patient(0), add_patient(1)
    known = truth(0)[LIVER]
    if kind == BOX:
        bench.logic.examples.add(LIVER, add_roi(bench.scene, known.box_ras), source)
    elif kind == SEGMENT:
        node = add_segmentation(bench.scene, 0, source, {"liver": LIVER})
        bench.logic.examples.add(LIVER, node, source, node.GetSegmentation().GetNthSegmentID(0))
    else:
        bench.logic.examples.add(LIVER, six_points(bench.scene, 0, LIVER), source)
    assert [example.kind for example in bench.logic.examples.all()] == [kind]
    bench.find([target], [LIVER])
    box = bench.boxes(target)[LIVER]
    assert box.found.status == WHOLE
    assert "by your examples" in box.found.text
    assert share_inside(box.box, truth(1)[LIVER].voxels_ras) > 0.99
    assert intersection_over_union(box.box, truth(1)[LIVER].box_ras) > 0.4


def mark(bench, number: int, structure: str = LIVER, grow: float = 0.0):
    """A box of a structure drawn by hand in a patient's scan; returns the volume."""
    volume = add_patient(number)
    box = truth(number)[structure].box_ras + [[-grow] * 3, [grow] * 3]
    bench.logic.examples.add(structure, add_roi(bench.scene, box, f"{structure} by hand"), volume)
    return volume


def test_an_example_takes_the_place_of_the_librarys_and_its_own_scan_is_not_searched(bench):
    source, target = mark(bench, 0), add_patient(1)
    bench.find([source, target], [LIVER, "spleen"])
    assert {name: box.found.byOwn for name, box in bench.boxes(target).items()} == {LIVER: True, "spleen": False}
    assert set(bench.boxes(source)) == {"spleen"}
    assert bench.logic.table([source])[LIVER][source.GetID()].marked
    box, recall = bench.logic.boxesOf(source, [LIVER])[LIVER]
    np.testing.assert_allclose(box, truth(0)[LIVER].box_ras, atol=1e-4)
    assert recall is None


def test_examples_that_cannot_be_used_are_named_and_left_out(bench):
    target = add_patient(1)
    mark(bench, 0)
    bad = slicer.util.addVolumeFromArray(np.zeros((30, 30, 30), np.int16), np.diag([5.0, 5.0, 5.0, 1.0]), name="Empty")
    roi = add_roi(bench.scene, np.array([[10.0, 10.0, 10.0], [90.0, 90.0, 90.0]]))
    bench.logic.examples.add(LIVER, roi, bad)
    bench.find([target], [LIVER])
    assert share_inside(bench.boxes(target)[LIVER].box, truth(1)[LIVER].voxels_ras) > 0.99
    assert any(said.startswith("Empty") and "left out" in said for said in bench.reported)
    bench.logic.removeBoxes([target])
    assert bench.logic.find([target], [LIVER], 0.9)
    for node in nodes_of_class(bench.scene, "vtkMRMLMarkupsROINode"):
        bench.scene.RemoveNode(node)
    bench.finish()
    assert any("liver by hand: was removed" in said for said in bench.reported)
    assert bench.boxes(target) == {}


def test_examples_that_disagree_make_larger_boxes(bench):
    """Three or more examples say themselves how far sides are off."""
    volumes = [mark(bench, number) for number in range(2)]
    third = add_patient(2)
    roi = add_roi(bench.scene, truth(2)[LIVER].box_ras, "third")
    bench.logic.examples.add(LIVER, roi, third)
    target = add_patient(0, "Again")
    bench.find([target], [LIVER])
    agreeing = bench.boxes(target)[LIVER].box
    roi.SetCenter(*(np.array(roi.GetCenter()) + (0.0, 0.0, 60.0)))
    bench.find([target], [LIVER])
    disagreeing = bench.boxes(target)[LIVER].box
    assert np.ptp(disagreeing[:, 2]) > 1.3 * np.ptp(agreeing[:, 2])  # of the height, in which they disagree
    assert len(volumes) == 2


# -- kept with the scene


def test_examples_are_kept_by_a_saved_scene(scene, examples, tmp_path):
    volume = add_patient(0)
    node = add_segmentation(scene, 0, volume, {"spleen": "spleen"})
    examples.add("spleen", node, volume, node.GetSegmentation().GetNthSegmentID(0))
    examples.add(LIVER, add_roi(scene, truth(0)[LIVER].box_ras), volume)
    examples.add("kidney left", six_points(scene, 0, "kidney_left"), volume)
    before = {example.structure: example.read().box for example in examples.all()}
    read_mrb(scene, write_mrb(scene, tmp_path / "scene.mrb"))
    again = examples.all()
    assert [(e.structure, e.kind) for e in again] == [("kidney_left", POINTS), (LIVER, BOX), ("spleen", SEGMENT)]
    for example in again:
        assert example.volumeNode.GetName() == "CT-1"
        np.testing.assert_allclose(example.read().box, before[example.structure], atol=1e-3)


def test_examples_are_renamed_moved_and_removed_and_go_with_their_segment_or_volume(scene, examples):
    heard = []
    examples.changed.connect(lambda: heard.append(len(examples.all())))
    volume, other = add_patient(0), add_patient(0, "Later")
    roi = add_roi(scene, truth(0)[LIVER].box_ras)
    examples.add("lever", roi, other)
    examples.add(LIVER, roi, volume)
    (only,) = examples.all()
    assert (only.structure, only.volumeNode) == (LIVER, volume)
    assert json.loads(roi.GetAttribute("AnatomicalEmbedding.Examples")) == {"": LIVER}
    examples.remove(only)
    assert examples.all() == []
    assert roi.GetNodeReference("AnatomicalEmbedding.ExampleVolume") is None
    assert heard == [1, 1, 0]
    node = add_segmentation(scene, 0, volume, {"liver": LIVER, "spleen": "spleen"})
    examples.addSegments(node, volume)
    node.GetSegmentation().RemoveSegment(node.GetSegmentation().GetNthSegmentID(0))
    assert [(e.structure, e.kind) for e in examples.all()] == [("spleen", SEGMENT)]
    scene.RemoveNode(volume)
    assert examples.all() == []


# -- what cannot be an example


def refused(examples, *arguments) -> str:
    with pytest.raises(PointsError) as caught:
        examples.add(*arguments)
    assert examples.all() == []
    return str(caught.value)


def test_wrong_examples_are_refused_in_a_sentence(scene, examples):
    volume, box = add_patient(0), truth(0)[LIVER].box_ras
    far = add_roi(scene, box + 3000.0, "Far box")
    assert refused(examples, LIVER, far, volume) == (
        "Far box: lies outside CT-1; choose the scan that it was drawn in."
    )
    undrawn = scene.AddNewNodeByClass("vtkMRMLMarkupsROINode", "New box")
    assert "New box: is not drawn yet" in refused(examples, LIVER, undrawn, volume)
    five = six_points(scene, 0, LIVER, order=(0, 1, 2, 3, 4))
    assert "Six points: has 5 points; place six" in refused(examples, LIVER, five, volume)
    assert "give the structure a name" in refused(examples, " - ", add_roi(scene, box), volume)
    assert "Choose the scan" in refused(examples, LIVER, None, volume)
    assert "Choose the scan" in refused(examples, LIVER, volume, volume)
    node = add_segmentation(scene, 0, volume, {"spleen": "spleen"})
    empty = node.GetSegmentation().AddEmptySegment("", "nothing yet")
    assert "nothing yet: is empty; segment the structure first" in refused(examples, LIVER, node, volume, empty)
    assert "choose one of its segments" in refused(examples, LIVER, node, volume, "no such segment")
    added, sentences = examples.addSegments(node, volume)
    assert [example.structure for example in added] == ["spleen"]
    assert len(sentences) == 1


def test_a_warp_between_segmentation_and_volume_is_refused(scene, examples):
    volume = add_patient(0)
    node = add_segmentation(scene, 0, volume, {"spleen": "spleen"})
    warp = scene.AddNewNodeByClass("vtkMRMLTransformNode", "warp")
    spline = vtk.vtkThinPlateSplineTransform()
    points = [vtk.vtkPoints(), vtk.vtkPoints()]
    for corner in corners(np.array([[-100.0] * 3, [100.0] * 3])):
        points[0].InsertNextPoint(corner)
        points[1].InsertNextPoint(corner + corner[::-1] ** 2 / 1000)
    spline.SetSourceLandmarks(points[0])
    spline.SetTargetLandmarks(points[1])
    spline.SetBasisToR()
    warp.SetAndObserveTransformToParent(spline)
    node.SetAndObserveTransformNodeID(warp.GetID())
    segment = node.GetSegmentation().GetNthSegmentID(0)
    assert "a warp lies between it and CT-1" in refused(examples, "spleen", node, volume, segment)
    volume.SetAndObserveTransformNodeID(warp.GetID())
    assert examples.add("spleen", node, volume, segment).read().box.shape == (2, 3)
