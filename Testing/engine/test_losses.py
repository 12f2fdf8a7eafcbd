"""Test the coordinate loss against a loop over cells, and the correction of body frames during training."""

import numpy as np
import pytest
import torch
from training_scans import frame, linear_scan

from AnatomicalEmbedding.training.objectives import FrameCorrections, coordinate_loss


def numbers(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_coordinate_loss_is_the_mean_over_crops_of_the_mean_over_their_cells():
    predicted = 2 * numbers(3, 3, 2, 3, 4)
    target = numbers(3, 3, 2, 3, 4, seed=1)
    inside = numbers(3, 2, 3, 4, seed=2) > 0.3
    inside[1] = False  # a crop without body cells has no error
    beta = 0.5
    crops = []
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
    doubtful = frame(
        (1.0, 1.0, 1.1), (5.0, -3.0, 220.0), scale_sd=(0.1,) * 3, shift_sd_mm=(20.0,) * 3
    )
    return [
        linear_scan("patient", guess=doubtful),
        linear_scan("phantom", guess=frame(shift_mm=(9.0, 9.0, 9.0))),
    ]


def test_corrections_start_at_the_guess_and_never_move_an_exact_frame(guessed):
    corrections = FrameCorrections(guessed, unit_mm=100.0)
    target = numbers(2, 3, 2, 2, 2).float()
    scan = torch.tensor([0, 1])
    torch.testing.assert_close(corrections(target, scan), target)
    with torch.no_grad():
        corrections.shift.fill_(2.0)
        corrections.scale.fill_(-1.0)
    corrected = corrections(target, scan)
    assert not torch.allclose(corrected[0], target[0])
    torch.testing.assert_close(corrected[1], target[1])
