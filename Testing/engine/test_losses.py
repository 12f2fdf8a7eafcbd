"""Losses of ours and of papers against double loops over their equations, and the correction of body frames."""

import numpy as np
import pytest
import torch
from training_scans import SHAPE, SPACING_MM, frame, linear_scan

from AnatomicalEmbedding.papers.ape.distances import distance_loss
from AnatomicalEmbedding.papers.bpr_rpr.levels import level_loss
from AnatomicalEmbedding.papers.bpr_rpr.offsets import offset_loss
from AnatomicalEmbedding.papers.pcl.__main__ import position_contrast
from AnatomicalEmbedding.training.objectives import FrameCorrections, coordinate_loss


def numbers(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def standardised(position):
    return (position - position.mean(0)) / position.std(0)


def equation_2(a, plus, position, weight):
    p, n = standardised(position), len(a)
    distance = equivariance = torch.zeros((), dtype=torch.float64)
    for i in range(n):
        equivariance = equivariance + (a[i] - plus[i]).norm() ** 2
        for j in range(n):
            distance = distance + ((a[i] - plus[j]).norm() - (p[i] - p[j]).norm()) ** 2
    return distance / n**2 + weight * equivariance / n


def value_and_gradients(function, *inputs):
    leaves = [x.clone().requires_grad_() for x in inputs]
    value = function(*leaves)
    return [value.detach(), *torch.autograd.grad(value, leaves)]


def contrast_one_by_one(z, position, threshold):
    total = torch.zeros((), dtype=torch.float64)
    for i in range(len(z)):
        others = [j for j in range(len(z)) if j != i]
        alike = {j: torch.exp(torch.cosine_similarity(z[i], z[j], dim=0) / 0.1) for j in others}
        positive = [j for j in others if abs(position[i] - position[j]) < threshold]
        total = total - sum(torch.log(alike[j] / sum(alike.values())) for j in positive) / max(len(positive), 1)
    return total / len(z)


def test_contrast_of_positions_is_equation_2_of_pcl():
    z, position = numbers(9, 5), torch.linspace(0, 1, 9, dtype=torch.float64) ** 2
    expected = value_and_gradients(lambda x: contrast_one_by_one(x, position, 0.1), z)
    found = value_and_gradients(lambda x: position_contrast(x, position, 0.1), z)
    for got, true in zip(found, expected, strict=True):
        torch.testing.assert_close(got, true)


@pytest.mark.parametrize("weight", [0.0, 1.0, 0.3])
def test_equation_2(weight):
    a, plus, position = numbers(8, 3), numbers(8, 3, seed=1), 40 * numbers(8, 3, seed=2) - 100
    expected = value_and_gradients(lambda x, y: equation_2(x, y, position, weight), a, plus)
    found = value_and_gradients(lambda x, y: distance_loss(x, y, position, weight), a, plus)
    for got, true in zip(found, expected, strict=True):
        torch.testing.assert_close(got, true)


def offsets_one_by_one(first, second, position, reach):
    total = torch.zeros((), dtype=torch.float64)
    for i, j, axis in np.ndindex(len(first), len(first), 3):
        stated = reach * torch.tanh(second[j, axis] - first[i, axis])
        total = total + (stated - (position[j, axis] - position[i, axis])) ** 2
    return total / (3 * len(first) ** 2)


def levels_one_by_one(score, height, seen):
    orders, steps = [], []
    for b in range(len(score)):
        n = score.shape[1]
        for i in range(n):
            for j in range(i + 1, n):
                if seen[b, i] and seen[b, j]:
                    rise, true = score[b, j] - score[b, i], height[b, j] - height[b, i]
                    orders.append((1 / (1 + torch.exp(-rise)) - 1 / (1 + torch.exp(-true))) ** 2)
        for i in range(1, n - 1):
            if seen[b, i - 1 : i + 2].all():
                bend = (score[b, i + 1] - score[b, i]) - (score[b, i] - score[b, i - 1])
                steps.append(0.5 * bend**2 if abs(bend) < 1 else abs(bend) - 0.5)
    return sum(orders) / len(orders) + sum(steps) / len(steps)


def test_offset_loss_is_the_mean_square_of_every_offset():
    a, b, position = numbers(6, 3), numbers(6, 3, seed=1), 200 * numbers(6, 3, seed=2)
    expected = value_and_gradients(lambda x, y: offsets_one_by_one(x, y, position, 700.0), a, b)
    found = value_and_gradients(lambda x, y: offset_loss(x, y, position, 700.0), a, b)
    for got, true in zip(found, expected, strict=True):
        torch.testing.assert_close(got, true)


def test_level_loss_is_the_order_of_pairs_and_the_bend_of_triples():
    score, height = numbers(3, 6), numbers(3, 6, seed=1).sort(1).values
    seen = torch.ones(3, 6, dtype=torch.bool)
    seen[0, :2] = seen[1, 3] = seen[2] = False
    expected = value_and_gradients(lambda s: levels_one_by_one(s, height, seen), score)
    found = value_and_gradients(lambda s: level_loss(s, height, seen), score)
    for got, true in zip(found, expected, strict=True):
        torch.testing.assert_close(got, true)


def test_coordinate_loss_is_the_mean_over_crops_of_the_mean_over_their_cells():
    predicted, target = 2 * numbers(3, 3, 2, 3, 4), numbers(3, 3, 2, 3, 4, seed=1)
    inside = numbers(3, 2, 3, 4, seed=2) > 0.3
    inside[1] = False  # a crop without body cells has no error
    beta, crops = 0.5, []
    for b in range(3):
        cells = []
        for k, j, i in np.ndindex(2, 3, 4):
            if inside[b, k, j, i]:
                error = (predicted[b, :, k, j, i] - target[b, :, k, j, i]).abs().tolist()
                cells.append(sum(0.5 * e**2 / beta if e < beta else e - 0.5 * beta for e in error))
        crops.append(np.mean(cells) if cells else 0.0)
    assert float(coordinate_loss(predicted, target, inside, beta)) == pytest.approx(np.mean(crops))


@pytest.fixture
def guessed():
    """Two scans: a guess with 20 mm and 10 % of doubt, and a phantom's exact frame."""
    doubtful = frame((1.0, 1.0, 1.1), (5.0, -3.0, 220.0), scale_sd=(0.1,) * 3, shift_sd_mm=(20.0,) * 3)
    return [linear_scan("patient", guess=doubtful), linear_scan("phantom", guess=frame(shift_mm=(9.0, 9.0, 9.0)))]


def test_corrections_start_at_the_guess_and_never_move_an_exact_frame(guessed):
    corrections = FrameCorrections(guessed, unit_mm=100.0)
    target, scan = numbers(2, 3, 2, 2, 2).float(), torch.tensor([0, 1])
    torch.testing.assert_close(corrections(target, scan), target)
    with torch.no_grad():
        corrections.shift.fill_(2.0)
        corrections.scale.fill_(-1.0)
    corrected = corrections(target, scan)
    assert not torch.allclose(corrected[0], target[0])
    torch.testing.assert_close(corrected[1], target[1])


def test_correction_is_an_affine_map_about_the_middle_of_the_scan(guessed):
    corrections = FrameCorrections(guessed, unit_mm=100.0)
    with torch.no_grad():
        corrections.shift[0] = torch.tensor([1.0, 0.0, -0.5])  # prior deviations: 20 mm, 0, -10 mm
        corrections.scale[0] = torch.tensor([0.0, 2.0, 1.0])  # 1, 1.2, 1.1
    middle_ras = guessed[0].grid_to_ras[:3, 3] + np.array(SHAPE[::-1]) / 2 * SPACING_MM
    middle = guessed[0].frame.apply(middle_ras)
    offset = np.array([30.0, -40.0, 50.0])
    target = torch.from_numpy((middle + offset) / 100).float().view(1, 3, 1, 1, 1)
    corrected = corrections(target, torch.tensor([0])).detach().flatten().numpy() * 100
    np.testing.assert_allclose(corrected, middle + offset * (1, 1.2, 1.1) + (20, 0, -10), atol=1e-3)
