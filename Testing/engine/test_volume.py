"""Test volumes: for any file format, axis order or header, the same RAS position has the same HU."""

import struct
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import SimpleITK as sitk
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scan_files import (
    ORDERS,
    centred_affine,
    linear_ct,
    reordered,
    true_hu,
    voxel_positions,
)

from AnatomicalEmbedding.errors import VolumeError
from AnatomicalEmbedding.scan.geometry import rotations, transform_points
from AnatomicalEmbedding.scan.volume import Volume, check_ct

FORMATS = (".nii.gz", ".nii", ".nrrd", ".mha")


def rotation(angles_deg: tuple[float, float, float]) -> np.ndarray:
    about_x, about_y, about_z = rotations(np.radians(angles_deg))
    return about_z @ about_y @ about_x


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    order=st.sampled_from(ORDERS),
    suffix=st.sampled_from(FORMATS),
    angles=st.tuples(*(st.floats(-180, 180),) * 3),
    spacing=st.tuples(*(st.floats(2.5, 6.0),) * 3),
    offset=st.tuples(*(st.floats(-600, 600),) * 3),
)
def test_any_stored_order_reads_back_to_the_same_world(
    tmp_path, order, suffix, angles, spacing, offset
):
    shape = (26, 27, 28)
    affine = centred_affine(rotation(angles) * spacing, shape)
    voxels, _ = linear_ct(shape, affine)
    affine[:3, 3] += offset
    original = Volume(voxels, affine)
    path = tmp_path / f"scan{suffix}"
    stored = reordered(original, *order)
    stored.write(path)
    read = Volume.read(path)
    np.testing.assert_array_equal(read.voxels, stored.voxels)
    corners = np.array(list(product(*((0, n - 1) for n in stored.shape[::-1]))))
    moved = transform_points(read.ijk_to_ras, corners) - transform_points(
        stored.ijk_to_ras, corners
    )
    assert np.abs(moved).max() < 1e-4
    points = voxel_positions(shape, affine)[3:-3:4, 3:-3:4, 3:-3:4].reshape(-1, 3) + 0.7
    np.testing.assert_allclose(read.sample(points), original.sample(points), atol=0.05)
    np.testing.assert_allclose(read.sample(points), true_hu(points - offset), atol=0.6)


@pytest.mark.parametrize("suffix", FORMATS)
def test_floats_and_noise_below_air_survive(tmp_path, suffix):
    voxels, affine = linear_ct()
    voxels = voxels.astype(np.float32) + 0.25
    voxels[0] = -1190.5
    Volume(voxels, affine).write(tmp_path / f"a{suffix}")
    read = Volume.read(tmp_path / f"a{suffix}")
    assert read.voxels.dtype == np.float32
    assert read.notes == ()
    assert read.name == "a"
    assert read.path == str(tmp_path / f"a{suffix}")
    np.testing.assert_array_equal(read.voxels, voxels)


def test_whole_floats_become_int16_and_padding_becomes_air(tmp_path):
    voxels, _ = linear_ct()
    stored = voxels.astype(np.float64)
    stored[:, :2] = -3024
    image = sitk.GetImageFromArray(stored)
    image.SetSpacing((3, 3, 3))
    sitk.WriteImage(image, tmp_path / "padded.nrrd")
    read = Volume.read(tmp_path / "padded.nrrd")
    assert read.voxels.dtype == np.int16
    assert (read.voxels[:, :2] == -1024).all()
    np.testing.assert_array_equal(read.voxels[:, 2:], voxels[:, 2:])
    assert "padding of -3024" in read.notes[0]


def test_detached_headers_and_single_frame_4d_are_read(tmp_path):
    voxels, affine = linear_ct()
    image = Volume(voxels, affine).to_sitk()
    for name in ("a.mhd", "b.nhdr"):
        sitk.WriteImage(image, tmp_path / name)
        np.testing.assert_array_equal(Volume.read(tmp_path / name).voxels, voxels)
    sitk.WriteImage(sitk.JoinSeries([image]), tmp_path / "c.nii.gz")
    read = Volume.read(tmp_path / "c.nii.gz")
    np.testing.assert_array_equal(read.voxels, voxels)
    np.testing.assert_allclose(read.ijk_to_ras, affine, atol=1e-4)


def test_nii_beside_nii_gz_is_not_mixed_up(tmp_path):
    """ITK's NIfTI library reads the voxels of scan.nii for scan.nii.gz; the reader here does not."""
    voxels, affine = linear_ct()
    Volume(voxels, affine).write(tmp_path / "scan.nii.gz")
    Volume(voxels + np.int16(40), affine).write(tmp_path / "scan.nii")
    np.testing.assert_array_equal(Volume.read(tmp_path / "scan.nii.gz").voxels, voxels)
    np.testing.assert_array_equal(Volume.read(tmp_path / "scan.nii").voxels, voxels + 40)


