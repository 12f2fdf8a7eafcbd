"""Test the files of a registration: other programs that read them get the same transform."""

import numpy as np
import pytest
import SimpleITK as sitk
import torch

from AnatomicalEmbedding.errors import VolumeError
from AnatomicalEmbedding.fields.spline import SplineField
from AnatomicalEmbedding.registration.transform import Registration
from AnatomicalEmbedding.scan.geometry import LPS_FROM_RAS, transform_points
from AnatomicalEmbedding.scan.label_map import LabelMap
from AnatomicalEmbedding.scan.volume import Volume

LOW, HIGH = np.array([-50.0, -40.0, 0.0]), np.array([70.0, 60.0, 90.0])


@pytest.fixture
def registration() -> Registration:
    rng = np.random.default_rng(3)
    affine = np.eye(4)
    affine[:3, :3] += rng.normal(0, 0.05, (3, 3))
    affine[:3, 3] = (15.0, -8.0, 120.0)
    field = SplineField.over(LOW, HIGH, 15.0)
    knots = torch.from_numpy(rng.normal(0, 3, field.coefficients.shape)).float()
    return Registration("deformable", affine, SplineField(field.low, 15.0, knots), "a", "b", 1, 1)


@pytest.fixture
def points() -> np.ndarray:
    return np.random.default_rng(4).uniform(LOW + 1, HIGH - 1, (40, 3))


def through(transform: sitk.Transform, points_ras: np.ndarray) -> np.ndarray:
    moved = [
        transform.TransformPoint(p) for p in transform_points(LPS_FROM_RAS, points_ras).tolist()
    ]
    return transform_points(LPS_FROM_RAS, np.array(moved))


def checkered(size: int = 24) -> Volume:
    """A scan over the box with structure everywhere, oblique to the axes of the world."""
    k, j, i = np.indices((size, size, size))
    voxels = (300 * np.sin(i / 3) * np.cos(j / 4) * np.sin(k / 5)).astype(np.int16)
    matrix = np.diag([4.0, 3.5, 3.0, 1.0])
    matrix[:3, 3] = LOW + 5
    return Volume(voxels, matrix, name="checkered")


def test_the_transform_tears_nothing_beyond_the_box(registration):
    """From within the fixed scan's box to far outside of it, neighbouring points stay neighbours."""
    line = LOW + (HIGH - LOW) * np.linspace(-2, 3, 2000)[:, None]
    step = np.linalg.norm(np.diff(through(registration.to_sitk(), line), axis=0), axis=1)
    apart = np.linalg.norm(line[1] - line[0])
    assert step.max() < 3 * apart


@pytest.mark.parametrize("suffix", [".h5", ".tfm"])
def test_a_written_transform_reads_back(registration, points, tmp_path, suffix):
    path = tmp_path / f"transform{suffix}"
    registration.write(path)
    assert (
        np.abs(
            through(sitk.ReadTransform(str(path)), points) - registration.transform_points(points)
        ).max()
        < 1e-3
    )


def test_the_initial_transform_is_one_transform_and_the_map_of_points(
    registration, points, tmp_path
):
    registration.write(tmp_path / "initial.h5", as_initial=True)
    read = sitk.ReadTransform(str(tmp_path / "initial.h5"))
    assert read.GetName() == "BSplineTransform", (
        "elastix ignores a composite transform without a message"
    )
    corners = np.stack([LOW, HIGH])
    assert np.abs(through(read, points) - registration.transform_points(points)).max() < 1e-3
    assert np.abs(through(read, corners) - registration.transform_points(corners)).max() < 1e-3


@pytest.mark.long
def test_elastix_starts_from_the_initial_transform(registration, start, tmp_path):
    """elastix makes one step that moves nothing: its result is the moving scan through our transform."""
    itk = pytest.importorskip("itk", reason="itk-elastix is not installed: pip install '.[bench]'")
    registration.write(tmp_path / "initial.h5", as_initial=True)
    images = [itk.image_from_array(np.float32(volume.voxels)) for volume in start]
    for image, volume in zip(images, start, strict=True):
        ijk_to_lps = LPS_FROM_RAS @ volume.ijk_to_ras
        image.SetOrigin(ijk_to_lps[:3, 3].tolist())
        image.SetSpacing(list(volume.spacing))
        image.SetDirection(itk.matrix_from_array(ijk_to_lps[:3, :3] / volume.spacing))
    still = itk.ParameterObject.New()
    step = still.GetDefaultParameterMap("translation", 1)
    step["MaximumNumberOfIterations"], step["SP_a"] = ("1",), ("0.0000001",)
    step["AutomaticParameterEstimation"] = step["AutomaticTransformInitialization"] = ("false",)
    still.AddParameterMap(step)
    initial = itk.ParameterObject.New()
    initial.AddParameterMap(
        {"Transform": ("File",), "TransformFileName": (str(tmp_path / "initial.h5"),)}
    )
    method = itk.ElastixRegistrationMethod.New(*images, parameter_object=still)
    method.SetInitialTransformParameterObject(initial)
    method.UpdateLargestPossibleRegion()
    assert likeness(itk.array_from_image(method.GetOutput()), start[0]) > 0.999


