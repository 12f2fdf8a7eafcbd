"""Test weights of the kind "any": frames of scans of one kind, the alignment with them, and what is refused."""

from __future__ import annotations

import re
from copy import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import SimpleITK as sitk
from described_maps import errors
from own_kind_weights import write_shape_weights
from specimens import LOBES, SPACING_MM, make_specimen

from AnatomicalEmbedding import load_model
from AnatomicalEmbedding.cli.main import main
from AnatomicalEmbedding.embedding.frames.alignment import align
from AnatomicalEmbedding.embedding.frames.frame import Frame, FrameSpec
from AnatomicalEmbedding.embedding.frames.grey_image import ANY, GreyImage, spread_rotations
from AnatomicalEmbedding.embedding.models.registry import write_weights
from AnatomicalEmbedding.errors import AnatomicalEmbeddingError, VolumeError
from AnatomicalEmbedding.landmarks.landmark_set import read_landmark_set
from AnatomicalEmbedding.matching.match import match, match_query
from AnatomicalEmbedding.matching.query import query_from_text, query_to_text, read_query
from AnatomicalEmbedding.scan.points import PointList, write_markups
from AnatomicalEmbedding.scan.volume import Volume, check_any
from AnatomicalEmbedding.training.frame_building import build_frame
from AnatomicalEmbedding.training.own_kind import described, read_images, train_own_kind

RADIUS_MM = 3.2
OF_PATIENTS = ("locate s -o o", "register s s -o o", "followup s s s -o o", "cohort run o s")
NAMES = tuple(f"lobe {n}" for n in range(len(LOBES)))


@pytest.fixture(scope="module")
def shape_model(tmp_path_factory):
    """Weights whose frame is a single shape."""
    path = tmp_path_factory.mktemp("shape") / "shape.safetensors"
    write_shape_weights(path)
    return load_model(str(path))


def test_rotations_are_spread_evenly():
    rotations = spread_rotations(720)
    products = rotations @ rotations.transpose(0, 2, 1)
    np.testing.assert_allclose(products, np.broadcast_to(np.eye(3), products.shape), atol=1e-9)
    np.testing.assert_allclose(np.linalg.det(rotations), 1.0)
    # no rotation is farther than 30 degrees from one of them
    tested = spread_rotations(97)
    cosine = (np.einsum("nij,mij->nm", tested, rotations).max(axis=1) - 1) / 2
    assert np.degrees(np.arccos(cosine)).max() < 30


def test_scans_in_any_rotation_are_aligned():
    specimens = [make_specimen(seed) for seed in (0, 1)]
    first, second = (GreyImage(specimen.volume) for specimen in specimens)
    alignment = align(first, second, RADIUS_MM)
    apart = errors(alignment.to_scan(specimens[0].landmarks), specimens[1].landmarks)
    assert apart.max() < 0.2
    assert alignment.likeness > 0.95
    # the inverse leads back
    points = specimens[1].landmarks
    assert errors(alignment.to_scan(alignment.to_frame(points)), points).max() < 0.01


def test_grey_values_do_not_depend_on_scale_and_offset_of_the_voxels():
    volume = make_specimen(0).volume
    changed = replace(volume, voxels=3.5 * volume.voxels - 700)
    first, second = GreyImage(volume), GreyImage(changed)
    np.testing.assert_allclose(first.on_grid(0.3).hu, second.on_grid(0.3).hu, atol=1e-3)
    assert first.radius_mm == pytest.approx(second.radius_mm, rel=1e-3)


def write_family(folder: Path, seeds: range) -> None:
    folder.mkdir(exist_ok=True)
    for seed in seeds:
        make_specimen(seed).volume.write(folder / f"specimen{seed}.nii.gz")


