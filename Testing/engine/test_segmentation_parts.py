"""The parts of segmentation from a few examples against known shapes and known files."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import SimpleITK as sitk
import torch
from evaluations.segmentation import dice, hd95

from AnatomicalEmbedding.errors import CancelledError, PointsError, VolumeError
from AnatomicalEmbedding.scan.geometry import to_image
from AnatomicalEmbedding.segmentation.carrying import blend, contrast_of, guess_share
from AnatomicalEmbedding.segmentation.files import colour, read_segments, write_segments
from AnatomicalEmbedding.segmentation.grids import Crop, Group, group_structures, occupancy
from AnatomicalEmbedding.segmentation.outlining import choose_answer, clean, doubt, signs
from AnatomicalEmbedding.segmentation.patches import INPUTS, PatchSampler, TrainingCrop
from AnatomicalEmbedding.segmentation.voxels import (
    OPTIMISER,
    VoxelNet,
    block_means,
    predict,
    read_context,
    voxel_loss,
    voxel_losses,
)
from AnatomicalEmbedding.training.loop import CHECKPOINT, TrainingLoop

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


def test_the_loss_of_voxels_is_entropy_and_dice_and_unknown_structures_do_not_count():
    rng = np.random.default_rng(6)
    logits, labels = torch.from_numpy(rng.normal(size=(500, 3))), torch.from_numpy(rng.random((500, 3)))
    known = torch.tensor([True, True, False])
    share, true = 1 / (1 + np.exp(-logits.numpy()[:, :2])), labels.numpy()[:, :2]
    entropy = -(true * np.log(share) + (1 - true) * np.log(1 - share)).mean()
    expected = 5 * entropy + (1 - (2 * (share * true).sum(0) + 1) / ((share + true).sum(0) + 1)).mean()
    assert float(voxel_loss(logits, labels, known.expand(500, -1))) == pytest.approx(expected, rel=1e-5)
    rows = torch.arange(500)[:, None] < torch.tensor([500, 200, 0])  # the second structure: of the first 200 alone
    assert float(voxel_loss(logits, labels, rows)) == pytest.approx(
        float(voxel_loss(torch.where(rows, logits, 9.0), torch.where(rows, labels, 0.0), rows)), rel=1e-6
    )


def test_context_of_a_voxel_reads_itself_its_neighbours_and_means():
    x = torch.rand(1, INPUTS + 1, 15, 16, 17)
    features = torch.rand(1, 3, 8, 8, 9)
    where = torch.tensor([[7, 8, 9], [0, 0, 0]])
    rows = read_context(x, features, block_means(x, 1), where)
    assert VoxelNet(1, 3).eval().logits(rows).shape == (2, 1)
    assert torch.equal(rows[0, : INPUTS + 1], x[0, :, 7, 8, 9])
    assert torch.equal(rows[0, -3:], features[0, :, 3, 4, 4])
    assert x[0, 0, 6, 8, 9] in rows[0]
    assert x[0, 0, 7, 13, 9] in rows[0]
    mean = x[0, 0, 6:9, 7:10, 8:11].mean()
    assert torch.isclose(rows[0], mean).any()


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


def test_a_stopped_training_continues_to_the_same_weights(tmp_path):
    example = crop_with(ball((24, 24, 24), (12, 12, 12), 6)[None])

    def run(folder, cancelled=None):
        folder.mkdir(exist_ok=True)
        torch.manual_seed(1)
        loop = TrainingLoop(VoxelNet(1, 0).train(), OPTIMISER, 6)
        losses = voxel_losses(loop.network, [example], 6, 1)
        loop.resume(folder / CHECKPOINT)
        loop.run(losses, folder, cancelled=cancelled)
        return loop.averaged

    whole = run(tmp_path / "whole")
    asked = itertools.count(1)
    with pytest.raises(CancelledError, match="run the same command"):
        run(tmp_path / "halves", lambda: next(asked) > 2)
    halves = run(tmp_path / "halves")
    for one, other in zip(whole.parameters(), halves.parameters(), strict=True):
        assert torch.equal(one, other)


def test_patches_keep_image_and_labels_together():
    example = crop_with(ball((40, 40, 40), (20, 20, 20), 9)[None])
    sampler = PatchSampler([example], (32, 32, 32), np.random.default_rng(0))
    for _ in range(5):
        patch = sampler.draw()
        inside, outside = patch.labels[0, 0] > 0.95, patch.labels[0, 0] < 0.05
        soft = patch.x[0, 0]
        if inside.sum() > 50:
            assert soft[inside].mean() > soft[outside].mean() + 0.2


def test_occupancy_holds_the_volume_at_its_place():
    mask = ball((40, 60, 60), (20, 30, 28), 12)
    crop = Crop(torch.zeros(40, 30, 34), torch.empty(0), torch.empty(0), 3.0, np.array([-49.5, -31.5, 91.5]))
    to_ras = np.array([[-1.5, 0, 0, 45], [0, 1.5, 0, -25], [0, 0, 2.5, 98], [0, 0, 0, 1.0]])
    share = occupancy(mask, to_ras, crop).float()
    assert float(share.sum()) * 27 == pytest.approx(mask.sum() * 1.5 * 1.5 * 2.5, rel=0.03)
    centre = (torch.nonzero(share > 0.5).double().mean(0).numpy()[::-1] * 3) + crop.origin_ras
    assert centre == pytest.approx([45 - 1.5 * 28, -25 + 1.5 * 30, 98 + 2.5 * 20], abs=0.5)


def test_groups_are_alike_in_size_and_place():
    def at(*heights: float) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        return {n: (np.full(3, h), np.full(3, h + 50)) for n, h in zip(("a", "b"), heights, strict=True)}

    def grouped(spacings: dict[str, float], places: dict) -> list[tuple[tuple[str, ...], float]]:
        return [(group.names, group.spacing_mm) for group in group_structures(spacings, places)]

    assert grouped({"a": 2.5, "b": 3.0}, at(0, 100)) == [(("a", "b"), 2.75)]
    assert grouped({"a": 2.5, "b": 4.0}, at(0, 100)) == [(("a",), 2.5), (("b",), 4.0)]
    assert grouped({"a": 2.5, "b": 3.0}, at(0, 600)) == [(("a",), 2.5), (("b",), 3.0)]


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
    assert "elsewhere" in remark


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


def test_carried_labels_count_more_where_the_image_hardly_shows_the_structure():
    labels = ball((24, 24, 24), (12, 12, 12), 6)[None]
    bright = crop_with(labels).crop
    grey = replace(bright, hu=torch.from_numpy(np.random.default_rng(0).normal(40, 30, labels.shape[1:])).float())
    share = torch.from_numpy(labels[0]).float()
    shown, unshown = contrast_of(bright, share), contrast_of(grey, share)
    assert shown == pytest.approx(1.0)
    assert unshown < 0.2
    assert guess_share(unshown) > 0.4
    assert guess_share(shown) == 0
    found, carried = torch.full((1, 2, 2, 2), 0.9), torch.full((2, 1, 2, 2, 2), float("nan"))
    carried[0, 0, 0] = 0.1
    joined = blend(found, carried, torch.tensor([0.25]))
    assert joined[0, 0] == pytest.approx(0.7)
    assert joined[0, 1] == pytest.approx(0.9)


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
    with pytest.raises(PointsError, match=r"plain.seg.nrrd: names no segment"):
        read_segments(path)
    path.write_bytes(b"no image")
    with pytest.raises(VolumeError, match=r"plain.seg.nrrd: cannot be read"):
        read_segments(path)


def test_distances_of_borders_are_in_mm():
    one = np.zeros((40, 40, 40), bool)
    one[18:22, 5:35, 5:35] = True
    assert hd95(one, one, np.ones(3)) == 0
    moved = np.roll(one, 4, axis=0)  # axis 0 is k
    assert hd95(one, moved, np.array([1.0, 1.0, 2.0])) == pytest.approx(8)
    assert math.isnan(hd95(one, np.zeros_like(one), np.ones(3)))
    assert dice(one, np.zeros_like(one)) == 0
    assert dice(one, one) == 1
