"""Test that the region of a place is shaded over its own scan only, in Slicer's slice views."""

import numpy as np
import pytest

pytest.importorskip(
    "trame_slicer",
    reason="runs in an environment with trame-slicer[standalone]; `make test` makes it",
)

from mouse_views import MouseView
from scans import add_patient
from vtk.util.numpy_support import vtk_to_numpy
from vtkmodules.vtkIOImage import vtkPNGReader

from AnatomicalEmbeddingLib.words.PlaceRegion import Region, RegionNodes

HALF_MM = 40.0


def coloured(view, path) -> tuple[int, int]:
    """Pixels of a view that are blue (the border of nine tenths) and yellow (the half)."""
    view.picture(path)
    reader = vtkPNGReader()
    reader.SetFileName(str(path))
    reader.Update()
    r, g, b = vtk_to_numpy(reader.GetOutput().GetPointData().GetScalars())[:, :3].astype(int).T
    return int(((b - r > 60) & (b - g > 20)).sum()), int(((r - b > 25) & (g - b > 15)).sum())


def test_a_region_is_drawn_over_its_own_scan_until_it_is_cleared(
    application, scene, tmp_path, pictures
):
    volumes = [add_patient(0, "Prior"), add_patient(0, "Current")]
    for volume in volumes:
        volume.CreateDefaultDisplayNodes()
        volume.GetDisplayNode().SetAndObserveColorNodeID("vtkMRMLColorTableNodeGrey")
    views = [MouseView(application, f"region{v.GetName()}", v) for v in volumes]
    bounds = np.zeros(6)
    volumes[0].GetRASBounds(bounds)
    middle = bounds.reshape(3, 2).mean(axis=1)
    masks = [np.zeros((44, 44, 44), np.uint8) for _share in range(2)]
    masks[0][12:32, 12:32, 12:32] = masks[1][2:42, 2:42, 2:42] = 1
    region = Region(tuple(masks), middle - HALF_MM - 3.0, np.full(3, 2.0))
    regions = RegionNodes(scene)
    regions.show(volumes[0], "a place", region)
    for view in views:
        view.node.JumpSlice(*middle)
    blue, yellow = coloured(views[0], pictures / "region.png")
    assert blue > 100
    assert yellow > 400
    assert coloured(views[1], tmp_path / "other.png") == (0, 0)
    regions.clear()
    assert coloured(views[0], tmp_path / "cleared.png") == (0, 0)
