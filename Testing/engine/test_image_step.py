"""Test the last step of matching, which compares images, on images with a known displacement."""

import numpy as np
import pytest
import torch

from AnatomicalEmbedding.embedding.grid_reading import smoothed
from AnatomicalEmbedding.embedding.map import EmbeddingMap, Provenance
from AnatomicalEmbedding.matching.image_step import read_windows, sharpen
from AnatomicalEmbedding.matching.target_batch import TargetRows

CELLS = (14, 14, 14)
MIDDLE = torch.full((1, 3), 6.6, dtype=torch.double)  # cells


def map_of(image: torch.Tensor) -> EmbeddingMap:
    """A map of voxels of 3 x 3 x 4 mm with an image and nothing else of use."""
    matrix = np.diag([12.0, 12.0, 16.0, 1.0])
    body = torch.ones(CELLS, dtype=torch.bool)
    return EmbeddingMap(
        torch.zeros(3, *CELLS),
        body,
        matrix,
        np.diag([3.0, 3.0, 4.0, 1.0]),
        (56, 56, 56),
        Provenance("m", "w"),
        image=image,
    )


def blobs(seed: int = 0) -> torch.Tensor:
    """Smooth random levels, different everywhere."""
    noise = torch.rand(1, 56, 56, 56, generator=torch.Generator().manual_seed(seed)) - 0.5
    smooth = smoothed(noise, (1.0, 1.0, 1.0))[0]
    return (128 + 127 * smooth / smooth.abs().max()).round().to(torch.uint8)


def moved_by(template: torch.Tensor, target: torch.Tensor) -> np.ndarray:
    """(3,) voxels by which the step moves a match at the point itself."""
    windows = read_windows(map_of(template), MIDDLE)
    rows = TargetRows.each([map_of(target)], 1)
    return ((sharpen(windows, rows, MIDDLE) - MIDDLE) * 4)[0].numpy()


@pytest.mark.parametrize("shift", [(0, 0, 0), (2, -1, 1), (-2, 2, -2)])
def test_the_image_says_how_far_the_match_is_off(shift) -> None:
    template = blobs()
    target = torch.roll(template, shift[::-1], dims=(0, 1, 2))
    np.testing.assert_allclose(moved_by(template, target), shift, atol=0.1)


@pytest.mark.parametrize("kind", ["flat", "other", "stripes"])
def test_a_match_stays_where_no_place_is_clearly_the_best(kind) -> None:
    template = blobs()
    if kind == "flat":
        target = torch.full_like(template, 130)
    elif kind == "other":
        target = blobs(1)
    else:  # the same every 12 mm
        target = template = (
            (128 + 100 * torch.sin(torch.arange(56) * np.pi / 2)).to(torch.uint8).expand(56, 56, 56)
        )
    assert np.abs(moved_by(template, target)).max() < 0.2
