"""Test DICOM registrations: SimpleITK applies the transform that was read to the same mm, and a checker accepts it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pydicom
import pytest
import SimpleITK as sitk
import torch
from dicom_series import write_ct_series
from report_checks import check

from AnatomicalEmbedding.dicom.registrations import (
    read_registration,
    write_displacements,
    write_matrix,
)
from AnatomicalEmbedding.dicom.source import read_source
from AnatomicalEmbedding.errors import AnatomicalEmbeddingError, VolumeError
from AnatomicalEmbedding.fields.spline import SplineField
from AnatomicalEmbedding.registration.transform import Registration, coarse_grid
from AnatomicalEmbedding.scan.geometry import rotations
from AnatomicalEmbedding.scan.volume import Volume

pytest.importorskip("highdicom")
KNOT_MM = 12.0


@pytest.fixture(scope="module")
def scan(phantom_pair) -> Volume:
    return phantom_pair[0].volume


@pytest.fixture(scope="module")
def series(scan, phantom_pair, tmp_path_factory):
    """Both scans as DICOM, in two studies of one patient: fixed, moving."""
    folder = tmp_path_factory.mktemp("registered")
    write_ct_series(folder / "fixed", scan, PatientComments="private")
    write_ct_series(folder / "moving", phantom_pair[1].volume)
    return [read_source(name, folder / name) for name in ("fixed", "moving")]


def affine() -> np.ndarray:
    about_x, _, about_z = rotations(np.array([0.1, 0.0, -0.2]))
    matrix = np.eye(4)
    matrix[:3, :3] = about_x @ about_z * (1.1, 0.95, 1.02)
    matrix[:3, 3] = (15.25, -8.5, 120.75)
    return matrix


def points_in(scan: Volume) -> np.ndarray:
    low, high = scan.bounds_ras
    return np.random.default_rng(4).uniform(low + 4, high - 4, (60, 3))


def test_a_matrix_comes_back_to_the_same_mm(scan, series, tmp_path):
    write_matrix(affine(), "AFFINE", *series, "median error 3.2 mm", tmp_path / "reg.dcm")
    found = Registration("affine", affine(), None, "", "", 1, 1)
    points = points_in(scan)
    back = Registration.read(tmp_path / "reg.dcm")
    assert np.abs(back.transform_points(points) - found.transform_points(points)).max() < 1e-3
    moved = back.warp(scan, scan)
    assert np.abs(moved.voxels - found.warp(scan, scan).voxels).max() <= 1
    written = pydicom.dcmread(tmp_path / "reg.dcm")
    # the standard maps the moving scan to the fixed one: the written matrix undoes the transform
    of_moving = written.RegistrationSequence[1]
    assert of_moving.FrameOfReferenceUID == series[1].frame
    matrix = np.array(
        of_moving.MatrixRegistrationSequence[0]
        .MatrixSequence[0]
        .FrameOfReferenceTransformationMatrix
    )
    lps = found.transform_points(points) * (-1, -1, 1)
    there = (
        lps @ matrix.reshape(4, 4).astype(float)[:3, :3].T
        + matrix.reshape(4, 4).astype(float)[:3, 3]
    ) * (
        -1,
        -1,
        1,
    )
    assert np.abs(there - points).max() < 1e-3
    comment = of_moving.MatrixRegistrationSequence[0].FrameOfReferenceTransformationComment
    assert comment == "median error 3.2 mm"
    assert written.StudyInstanceUID == series[0].study
    assert "private" not in str(written)
    assert check(tmp_path / "reg.dcm", "SpatialRegistration") == []


@pytest.mark.parametrize("flipped", [False, True])
def test_displacements_come_back_to_a_tenth_of_a_mm(scan, series, tmp_path, flipped):
    fixed = scan
    if flipped:  # slices from head to feet: a grid that DICOM cannot state without reversing it
        flip = np.diag([1.0, 1.0, -1.0, 1.0])
        flip[2, 3] = scan.shape[0] - 1
        fixed = Volume(scan.voxels[::-1], scan.ijk_to_ras @ flip)
    field = SplineField.over(*fixed.bounds_ras, KNOT_MM)
    knots = torch.from_numpy(
        np.random.default_rng(3).normal(0, 2, field.coefficients.shape)
    ).float()
    found = Registration("deformable", affine(), replace(field, coefficients=knots), "", "", 1, 1)
    write_displacements(
        found.displacements(coarse_grid(fixed)), *series, "median error 2 mm", tmp_path / "reg.dcm"
    )
    points = points_in(fixed)
    apart = np.abs(
        Registration.read(tmp_path / "reg.dcm").transform_points(points)
        - found.transform_points(points)
    )
    assert apart.max() < 0.2
    assert np.median(apart) < 0.05
    item = pydicom.dcmread(tmp_path / "reg.dcm").DeformableRegistrationSequence[0]
    assert item.FrameOfReferenceTransformationComment == "median error 2 mm"
    assert check(tmp_path / "reg.dcm", "DeformableSpatialRegistration") == []


def test_matrices_before_and_after_the_displacements_are_applied(scan, series, tmp_path):
    """Another program may write p -> after(before(p) + d(p)), DICOM PS3.3 C.20.3.1.1."""
    grid = coarse_grid(scan)
    shift = sitk.TransformToDisplacementField(
        sitk.TranslationTransform(3, (1.0, 2.0, 3.0)), sitk.sitkVectorFloat32, grid.GetSize(), grid.GetOrigin(),
        grid.GetSpacing(), grid.GetDirection(),
    )  # fmt: skip
    write_displacements(shift, *series, "", tmp_path / "reg.dcm")
    written = pydicom.dcmread(tmp_path / "reg.dcm")
    item = written.DeformableRegistrationSequence[0]
    matrices = {"Pre": np.diag([2.0, 1.0, 1.0, 1.0]), "Post": np.diag([1.0, 1.0, 0.5, 1.0])}
    for name, matrix in matrices.items():
        step = item[f"{name}DeformationMatrixRegistrationSequence"][0]
        step.FrameOfReferenceTransformationMatrix = matrix.ravel().tolist()
    written.save_as(tmp_path / "reg.dcm")
    x = 10.0
    y = 20.0
    z = float(scan.bounds_ras.mean(axis=0)[2])
    moved = read_registration(tmp_path / "reg.dcm").TransformPoint((x, y, z))
    assert moved == pytest.approx((2 * x + 1, y + 2, (z + 3) / 2), abs=1e-3)


def test_what_is_no_registration_of_two_scans_is_refused(series, tmp_path):
    with pytest.raises(VolumeError, match="not a registration"):
        read_registration(Path(str(series[0].slices[0].filename)))
    with pytest.raises(AnatomicalEmbeddingError, match=r"no\.dcm: no such file"):
        Registration.read(tmp_path / "no.dcm")
    with pytest.raises(VolumeError, match="not an ITK transform"):
        Registration.read(tmp_path / "no.h5")
    write_matrix(affine(), "AFFINE", *series, "", tmp_path / "reg.dcm")
    three = pydicom.dcmread(tmp_path / "reg.dcm")
    three.RegistrationSequence.append(three.RegistrationSequence[1])
    three.save_as(tmp_path / "three.dcm")
    with pytest.raises(VolumeError, match="registers 2 scans"):
        read_registration(tmp_path / "three.dcm")
    del three.RegistrationSequence[0].MatrixRegistrationSequence
    three.save_as(tmp_path / "damaged.dcm")
    with pytest.raises(VolumeError, match="is a damaged registration"):
        read_registration(tmp_path / "damaged.dcm")
