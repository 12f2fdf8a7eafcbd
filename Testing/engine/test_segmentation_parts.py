"""Test the steps of segmentation from a few examples, on known shapes and known files."""

from __future__ import annotations

import numpy as np
import pytest
import SimpleITK as sitk
import torch
from evaluations.segmentation import dice

from AnatomicalEmbedding.errors import PointsError, VolumeError
from AnatomicalEmbedding.scan.geometry import to_image
from AnatomicalEmbedding.segmentation.files import colour, read_segments, write_segments
from AnatomicalEmbedding.segmentation.grids import Crop, Group
from AnatomicalEmbedding.segmentation.outlining import choose_answer, clean, doubt, signs
from AnatomicalEmbedding.segmentation.voxels import (
    OPTIMISER,
    TrainingCrop,
    VoxelNet,
    predict,
    voxel_losses,
)
from AnatomicalEmbedding.training.loop import TrainingLoop

OBLIQUE = np.array([[-0.9, 0.1, 0, 20], [0.1, 0.9, 0, -30], [0, 0, 2.5, 100], [0, 0, 0, 1.0]])


def ball(shape: tuple[int, int, int], centre: tuple[float, float, float], radius: float) -> np.ndarray:
    place = np.stack(np.meshgrid(*(np.arange(n) for n in shape), indexing="ij"), axis=-1)
    return np.linalg.norm(place - np.array(centre), axis=-1) <= radius


def crop_with(labels: np.ndarray, spacing_mm: float = 3.0) -> TrainingCrop:
    """A crop whose labelled voxels are 200 HU brighter; coordinates are places, about the middle."""
    rng = np.random.default_rng(0)
    shape = labels.shape[1:]
    hu = -50.0 + 200.0 * labels.any(0) + rng.normal(0, 10, shape)
    axes = [(np.arange(n) - n / 2) * spacing_mm / 100 for n in shape]
    k, j, i = np.meshgrid(*axes, indexing="ij")
    crop = Crop(
        torch.from_numpy(hu).float(), torch.from_numpy(np.stack([i, j, k])).float(),
        torch.ones(shape, dtype=torch.bool), spacing_mm, np.zeros(3),
    )  # fmt: skip
    return TrainingCrop(crop, torch.from_numpy(labels).half(), torch.ones(len(labels), dtype=torch.bool))


def test_voxels_of_one_example_correct_a_guess_that_is_off():
    truth = ball((32, 32, 32), (15, 17, 16), 7)[None]
    example = crop_with(truth)
    loop = TrainingLoop(VoxelNet(1, 0).train(), OPTIMISER, 60)
    loop.run(voxel_losses(loop.network, [example], 60, 0))
    network = loop.averaged.eval()
    guess = torch.from_numpy(np.roll(truth, 3, axis=2)).float()
    found = predict(network, example.crop, guess)
    assert found.shape[1:] == (1, 32, 32, 32)
    before, after = dice(guess[0].numpy() > 0.5, truth[0]), dice(found.mean(0)[0].numpy() > 0.5, truth[0])
    assert after > before + 0.1


def test_cleaning_keeps_both_of_a_pair_and_drops_crumbs_and_what_lies_elsewhere():
    shape = (30, 30, 40)
    pair = ball(shape, (15, 15, 10), 5) | ball(shape, (15, 15, 30), 5)
    crop = crop_with(pair[None]).crop
    group = Group(("lungs",), 3.0, np.full((1, 3), -40.0), np.full((1, 3), 40.0))
    crumb = pair.copy()
    crumb[2, 2, 2] = True
    kept, remark = clean(torch.from_numpy(crumb).float(), crop, group, 0)
    assert remark == ""
    assert np.array_equal(kept.numpy() > 0.5, pair)
    away = Group(("lungs",), 3.0, np.full((1, 3), 400.0), np.full((1, 3), 480.0))
    object.__setattr__(crop, "coordinate", crop.coordinate - torch.tensor(4.4)[None, None, None])
    _, remark = clean(torch.from_numpy(crumb).float(), crop, away, 0)
    assert "other parts of the body" in remark


