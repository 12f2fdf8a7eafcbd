"""Test that the views of the fixed volume, and no others, show the moving volume over the fixed volume."""

import pytest
from scans import add_patient
from view_nodes import add_view

from AnatomicalEmbeddingLib.alignment.AlignmentNodes import areLaidOver, layOver, takeAway
from AnatomicalEmbeddingLib.shared.Views import compositeOf, volumeIn


@pytest.fixture
def volumes(scene):
    return add_patient(0, "Fixed"), add_patient(1, "Moving")


def test_the_views_of_the_fixed_volume_show_the_moving_one_half_transparent(scene, volumes):
    fixed, moving = volumes
    assert not layOver(scene, fixed, moving), "there are no views"
    own = add_view(scene, "Own", fixed)
    other = add_view(scene, "Other", moving)
    assert layOver(scene, fixed, moving)
    assert areLaidOver(scene, fixed, moving)
    assert compositeOf(scene, own).GetForegroundVolumeID() == moving.GetID()
    assert compositeOf(scene, own).GetForegroundOpacity() == 0.5
    assert compositeOf(scene, other).GetForegroundVolumeID() is None
    takeAway(scene, fixed, moving)
    assert not areLaidOver(scene, fixed, moving)
    assert volumeIn(scene, own) is fixed
    scene.RemoveNode(own)
    assert layOver(scene, fixed, moving), "where no view shows the fixed volume, all do"
    assert volumeIn(scene, other) is fixed
