"""The viewer's own cut through a scan, on scans whose values are known everywhere."""

import numpy as np
import pytest
from AnatomicalEmbeddingViewer.logic.upright_cut import cut_upright
from hypothesis import given, settings
from hypothesis import strategies as st

SHAPE = (7, 9, 11)  # k, j, i
GRADIENT = np.array([3.0, -5.0, 11.0])  # per voxel along i, j, k
OUTSIDE = -32768


def scan() -> np.ndarray:
    k, j, i = np.indices(SHAPE)
    return (100 + GRADIENT[0] * i + GRADIENT[1] * j + GRADIENT[2] * k).astype(np.int16)


def matrix(steps: dict[int, tuple[int, float]], start) -> np.ndarray:
    """steps: of columns (0) and rows (1), the scan's axis and how many voxels a pixel is."""
    made = np.eye(4)
    made[:3, :3] = 0
    for way, (axis, step) in steps.items():
        made[axis, way] = step
    made[:3, 3] = start
    return made


@settings(max_examples=60, deadline=None)
@given(
    axes=st.permutations(range(3)),
    step=st.tuples(*[st.floats(0.2, 2.5)] * 2),
    flip=st.tuples(*[st.sampled_from((-1, 1))] * 2),
    start=st.tuples(*[st.floats(-3, 12)] * 3),
)
def test_a_cut_holds_what_lies_between_the_voxels(axes, step, flip, start):
    to_ijk = matrix({way: (axes[way], step[way] * flip[way]) for way in (0, 1)}, start)
    rows, columns = 13, 17
    cut = cut_upright(scan(), to_ijk, rows, columns, OUTSIDE)
    row, column = np.indices((rows, columns))
    at = np.stack([column, row, 0 * row, 1 + 0 * row], axis=-1) @ to_ijk[:3].T
    last = np.array(SHAPE[::-1]) - 1
    beyond = np.maximum(-at, at - last).max(axis=-1)
    values = 100 + np.clip(at, 0, last) @ GRADIENT  # the outermost half voxel holds what its centre holds
    assert cut.shape == (rows, columns)
    np.testing.assert_allclose(cut[beyond < 0.499], values[beyond < 0.499], atol=0.01)
    assert (cut[beyond > 0.501] == OUTSIDE).all()


@pytest.mark.parametrize("lean", [1e-5, 0.01, -0.3])
def test_a_leaning_slice_is_left_to_others(lean):
    to_ijk = matrix({0: (0, 1.0), 1: (1, 1.0)}, (0, 0, 3))
    to_ijk[2, 0] = lean
    assert cut_upright(scan(), to_ijk, 5, 5, OUTSIDE) is None


def test_a_slice_that_is_a_line_is_left_to_others():
    to_ijk = matrix({0: (0, 1.0), 1: (0, 0.5)}, (0, 0, 3))
    assert cut_upright(scan(), to_ijk, 5, 5, OUTSIDE) is None


def test_a_picture_smaller_than_the_slice_is_left_to_others():
    to_ijk = matrix({0: (0, 4.0), 1: (1, 4.0)}, (0, 0, 3))
    assert cut_upright(scan(), to_ijk, 3, 3, OUTSIDE) is None
    to_ijk = matrix({0: (0, 0.5), 1: (1, 0.5)}, (4, 4, 3))
    assert cut_upright(scan(), to_ijk, 5, 5, OUTSIDE) is not None  # close up: 16 of the slice's voxels are read


def test_one_slice_is_a_scan_too():
    flat = np.full((1, 4, 4), 40, np.int16)
    cut = cut_upright(flat, matrix({0: (0, 1.0), 1: (2, 1.0)}, (0, 1.5, -1)), 3, 4, OUTSIDE)
    assert cut.tolist() == [[OUTSIDE] * 4, [40] * 4, [OUTSIDE] * 4]
