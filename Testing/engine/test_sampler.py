"""Crops, augmentation and batches, on scans whose HU and body coordinates are known functions of position."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from training_scans import BODY_MARGIN, SHAPE, SPACING_MM, frame, linear_scan, scan_hu, tiny_recipe, with_field

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
from AnatomicalEmbedding.models.network import EmbeddingNetwork, NetworkSpec
from AnatomicalEmbedding.training.augmentation import augment
from AnatomicalEmbedding.training.crops import cell_positions, cut_crop, draw_geometry
from AnatomicalEmbedding.training.objectives import make_sampler, sample_cells
from AnatomicalEmbedding.training.recipes import AugmentationSpec
from AnatomicalEmbedding.training.scans import prepare_phantom

PLAIN = AugmentationSpec()
WARPED = AugmentationSpec(
    spacing_scale=[0.7, 1.4], axis_scale=[0.9, 1.1], rotation_rad=0.2, elastic_mm=4.0, elastic_probability=1.0
)
SIZE = (24, 20, 16)  # i, j, k
CENTRE_IJK = (np.array(SHAPE[::-1]) - 1) / 2
OURS = NetworkSpec()
PAPER = NetworkSpec(hu_knots=(-1000.0, 300.0), level_knots=(0.0, 1.0), unit_mm=None, normalise_output=True)
LEVEL_OF_ONE_HU = 0.6 / 400  # steepest part of the network's input curve


def rng(seed=0):
    return np.random.default_rng(seed)


def warped_crop(scan, seed, centre=CENTRE_IJK, spec=WARPED):
    return cut_crop(scan, centre, draw_geometry(spec, SIZE, np.array(SPACING_MM), rng(seed)), SIZE)


# Crops


def test_plain_crop_is_the_part_of_the_scan():
    scan = linear_scan()
    crop = cut_crop(scan, [21.5, 17.5, 19.5], draw_geometry(PLAIN, SIZE, np.array(SPACING_MM), rng()), SIZE)
    torch.testing.assert_close(crop.hu, scan.hu[12:28, 8:28, 10:34].float(), rtol=0, atol=1e-2)
    i, j, k = torch.arange(10, 34), torch.arange(8, 28), torch.arange(12, 28)
    expected = torch.stack(torch.meshgrid(k, j, i, indexing="ij")[::-1]).float()
    torch.testing.assert_close(crop.voxel_ijk().movedim(-1, 0), expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("seed", range(4))
def test_warped_crop_shows_the_scan_at_the_voxels_it_names(seed):
    crop = warped_crop(linear_scan(), seed)
    voxel = crop.voxel_ijk()
    last = torch.tensor(SHAPE[::-1]) - 1
    inside = ((voxel >= 0) & (voxel <= last)).all(-1)
    assert inside.float().mean() > 0.6
    torch.testing.assert_close(crop.hu[inside], scan_hu(voxel)[inside], rtol=0, atol=0.05)
    far = ((voxel < -1) | (voxel > last + 1)).any(-1)
    assert (crop.hu[far] == -1000).all()


@pytest.mark.parametrize("centre", [(-500.0, 10.0, 10.0), (20.0, 400.0, 300.0)])
def test_crop_beyond_the_scan_is_air_without_body(centre):
    crop = warped_crop(linear_scan(), 0, np.array(centre))
    _, inside = cell_positions(linear_scan(), crop)
    assert (crop.hu == -1000).all()
    assert not inside.any()


def test_geometry_keeps_to_the_ranges_of_the_recipe():
    spec = AugmentationSpec(spacing_scale=[0.8, 1.25], axis_scale=[0.9, 1.1], rotation_rad=0.3)
    sizes = []
    for seed in range(60):
        nodes = draw_geometry(spec, SIZE, np.array(SPACING_MM), rng(seed)).double().numpy()
        edges = np.stack([nodes[:, 0, 0, -1], nodes[:, 0, -1, 0], nodes[:, -1, 0, 0]]) - nodes[:, 0, 0, 0]
        lengths = np.linalg.norm(edges, axis=1)
        turned = edges / lengths[:, None]
        np.testing.assert_allclose(turned @ turned.T, np.eye(3), atol=1e-5)  # a rotation, no shear
        assert np.linalg.det(turned) > 0
        assert np.arccos(np.diag(turned)).max() < 2 * 0.3
        np.testing.assert_allclose(nodes.mean(axis=(1, 2, 3)), 0, atol=1e-4)
        sizes.append(lengths / ((np.array(SIZE) - 1) * SPACING_MM))
    sizes = np.array(sizes)
    assert sizes.min() > 0.8 * 0.9 - 1e-6
    assert sizes.max() < 1.25 * 1.1 + 1e-6
    assert np.ptp(np.log(sizes.mean(axis=1))) > 0.3
    assert np.ptp(sizes / sizes.mean(axis=1, keepdims=True)) > 0.1


def test_absolute_spacing_is_drawn_between_its_ends():
    spec = AugmentationSpec(spacing_mm_low=[1.0, 1.0, 1.5], spacing_mm_high=[2.0, 2.0, 3.0])
    steps = []
    for seed in range(40):
        nodes = draw_geometry(spec, SIZE, np.array(SPACING_MM), rng(seed)).numpy()
        steps.append((nodes[:, -1, -1, -1] - nodes[:, 0, 0, 0]) / (np.array(SIZE) - 1))
    steps = np.array(steps)
    assert (steps > np.array([1.0, 1.0, 1.5]) - 1e-5).all()
    assert (steps < np.array([2.0, 2.0, 3.0]) + 1e-5).all()
    assert (np.ptp(steps, axis=0) > (0.6, 0.6, 0.9)).all()


def test_cells_get_the_frames_coordinates_of_their_centres():
    guess = frame((1.0, 0.9, 1.1), (12.0, -7.0, 230.0))
    scan = linear_scan(guess=guess)
    crop = warped_crop(scan, 1, CENTRE_IJK + np.array([14, 0, 8]))
    target, inside = cell_positions(scan, crop)
    centre = F.avg_pool3d(crop.voxel_ijk().movedim(-1, 0)[None].double(), 4)[0].numpy()
    assert target.shape == (3, 4, 5, 6)
    ras = np.moveaxis(centre, 0, -1) * SPACING_MM + scan.grid_to_ras[:3, 3]
    np.testing.assert_allclose(np.moveaxis(target.numpy(), 0, -1), guess.apply(ras), atol=1e-3)
    edge = np.array([BODY_MARGIN - 0.5] * 3), np.array(SHAPE[::-1]) - BODY_MARGIN - 0.5
    expected = np.all([(c > low) & (c < high) for c, low, high in zip(centre, *edge, strict=True)], axis=0)
    assert expected.any()
    assert not expected.all()
    np.testing.assert_array_equal(inside.numpy(), expected)


def test_cells_get_the_coordinates_of_a_body_field():
    def to_body(ras):
        return ras @ np.array([[1.0, 0.1, 0.0], [0.0, 1.2, -0.2], [0.05, 0.0, 0.9]]).T + (3, 4, 500)

    scan = with_field(linear_scan(guess=frame(shift_mm=(1e4, 1e4, 1e4))), to_body)
    crop = warped_crop(scan, 2)
    target, inside = cell_positions(scan, crop)
    centre = F.avg_pool3d(crop.voxel_ijk().movedim(-1, 0)[None].double(), 4)[0].movedim(0, -1).numpy()
    expected = to_body(centre * SPACING_MM + scan.grid_to_ras[:3, 3])
    np.testing.assert_allclose(target.movedim(0, -1)[inside].numpy(), expected[inside.numpy()], atol=1e-2)


def test_cells_of_a_phantom_get_its_exact_coordinates(phantom_pair):
    phantom = phantom_pair[0]
    scan = prepare_phantom(phantom, "phantom", (4.0, 4.0, 4.0))
    crop = warped_crop(scan, 3, np.array(scan.hu.shape[::-1]) / 2)
    target, inside = cell_positions(scan, crop)
    centre = F.avg_pool3d(crop.voxel_ijk().movedim(-1, 0)[None], 4)[0].movedim(0, -1)[inside].double().numpy()
    ras = centre @ scan.grid_to_ras[:3, :3].T + scan.grid_to_ras[:3, 3]
    error = np.linalg.norm(target.movedim(0, -1)[inside].numpy() - phantom.to_body(ras), axis=1)
    assert inside.sum() > 50
    assert error.max() < 1.5  # linear between nodes 32 mm apart


# Augmentation


def spread_hu(shape=(16, 20, 24)):
    """Noise-free HU over the whole range, in no order."""
    return torch.from_numpy(rng(7).uniform(-1000, 1500, size=shape)).float()


@pytest.mark.parametrize("network", [OURS, PAPER])
def test_without_changes_the_input_is_what_inference_prepares(network):
    hu = spread_hu()
    expected = EmbeddingNetwork(replace(network, widths=(4,))).prepare(hu)[0]
    torch.testing.assert_close(augment(hu.clone(), PLAIN, network, rng()), expected, rtol=0, atol=LEVEL_OF_ONE_HU)


ALL_ON = AugmentationSpec(
    hu_remap_probability=1.0,
    window_probability=1.0,
    window_low=[-1000.0, -200.0],
    window_high=[200.0, 700.0],
    filter_probability=1.0,
    noise_probability=1.0,
    noise_level=0.05,
    gamma_probability=1.0,
    gamma=[0.75, 1.3],
    block_probability=1.0,
    cut_probability=1.0,
)


@pytest.mark.parametrize("seed", range(6))
def test_all_changes_at_once_stay_near_the_input_range(seed):
    x = augment(spread_hu(), ALL_ON, OURS, rng(seed))
    assert torch.isfinite(x).all()
    assert x.dtype == torch.float32
    assert x.shape == (16, 20, 24)
    assert -2 < float(x.min()) < float(x.max()) < 3  # sharpening and noise overshoot
    torch.testing.assert_close(x, augment(spread_hu(), ALL_ON, OURS, rng(seed)), rtol=0, atol=0)
    assert not torch.equal(x, augment(spread_hu(), ALL_ON, OURS, rng(seed + 100)))


def test_gamma_keeps_order_and_ends():
    spec = replace(PLAIN, gamma_probability=1.0, gamma=[0.75, 1.3])
    hu = torch.linspace(-1100, 1500, 400).view(1, 1, 400)
    x = augment(hu, spec, OURS, rng(1)).flatten()
    assert (x.diff() >= 0).all()
    assert float(x[0]) == 0
    assert float(x[-1]) == 1


def test_window_clips_ours_and_stretches_the_papers():
    spec = replace(PLAIN, window_probability=1.0, window_low=[-300.0, -300.0], window_high=[400.0, 400.0])
    hu = torch.tensor([-1000.0, -300, 50, 400, 1200]).view(1, 1, 5)
    paper = augment(hu.clone(), spec, PAPER, rng()).flatten()
    torch.testing.assert_close(paper, torch.tensor([0, 0, 0.5, 1, 1]), rtol=0, atol=2e-3)
    ours = augment(hu.clone(), spec, OURS, rng()).flatten()
    plain = augment(hu.clamp(-300, 400), PLAIN, OURS, rng()).flatten()
    torch.testing.assert_close(ours, plain, rtol=0, atol=1e-6)


def test_hu_remap_moves_soft_tissue_within_reason():
    hu = torch.linspace(-1000, 1300, 500).view(1, 1, 500)
    plain = augment(hu.clone(), PLAIN, OURS, rng())
    spec = replace(PLAIN, hu_remap_probability=1.0)
    moved = torch.stack([augment(hu.clone(), spec, OURS, rng(seed)) - plain for seed in range(20)])
    soft = (hu > 0) & (hu < 80)
    assert moved.abs().max() < 200 * LEVEL_OF_ONE_HU
    assert moved[soft.expand_as(moved)].abs().max() <= 51 * LEVEL_OF_ONE_HU
    assert moved[soft.expand_as(moved)].std() > 5 * LEVEL_OF_ONE_HU


def test_noise_has_zero_mean_and_at_most_the_recipes_level():
    flat = torch.full((24, 24, 24), 40.0)
    plain = augment(flat.clone(), PLAIN, OURS, rng())
    spec = replace(PLAIN, noise_probability=1.0, noise_level=0.08)
    noise = [augment(flat.clone(), spec, OURS, rng(seed)) - plain for seed in range(12)]
    assert max(float(n.std()) for n in noise) < 0.085
    assert max(float(n.std()) for n in noise) > 0.04
    assert max(float(n.mean().abs()) for n in noise) < 0.005


def test_filters_leave_flat_regions_as_they_are():
    flat = torch.full((12, 12, 12), 40.0)
    spec = replace(PLAIN, filter_probability=1.0)
    for seed in range(4):
        inner = (slice(1, -1),) * 3
        changed, plain = augment(flat.clone(), spec, OURS, rng(seed)), augment(flat.clone(), PLAIN, OURS, rng())
        torch.testing.assert_close(changed[inner], plain[inner], rtol=0, atol=1e-6)


def test_cut_leaves_one_side_unscanned():
    flat = torch.full((20, 24, 28), 40.0)
    spec = replace(PLAIN, cut_probability=1.0)
    sides = set()
    for seed in range(40):
        empty = augment(flat.clone(), spec, OURS, rng(seed)) == 0
        for axis in range(3):
            line = empty.movedim(axis, 0).flatten(1)
            if empty.any() and torch.equal(line.any(1), line.all(1)):  # whole planes across this axis
                planes = torch.nonzero(line.all(1)).flatten().tolist()
                first, last = planes[0], planes[-1]
                assert planes == list(range(first, last + 1))
                assert first == 0 or last == empty.shape[axis] - 1
                assert len(planes) <= 0.4 * empty.shape[axis]
                sides.add((axis, first == 0))
                break
        else:
            assert not empty.any()
    assert {axis for axis, _ in sides} == {0, 1, 2}
    assert {low for _, low in sides} == {True, False}


def test_blocks_are_a_few_boxes_of_one_level_each():
    flat = torch.full((64, 64, 64), 40.0)
    plain = augment(flat[:1, :1, :1].clone(), PLAIN, OURS, rng())[0, 0, 0]
    spec = replace(PLAIN, block_probability=1.0)
    for seed in range(5):
        x = augment(flat.clone(), spec, OURS, rng(seed))
        levels = set(x[x != plain].tolist())
        assert 1 <= len(levels) <= 6
        assert all(0 <= level <= 1 for level in levels)
        extents = [torch.nonzero(x == level).amax(0) - torch.nonzero(x == level).amin(0) + 1 for level in levels]
        assert max(int(e.max()) for e in extents) < 36
        assert (x == plain).float().mean() > 0.3


# Batches


def scans_of_two_patients():
    patients = [linear_scan(f"patient{n}", guess=frame(shift_mm=(0, 0, 200 + 150 * n))) for n in range(2)]
    return [*patients, linear_scan("phantom", guess=frame(shift_mm=(0, 0, 200)), synthetic=True)]


def equal(a, b):
    return all(torch.equal(x, y) for x, y in zip(vars(a).values(), vars(b).values(), strict=True))


@pytest.mark.parametrize("objective", ["coordinates", "distances"])
def test_batch_depends_on_seed_and_step_alone(objective):
    recipe = tiny_recipe(objective, augmentation={"noise_probability": 1.0, "noise_level": 0.05})
    scans = scans_of_two_patients()
    one, other = (make_sampler(scans, recipe, 5, steps=9) for _ in range(2))
    assert len(one) == 9
    _ = other[7], other[2]  # order of asking does not matter
    batch = one[3]
    assert equal(batch, other[3])
    assert not equal(batch, one[4])
    assert not equal(batch, make_sampler(scans, recipe, 6, steps=9)[3])


def test_coordinate_batch_has_as_many_crops_as_fit():
    sizes = [[24, 20, 16], [16, 16, 8]]
    recipe = tiny_recipe(batch={"crop_sizes": sizes, "voxels_per_batch": 2 * 24 * 20 * 16 + 100})
    sampler = make_sampler(scans_of_two_patients(), recipe, 0, 10)
    seen = set()
    for step in range(8):
        batch = sampler[step]
        n, _, k, j, i = batch.image.shape
        assert [i, j, k] in sizes
        assert n == (2 * 24 * 20 * 16 + 100) // (i * j * k)
        assert batch.body_mm.shape == (n, 3, k // 4, j // 4, i // 4)
        assert batch.inside.shape == (n, k // 4, j // 4, i // 4)
        assert batch.scan.shape == (n,)
        assert batch.inside.any()
        seen.add((i, j, k))
    assert len(seen) == 2


def test_image_and_coordinates_of_a_batch_agree():
    """What a crop of the linear scan shows says where it is; that must be where its coordinates say."""
    scan = linear_scan(guess=frame(shift_mm=(7.0, -3.0, 250.0)))
    recipe = tiny_recipe(augmentation={"spacing_scale": [0.6, 0.9], "rotation_rad": 0.1})
    batch = make_sampler([scan], recipe, 0, 4)[1]
    hu = F.avg_pool3d(batch.image, 4)[:, 0] * 2000 - 1000
    ras = batch.body_mm.movedim(1, -1).double() - torch.from_numpy(scan.frame.shift_mm)
    voxel = (ras - torch.from_numpy(scan.grid_to_ras[:3, 3])) / torch.tensor(SPACING_MM)
    assert batch.inside.sum() > 20
    torch.testing.assert_close(hu[batch.inside], scan_hu(voxel)[batch.inside], rtol=0, atol=1.5)


def drawn_scans(scans, recipe, steps=30):
    sampler = make_sampler(scans, recipe, 0, steps)
    return torch.cat([sampler[step].scan for step in range(steps)]).numpy()


def test_phantoms_get_their_share():
    small = {"crop_sizes": [[8, 8, 8]], "voxels_per_batch": 10 * 8**3}
    scans = scans_of_two_patients()
    drawn = drawn_scans(scans, tiny_recipe(batch={**small, "phantom_share": 0.25}))
    assert 0.15 < np.mean(drawn == 2) < 0.35
    assert 2 not in drawn_scans(scans, tiny_recipe(batch=small), 10)
    assert set(drawn_scans(scans[2:], tiny_recipe(batch=small), 2)) == {0}  # nothing but phantoms


def test_crops_are_aimed_by_body_height_not_by_scan():
    # three scans of the low stretch, one of the high: the high one alone gets half of the crops
    low = [linear_scan(f"low{n}", guess=frame(shift_mm=(0, 0, 200))) for n in range(3)]  # heights 0 to 117
    high = linear_scan("high", guess=frame(shift_mm=(0, 0, 500)))  # 300 to 417
    batch = {"crop_sizes": [[8, 8, 8]], "voxels_per_batch": 10 * 8**3}
    bands = [[0, 110, 1.0], [300, 410, 1.0]]
    drawn = drawn_scans([*low, high], tiny_recipe(batch={**batch, "height_bands": bands}))
    assert 0.4 < np.mean(drawn == 3) < 0.6
    bands = [[0, 110, 1.0], [300, 410, 0.0]]
    assert 3 not in drawn_scans([*low, high], tiny_recipe(batch={**batch, "height_bands": bands}), 5)


def test_scans_outside_every_height_band_are_refused_rather_than_waited_for():
    recipe = tiny_recipe(batch={"height_bands": [[2000, 3000, 1.0]]})
    with pytest.raises(AnatomicalEmbeddingError, match="height band of recipe tiny"):
        make_sampler([linear_scan()], recipe, 0, 1)


def pair_batch(scan):
    spacing = {"spacing_mm_low": [1.0, 1.0, 1.5], "spacing_mm_high": [2.0, 2.0, 3.0]}
    recipe = tiny_recipe("distances", augmentation=spacing)
    return make_sampler([scan], recipe, 3, 4)[2]


def image_at(images, voxel_ijk):
    """Trilinear (n, p) value of images (n, 1, k, j, i) at voxels (n, p, 3)."""
    size = torch.tensor(images.shape[:1:-1])
    grid = (voxel_ijk + 0.5) * (2 / size) - 1
    return F.grid_sample(images, grid[:, :, None, None], align_corners=False)[:, 0, :, 0, 0]


def test_positives_are_one_point_of_the_scan_seen_in_two_crops():
    scan = linear_scan()
    batch = pair_batch(scan)
    assert batch.first.shape == batch.second.shape == (2, 1, 16, 20, 24)
    assert batch.first_ijk.shape == batch.second_ijk.shape == batch.position_mm.shape == (2, 40, 3)
    assert not torch.equal(batch.first, batch.second)
    truth = scan_hu(batch.position_mm / torch.tensor(SPACING_MM))
    for images, voxels in ((batch.first, batch.first_ijk), (batch.second, batch.second_ijk)):
        assert (voxels >= 0).all()
        assert (voxels <= torch.tensor(SIZE) - 1).all()
        torch.testing.assert_close(image_at(images, voxels) * 2000 - 1000, truth, rtol=0, atol=1.5)


@pytest.mark.parametrize("points", [1, 7])
def test_few_points_a_pair_are_enough(points):
    recipe = tiny_recipe("distances", batch={"points_per_pair": points})
    assert make_sampler([linear_scan()], recipe, 0, 1)[0].position_mm.shape == (2, points, 3)


def test_positives_lie_in_the_body():
    scan = linear_scan()
    voxel = (pair_batch(scan).position_mm / torch.tensor(SPACING_MM)).round().long().flatten(0, 1)
    assert scan.body[voxel[:, 2], voxel[:, 1], voxel[:, 0]].all()


def test_sample_cells_reads_the_map_at_input_voxels():
    # a map that holds the input voxel of each cell's centre gives back the voxel asked for
    axes = [torch.arange(n) * 4 + 1.5 for n in (4, 5, 6)]
    maps = torch.stack(torch.meshgrid(*axes, indexing="ij")[::-1])[None]
    asked = torch.tensor([[[1.5, 1.5, 1.5], [21.5, 17.5, 13.5], [7.0, 12.25, 9.5]]])
    torch.testing.assert_close(sample_cells(maps, asked), asked)
