"""Test the fine step of matching, on maps whose descriptors are a known function of the place."""

from dataclasses import replace

import numpy as np
import pytest
from described_maps import described, errors, inner_points, waves_of
from small_models import analytic_map

from AnatomicalEmbedding.errors import MapError
from AnatomicalEmbedding.matching.match import match
from AnatomicalEmbedding.papers.sam.matching import DescribedScan, find_points


def test_descriptors_mend_coordinates_that_are_off():
    moved = np.array([3.0, -5.0, 4.0])
    off = np.array([9.0, -7.0, 8.0])  # the target's coordinates err by 14 mm
    template = described()
    target = described(lambda p: p + off, moved)
    points = inner_points()
    plain = replace(target, local=None).provenance
    coordinates_alone = match(
        replace(template, local=None), points, replace(target, local=None, provenance=plain)
    )
    found = match(template, points, target)
    assert np.median(errors(coordinates_alone.points_ras, points + moved)) > 12
    # what lies far from the first answer is held back: coordinates that err by 14 mm are rare
    assert errors(found.points_ras, points + moved).max() < 6
    assert np.median(found.score) > 0.8


def test_descriptors_alone_find_points_in_the_whole_body():
    moved = np.array([10.0, 8.0, -30.0])
    scans = []
    for made in (described(), described(moved=moved)):
        cells = np.diag([*(made.cell_mm / 2), 1.0])
        cells[:3, 3] = made.cell_to_ras[:3, 3] - made.cell_mm / 4
        scans.append(
            DescribedScan(
                made.local.float(), waves_of(made, moved * len(scans)), made.local_body, cells
            )
        )
    points = inner_points(rim_mm=60.0)
    assert errors(find_points(scans[0], points, scans[1]), points + moved).max() < 1.5


def test_air_is_never_an_answer():
    body = np.ones((16, 20, 24), dtype=bool)
    body[:, :, 12:] = False
    target = described(body=body)
    found = match(described(), inner_points(80), target)
    edge = target.cell_to_ras[0, 3] + 11.5 * target.cell_mm[0]
    assert found.points_ras[:, 0].max() <= edge + 1e-6
    assert np.isfinite(found.points_ras).all()
    assert ((found.score >= 0) & (found.score <= 1)).all()


def test_map_without_descriptors_says_so():
    with pytest.raises(MapError, match="the map has no descriptors"):
        analytic_map(lambda p: p).describe(inner_points(1))
