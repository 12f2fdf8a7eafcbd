"""Centre point matching rates, each meaning on cases worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from AnatomicalEmbedding.evaluation.lesions import MEANINGS, CentrePoints

DLT_R, DLT_10, UAE_R, UAE_10, TLT_R, TLT_10 = MEANINGS


def _case(offset, radius, box, spacing=(1.0, 1.0, 1.0)) -> dict[str, bool]:
    """box: size in mm, about the truth."""
    offsets, box = np.array([offset], float), np.array([box], float)
    points = CentrePoints(offsets, np.array([spacing]), np.array([radius]), offsets + box / 2, box)
    return {name: bool(hit[0]) for name, hit in points.hits().items()}


def test_a_small_lesion_missed_by_a_little() -> None:
    # 5 mm off, radius 4: outside the radius, within 10 mm; box 8 x 8 x 8 mm: the answer is 1 mm beyond its face, and
    # its diagonal is 13.9 voxels
    hits = _case((5, 0, 0), 4.0, (8, 8, 8))
    assert hits == {DLT_R: False, DLT_10: False, UAE_R: False, UAE_10: True, TLT_R: True, TLT_10: True}


def test_a_large_lesion_missed_by_12_mm() -> None:
    # within the radius of 20, and in the box; beyond 10 mm; 12 voxels are less than the diagonal and more than 10
    hits = _case((0, 12, 0), 20.0, (40, 40, 40))
    assert hits == {DLT_R: True, DLT_10: False, UAE_R: True, UAE_10: False, TLT_R: True, TLT_10: False}


def test_tlt_counts_voxels() -> None:
    # 24 mm off along slices of 5 mm is 4.8 voxels; the box of 30 x 30 x 20 mm has 30, 30 and 4 voxels
    hits = _case((0, 0, 24), 15.0, (30, 30, 20), spacing=(1.0, 1.0, 5.0))
    assert hits == {DLT_R: False, DLT_10: False, UAE_R: False, UAE_10: False, TLT_R: True, TLT_10: True}


def test_limits() -> None:
    # exactly on the radius: DLT's first is strict, its second is not; the box holds its faces
    hits = _case((8, 0, 0), 8.0, (16, 16, 16))
    assert hits[DLT_R] is False
    assert hits[DLT_10] is True
    assert hits[UAE_R] is True
    hits = _case((10, 0, 0), 10.0, (2, 2, 2))
    assert hits[UAE_10] is True
    assert hits[TLT_10] is False


def test_rates_are_means_and_errors_are_distances() -> None:
    offsets = np.array([[3.0, 4.0, 0.0], [0.0, 0.0, 30.0]])
    ones = np.ones((2, 3))
    points = CentrePoints(offsets, ones, np.array([6.0, 6.0]), offsets + 6, 12 * ones)
    assert points.errors_mm.tolist() == [5.0, 30.0]
    assert points.rates() == pytest.approx(dict.fromkeys(MEANINGS, 0.5))
