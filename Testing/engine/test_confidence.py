"""Evidence on maps whose coordinates are known functions of place, and the figures that judge verdicts."""

from __future__ import annotations

import numpy as np
import pytest
from described_maps import described, inner_points
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from small_models import analytic_map

from AnatomicalEmbedding.evaluation.confidence import Judged, auroc, calibration_error, summarise_confidence
from AnatomicalEmbedding.matching.confidence import EVIDENCE
from AnatomicalEmbedding.matching.match import match

LOW = np.array((-90.0, -75.0, 300.0))


def evidence(matches) -> dict[str, np.ndarray]:
    return dict(zip(EVIDENCE, matches.evidence.T, strict=True))


def points(count: int = 60) -> np.ndarray:
    return np.random.default_rng(0).uniform(LOW + 40, LOW + np.array((24 * 8, 20 * 8, 16 * 12)) - 40, (count, 3))


class TestEvidence:
    def test_an_exact_match_shows_no_gap(self):
        found = evidence(match(analytic_map(lambda p: p), points(), analytic_map(lambda p: p)))
        assert found["gap"].max() < 0.5
        assert found["residual"].max() < 0.5
        np.testing.assert_allclose(np.stack([found[axis] for axis in "ras"], 1), points(), atol=0.5)
        np.testing.assert_allclose(found["template size"], 1.0, atol=0.02)

    def test_the_size_of_a_body_is_that_of_its_map(self):
        """A target whose coordinate runs 1.25 times as fast holds a body smaller by that factor along each axis."""
        target = analytic_map(lambda p: 1.25 * (p - LOW) + LOW)
        found = evidence(match(analytic_map(lambda p: p), points(), target))
        np.testing.assert_allclose(found["target size"], 1.25**3, rtol=0.03)

    def test_the_gap_is_how_far_a_point_lies_beyond_a_cut(self):
        cut = LOW[2] + 8 * 12.0
        beyond = points()[points()[:, 2] > cut + 20]
        found = evidence(match(analytic_map(lambda p: p), beyond, analytic_map(lambda p: p, (8, 20, 24))))
        np.testing.assert_allclose(found["gap"], beyond[:, 2] - cut, atol=8.0)  # to the middle of the last cell
        assert found["end"].max() < 6.5
        assert found["edge"].max() < 6.5

    def test_the_edges_are_those_of_the_scan(self):
        at = LOW + np.array([[30.0, 50.0, 40.0], [96.0, 80.0, 18.0], [100.0, 80.0, 96.0]])
        found = evidence(match(analytic_map(lambda p: p), at, analytic_map(lambda p: p)))
        np.testing.assert_allclose(found["edge"], (30, 18, 60), atol=1.0)
        np.testing.assert_allclose(found["end"], (40, 18, 60), atol=1.0)

    def test_each_way_of_matching_tells_what_it_knows(self):
        template, target = described(), described(lambda p: p + np.array((3.0, 0.0, 4.0)))  # seen where it was
        known = {
            effort: evidence(match(template, inner_points(20), target, effort))
            for effort in ("fast", "standard", "thorough")
        }
        for effort, found in known.items():
            assert found["similarity"].min() > 0.5
            np.testing.assert_allclose(found["moved"], 5.0, atol=2.0)
            assert (found["spread"].max() > 0) == (effort != "fast")
            assert (found["cycle"].max() > 0) == (effort == "thorough")
        assert known["thorough"]["cycle"].max() < 1.5

    def test_maps_without_coordinates_give_none(self):
        bare = described(coordinates=False)
        found = match(bare, inner_points(3), bare)
        assert found.evidence is None
        assert found.status is None


class TestFigures:
    @settings(max_examples=60, deadline=None)
    @given(arrays(np.float64, 12, elements=st.integers(0, 5)), arrays(bool, 12))
    def test_auroc_counts_pairs(self, doubt, wrong):
        pairs = [(w > r) + 0.5 * (w == r) for w in doubt[wrong] for r in doubt[~wrong]]
        found = auroc(doubt, wrong)
        assert found is None if not pairs else found == pytest.approx(np.mean(pairs))

    def test_calibration_error_by_hand(self):
        stated = np.array([0.95, 0.95, 0.95, 0.95, 0.25, 0.25])
        true = np.array([True, True, True, False, False, True])
        assert calibration_error(stated, true) == pytest.approx(4 / 6 * 0.2 + 2 / 6 * 0.25)
        assert calibration_error(np.array([1.0, 0.0]), np.array([True, False])) == 0.0

    def test_a_result_by_hand(self):
        judged = Judged(
            errors_mm=np.array([2.0, 4.0, 15.0, 30.0, np.inf, np.inf]),
            groups=np.array(["centre"] * 4 + ["extreme"] * 2),
            whole=np.array([True] * 4 + [False] * 2),
            status=np.array(["matched", "matched", "matched", "uncertain", "absent", "matched"]),
            expected_error_mm=np.array([3.0, 3.0, 10.0, 40.0, 50.0, 5.0]),
            probability=np.array([0.9, 0.8, 0.85, 0.1, 0.0, 0.7]),
            probability_20=np.array([0.95, 0.9, 0.9, 0.3, 0.0, 0.8]),
        )
        result = summarise_confidence(judged, "made up")
        all_of_them, whole, named, centres = result.rows
        assert (all_of_them.present, all_of_them.absent) == (4, 2)
        assert all_of_them.auroc_10 == pytest.approx(3 / 4)
        assert all_of_them.auroc_20 == 1.0
        assert all_of_them.auroc_10_all == pytest.approx(7 / 8)
        assert all_of_them.auroc_20_all == 1.0
        assert all_of_them.matched == 0.75
        assert (all_of_them.false_matched, all_of_them.absent_found) == (0.5, 0.5)
        assert (whole.absent, whole.false_matched) == (0, None)
        assert named.name.strip() == "centres and landmarks"
        assert centres.name.strip() == "centre"
        assert (centres.expected, centres.found) == (14.0, 12.75)
        assert result.risk[0] == (1.0, 9.5, pytest.approx(25.5))
        assert result.risk[5][:2] == (0.5, 3.0)
        assert "AUROC" in result.table()
        assert result.markdown().count("\n| ") > 10
        assert '"auroc_20": 1.0' in result.to_json()
