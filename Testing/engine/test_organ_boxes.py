"""Test boxes of organs from the organ head's values of cells, and structures located with these boxes."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from small_models import analytic_map

from AnatomicalEmbedding.embedding.organ_boxes import organ_boxes
from AnatomicalEmbedding.structures.locating import locate, make_example
from AnatomicalEmbedding.structures.organ_evidence import near_organs, sides_by_organ

CELL_TO_RAS = np.diag([12.0, 12.0, 16.0, 1.0])
CELL_TO_RAS[:3, 3] = (-90.0, -75.0, 300.0)
LIVER = np.array([[-30.0, -20.0, 350.0], [35.0, 40.0, 430.0]])
BOUNDS = np.array([[-96.0, -81.0, 292.0], [200.0, 200.0, 700.0]])


def shares_of(low, high, shape=(14, 12, 11)):
    """(k, j, i) how much of each cell lies in a box (RAS mm)."""
    parts = []
    for axis in range(3):
        step = CELL_TO_RAS[axis, axis]
        first = CELL_TO_RAS[axis, 3]
        begins = first + step * (np.arange(shape[2 - axis]) - 0.5)
        parts.append(
            np.clip(np.minimum(begins + step, high[axis]) - np.maximum(begins, low[axis]), 0, None)
            / step
        )
    return torch.from_numpy(np.einsum("i,j,k->kji", *parts)).float()


@pytest.mark.parametrize(
    ("low", "high"), [((-40, -50, 340), (20, 10, 420)), ((-33, -41, 331), (8, 25, 437))]
)
def test_the_box_of_a_box_is_found_to_a_quarter_of_a_cell(low, high):
    shares = torch.stack([torch.zeros(14, 12, 11), shares_of(low, high)])
    found = organ_boxes(shares, ("heart", "liver"), CELL_TO_RAS)
    assert list(found) == ["liver"]
    off = np.abs(found["liver"] - [low, high])
    assert (off <= 0.26 * np.diag(CELL_TO_RAS)[:3] + 0.01).all()


def test_an_organ_that_moved_takes_its_structure_along():
    """The body says that the structure stays; three examples agree how it lies to an organ that lies 40 mm lower."""
    organ = LIVER + [[3], [-3]]
    template = replace(analytic_map(lambda p: p), organ_boxes={"liver": organ})
    moved = replace(template, organ_boxes={"liver": organ - (0, 0, 40)})
    examples = [make_example(template, LIVER)] * 3
    found = locate({"liver": examples}, moved)["liver"].box_ras
    unmoved = locate({"liver": examples}, template)["liver"].box_ras
    np.testing.assert_allclose(unmoved, LIVER, atol=1.0)
    assert (found[:, 2] < unmoved[:, 2] - 5).all()
    assert (found[:, 2] > unmoved[:, 2] - 40).all()
    np.testing.assert_allclose(found[:, :2], unmoved[:, :2], atol=0.5)


def test_sides_are_the_organs_and_the_usual_distance_from_it():
    organs = {"liver": LIVER, "heart": LIVER + 200}
    near = [near_organs(LIVER + [[-5.0], [d]], organs) for d in (5.0, 6.0, 7.0)]
    assert [organ.name for organ in near[0]] == ["liver"]
    sides, weight = sides_by_organ(near, organs, BOUNDS, np.array([12.0, 12.0, 16.0]))
    np.testing.assert_allclose(sides.reshape(2, 3), LIVER + [[-5.0], [6.0]], atol=1e-4)
    assert (weight > 0).all()


@pytest.mark.parametrize("far", [False, True])
def test_organs_that_are_not_seen_or_lie_elsewhere_say_nothing(far):
    organs = {"liver": LIVER + (300 if far else 0)}
    assert (
        sides_by_organ(
            [near_organs(LIVER, organs)], organs if far else {}, BOUNDS, np.full(3, 12.0)
        )
        is None
    )
