"""Answers of several templates taken together, against what is known of their errors."""

import numpy as np
import pytest

from AnatomicalEmbedding.evaluation.results import Measured, Result, few_shot, geometric_median


def measured(template, target, offsets, kinds=None, name="liver"):
    kinds = kinds or ("centre",) * len(offsets)
    return Measured("ours", template, target, (name,) * len(offsets), kinds, np.array(offsets, dtype=float), 0.5)


def test_geometric_median_ignores_one_far_off_and_the_unanswered():
    near = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    middle = geometric_median(np.vstack([near, [[500.0, 0, 0]], [[np.nan] * 3]]))
    assert np.linalg.norm(middle) < 1.0
    assert np.isnan(geometric_median(np.full((2, 3), np.nan))).all()


@pytest.mark.parametrize("seed", range(3))
def test_geometric_median_has_the_least_sum_of_distances(seed):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(7, 3)) * 10

    def total(at):
        return np.linalg.norm(points - at, axis=1).sum()

    middle = geometric_median(points)
    assert all(total(middle) <= total(middle + step) + 1e-3 for step in rng.normal(size=(200, 3)))


def test_errors_that_differ_in_direction_cancel():
    directions = np.array([[10.0, 0, 0], [-10, 0, 0], [0, 10, 0], [0, -10, 0]])
    pairs = [measured(f"t{n}", "a", [d, [0, 0, 3.0]], ("centre", "superior")) for n, d in enumerate(directions)]
    result = Result(("ours",), tuple(pairs), scan_seconds={"ours": 1.0})
    together = few_shot(result, 4)
    assert result.summary("ours", "centre").mean == pytest.approx(10.0)
    assert together.summary("ours", "centre").mean == pytest.approx(0.0, abs=1e-3)
    assert together.summary("ours", "extreme").mean == pytest.approx(3.0)
    assert [m.template for m in together.measured] == ["t0+t1+t2+t3"]
    assert together.measured[0].seconds == pytest.approx(2.0)


def test_more_templates_than_shots_give_several_tries_of_each():
    pairs = [measured(f"t{n}", "a", [[n, 0.0, 0]]) for n in range(5)]
    tries = few_shot(Result(("ours",), tuple(pairs)), 3)
    assert [m.template for m in tries.measured] == ["t0+t1+t2", "t1+t2+t3", "t2+t3+t4", "t0+t3+t4", "t0+t1+t4"]
    assert "0 of 5" in tries.notes[0]
    assert "5 of 5" not in tries.notes[0]
    assert "1 of 1" in few_shot(Result(("ours",), tuple(pairs)), 9).notes[0]


def test_structures_of_other_templates_and_landmarks_stay_apart():
    pairs = [
        measured("t0", "a", [[1.0, 0, 0]]),
        measured("t1", "a", [[3.0, 0, 0]]),
        measured("t2", "a", [[7.0, 0, 0]], name="spleen"),
        measured("a_t0", "a", [[2.0, 0, 0]], ("landmark",)),
        measured("t0", "b", [[4.0, 0, 0]]),
    ]
    found = few_shot(Result(("ours",), tuple(pairs)), 5)
    assert sorted((m.template, m.target, m.names) for m in found.measured) == [
        ("t0", "b", ("liver",)),
        ("t0+t1", "a", ("liver",)),
        ("t2", "a", ("spleen",)),
    ]
    assert sorted(found.errors("ours").round(3)) == [2.0, 4.0, 7.0]