def test_nifti_header_is_not_guessed_in_silence(tmp_path):
    """Contradicting headers are refused, missing or double ones noted."""
    volume = Volume(*linear_ct())
    volume.write(tmp_path / "good.nii")
    header = (tmp_path / "good.nii").read_bytes()

    def changed(name: str, **fields: tuple) -> Path:
        data = bytearray(header)
        for offset, code, values in fields.values():
            struct.pack_into("<" + code, data, offset, *values)
        (tmp_path / name).write_bytes(data)
        return tmp_path / name

    sheared = (280, "12f", (3, 0, 0, 0, 0, 3.2, 1, 0, 0, 0, 3.35, 0))
    scaled = (280, "12f", (1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0))
    moved = (280, "12f", (3, 0, 0, 50, 0, 3.2, 0, 0, 0, 0, 3.5, 0))
    only_sform, both, neither = ((252, "2h", codes) for codes in ((0, 1), (1, 2), (0, 0)))
    for name, fields, message in (
        ("shear.nii", {"codes": only_sform, "srow": sheared}, "sform in the header is sheared"),
        ("scaled.nii", {"codes": both, "srow": scaled}, "two different spacings"),
        (
            "empty_sform.nii",
            {"codes": only_sform, "srow": (280, "12f", (0,) * 12)},
            "sform in the header has a zero axis",
        ),
        ("nifti2.nii", {"length": (0, "i", (540,))}, "is a NIfTI-2 file"),
    ):
        with pytest.raises(VolumeError, match=message):
            Volume.read(changed(name, **fields))
    assert "no position or orientation" in Volume.read(changed("none.nii", codes=neither)).notes[0]
    noted = Volume.read(changed("both.nii", codes=both, srow=moved))
    assert "qform is used" in noted.notes[0]
    np.testing.assert_allclose(noted.ijk_to_ras, volume.ijk_to_ras, atol=1e-4)


def test_nifti_rescale_is_honoured(tmp_path):
    voxels, affine = linear_ct()
    Volume(voxels, affine).write(tmp_path / "scaled.nii")
    data = bytearray((tmp_path / "scaled.nii").read_bytes())
    struct.pack_into("<2f", data, 112, 0.5, -3)
    (tmp_path / "scaled.nii").write_bytes(data)
    np.testing.assert_array_equal(Volume.read(tmp_path / "scaled.nii").voxels, voxels * 0.5 - 3)


def test_sample_is_linear_inside_and_flat_to_the_edge():
    voxels, affine = linear_ct()
    volume = Volume(voxels, affine)
    low, high = volume.bounds_ras
    np.testing.assert_allclose(high - low, np.array(volume.shape[::-1]) * volume.spacing)
    points = np.random.default_rng(2).uniform(low + 2, high - 2, (200, 3))
    np.testing.assert_allclose(volume.sample(points), true_hu(points), atol=0.51)
    first = affine[:3, 3]
    assert volume.sample(np.array([first - 1.4]))[0] == voxels[0, 0, 0]
    outside = np.array([low - 0.1, high + 0.1])
    assert not volume.contains(outside).any()
    assert volume.contains(np.array([low, high])).all()
    np.testing.assert_array_equal(volume.sample(outside, outside=-7), (-7, -7))
    assert volume.sample(np.empty((0, 3))).shape == (0,)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda v, a: (v[0], a), "2-D array"),
        (lambda v, a: (np.where(v > 100, np.nan, v), a), "NaN or infinite"),
        (lambda v, a: (v, a @ np.diag((1, 1, 0, 1))), "spacing is 3 x 3.2 x 0 mm"),
        (lambda v, a: (v, a + np.eye(4, k=1) * (1, 1, 0, 0)), "meet at"),
    ],
)
def test_constructor_refuses_other_arrays(change, message):
    with pytest.raises(VolumeError, match=message):
        Volume(*change(*linear_ct()))


def test_check_ct_accepts_crops_windows_and_wide_air():
    """Scans without air, flattened or clipped, or with little patient in a wide field are CTs all the same."""
    rng = np.random.default_rng(3)
    shape = (24, 40, 40)
    affine = centred_affine(np.eye(3) * 3, shape)
    tissue = np.where(
        rng.random(shape) < 0.3, rng.normal(-100, 15, shape), rng.normal(60, 20, shape)
    )
    in_air = np.full(shape, -1000.0)
    in_air[:, 17:24, 17:24] = tissue[:, 17:24, 17:24]
    brain = rng.normal(35, 15, shape)
    for voxels in (
        tissue,
        in_air,
        np.clip(tissue, -160, 240),
        np.where(in_air == -1000, -2000, in_air),
        brain,
    ):
        check_ct(Volume(voxels.astype(np.int16), affine))


def test_slices_are_counted_along_the_patient():
    voxels, affine = linear_ct(
        (100, 40, 15), centred_affine(np.diag((5.0, 3.0, 3.0)), (100, 40, 15))
    )
    check_ct(Volume(voxels, affine))
    sagittal = reordered(Volume(voxels, affine), (1, 2, 0), (False, False, False))
    check_ct(sagittal)
    lying = Volume(voxels, affine[[2, 1, 0, 3]])
    with pytest.raises(VolumeError, match="15 axial slices"):
        check_ct(lying)
