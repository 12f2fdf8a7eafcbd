"""Test the points of structures in a label map, and which structures are left out."""

import numpy as np
import pytest

from AnatomicalEmbedding.scan.label_map import LabelMap
from AnatomicalEmbedding.structures.label_names import (
    KINDS,
    find_structures,
    measure_halves,
    reason_left_out,
)


def test_extreme_is_the_centroid_of_the_outermost_layer():
    labels = np.zeros((20, 20, 20), dtype=np.uint8)
    labels[5:9, 5:9, 5:9] = 1
    labels[9, 5:7, 5] = 1  # two more voxels on top, at i 5 and j 5 and 6
    found, _ = find_structures(LabelMap(labels, np.diag((2.0, 3.0, 4.0, 1.0)), {"liver": 1}))
    assert found["liver"][KINDS.index("superior")] == pytest.approx((10.0, 16.5, 36.0))


def test_an_inner_point_is_the_centroid_of_half_a_structure():
    """The centroid of half an ellipsoid lies 3/8 of a semi-axis from the middle."""
    spacing = np.array((2.0, 3.0, 4.0))
    middle = np.array((80.0, 90.0, 100.0))
    axes = np.array((60.0, 45.0, 52.0))
    k, j, i = np.indices((50, 60, 80))
    inside = (((np.stack((i, j, k), axis=-1) * spacing - middle) / axes) ** 2).sum(axis=-1) <= 1
    found, _ = find_structures(
        LabelMap(inside.astype(np.uint8), np.diag((*spacing, 1.0)), {"liver": 1}), measure_halves
    )
    truth = [middle + sign * offset for offset in np.diag(3 / 8 * axes) for sign in (1, -1)]
    np.testing.assert_allclose(found["liver"], truth, atol=1.5)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("end", [0, -1])
def test_structures_cut_by_any_border_are_left_out(axis, end):
    labels = np.zeros((30, 32, 34), dtype=np.uint8)
    labels[10:20, 10:20, 10:20] = 1
    labels[22:28, 22:28, 22:28] = 2
    border = [slice(3, 9)] * 3
    border[axis] = slice(0, 6) if end == 0 else slice(-6, None)
    labels[tuple(border)] = 2
    found, left_out = find_structures(
        LabelMap(labels, np.eye(4), {"liver": 1, "spleen": 2, "pancreas": 3})
    )
    assert set(found) == {"liver"}
    assert left_out == {"spleen": "cut by the border of the scan", "pancreas": "only 0 voxels"}


@pytest.mark.parametrize(
    "name",
    ["liver_tumor_01", "lymph_node_2r", "gtv1", "metastases", "bone", "spinal_cord", "Muscle, trunk"],
)  # fmt: skip
def test_findings_and_spread_out_structures_are_left_out(name):
    assert reason_left_out(name)


@pytest.mark.parametrize(
    "name",
    ["portal_vein", "brachiocephalic_trunk", "gallbladder", "hip_right"],
)
def test_organs_stay(name):
    assert reason_left_out(name) is None