@pytest.fixture
def start(registration) -> tuple[Volume, Volume]:
    """A fixed scan, made from the moving scan by the known transform; and the moving scan."""
    fixed = checkered()
    moving = Volume(
        checkered(40).voxels, fixed.ijk_to_ras + _shift((5.0, -20.0, 100.0)), name="moving"
    )
    return registration.warp(moving, fixed), moving


def likeness(voxels: np.ndarray, fixed: Volume) -> float:
    """Correlation with the fixed scan, where it shows the moving scan."""
    shown = fixed.voxels > -999
    return float(np.corrcoef(voxels[shown], fixed.voxels[shown])[0, 1])


def test_the_displacement_of_voxels_is_the_map_of_points(registration, tmp_path):
    fixed = checkered()
    registration.write_field(tmp_path / "field.nii.gz", fixed)
    image = sitk.ReadImage(str(tmp_path / "field.nii.gz"))
    for ijk in ((3, 4, 5), (12, 12, 12), (20, 2, 9)):
        at = np.array(image.TransformContinuousIndexToPhysicalPoint([float(n) for n in ijk]))
        moved = at + np.array(image.GetPixel(ijk))
        wanted = registration.transform_points(transform_points(LPS_FROM_RAS, at[None]))
        assert np.abs(transform_points(LPS_FROM_RAS, moved[None]) - wanted).max() < 1e-3


def test_a_warped_scan_shows_at_each_voxel_what_the_moving_scan_holds(registration):
    fixed = checkered()
    moving = Volume(
        checkered(40).voxels, fixed.ijk_to_ras + _shift((5.0, -20.0, 100.0)), name="moving"
    )
    warped = registration.warp(moving, fixed)
    assert warped.shape == fixed.shape
    assert np.allclose(warped.ijk_to_ras, fixed.ijk_to_ras)
    centres = np.array(
        [[i, j, k] for i in range(4, 20, 5) for j in range(4, 20, 5) for k in range(4, 20, 5)]
    )
    places = registration.transform_points(transform_points(fixed.ijk_to_ras, centres))
    known = moving.contains(places)
    assert known.sum() > 20
    i, j, k = centres[known].T
    off = warped.voxels[k, j, i] - moving.sample(places[known])
    assert np.abs(off).max() < 0.6
    assert abs(off.mean()) < 0.15, "rounded, not cut off"


def test_labels_stay_labels(registration):
    fixed = checkered()
    labels = (np.indices(fixed.shape).sum(0) % 3).astype(np.uint8) * 7
    moving = LabelMap(labels, fixed.ijk_to_ras + _shift((10.0, -5.0, 115.0)), {})
    carried = registration.warp_labels(moving, fixed).voxels
    assert set(np.unique(carried)) == {0, 7, 14}


def test_another_name_is_refused(registration, tmp_path):
    with pytest.raises(VolumeError, match=r"transform\.png: is not a file name of a transform"):
        registration.write(tmp_path / "transform.png")


def test_a_folded_map_is_seen_as_folded(registration, bent_pair):
    fixed = bent_pair.maps[0]
    low, high = bent_pair.volumes[0].bounds_ras
    field = SplineField.over(low, high, 24.0)
    knots = torch.from_numpy(
        np.random.default_rng(0).normal(0, 60, field.coefficients.shape)
    ).float()
    folded = Registration(
        "deformable", np.eye(4), SplineField(field.low, 24.0, knots), "", "", 1, 1
    ).folding(fixed)
    assert folded.share > 0.1
    assert folded.smallest < 0
    assert "Check the result before you use it" in folded.doubt
    assert registration.folding(fixed).doubt == ""
    mirrored = Registration("affine", np.diag([-1.0, 1, 1, 1]), None, "", "", 1, 1).folding(fixed)
    assert mirrored.share == 1.0


def _shift(step: tuple[float, float, float]) -> np.ndarray:
    matrix = np.zeros((4, 4))
    matrix[:3, 3] = step
    return matrix
