"""Test volume nodes: which are CTs, conversion of points, and which changes make a map out of date."""

import numpy as np
import pytest
import slicer
import slicer.util
import vtk
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scans import add_patient, add_transform, turned

from AnatomicalEmbedding.errors import VolumeError
from AnatomicalEmbeddingLib.shared import SceneNodes, VolumeNodes


def test_only_scalar_volumes_with_voxels_are_cts(scene):
    ct = add_patient(0)
    label = scene.AddNewNodeByClass("vtkMRMLLabelMapVolumeNode", "labels")
    slicer.util.updateVolumeFromArray(label, np.zeros((4, 4, 4), np.uint8))
    colour = scene.AddNewNodeByClass("vtkMRMLVectorVolumeNode", "photo")
    slicer.util.updateVolumeFromArray(colour, np.zeros((4, 4, 4, 3), np.uint8))
    scene.AddNewNodeByClass("vtkMRMLScalarVolumeNode", "empty")
    unfilled = vtk.vtkImageData()
    unfilled.SetDimensions(4, 4, 4)
    scene.AddNewNodeByClass("vtkMRMLScalarVolumeNode", "unfilled").SetAndObserveImageData(unfilled)
    assert VolumeNodes.ctVolumes(scene) == [ct]


def test_what_is_no_ct_is_refused_by_name(scene):
    ultrasound = slicer.util.addVolumeFromArray(
        np.full((40, 40, 40), 90, np.uint8), np.diag([3, 3, 3, 1.0]), "Echo"
    )
    with pytest.raises(VolumeError, match="Echo"):
        VolumeNodes.snapshot(ultrasound).volume()
    with pytest.raises(VolumeError, match="Nothing"):
        VolumeNodes.snapshot(scene.AddNewNodeByClass("vtkMRMLScalarVolumeNode", "Nothing"))


@settings(
    deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    degrees=st.floats(-180, 180),
    shift=st.tuples(*[st.floats(-500, 500)] * 3),
    scale=st.floats(0.5, 2.0),
    point=st.tuples(*[st.floats(-300, 300)] * 3),
)
def test_world_and_volume_are_exact_inverses_below_two_transforms(
    scene, degrees, shift, scale, point
):
    outer = add_transform(scene, turned(degrees, shift))
    inner = add_transform(scene, np.diag([scale, 1.0, 1.0, 1.0]))
    inner.SetAndObserveTransformNodeID(outer.GetID())
    node = slicer.util.addVolumeFromArray(np.zeros((3, 3, 3), np.int16), np.eye(4), "CT")
    node.SetAndObserveTransformNodeID(inner.GetID())
    expected = (turned(degrees, shift) @ np.diag([scale, 1, 1, 1]) @ [*point, 1.0])[:3]
    world = VolumeNodes.toWorld(node, [point])
    assert np.allclose(world[0], expected, atol=1e-6)
    assert np.allclose(VolumeNodes.fromWorld(node, world)[0], point, atol=1e-6)


def test_the_content_key_changes_with_voxels_and_geometry_only(scene):
    node = add_patient(0)
    key = VolumeNodes.contentKey(node)
    node.SetName("renamed")
    node.SetAndObserveTransformNodeID(add_transform(scene, turned(20, (1, 2, 3))).GetID())
    assert VolumeNodes.contentKey(node) == key
    node.SetSpacing(4.0, 4.0, 4.5)
    moved = VolumeNodes.contentKey(node)
    assert moved != key
    slicer.util.arrayFromVolume(node)[0, 0, 0] += 1
    slicer.util.arrayFromVolumeModified(node)
    assert VolumeNodes.contentKey(node) != moved


def test_a_volume_holds_points_up_to_its_voxels_outer_edges(scene):
    node = slicer.util.addVolumeFromArray(
        np.zeros((5, 5, 5), np.int16), np.diag([2.0, 2.0, 2.0, 1.0]), "CT"
    )
    node.SetAndObserveTransformNodeID(add_transform(scene, turned(0, (100, 0, 0))).GetID())
    places = [(99.1, -0.9, -0.9), (98.9, 0, 0), (108.9, 8.9, 8.9), (8.0, 8.0, 8.0)]
    assert VolumeNodes.holds(node, VolumeNodes.fromWorld(node, places)).tolist() == [
        True,
        False,
        True,
        False,
    ]


def test_volumes_of_one_patient_are_together_and_so_are_those_without_one(scene):
    hierarchy = slicer.vtkMRMLSubjectHierarchyNode.GetSubjectHierarchyNode(scene)
    people = [
        hierarchy.CreateSubjectItem(hierarchy.GetSceneItemID(), name)
        for name in ("Miller", "Smith")
    ]
    volumes = [scene.AddNewNodeByClass("vtkMRMLScalarVolumeNode") for _ in range(5)]
    for volume, person in zip(volumes, (people[0], people[1], people[0], None, None), strict=True):
        if person is not None:
            hierarchy.CreateItem(hierarchy.CreateStudyItem(person, "Study"), volume)
    found = [SceneNodes.patientItem(scene, volume) for volume in volumes]
    assert found[:3] == [people[0], people[1], people[0]]
    assert found[3] == found[4]
    assert found[3] not in people
