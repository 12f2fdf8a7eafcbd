"""Test alignments as transform nodes: they equal the registration, can be undone, and are saved with the scene."""

import numpy as np
import pytest
import slicer
from align_bench import HIGH, LOW, registration, through
from scans import add_transform, turned

from AnatomicalEmbeddingLib.alignment.AlignmentNodes import align, alignmentOf, undoAlignment
from AnatomicalEmbeddingLib.shared.VolumeNodes import toWorld
from slicer_kit.scene import read_mrb, write_mrb

# leaves LOW..HIGH
LINE = np.column_stack([np.arange(60.0, 320.0, 0.5), np.full(520, 10.0), np.full(520, 100.0)])
POINTS = np.random.default_rng(4).uniform(LOW, HIGH, (200, 3))


def add_block(name: str, parent=None):
    """A volume that lies somewhere; what it shows is of no matter."""
    node = slicer.util.addVolumeFromArray(np.zeros((4, 4, 4), np.int16), name=name)
    if parent is not None:
        node.SetAndObserveTransformNodeID(parent.GetID())
    return node


@pytest.fixture
def volumes(scene):
    return add_block("Fixed"), add_block("Moving")


@pytest.mark.parametrize(("kind", "tolerance"), [("affine", 1e-9), ("deformable", 1e-4)])
def test_the_node_maps_points_as_the_registration_does_both_ways(scene, volumes, kind, tolerance):
    found = registration(kind)
    node = align(scene, found, *volumes)
    moved = found.transform_points(POINTS)
    assert np.abs(through(node.GetTransformFromParent(), POINTS) - moved).max() < tolerance
    assert np.abs(through(node.GetTransformToParent(), moved) - POINTS).max() < tolerance
    assert np.abs(toWorld(volumes[1], moved) - POINTS).max() < tolerance
    assert node.IsTransformToWorldLinear() == (kind == "affine")


def test_the_displacement_dies_away_beyond_the_fixed_scan_without_a_tear(scene, volumes):
    found = registration()
    node = align(scene, found, *volumes)
    apart = through(node.GetTransformFromParent(), LINE) - (
        LINE @ found.affine[:3, :3].T + found.affine[:3, 3]
    )
    assert np.linalg.norm(apart[0]) > 0.5
    assert np.abs(apart[-1]).max() < 1e-9
    assert np.linalg.norm(np.diff(apart, axis=0), axis=1).max() < 0.5


def test_undo_puts_a_volume_back_below_what_it_lay_below(scene):
    before = add_transform(scene, turned(10, (1, 2, 3)))
    fixed = add_block("Fixed", add_transform(scene, turned(20, (30, -40, 50)), "of fixed"))
    moving = add_block("Moving")
    moving.SetAndObserveTransformNodeID(before.GetID())
    first = align(scene, registration("affine"), fixed, moving)
    second = align(scene, registration(), fixed, moving)
    assert alignmentOf(moving) is second
    moved = registration().transform_points(POINTS)
    assert np.abs(toWorld(moving, moved) - toWorld(fixed, POINTS)).max() < 1e-3
    undoAlignment(moving)
    assert moving.GetParentTransformNode() is before
    assert alignmentOf(moving) is None
    assert {first.GetScene(), second.GetScene()} == {scene}


@pytest.mark.parametrize("kind", ["affine", "deformable"])
def test_an_mrb_keeps_the_alignment_and_its_undo(scene, tmp_path, kind):
    before = add_transform(scene, turned(10, (1, 2, 3)), "Before")
    fixed = add_block("Fixed")
    moving = add_block("Moving", before)
    found = registration(kind)
    node = align(scene, found, fixed, moving)
    beyond = through(node.GetTransformFromParent(), LINE)
    write_mrb(scene, tmp_path / "scene.mrb")
    read_mrb(scene, tmp_path / "scene.mrb")
    moving = slicer.util.getNode("Moving")
    node = alignmentOf(moving)
    moved = found.transform_points(POINTS)
    assert np.abs(through(node.GetTransformFromParent(), POINTS) - moved).max() < 0.05
    assert np.abs(through(node.GetTransformFromParent(), LINE) - beyond).max() < 0.05
    assert np.abs(toWorld(moving, moved) - POINTS).max() < 0.05
    undoAlignment(moving)
    assert moving.GetParentTransformNode().GetName() == "Before"