def test_the_folder_is_described_and_copies_are_left_out(tmp_path):
    write_family(tmp_path / "scans", range(8))
    make_specimen(3).volume.write(tmp_path / "scans" / "copy.nii.gz")
    sitk.WriteImage(sitk.Image(64, 64, sitk.sitkUInt8), str(tmp_path / "scans" / "flat.nii.gz"))
    sentences: list[str] = []
    images = read_images([tmp_path / "scans"], tmp_path / "run", ANY, sentences.append)
    assert len(images) == 8
    assert any("same voxels" in sentence for sentence in sentences)
    assert any("flat.nii.gz" in sentence for sentence in sentences)
    assert "8 scans with 60 to 60 voxels a side, voxels of 0.2 to 0.2 mm" in described(images)


def test_too_few_scans_are_refused(tmp_path, capsys):
    write_family(tmp_path / "scans", range(3))
    status = main(["train", str(tmp_path / "scans"), "-o", str(tmp_path / "run"), "--kind", "any"])
    assert status == 2
    assert "only 3 different scans" in capsys.readouterr().err


def noise_image(seed: int, voxel_mm: float = 0.3) -> GreyImage:
    """A scan without any object that other scans show."""
    rng = np.random.default_rng(seed)
    coarse = sitk.GetImageFromArray(rng.normal(size=(8, 8, 8)).astype(np.float32))
    smooth = sitk.GetArrayFromImage(sitk.Expand(coarse, [5, 5, 5], sitk.sitkBSpline))
    return GreyImage(Volume(smooth, np.diag([*(voxel_mm,) * 3, 1.0]), f"noise{seed}"))


@pytest.mark.long
def test_scans_of_another_kind_in_the_folder_are_named():
    images = [noise_image(seed) for seed in range(5)]
    images += [noise_image(seed, voxel_mm=1.0) for seed in (5, 6, 7)]  # far larger objects
    with pytest.raises(AnatomicalEmbeddingError, match="a folder of its own") as raised:
        build_frame(images, ANY)
    odd = str(raised.value).split("Not like the others: ")[1]
    assert all(name in odd for name in ("noise5", "noise6", "noise7"))


def test_the_evidence_holds_how_far_an_answer_may_slide_and_a_query_keeps_it(shape_model):
    specimen, noise = make_specimen(0), np.random.default_rng(0)
    first = shape_model.embed(specimen.volume)
    voxels = specimen.volume.voxels + noise.normal(0, 5, specimen.volume.shape)
    noisy = shape_model.embed(replace(specimen.volume, voxels=voxels))
    slack, more = (
        match(first, specimen.landmarks, other).evidence[:, -1] for other in (first, noisy)
    )
    assert (slack > 0).all()
    assert np.median(more / slack) > 1.5
    query = query_from_text(query_to_text(read_query(first, specimen.landmarks)))
    kept = match_query(query, [noisy])[0].evidence[:, -1]
    np.testing.assert_allclose(kept, more, rtol=0.05)


def test_noise_that_a_displacement_makes_alike_is_refused(shape_model):
    frame = copy(shape_model.network)
    frame.spec = replace(frame.spec, least_likeness=-1.0, least_affine_likeness=0.5)
    frame.align(GreyImage(make_specimen(1).volume), lambda share: None)
    with pytest.raises(VolumeError, match="not like the scans"):
        frame.align(noise_image(50, voxel_mm=0.15), lambda share: None)


def test_volumes_that_no_weights_can_embed_are_refused():
    matrix = np.diag([0.2, 0.2, 0.2, 1.0])
    with pytest.raises(VolumeError, match="all voxels are equal"):
        check_any(Volume(np.zeros((20, 20, 20), np.float32), matrix))
    with pytest.raises(VolumeError, match="at least 16 voxels"):
        check_any(Volume(np.ones((4, 20, 20), np.float32), matrix))


