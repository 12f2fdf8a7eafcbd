"""Test that structures that overlap keep all their voxels, whatever their order."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from AnatomicalEmbedding.scan.label_map import LabelMap

SHAPE = (2, 3, 4)
TO_RAS = np.diag([10.0, 10.0, 10.0, 1.0])  # a voxel has 1 ml


@given(st.lists(arrays(bool, SHAPE), max_size=6))
def test_no_mask_loses_a_voxel(masks):
    by_name = {f"m{n}": mask for n, mask in enumerate(masks)}
    labels = LabelMap.from_masks(by_name.items(), SHAPE, TO_RAS)
    for name, mask in by_name.items():
        assert np.array_equal(labels.mask(name), mask)
        layers = [layer == labels.values[name] for layer in labels.layers]
        assert sum(np.array_equal(layer, mask) for layer in layers) >= 1
        assert np.array_equal(np.sum(layers, axis=0), mask)  # in one layer only
    shared = {
        (one, other): (by_name[one] & by_name[other]).sum()
        for one in by_name
        for other in by_name
        if one < other
    }
    overlaps = {(one, other): shared_ml for one, other, shared_ml in labels.overlaps()}
    assert overlaps == pytest.approx({pair: n for pair, n in shared.items() if n})
    assert np.array_equal(
        labels.voxels > 0, np.any(masks, axis=0) if masks else np.zeros(SHAPE, bool)
    )
