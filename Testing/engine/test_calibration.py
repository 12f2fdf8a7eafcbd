"""Test the forests of a calibration: what they learn, that files keep them exactly, and which files are refused."""

from dataclasses import replace

import numpy as np
import pytest
from made_outcomes import GAP, SPREAD, outcomes
from probabilities import check_probabilities

from AnatomicalEmbedding.embedding.calibration import (
    SUFFIX,
    Calibration,
    Forest,
    calibration_file,
    find_calibration,
)
from AnatomicalEmbedding.embedding.models.registry import find_weights, read_weights
from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
from AnatomicalEmbedding.matching.confidence import EVIDENCE, judge
from AnatomicalEmbedding.matching.match import Matches
from AnatomicalEmbedding.resources import list_weights
from AnatomicalEmbedding.training.calibrate import grow_forest


def test_what_was_learnt_holds_for_new_matches(forest):
    new = outcomes(4000, 1)
    present, within, near, error = forest.predict(new.evidence).T
    gone = ~np.isfinite(new.errors_mm)
    clear = np.abs(new.evidence[:, GAP] - 30) > 2
    assert ((present < 0.5) == gone)[clear].mean() > 0.99
    for low, high in ((0, 0.2), (0.2, 0.4), (0.4, 0.6), (0.6, 0.8), (0.8, 1.01)):
        these = (within >= low) & (within < high)
        assert abs(within[these].mean() - (new.errors_mm[these] < 10).mean()) < 0.08
    assert abs(near.mean() - (new.errors_mm < 20).mean()) < 0.02
    assert (near >= within - 1e-3).all()
    for low, high in ((2, 6), (8, 12), (14, 18)):
        these = ~gone & clear & (new.evidence[:, SPREAD] > low) & (new.evidence[:, SPREAD] < high)
        assert error[these].mean() == pytest.approx(new.errors_mm[these].mean(), rel=0.15)


def test_it_is_read_back_as_it_was_written(calibration, tmp_path):
    path = tmp_path / f"made{SUFFIX}"
    calibration.save(path)
    back = Calibration.load(path)
    new = outcomes(300, 6).evidence
    np.testing.assert_array_equal(
        back.forests["standard"].predict(new), calibration.forests["standard"].predict(new)
    )
    assert (back.weights_hash, back.evidence, back.metadata) == (
        "ab" * 32,
        EVIDENCE,
        {"note": "made for a test"},
    )


def test_too_few_matches_are_refused():
    with pytest.raises(
        AnatomicalEmbeddingError, match="at least 200 matches with known truth, but there are 20"
    ):
        grow_forest({"known": outcomes(20, 0)}, {"known": 1.0})


def judged(*leaf: float) -> dict:
    """What a calibration says of a match, if its forest is a single leaf."""
    node = np.zeros(1, np.int64)
    forest = Forest(node, node - 1, np.zeros(1), node, np.array([leaf]))
    calibration = Calibration("", EVIDENCE, {"fast": forest})
    return judge(np.zeros((1, len(EVIDENCE)), np.float32), calibration, "fast")


@pytest.mark.parametrize(("expected", "status"), [(11.0, "uncertain"), (9.0, "matched")])
def test_an_answer_that_is_beyond_10_mm_on_average_is_no_match(expected, status):
    """However probable the answer is, its expected error decides."""
    assert judged(0.99, 0.4, 0.6, expected)["status"].tolist() == [status]


@pytest.mark.parametrize("shown", [0.0, 0.3, 1.0])
def test_probabilities_of_one_answer_do_not_contradict_each_other(shown):
    found = judged(shown, shown, shown, 5.0)
    check_probabilities(Matches(np.zeros((1, 3)), np.zeros(1), **found))


class TestBesideWeights:
    def test_it_is_found_by_name(self, calibration, tmp_path, small_weights):
        weights = read_weights(small_weights)
        assert weights.calibration is None
        replace(calibration, weights_hash=weights.sha256).save(calibration_file(small_weights))
        assert read_weights(small_weights).calibration.metadata == {"note": "made for a test"}

    @pytest.mark.parametrize("name", list_weights())
    def test_shipped_weights_have_one(self, name):
        weights = find_weights(name)
        assert weights.calibration.evidence == EVIDENCE
        assert find_calibration(weights.sha256).weights_hash == weights.sha256
        efforts = {"fast", "standard"} if weights.network.spec.local_channels else {"coordinates"}
        assert set(weights.calibration.forests) == efforts


@pytest.fixture
def small_weights(tmp_path):
    from small_models import write_small_weights

    return write_small_weights(tmp_path)
