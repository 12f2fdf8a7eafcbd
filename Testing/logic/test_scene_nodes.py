"""Nodes by their class: of the scene that is asked for, in its order."""

import slicer

from AnatomicalEmbeddingLib.shared.SceneNodes import nodesOf


def test_nodes_of_a_class_and_of_those_derived_from_it_in_order(scene):
    volume = scene.AddNewNodeByClass("vtkMRMLScalarVolumeNode", "CT")
    scene.AddNewNodeByClass("vtkMRMLModelNode", "Model")
    labels = scene.AddNewNodeByClass("vtkMRMLLabelMapVolumeNode", "Labels")
    assert nodesOf(scene, "vtkMRMLScalarVolumeNode") == [volume, labels]
    assert nodesOf(scene, "vtkMRMLLabelMapVolumeNode") == [labels]


def test_only_the_scene_that_is_asked_is_looked_in(scene):
    scene.AddNewNodeByClass("vtkMRMLModelNode", "Here")
    other = slicer.vtkMRMLScene()
    there = other.AddNewNodeByClass("vtkMRMLModelNode", "There")
    assert nodesOf(other, "vtkMRMLModelNode") == [there]


def test_what_is_returned_keeps_nothing_alive(scene):
    node = scene.AddNewNodeByClass("vtkMRMLModelNode", "Model")
    before = node.GetReferenceCount()
    for _ in range(3):
        nodesOf(scene, "vtkMRMLModelNode")
    assert node.GetReferenceCount() == before