def test_doubt_rises_with_uncertainty_and_with_unsteadiness():
    mask = torch.from_numpy(ball((20, 20, 20), (10, 10, 10), 6))
    sure = torch.where(mask, 0.98, 0.01)
    unsure = torch.where(mask, 0.6, 0.35)
    least = doubt(signs(sure, sure[None], sure, 3.0, 5))
    worse = (
        signs(sure, unsure[None], unsure, 3.0, 5), signs(unsure, sure[None], sure, 3.0, 5),
        signs(sure, sure.roll(2, 0)[None], sure, 3.0, 5), signs(sure, sure[None], sure, 3.0, 1),
    )  # fmt: skip
    assert all(doubt(each) > least for each in worse)
    nothing = torch.zeros(20, 20, 20)
    assert np.isfinite(doubt(signs(nothing, sure[None], sure, 3.0, 1)))


def test_carried_labels_are_kept_where_the_network_leaves_next_to_nothing_of_them():
    labels = ball((24, 24, 24), (12, 12, 12), 6)[None]
    crop, guess = crop_with(labels).crop, torch.from_numpy(labels[0]).float()
    group = Group(("liver",), 3.0, np.full((1, 3), -50.0), np.full((1, 3), 50.0))
    small = torch.from_numpy(ball((24, 24, 24), (12, 12, 12), 3)).float()
    half = torch.from_numpy(ball((24, 24, 24), (12, 12, 12), 5)).float()
    kept, why = choose_answer(half, guess, crop, group, 0)
    assert not why
    assert torch.equal(kept > 0.5, half > 0.5)
    for failed in (small, torch.zeros_like(small)):
        kept, why = choose_answer(failed, guess, crop, group, 0)
        assert "by registration alone" in why
        assert torch.equal(kept > 0.5, guess > 0.5)
    kept, why = choose_answer(small * 0, guess * 0, crop, group, 0)
    assert why
    assert not kept.any()


def test_slicer_file_has_names_colours_and_extents_and_is_read_back(tmp_path):
    labels = np.zeros((6, 7, 8), np.uint8)
    labels[1:3, 2:5, 3:8] = 1
    labels[4:, 0:2, 0:3] = 2
    path = tmp_path / "scan.seg.nrrd"
    write_segments(path, labels, OBLIQUE, ["liver", "kidney_left", "spleen"])
    image = sitk.ReadImage(str(path))
    about = {key: image.GetMetaData(key) for key in image.GetMetaDataKeys()}
    assert [about[f"Segment{n}_Name"] for n in range(3)] == ["liver", "kidney_left", "spleen"]
    assert [about[f"Segment{n}_LabelValue"] for n in range(3)] == ["1", "2", "3"]
    assert about["Segment0_Extent"] == "3 7 2 4 1 2"
    assert about["Segment0_Layer"] == "0"
    assert [float(x) for x in about["Segment1_Color"].split()] == pytest.approx(colour(1), abs=1e-4)
    assert len({about[f"Segment{n}_ID"] for n in range(3)}) == 3
    again = read_segments(path)
    assert again.values == {"liver": 1, "kidney_left": 2, "spleen": 3}
    assert np.array_equal(again.voxels, labels)
    assert again.ijk_to_ras == pytest.approx(OBLIQUE)


def test_a_segmentation_without_segments_is_refused_by_name(tmp_path):
    path = tmp_path / "plain.seg.nrrd"
    sitk.WriteImage(to_image(np.zeros((4, 4, 4), np.uint8), np.eye(4)), str(path))
    with pytest.raises(PointsError, match=r"plain.seg.nrrd: contains no segment"):
        read_segments(path)
    path.write_bytes(b"no image")
    with pytest.raises(VolumeError, match=r"plain.seg.nrrd: cannot be read"):
        read_segments(path)
