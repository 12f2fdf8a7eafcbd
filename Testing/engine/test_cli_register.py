"""Test the command register: the files that it writes, and what it refuses before it starts."""

import json
import re

import numpy as np
import pytest
import SimpleITK as sitk
from cli_runs import assert_refused
from dicom_series import write_ct_series
from report_checks import check
from scan_files import voxel_positions

from AnatomicalEmbedding.scan.geometry import LPS_FROM_RAS, transform_points
from AnatomicalEmbedding.scan.points import PointList, read_points, write_markups
from AnatomicalEmbedding.scan.volume import Volume
from AnatomicalEmbedding.structures.segments import read_segments

pytestmark = pytest.mark.usefixtures("kept_maps")


@pytest.fixture(scope="module")
def labels(place):
    """A ball about one of the target's points."""
    target = Volume.read(place.target)
    centres = voxel_positions(target.shape, target.ijk_to_ras)
    ball = np.linalg.norm(centres - target.bounds_ras.mean(axis=0), axis=-1) < 30
    path = place.folder / "ball.nii.gz"
    sitk.WriteImage(Volume(ball.astype(np.int16), target.ijk_to_ras).to_sitk(), str(path))
    return path


def test_a_registration_is_written_and_all_files_agree(
    anatemb, place, labels, tmp_path, phantom_pair
):
    output = tmp_path / "out"
    outcome = anatemb(
        "register", place.template, place.target, "-o", output, "--labels", labels, "--points", place.points,
        "--field", "--json", "--device", "cpu",
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    told = json.loads(outcome.out)
    names = {path.name for path in output.iterdir()}
    assert names == {
        "transform.h5", "initial_transform.h5", "moving_on_fixed.nii.gz", "registration.json", "displacement.nii.gz",
        "report.html",
        "labels_on_fixed.nii.gz", "points_in_moving.mrk.json",
    }  # fmt: skip
    assert told["kind"] == "deformable"

    transform = sitk.ReadTransform(str(output / "transform.h5"))
    points = read_points(output / "points_in_moving.mrk.json")
    assert points.labels == place.labels
    lps = transform_points(LPS_FROM_RAS, place.points_ras)
    moved = transform_points(
        LPS_FROM_RAS, np.array([transform.TransformPoint(p) for p in lps.tolist()])
    )
    assert np.abs(moved - points.points_ras).max() < 0.01
    truth = np.array([phantom_pair[1].points_ras[label] for label in place.labels])
    assert np.median(np.linalg.norm(points.points_ras - truth, axis=1)) < 10

    fixed = Volume.read(place.template)
    warped = Volume.read(output / "moving_on_fixed.nii.gz")
    assert np.allclose(warped.ijk_to_ras, fixed.ijk_to_ras, atol=1e-4)
    carried = sitk.ReadImage(str(output / "labels_on_fixed.nii.gz"))
    assert carried.GetSize() == fixed.shape[::-1]
    ball = 4 / 3 * np.pi * 30**3
    volume = sitk.GetArrayFromImage(carried).sum() * np.prod(carried.GetSpacing())
    low, high = told["jacobian_percentiles_1_99"]
    assert ball / high / 1.1 < volume < ball / low * 1.1


def test_points_that_the_moving_scan_does_not_show_are_missing_there(anatemb, place, tmp_path):
    low, high = Volume.read(place.template).bounds_ras
    middle = (low + high) / 2
    corner = low + 1.0  # below what is left of the other scan
    write_markups(tmp_path / "p.mrk.json", PointList(("middle", "corner"), [middle, corner]))
    target = Volume.read(place.target)
    cut = target.shape[0] // 4
    lifted = target.ijk_to_ras.copy()
    lifted[:3, 3] += lifted[:3, 2] * cut
    Volume(target.voxels[cut:], lifted).write(tmp_path / "upper.nii.gz")
    scans = (place.template, tmp_path / "upper.nii.gz", "-o", tmp_path / "o")
    words = ("--kind", "rigid", "--no-report", "--json", "--points", tmp_path / "p.mrk.json")
    outcome = anatemb("register", *scans, *words)
    assert json.loads(outcome.out)["points_outside_moving"] == ["corner"]
    (markup,) = json.loads((tmp_path / "o" / "points_in_moving.mrk.json").read_text())["markups"]
    assert [point["positionStatus"] for point in markup["controlPoints"]] == ["defined", "missing"]


def test_labels_keep_the_names_of_the_list_beside_them(anatemb, place, labels, tmp_path):
    named = tmp_path / "ball.seg.nii.gz"
    named.write_bytes(labels.read_bytes())
    (tmp_path / "ball.labels.json").write_text('{"1": "Lesion 4"}')
    still = tmp_path / "still.tfm"
    sitk.WriteTransform(sitk.TranslationTransform(3, (0.0, 0.0, 0.0)), str(still))
    words = ("--transform", still, "--labels", named)
    outcome = anatemb("register", place.template, place.target, "-o", tmp_path / "o", *words)
    assert outcome.code == 0, outcome.err
    segments = read_segments(tmp_path / "o" / "labels_on_fixed.seg.nrrd")
    assert list(segments.texts.values()) == ["Lesion 4"]


def test_labels_of_another_scan_and_scans_in_place_of_labels_are_refused(
    anatemb, place, labels, tmp_path
):
    small = sitk.ReadImage(str(labels))[:-1, :, :]
    sitk.WriteImage(small, str(tmp_path / "small.nii.gz"))
    for labels_path, says in (
        (tmp_path / "small.nii.gz", "has another grid than target"),
        (place.target, "looks like a scan"),
    ):
        words = (place.template, place.target, "-o", tmp_path / "o", "--labels", labels_path)
        assert_refused(anatemb("register", *words), labels_path, says)
    assert not (tmp_path / "o").exists()


def test_a_dicom_registration_is_written_and_used_again(anatemb, phantom_pair, place, tmp_path):
    pytest.importorskip("highdicom")
    for phantom, name in zip(phantom_pair, ("fixed", "moving"), strict=True):
        write_ct_series(tmp_path / name, phantom.volume)
    scans = (tmp_path / "fixed", tmp_path / "moving")
    words = ("--points", place.points, "--no-report", "--json", "--device", "cpu")
    outcome = anatemb(
        "register", *scans, "-o", tmp_path / "one", "--kind", "affine", "--dicom", *words
    )
    assert outcome.code == 0, outcome.err
    told = json.loads(outcome.out)
    written = (tmp_path / "one" / "registration.dcm").read_bytes()
    said = re.search(rb"affine; error: (\d+) matches, median ([\d.]+) mm apart", written)
    assert int(said[1]) == told["matches_used"]
    assert float(said[2]) == pytest.approx(told["matches_median_distance_mm"], abs=0.06)
    kept = ("--transform", tmp_path / "one" / "registration.dcm")
    again = anatemb("register", *scans, "-o", tmp_path / "two", *kept, *words)
    assert again.code == 0, again.err
    one, two = (
        read_points(tmp_path / folder / "points_in_moving.mrk.json") for folder in ("one", "two")
    )
    assert np.abs(one.points_ras - two.points_ras).max() < 1e-3
    assert check(tmp_path / "one" / "registration.dcm", "SpatialRegistration") == []
