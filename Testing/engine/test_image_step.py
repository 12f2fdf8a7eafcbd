"""Test the last step of matching, which compares images, on images with a known displacement."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from AnatomicalEmbedding import Volume, load_model
from AnatomicalEmbedding.embedding.grid_reading import smoothed
from AnatomicalEmbedding.embedding.map import EmbeddingMap, Provenance
from AnatomicalEmbedding.matching.image_step import read_windows, sharpen
from AnatomicalEmbedding.matching.match import match
from AnatomicalEmbedding.matching.target_batch import TargetRows
from AnatomicalEmbedding.structures.labelled_scans import load_case

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


@pytest.mark.long
def test_lung_landmarks_of_one_patient_lie_nearer_by_the_image(real_data) -> None:
    cases = [
        load_case(real_data / "dev" / f"elastix_lung_{when}.nii.gz")
        for when in ("baseline", "followup")
    ]
    names = sorted(cases[0].landmarks.keys() & cases[1].landmarks.keys())
    points, truth = (np.array([case.landmarks[name] for name in names]) for case in cases)
    model = load_model()
    one, two = (model.embed(Volume.read(case.path)) for case in cases)
    by_image = match(one, points, two)
    without = match(one, points, replace(two, image=None))
    error, before = (
        np.linalg.norm(found.points_ras - truth, axis=1) for found in (by_image, without)
    )
    assert np.median(error) < 0.85 * np.median(before)
    np.testing.assert_array_equal(by_image.evidence, without.evidence)
