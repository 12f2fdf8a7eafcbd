"""Test that the voxels of a crop lie exactly on the voxels of its source, for all kinds of headers."""

import numpy as np
import pytest
import SimpleITK as sitk

from AnatomicalEmbedding.errors import VolumeError
from AnatomicalEmbedding.scan.cropping import crop_resampled, crop_voxels
from AnatomicalEmbedding.scan.volume import Volume

TURN = np.array([(np.cos(0.3), -np.sin(0.3), 0), (np.sin(0.3), np.cos(0.3), 0), (0, 0, 1.0)])
AXES = {
    "plain": np.eye(3),
    "flipped": np.array([(-1.0, 0, 0), (0, 0, 1.0), (0, -1.0, 0)]),
    "oblique": TURN,
}
BOX = np.array([[-20.0, -12.0, 310.0], [22.0, 25.0, 341.0]])


def scan(axes: np.ndarray, spacing=(1.5, 2.0, 3.0)) -> Volume:
    """Random HU about RAS (0, 0, 320)."""
    size = np.array((60, 50, 40))
    matrix = np.eye(4)
    matrix[:3, :3] = axes * spacing
    matrix[:3, 3] = (0, 0, 320) - matrix[:3, :3] @ ((size - 1) / 2)
    voxels = np.random.default_rng(0).integers(-1000, 1000, size[::-1]).astype(np.int16)
    return Volume(voxels, matrix, name="scan")


@pytest.mark.parametrize("mm", [0.001, 1e-300])
def test_more_voxels_than_can_be_held_are_refused(mm):
    with pytest.raises(
        VolumeError,
        match=r"scan: the crop would have .* voxels of .* mm, more than 1e\+09; give larger voxels",
    ):
        crop_resampled(scan(np.eye(3)), BOX, (mm, mm, mm))


@pytest.mark.parametrize("axes", AXES)
def test_a_crop_reloaded_lies_on_the_source_voxels(axes, tmp_path):
    volume = scan(AXES[axes])
    volume.write(tmp_path / "scan.nii.gz")
    crop_voxels(volume, BOX).write(tmp_path / "crop.nii.gz")
    whole, crop = (sitk.ReadImage(str(tmp_path / f"{name}.nii.gz")) for name in ("scan", "crop"))
    offset = whole.TransformPhysicalPointToContinuousIndex(crop.GetOrigin())
    np.testing.assert_allclose(offset, np.round(offset), atol=1e-4)
    np.testing.assert_allclose(crop.GetDirection(), whole.GetDirection(), atol=1e-7)
    np.testing.assert_allclose(crop.GetSpacing(), whole.GetSpacing(), atol=1e-6)
    i, j, k = np.round(offset).astype(int)
    x, y, z = crop.GetSize()
    part = sitk.GetArrayFromImage(whole)[k : k + z, j : j + y, i : i + x]
    np.testing.assert_array_equal(sitk.GetArrayFromImage(crop), part)


@pytest.mark.parametrize("axes", AXES)
def test_the_box_is_covered_and_hardly_more(axes):
    volume = scan(AXES[axes])
    crop = crop_voxels(volume, BOX)
    inside = np.random.default_rng(1).uniform(*BOX, (500, 3))
    assert crop.contains(inside).all()
    if axes != "oblique":
        low, high = crop.bounds_ras
        spacing = np.abs(crop.ijk_to_ras[:3, :3]).sum(axis=1)
        assert (BOX[0] - low < spacing).all()
        assert (high - BOX[1] < spacing).all()


def test_a_box_beyond_the_scan_is_clipped_or_refused():
    volume = scan(np.eye(3))
    np.testing.assert_array_equal(
        crop_voxels(volume, BOX + [[-999.0] * 3, [999.0] * 3]).voxels, volume.voxels
    )
    with pytest.raises(VolumeError, match="the box lies outside this scan"):
        crop_voxels(volume, BOX + 900)


def test_resampled_crops_hold_the_same_hu_at_the_same_place():
    volume = scan(AXES["oblique"])
    ramp = Volume((np.indices(volume.shape).sum(axis=0) * 3).astype(np.float32), volume.ijk_to_ras)
    crop = crop_resampled(ramp, BOX, (1.0, 1.0, 2.0))
    assert crop.spacing == pytest.approx((1.0, 1.0, 2.0))
    np.testing.assert_allclose(crop.bounds_ras[0], BOX[0], atol=1e-6)
    assert crop.shape == (15, 37, 42)
    points = np.random.default_rng(2).uniform(BOX[0] + 4, BOX[1] - 4, (300, 3))
    seen = ramp.contains(points)
    np.testing.assert_allclose(crop.sample(points[seen]), ramp.sample(points[seen]), atol=0.05)


def test_a_resampled_crop_is_air_beyond_the_scan():
    volume = scan(np.eye(3))
    high = volume.bounds_ras[1]
    crop = crop_resampled(volume, np.stack([high - 10, high + 10]), (2.0, 2.0, 2.0))
    beyond = crop.sample(high[None] + 5)
    assert beyond[0] == -1000.0
    assert crop.voxels.dtype == volume.voxels.dtype
    with pytest.raises(VolumeError, match="is not a voxel size"):
        crop_resampled(volume, BOX, (1.0, 0.0, 2.0))
    with pytest.raises(VolumeError, match="smaller than one voxel"):
        crop_resampled(volume, BOX, (100.0, 1.0, 2.0))
