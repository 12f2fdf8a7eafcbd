"""Test body coordinates that follow organs, on scans whose organs are balls at known places."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from training_scans import frame, linear_scan

from AnatomicalEmbedding.scan.geometry import transform_points
from AnatomicalEmbedding.training.label_frames import canonical_structures
from AnatomicalEmbedding.training.organ_targets import follow_organs, organ_points

ORGANS = ("liver", "spleen", "kidney_left", "kidney_right")
SHAPE, SPACING_MM, RADIUS_MM = (36, 40, 56), 6.0, 25.0
# how far the body coordinates of each patient are from the truth at each organ, mm
ERRORS = {
    "one": [(12, 0, 0), (0, 9, 0), (0, 0, -9), (6, 0, 0)],
    "two": [(0, -12, 6), (9, 0, 0), (0, 8, 0), (0, 0, 8)],
    "three": [(-6, 6, 0), (0, 0, 10), (-9, 0, 0), (0, -8, 0)],
}


def scan_with_organs(name, errors, made="scan"):
    """A scan in which the canonical places of ORGANS are shifted by `errors`, and whose frame states no shift."""
    centres = {
        organ: canonical_structures()[organ][0] + error
        for organ, error in zip(ORGANS, errors, strict=False)
    }
    grid_to_ras = np.diag([SPACING_MM] * 3 + [1.0])
    grid_to_ras[:3, 3] = np.mean([canonical_structures()[organ][0] for organ in ORGANS], axis=0) - (
        165,
        117,
        105,
    )
    kji = np.stack(np.meshgrid(*map(np.arange, SHAPE), indexing="ij"), axis=-1)
    places = transform_points(grid_to_ras, kji[..., ::-1])
    labels = np.zeros(SHAPE, np.uint8)
    for number, centre in enumerate(centres.values(), 1):
        labels[np.linalg.norm(places - centre, axis=-1) < RADIUS_MM] = number
    plain = replace(
        linear_scan(name, made=made),
        grid_to_ras=grid_to_ras,
        hu=torch.zeros(SHAPE, dtype=torch.int16),
    )
    body = torch.ones(SHAPE, dtype=torch.bool)
    return replace(
        plain, body=body, frame=frame(), labels=torch.from_numpy(labels), label_names=tuple(centres)
    )


@pytest.fixture(scope="module")
def patients():
    return [scan_with_organs(name, errors) for name, errors in ERRORS.items()]


def spread_mm(scans):
    """The mean distance, mm, between the body coordinates of an organ's centre in a scan and their mean."""
    centres = np.array([[organ_points(scan)[organ][0] for organ in ORGANS] for scan in scans])
    return np.linalg.norm(centres - centres.mean(axis=0), axis=-1).mean()


def test_organs_lie_at_equal_body_coordinates_afterwards(patients):
    assert spread_mm(patients) > 7
    assert spread_mm(follow_organs(patients)) < 2.5


def test_scans_with_few_or_no_labels_stay(patients):
    few = scan_with_organs("few", ERRORS["one"][:2])
    unlabelled = replace(linear_scan("unlabelled"))
    followed = follow_organs([*patients, few, unlabelled])
    assert followed[-2] is few
    assert followed[-1] is unlabelled
    assert follow_organs([few, unlabelled]) == [few, unlabelled]
