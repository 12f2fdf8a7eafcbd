"""Test training batches from scans whose HU and body coordinates are known functions of the position."""

import pytest
import torch
import torch.nn.functional as F
from training_scans import SPACING_MM, frame, linear_scan, make_sampler, scan_hu, tiny_recipe

SIZE = (24, 20, 16)  # i, j, k of the tiny recipe's crops


def scans_of_two_patients():
    patients = [
        linear_scan(f"patient{n}", guess=frame(shift_mm=(0, 0, 200 + 150 * n))) for n in range(2)
    ]
    return [*patients, linear_scan("phantom", guess=frame(shift_mm=(0, 0, 200)), made="phantom")]


def equal(a, b):
    return all(torch.equal(x, y) for x, y in zip(vars(a).values(), vars(b).values(), strict=True))


@pytest.mark.parametrize("objective", ["coordinates", "distances", "levels"])
def test_batch_depends_on_seed_and_step_alone(objective):
    recipe = tiny_recipe(objective, augmentation={"noise_probability": 1.0, "noise_level": 0.05})
    scans = scans_of_two_patients()
    one, other = (make_sampler(scans, recipe, 5) for _ in range(2))
    _ = other[7], other[2]  # order of asking does not matter
    batch = one[3]
    assert equal(batch, other[3])
    assert not equal(batch, one[4])
    assert not equal(batch, make_sampler(scans, recipe, 6)[3])


def test_image_and_coordinates_of_a_batch_agree():
    """What a crop of the linear scan shows says where it is; that must be where its coordinates say."""
    scan = linear_scan(guess=frame(shift_mm=(7.0, -3.0, 250.0)))
    recipe = tiny_recipe(augmentation={"spacing_scale": [0.6, 0.9], "rotation_rad": 0.1})
    batch = make_sampler([scan], recipe, 0)[1]
    hu = F.avg_pool3d(batch.image, 4)[:, 0] * 2000 - 1000
    ras = batch.body_mm.movedim(1, -1).double() - torch.from_numpy(scan.frame.shift_mm)
    voxel = (ras - torch.from_numpy(scan.grid_to_ras[:3, 3])) / torch.tensor(SPACING_MM)
    assert batch.inside.sum() > 20
    torch.testing.assert_close(hu[batch.inside], scan_hu(voxel)[batch.inside], rtol=0, atol=1.5)


def pair_batch(scan):
    spacing = {"spacing_mm_low": [1.0, 1.0, 1.5], "spacing_mm_high": [2.0, 2.0, 3.0]}
    recipe = tiny_recipe("distances", augmentation=spacing)
    return make_sampler([scan], recipe, 3)[2]


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
