"""Test the body mask, on phantoms with labels and on shapes that are easily mistaken for the body."""

import numpy as np
import pytest
from evaluations.segmentation import dice

from AnatomicalEmbedding.embedding.body import body_mask, body_on_grid
from AnatomicalEmbedding.embedding.working_grid import resample
from AnatomicalEmbedding.phantom import make_phantom
from AnatomicalEmbedding.scan.volume import Volume

SPACING_MM = (4.0, 4.0, 4.0)
LUNGS = ("lung_left", "lung_right")


def label_ids(phantom, names):
    return [number for number, name in phantom.label_names.items() if name in names]


def disc(shape, centre, radius, value=40.0, hu=None):
    """A cylinder along k in air."""
    hu = np.full(shape, -1000.0) if hu is None else hu
    j, i = np.mgrid[: shape[1], : shape[2]]
    hu[:, (j - centre[0]) ** 2 + (i - centre[1]) ** 2 <= radius**2] = value
    return hu


@pytest.mark.parametrize("spacing_mm", [(2.0, 2.0, 3.0)])
def test_mask_on_the_working_grid_is_the_body(spacing_mm, phantom_pair):
    phantom = phantom_pair[0]
    grid = resample(phantom.volume, spacing_mm, 8, 4)
    body = body_on_grid(grid)
    assert body.shape == tuple(grid.hu.shape)
    truth = Volume((phantom.labels > 0).astype(np.float32), phantom.volume.ijk_to_ras)
    kji = np.indices(body.shape).reshape(3, -1)[:, ::7]  # every seventh voxel is enough
    points = kji[::-1].T * spacing_mm + grid.origin_ras
    assert dice(body[tuple(kji)], truth.sample(points, outside=0) > 0.5) > 0.97


def test_lungs_and_gas_belong_to_the_body(phantom_pair):
    for phantom in phantom_pair:
        body = body_mask(phantom.volume.voxels, phantom.volume.spacing)
        lungs = np.isin(phantom.labels, label_ids(phantom, LUNGS))
        assert lungs.sum() > 10_000
        assert body[lungs].mean() > 0.99
        gas = (phantom.labels > 0) & (phantom.volume.voxels < -800)
        assert body[gas].mean() > 0.95


def test_couch_does_not():
    with_couch, without = (
        make_phantom(73, SPACING_MM, (200.0, 300.0), table=table) for table in (True, False)
    )
    change = with_couch.volume.voxels.astype(int) - without.volume.voxels
    couch = (np.abs(change) > 500) & (with_couch.labels == 0)
    assert couch.sum() > 1000
    body, alone = (body_mask(p.volume.voxels, SPACING_MM) for p in (with_couch, without))
    assert body[couch].mean() < 0.03
    assert dice(body, alone) > 0.99


@pytest.mark.parametrize("side", LUNGS)
def test_scan_of_one_lung_keeps_the_lung(side):
    """A field of view within one half of the chest cuts the lung open on its sides."""
    phantom = make_phantom(71, (4.0, 4.0, 4.0), (300.0, 480.0))
    lung = np.isin(phantom.labels, label_ids(phantom, [side]))
    k, j, i = (
        np.flatnonzero(lung.any(axis=tuple(a for a in range(3) if a != axis))) for axis in range(3)
    )
    k = k[len(k) // 2 :]  # the upper half, where there is lung in every slice
    middle_j, middle_i = (a[0] + (a[-1] - a[0]) // 2 for a in (j, i))
    part = np.s_[k[0] : k[-1], middle_j - 12 : middle_j + 12, middle_i - 10 : middle_i + 10]
    shown = lung[part]
    assert shown.mean() > 0.4
    rim = np.ones(shown.shape, dtype=bool)
    rim[:, 1:-1, 1:-1] = False
    assert shown[rim].mean() > 0.1  # it is cut open indeed
    body = body_mask(phantom.volume.voxels[part], SPACING_MM)
    assert body[shown].mean() > 0.95
    assert body[phantom.labels[part] > 0].mean() > 0.95


def test_legs_and_arms_are_kept_and_cushions_are_not():
    shape = (12, 60, 100)
    hu = disc(shape, (30, 25), 14)
    hu = disc(shape, (30, 65), 14, hu=hu)
    hu[5:8, 20:26, 90:96] = 0.0  # a cushion, far smaller than either leg
    body = body_mask(hu, SPACING_MM)
    assert dice(body, disc(shape, (30, 65), 14, hu=disc(shape, (30, 25), 14)) > 0) > 0.97
    assert not body[:, :, 88:].any()


def test_sheet_touching_the_patient_is_cut_off():
    shape = (6, 60, 60)
    hu = disc(shape, (28, 30), 15)
    hu[:, 43:44, :] = 100.0  # one voxel thick, touching the back
    body = body_mask(hu, SPACING_MM)
    assert not body[:, 43, :20].any()
    assert not body[:, 43, 41:].any()
    assert body[:, 14:42, 30].all()