def test_values_below_those_of_cts_are_no_padding(tmp_path):
    """Micro-CTs of some scanners hold such values; what is padding in a CT is tested in test_volume.py."""
    volume = make_specimen(0).volume
    volume = replace(volume, voxels=20 * volume.voxels - 4000)
    volume.write(tmp_path / "specimen.nii.gz")
    read = Volume.read(tmp_path / "specimen.nii.gz", check=check_any)
    np.testing.assert_array_equal(read.voxels, volume.voxels)
    assert read.notes == ()
    array = Volume.from_array(volume.voxels, volume.ijk_to_ras, check=check_any)
    np.testing.assert_array_equal(array.voxels, volume.voxels)


@pytest.mark.parametrize("command", OF_PATIENTS)
def test_commands_for_patients_say_what_these_weights_are_for(command, tmp_path, capsys):
    path = tmp_path / "shape.safetensors"
    write_weights(Frame(FrameSpec(ANY, (0, 0, 0), 1.0, (2, 2, 2), 1.0, 0.5)), path, "shape", {})
    assert main([*command.split(), "--model", str(path)]) == 2
    assert "only points can be matched (match, landmarks)" in capsys.readouterr().err


def test_coordinates_end_at_a_break(shape_model):
    """A point of a lobe that is broken off must differ by ten units from every coordinate, so that it is absent."""
    broken = make_specimen(0, missing=5)
    coordinates = shape_model.embed(broken.volume).body_cells[1].numpy()
    nearest_mm = [errors(coordinates, point).min() for point in broken.landmarks]
    assert nearest_mm[5] > 10 * shape_model.network.unit_mm
    assert max(np.delete(nearest_mm, 5)) < 2 * SPACING_MM


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """The folder of a run on ten specimens."""
    folder = tmp_path_factory.mktemp("own_kind")
    write_family(folder / "scans", range(10))
    train_own_kind([folder / "scans"], folder / "run", ANY, "shapes")
    return folder


@pytest.mark.long
def test_from_a_folder_to_landmarks(trained, tmp_path):
    weights = str(trained / "run" / "weights.safetensors")
    model = load_model(weights)
    specimens = [make_specimen(seed) for seed in (100, 101, 102)]
    maps = [model.embed(specimen.volume) for specimen in specimens]
    matches = match(maps[0], specimens[0].landmarks, maps[1])
    apart = errors(matches.points_ras, specimens[1].landmarks)
    assert apart.mean() < 0.1  # half a voxel
    # the centres of the two largest lobes lie in even grey, where places are vague
    assert (matches.status == "matched").mean() > 0.7
    assert 0.5 * SPACING_MM < matches.expected_error_mm.mean() < 2.5 * SPACING_MM

    # a small lobe that is broken off is not matched, the others are not absent
    broken = model.embed(make_specimen(101, missing=5).volume)
    matches = match(maps[0], specimens[0].landmarks, broken)
    assert matches.status[5] != "matched"
    assert (np.delete(matches.status, 5) != "absent").mean() > 0.8

    # a report has no unit of grey values, and landmark sets work
    for specimen in specimens:
        specimen.volume.write(tmp_path / f"{specimen.volume.name}.nii.gz")
        points = PointList(NAMES, specimen.landmarks)
        write_markups(tmp_path / f"{specimen.volume.name}.mrk.json", points, "points")
    paths = [str(tmp_path / f"specimen{seed}.nii.gz") for seed in (100, 101, 102)]
    points_file = str(tmp_path / "specimen100.mrk.json")
    output = tmp_path / "matches"
    command = ["match", paths[0], points_file, paths[1], "-o", str(output), "--model", weights]
    assert main(command) == 0
    page = (output / "report.html").read_text(encoding="utf-8")
    body = re.sub(r"data:image[^\"']*", "", page.split("<main>")[1].split("<footer>")[0])
    assert "HU" not in body
    set_file = tmp_path / "lobes.landmarks.json"
    command = ["landmarks", "make", *paths[:2], "-o", str(set_file), "--model", weights]
    assert main(command) == 0
    answers = read_landmark_set(set_file).find(maps[2])
    assert errors(answers.points_ras, specimens[2].landmarks).mean() < 0.1
