"""Test the evidence of matches on maps with known coordinates, and the figures that measure the confidence."""

import numpy as np
import pytest
from small_models import analytic_map

from AnatomicalEmbedding.evaluation.confidence import Judged, summarise_confidence
from AnatomicalEmbedding.matching.confidence import EVIDENCE
from AnatomicalEmbedding.matching.match import match

LOW = np.array((-90.0, -75.0, 300.0))


def evidence(matches) -> dict[str, np.ndarray]:
    return dict(zip(EVIDENCE, matches.evidence.T, strict=True))


def points(count: int = 60) -> np.ndarray:
    return np.random.default_rng(0).uniform(
        LOW + 40, LOW + np.array((24 * 8, 20 * 8, 16 * 12)) - 40, (count, 3)
    )


class TestEvidence:
    def test_the_gap_is_how_far_a_point_lies_beyond_a_cut(self):
        cut = LOW[2] + 8 * 12.0
        beyond = points()[points()[:, 2] > cut + 20]
        found = evidence(
            match(analytic_map(lambda p: p), beyond, analytic_map(lambda p: p, (8, 20, 24)))
        )
        # to the middle of the last cell
        np.testing.assert_allclose(found["gap"], beyond[:, 2] - cut, atol=8.0)
        assert found["end"].max() < 6.5
        assert found["edge"].max() < 6.5


class TestFigures:
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
        assert named.name.strip() == "without extreme points"
        assert centres.name.strip() == "centre"
        assert (centres.expected, centres.found) == (14.0, 12.75)
        assert result.risk[0] == (1.0, 9.5, pytest.approx(25.5))
        assert result.risk[5][:2] == (0.5, 3.0)
        assert "AUROC" in result.table()
        assert '"auroc_20": 1.0' in result.to_json()
