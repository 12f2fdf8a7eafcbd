"""Test that an answer which the user places makes the answers in the other targets better."""

import numpy as np
import pytest
from landmark_bench import NAMES
from scans import add_patient, patient

from AnatomicalEmbeddingLib.landmarks.AnswerList import MOVED


@pytest.fixture
def three(bench):
    """The template and three targets, each another patient."""
    nodes = [add_patient(number, f"Patient {number}") for number in range(4)]
    bench.ready(*nodes)
    return nodes


def error_mm(bench, point_id, node, number, name) -> float:
    return float(np.linalg.norm(bench.found(point_id, node) - patient(number).points_ras[name]))


def test_a_correction_is_one_more_example_for_the_other_targets(bench, three):
    _, *targets = three
    ids = {name: bench.place(name) for name in NAMES}
    before = [error_mm(bench, ids[name], targets[n], n + 1, name) for name in NAMES for n in (1, 2)]
    places = {name: [bench.found(ids[name], node) for node in targets] for name in NAMES}
    for name in NAMES:
        bench.logic.setByHand(ids[name], targets[0], patient(1).points_ras[name])
    after = [error_mm(bench, ids[name], targets[n], n + 1, name) for name in NAMES for n in (1, 2)]
    assert np.mean(after) < np.mean(before)
    for _ in NAMES:
        bench.logic.undo()
    for name in NAMES:
        np.testing.assert_allclose(
            [bench.found(ids[name], node) for node in targets], places[name], atol=1e-3
        )
    bench.logic.redo()
    assert bench.answer(ids[NAMES[0]], targets[0]).status == MOVED
    assert not np.allclose(bench.found(ids[NAMES[0]], targets[1]), places[NAMES[0]][1])


def test_what_the_user_has_set_is_never_touched(bench, three):
    _, *targets = three
    point_id, other_id = bench.place(NAMES[0]), bench.place(NAMES[1])
    untouched = bench.found(other_id, targets[2])
    bench.logic.setByHand(point_id, targets[1], (1.0, 2.0, 3.0))
    bench.logic.setNotVisible(point_id, targets[2])
    bench.logic.setByHand(point_id, targets[0], patient(1).points_ras[NAMES[0]])
    np.testing.assert_allclose(bench.found(point_id, targets[1]), (1.0, 2.0, 3.0))
    assert bench.answer(point_id, targets[2]).status == "removed"
    np.testing.assert_allclose(bench.found(other_id, targets[2]), untouched)


def test_a_correction_counts_no_more_when_the_point_has_moved_or_it_is_withdrawn(bench, three):
    _, *targets = three
    point_id = bench.place(NAMES[0])
    first = bench.found(point_id, targets[1])
    bench.logic.setByHand(point_id, targets[0], patient(1).points_ras[NAMES[1]])  # a wrong place
    assert np.linalg.norm(bench.found(point_id, targets[1]) - first) > 1.0
    bench.logic.setNotVisible(point_id, targets[0])
    np.testing.assert_allclose(bench.found(point_id, targets[1]), first, atol=1e-3)
    bench.logic.setByHand(point_id, targets[0], patient(1).points_ras[NAMES[1]])
    bench.drag(bench.logic.points, point_id, patient(0).points_ras[NAMES[0]] + (0.0, 0.0, 0.5))
    assert np.linalg.norm(bench.found(point_id, targets[1]) - first) < 3.0
