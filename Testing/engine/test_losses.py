"""The objectives against literal double loops over the paper's equations, and what training settles about frames."""

import numpy as np
import pytest
import torch
from training_scans import SHAPE, SPACING_MM, frame, linear_scan

from AnatomicalEmbedding.papers.ape.distances import distance_loss
from AnatomicalEmbedding.papers.bpr_rpr.levels import level_loss
from AnatomicalEmbedding.papers.bpr_rpr.offsets import offset_loss
from AnatomicalEmbedding.training.objectives import FrameCorrections, coordinate_loss


def numbers(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def standardised(position):
    return (position - position.mean(0)) / position.std(0)


def equation_1(a, position):
    p, n = standardised(position), len(a)
    total = torch.zeros((), dtype=torch.float64)
    for i in range(n):
        for j in range(n):
            if i != j:  # both distances are zero for i = j
                total = total + ((a[i] - a[j]).norm() - (p[i] - p[j]).norm()) ** 2
    return total / n**2


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


def test_equation_1_is_the_naive_case():
    a, position = numbers(9, 3), 40 * numbers(9, 3, seed=1) + 300
    expected = value_and_gradients(lambda x: equation_1(x, position), a)
    found = value_and_gradients(lambda x: distance_loss(x, x, position, 0.0), a)
    for got, true in zip(found, expected, strict=True):
        torch.testing.assert_close(got, true)


@pytest.mark.parametrize("weight", [0.0, 1.0, 0.3])
def test_equation_2(weight):
    a, plus, position = numbers(8, 3), numbers(8, 3, seed=1), 40 * numbers(8, 3, seed=2) - 100
    expected = value_and_gradients(lambda x, y: equation_2(x, y, position, weight), a, plus)
    found = value_and_gradients(lambda x, y: distance_loss(x, y, position, weight), a, plus)
    for got, true in zip(found, expected, strict=True):
        torch.testing.assert_close(got, true)


def test_distance_loss_gradient_is_the_slope():
    plus, position = numbers(6, 3, seed=1), numbers(6, 3, seed=2)
    assert torch.autograd.gradcheck(lambda a: distance_loss(a, plus, position), numbers(6, 3).requires_grad_())


def test_distance_loss_forgets_the_unit_and_origin_of_positions():
    a, plus, position = numbers(8, 3), numbers(8, 3, seed=1), numbers(8, 3, seed=2)
    moved = position * torch.tensor([20.0, 30.0, 70.0]) + torch.tensor([5.0, -800.0, 60.0])
    torch.testing.assert_close(distance_loss(a, plus, moved), distance_loss(a, plus, position))


def test_perfect_embeddings_cost_nothing_even_turned_and_mirrored():
    position = 50 * numbers(12, 3)
    rotation, _ = torch.linalg.qr(numbers(3, 3, seed=3))
    a = (standardised(position) @ rotation).requires_grad_()
    loss = distance_loss(a, a, position)
    loss.backward()
    assert float(loss.detach()) < 1e-20
    assert torch.isfinite(a.grad).all()


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


def test_a_coordinate_that_states_every_offset_costs_nothing_wherever_its_origin_is():
    """Two places fix one offset, which tanh states exactly; of more, well below r, it states what is almost linear."""
    two = 300 * numbers(2, 3)
    p = torch.stack([torch.zeros(3, dtype=torch.float64), torch.atanh((two[1] - two[0]) / 700)]) + 3
    assert float(offset_loss(p, p, two, 700.0)) < 1e-20
    many = 10 * numbers(9, 3)
    assert float(offset_loss(many / 700 - 8, many / 700 - 8, many, 700.0)) < 1e-4
    assert float(offset_loss(-many / 700, -many / 700, many, 700.0)) > 100


def test_level_loss_is_the_order_of_pairs_and_the_bend_of_triples():
    score, height = numbers(3, 6), numbers(3, 6, seed=1).sort(1).values
    seen = torch.ones(3, 6, dtype=torch.bool)
    seen[0, :2] = seen[1, 3] = seen[2] = False
    expected = value_and_gradients(lambda s: levels_one_by_one(s, height, seen), score)
    found = value_and_gradients(lambda s: level_loss(s, height, seen), score)
    for got, true in zip(found, expected, strict=True):
        torch.testing.assert_close(got, true)


def test_scores_that_rise_with_height_cost_nothing_and_slices_without_body_have_no_say():
    height = torch.arange(6, dtype=torch.float64).repeat(2, 1) * 0.16
    seen = torch.tensor([[True] * 6, [False] * 2 + [True] * 4])
    score = torch.where(seen, height + torch.tensor([[5.0], [-2.0]]), 99.0).requires_grad_()
    loss = level_loss(score, height, seen)
    assert float(loss.detach()) < 1e-20
    assert float(level_loss(-height, height, seen)) > 0.01
    assert float(level_loss(height, height, torch.zeros_like(seen))) == 0


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


def test_cells_outside_the_body_have_no_say():
    predicted, target = numbers(2, 3, 2, 2, 2).requires_grad_(), numbers(2, 3, 2, 2, 2, seed=1)
    inside = torch.zeros(2, 2, 2, 2, dtype=torch.bool)
    inside[0, 0] = True
    coordinate_loss(predicted, target, inside, 1.0).backward()
    moved = (predicted.grad != 0).any(1)
    assert torch.equal(moved, inside)


def test_batch_without_body_costs_nothing():
    predicted = numbers(1, 3, 2, 2, 2).requires_grad_()
    loss = coordinate_loss(predicted, torch.zeros(1, 3, 2, 2, 2), torch.zeros(1, 2, 2, 2, dtype=torch.bool), 1.0)
    loss.backward()
    assert float(loss.detach()) == 0
    assert torch.equal(predicted.grad, torch.zeros_like(predicted))


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


def test_prior_is_the_mean_squared_deviation_of_the_scans_drawn(guessed):
    corrections = FrameCorrections(guessed, unit_mm=100.0)
    with torch.no_grad():
        corrections.shift[0] = torch.tensor([1.0, 2.0, 0.0])
        corrections.scale[0] = torch.tensor([0.0, 0.0, -3.0])
    assert corrections.prior(torch.tensor([0, 1])).item() == pytest.approx((1 + 4 + 9) / 2)


def test_a_displaced_guess_is_settled_against_what_the_network_sees(guessed):
    corrections = FrameCorrections(guessed[:1], unit_mm=100.0)
    seen = numbers(1, 3, 4, 4, 4).float()
    displaced = seen + torch.tensor([0.3, -0.2, 0.1]).view(1, 3, 1, 1, 1)  # 30, -20, 10 mm
    inside, scan = torch.ones(1, 4, 4, 4, dtype=torch.bool), torch.tensor([0])
    optimiser = torch.optim.Adam(corrections.parameters(), 0.05)
    for _ in range(150):
        optimiser.zero_grad()
        loss = coordinate_loss(seen, corrections(displaced, scan), inside, beta=0.2)
        (loss + 0.001 * corrections.prior(scan)).backward()
        optimiser.step()
    left = (corrections(displaced, scan) - seen).detach().mean((0, 2, 3, 4)) * 100
    assert float(left.abs().max()) < 3
