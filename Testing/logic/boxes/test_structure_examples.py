"""Test the user's own examples: boxes or segments are read exactly, saved with the scene, and used for locating."""

import numpy as np
import pytest
import slicer.util
from box_bench import add_roi, add_segmentation, add_turned, share_inside, truth
from scans import add_patient, add_transform, turned

from AnatomicalEmbedding.errors import PointsError
from AnatomicalEmbeddingLib.boxes.StructureExamples import BOX, SEGMENT, StructureExamples
from slicer_kit.scene import nodes_of_class, read_mrb, write_mrb

LIVER = "liver"


@pytest.fixture
def examples(scene):
    made = StructureExamples(scene)
    yield made
    made.close()


# -- what is marked is read exactly


def test_each_kind_of_marking_is_read_exactly_wherever_volume_and_marking_lie(scene, examples):
    """The volume lies below a transform, the markings lie in the world; truth: the engine's own examples."""
    matrix = turned(50.0, (40.0, 0.0, 10.0))
    known = truth(0)[LIVER]
    volume = add_patient(0, parent=add_transform(scene, matrix))
    roi = add_roi(scene, known.box_ras)
    middle = np.eye(4)
    middle[:3, 3] = known.box_ras.mean(axis=0)
    roi.SetAndObserveObjectToNodeMatrix(slicer.util.vtkMatrixFromArray(matrix @ middle))
    roi.SetSize(*np.ptp(known.box_ras, axis=0))
    np.testing.assert_allclose(examples.add(LIVER, roi, volume).read()[0], known.box_ras, atol=1e-4)
    node = add_segmentation(
        scene, 0, add_turned(0, matrix, "Grid"), {"liver": "Liver", "kidney_left": "left kidney"}
    )
    added, refused = examples.addSegments(node, volume)
    assert refused == []
    assert [example.structure for example in added] == [LIVER, "kidney_left"]
    for example in added:
        np.testing.assert_allclose(
            example.read()[0], truth(0)[example.structure].box_ras, atol=1e-3
        )
        np.testing.assert_allclose(
            example.read()[1], truth(0)[example.structure].extremes_ras, atol=1e-3
        )


# -- found by examples


def mark(bench, number: int, structure: str = LIVER, grow: float = 0.0):
    """A box of a structure drawn by hand in a patient's scan; returns the volume."""
    volume = add_patient(number)
    box = truth(number)[structure].box_ras + [[-grow] * 3, [grow] * 3]
    bench.logic.examples.add(structure, add_roi(bench.scene, box, f"{structure} by hand"), volume)
    return volume


def test_an_example_takes_the_place_of_the_librarys_and_its_own_scan_is_not_searched(bench):
    source = mark(bench, 0)
    target = add_patient(1)
    bench.find([source, target], [LIVER, "spleen"])
    assert {name: box.found.byOwn for name, box in bench.boxes(target).items()} == {
        LIVER: True,
        "spleen": False,
    }
    assert set(bench.boxes(source)) == {"spleen"}
    assert bench.logic.table([source])[LIVER][source.GetID()].marked
    box = bench.logic.boxesOf(source, [LIVER])[LIVER]
    np.testing.assert_allclose(box, truth(0)[LIVER].box_ras, atol=1e-4)


def test_examples_that_cannot_be_used_are_named_and_left_out(bench):
    target = add_patient(1)
    mark(bench, 0)
    bad = slicer.util.addVolumeFromArray(
        np.zeros((30, 30, 30), np.int16), np.diag([5.0, 5.0, 5.0, 1.0]), name="Empty"
    )
    roi = add_roi(bench.scene, np.array([[10.0, 10.0, 10.0], [90.0, 90.0, 90.0]]))
    bench.logic.examples.add(LIVER, roi, bad)
    bench.find([target], [LIVER])
    assert share_inside(bench.boxes(target)[LIVER].box, truth(1)[LIVER].voxels_ras) > 0.99
    assert any(said.startswith("Empty") and "is not used" in said for said in bench.reported)
    bench.logic.removeBoxes([target])
    assert bench.logic.find([target], [LIVER], 0.9)
    for node in nodes_of_class(bench.scene, "vtkMRMLMarkupsROINode"):
        bench.scene.RemoveNode(node)
    bench.finish()
    assert any("liver by hand: this example was removed" in said for said in bench.reported)
    assert bench.boxes(target) == {}


# -- kept with the scene


def test_examples_are_kept_by_a_saved_scene(scene, examples, tmp_path):
    volume = add_patient(0)
    node = add_segmentation(scene, 0, volume, {"spleen": "spleen"})
    examples.add("spleen", node, volume, node.GetSegmentation().GetNthSegmentID(0))
    examples.add(LIVER, add_roi(scene, truth(0)[LIVER].box_ras), volume)
    before = {example.structure: example.read()[0] for example in examples.all()}
    read_mrb(scene, write_mrb(scene, tmp_path / "scene.mrb"))
    again = examples.all()
    assert [(e.structure, e.kind) for e in again] == [(LIVER, BOX), ("spleen", SEGMENT)]
    for example in again:
        assert example.volumeNode.GetName() == "CT-1"
        np.testing.assert_allclose(example.read()[0], before[example.structure], atol=1e-3)


# -- what cannot be an example


def refused(examples, *arguments) -> str:
    with pytest.raises(PointsError) as caught:
        examples.add(*arguments)
    assert examples.all() == []
    return str(caught.value)


def test_wrong_examples_are_refused_in_a_sentence(scene, examples):
    volume = add_patient(0)
    box = truth(0)[LIVER].box_ras
    far = add_roi(scene, box + 3000.0, "Far box")
    assert refused(examples, LIVER, far, volume) == (
        "Far box: lies outside CT-1; choose the scan in which you drew Far box."
    )
    undrawn = scene.AddNewNodeByClass("vtkMRMLMarkupsROINode", "New box")
    assert "New box: this box is not drawn yet" in refused(examples, LIVER, undrawn, volume)
    assert "give the structure a name" in refused(examples, " - ", add_roi(scene, box), volume)
    assert "choose a scan, and the box or segment" in refused(examples, LIVER, None, volume)
    assert "choose a scan, and the box or segment" in refused(examples, LIVER, volume, volume)
    node = add_segmentation(scene, 0, volume, {"spleen": "spleen"})
    empty = node.GetSegmentation().AddEmptySegment("", "nothing yet")
    assert "nothing yet: is empty; segment the structure first" in refused(
        examples, LIVER, node, volume, empty
    )
    assert "choose one of its segments" in refused(examples, LIVER, node, volume, "no such segment")
    added, sentences = examples.addSegments(node, volume)
    assert [example.structure for example in added] == ["spleen"]
    assert len(sentences) == 1
