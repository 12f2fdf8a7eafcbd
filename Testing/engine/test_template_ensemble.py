"""Several templates together, some of them wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from small_models import analytic_map
from test_calibration import calibration, forest  # noqa: F401 - fixtures

from AnatomicalEmbedding.errors import PointsError
from AnatomicalEmbedding.template_ensemble import geometric_median, match_from_templates

LOW = np.array((-90.0, -75.0, 300.0))
POINTS = np.random.default_rng(0).uniform(LOW + 40, LOW + np.array((24 * 8, 20 * 8, 16 * 12)) - 40, (30, 3))


def moved(by: tuple[float, float, float]):
    """A map whose coordinates are off by so much: its points are answered as far off."""
    return analytic_map(lambda p: p + np.array(by))


def test_one_template_that_fails_does_not_matter():
    target = analytic_map(lambda p: p)
    templates = [(moved((1.0, 0, 0)), POINTS), (moved((-1.0, 0, 0)), POINTS), (moved((0, 25.0, 0)), POINTS)]
    found = match_from_templates(templates, target)
    assert np.linalg.norm(found.points_ras - POINTS, axis=1).max() < 2.0
    alone = match_from_templates(templates[2:], target)
    assert np.linalg.norm(alone.points_ras - POINTS, axis=1).min() > 15.0
    assert found.status is None


def test_points_lie_where_each_template_has_them():
    """Templates in other positions: the same anatomy at other places."""
    target = analytic_map(lambda p: p)
    shifted = analytic_map(lambda p: p - 30.0, corner_ras=tuple(LOW + 30))
    found = match_from_templates([(analytic_map(lambda p: p), POINTS), (shifted, POINTS + 30)], target)
    assert np.linalg.norm(found.points_ras - POINTS, axis=1).max() < 1.0


def test_verdicts_are_the_templates_together(calibration):  # noqa: F811
    calibration = replace(calibration, forests={"coordinates": calibration.forests["standard"]})
    near, far = (replace(moved((0.0, gap, 0.0)), calibration=calibration) for gap in (1.0, 300.0))
    target = analytic_map(lambda p: p)
    alone = [match_from_templates([(template, POINTS)], target) for template in (near, far)]
    assert set(alone[1].status) == {"absent"}
    both = match_from_templates([(near, POINTS), (far, POINTS)], target)
    assert set(both.status) == {"uncertain"}
    np.testing.assert_allclose(both.probability, (alone[0].probability + alone[1].probability) / 2)
    most = match_from_templates([(near, POINTS), (near, POINTS), (far, POINTS)], target)
    np.testing.assert_array_equal(most.status, np.where(alone[0].status == "matched", "matched", most.status))


def test_weights_pull_the_median():
    points = np.array([[0.0, 0, 0], [10.0, 0, 0]])
    assert geometric_median(points, np.array([3.0, 1.0]))[0] < 1.0
    assert geometric_median(points, np.array([1.0, 3.0]))[0] > 9.0


def test_templates_that_do_not_fit_are_refused():
    target = analytic_map(lambda p: p)
    with pytest.raises(PointsError, match="no template"):
        match_from_templates([], target)
    with pytest.raises(PointsError, match=r"hold \[29, 30\] points"):
        match_from_templates([(target, POINTS), (target, POINTS[1:])], target)
