"""Test that a patient who lies turned gets the coordinates and descriptors of a straight patient."""

from dataclasses import replace

import numpy as np
import pytest
from described_maps import described, errors, waves

from AnatomicalEmbedding.embedding.coverage import cell_points
from AnatomicalEmbedding.embedding.map import EmbeddingMap
from AnatomicalEmbedding.embedding.straightening import straightened
from AnatomicalEmbedding.scan.geometry import rotations, transform_points
from AnatomicalEmbedding.scan.volume import Volume

_VOLUME = Volume(np.zeros((4, 4, 4), np.int16), np.eye(4))
_FOLLOWED = 0.75  # the share of a turn that the network of these tests follows


def turn(degrees: float) -> np.ndarray:
    """(4, 4) rotation about S."""
    matrix = np.eye(4)
    matrix[:3, :3] = rotations(np.radians([0, 0, degrees]))[2]
    return matrix


def embed(volume: Volume, degrees: float) -> EmbeddingMap:
    """The map of a scan whose patient was turned by `degrees` before the scan was turned."""
    (r, a), _ = volume.ijk_to_ras[:2, :2].T
    degrees += np.degrees(np.arctan2(a, r))
    made = described(lambda p: transform_points(turn(-_FOLLOWED * degrees), p))
    return replace(made, scan_to_ras=volume.ijk_to_ras @ made.scan_to_ras)


def straight(degrees: float) -> tuple[EmbeddingMap, EmbeddingMap]:
    """The map of a patient who lies turned, and the straightened map."""
    made = embed(_VOLUME, degrees)
    return made, straightened(made, _VOLUME, lambda copy: embed(copy, degrees))


def test_coordinates_and_descriptors_follow_the_whole_turn():
    _made, result = straight(24.0)
    points, coordinate = cell_points(result)
    middle = points.mean(axis=0)
    inner = errors(points, middle) < 60.0
    # the first turn is by 18 degrees; of the 6 that are left, the network follows 4.5
    for degrees, limit in ((24.0 - 1.5, 0.5), (24.0, 3.0)):
        true = transform_points(turn(-degrees), points)
        assert errors(coordinate, true)[inner].max() < limit
    described_there = result.describe(points[inner]).numpy()
    expected = waves(transform_points(turn(-18.0), points[inner]), 8.0, 0)
    assert (described_there * expected).sum(axis=1).min() > 0.9


@pytest.mark.parametrize("degrees", [5.0, 80.0])
def test_small_turns_and_faults_of_the_header_stay(degrees):
    made, result = straight(degrees)
    assert result is made


def test_mirrored_scans_and_noise_stay():
    noise = np.random.default_rng(0)
    for coordinate_of in (lambda p: p * (-1, 1, 1), lambda p: noise.normal(size=p.shape) * 100):
        made = described(coordinate_of)
        assert straightened(made, _VOLUME, lambda copy: pytest.fail("was turned")) is made
