"""Align volumes: two CTs are chosen, the moving scan is aligned with the fixed one, shown, and moved back."""

import numpy as np
import slicer
from driver.landmarks import distance
from driver.scans import add_patient, patient
from driver.waiting import pause

NAMES = ("carina", "heart_apex", "liver_dome")
AWAY_MM = (900.0, -500.0, 700.0)


def run(user):
    fixed = add_patient(0, "Fixed")
    moving = add_patient(1, "Moving")
    matrix = slicer.util.arrayFromVTKMatrix(_ijk_to_ras(moving))
    matrix[:3, 3] += AWAY_MM
    moving.SetIJKToRASMatrix(slicer.util.vtkMatrixFromArray(matrix))
    panel = user.open("AnatomicalLandmarks")
    ui = panel.ui
    user.prepare(panel)
    user.click(ui.gridButton)
    user.views.assert_none_is_black([fixed, moving])
    user.open_section(ui.alignSection)
    assert (panel.alignPanel.fixed, panel.alignPanel.moving) == (fixed, moving)
    chosen = [
        selector.currentNode() for selector in (ui.alignFixedSelector, ui.alignMovingSelector)
    ]
    assert chosen[0] is None or chosen[0] is not chosen[1], "both selectors show the same scan"
    assert ui.alignButton.enabled, ui.alignButton.toolTip
    user.choose(ui.alignKindComboBox, "Deformable")
    user.click(ui.alignButton)
    user.wait(lambda: panel.alignment.busy, 5)
    user.wait(lambda: not panel.alignment.busy, 300, "the scans are aligned")
    assert moving.GetParentTransformNode() is not None
    for name in NAMES:
        there = _world(moving, patient(1).points_ras[name] + AWAY_MM)
        assert distance(there, patient(0).points_ras[name]) < 12, name
    assert ui.alignLabel.text
    assert ui.alignLabel.height >= ui.alignLabel.heightForWidth(ui.alignLabel.width), (
        "the result is squeezed"
    )

    # the moving scan has gone more than a metre: its own views show it where it is now
    user.views.assert_none_is_black([fixed, moving])
    user.picture("aligned")
    user.click(ui.alignShowButton)
    pause(0.5)
    assert user.views.foregrounds(fixed) == [moving] * 2
    user.views.scroll(fixed, 4)
    user.picture("both")
    user.click(ui.alignShowButton)

    user.click(ui.alignUndoButton)
    pause(0.5)
    assert moving.GetParentTransformNode() is None
    user.views.assert_none_is_black([moving])

    # a transform that is hardened leaves nothing behind that could be undone
    user.choose(ui.alignKindComboBox, "Rigid")
    user.click(ui.alignButton)
    user.wait(lambda: panel.alignment.busy, 5)
    user.wait(lambda: not panel.alignment.busy, 300)
    moving.HardenTransform()
    user.wait(lambda: not ui.alignUndoButton.enabled, 10, "there is nothing to undo")


def run_transform_file(user):
    """`anatemb register` writes a transform that lays the moving scan on the fixed one when it is loaded."""
    from AnatomicalEmbedding.cli import main

    for number, name in enumerate(("fixed", "moving")):
        patient(number).volume.write(user.folder / f"{name}.nii.gz")
    words = ["register", str(user.folder / "fixed.nii.gz"), str(user.folder / "moving.nii.gz")]
    assert (
        main([*words, "-o", str(user.folder / "registered"), "--kind", "affine", "--device", "cpu"])
        == 0
    )
    moving = user.load_file(user.folder / "moving.nii.gz")
    transform = user.load_file(user.folder / "registered" / "transform.h5")
    moving.SetAndObserveTransformNodeID(transform.GetID())
    for name in NAMES:
        assert (
            distance(_world(moving, patient(1).points_ras[name]), patient(0).points_ras[name]) < 25
        ), name


def _ijk_to_ras(volume):
    import vtk

    matrix = vtk.vtkMatrix4x4()
    volume.GetIJKToRASMatrix(matrix)
    return matrix


def _world(volume, place):
    """Where a place of a volume lies once its transform is applied."""
    import vtk

    general = vtk.vtkGeneralTransform()
    slicer.vtkMRMLTransformNode.GetTransformBetweenNodes(
        volume.GetParentTransformNode(), None, general
    )
    return np.array(general.TransformPoint(*place))
