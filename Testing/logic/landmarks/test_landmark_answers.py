"""Test answers to landmarks against known truth, with moved scans and scans that are prepared late."""

from dataclasses import replace

import numpy as np
import pytest
from landmark_bench import NAMES, add_upper_half
from scans import add_patient, add_transform, finish, patient, turned

from AnatomicalEmbedding.matching.status import ABSENT, MATCHED, UNCERTAIN
from AnatomicalEmbeddingLib.landmarks.ResultsTable import COLUMNS, rowOf


def test_a_click_is_answered_where_the_anatomy_is(bench, pair):
    for name in NAMES:
        point_id = bench.place(name)
        error = np.linalg.norm(bench.found(point_id, pair[1]) - patient(1).points_ras[name])
        assert error < 8.0, name
        answer = bench.answer(point_id, pair[1])
        assert answer.status == MATCHED
        assert 0 < answer.errorMm < 30
        assert 0 < answer.probability < 1


def test_each_target_has_a_list_of_its_own_that_says_what_answers_are_worth(bench):
    template, targets = add_patient(0), [add_patient(1, "A"), add_patient(2, "B")]
    bench.ready(template, *targets)
    point_id = bench.place("liver_dome")
    nodes = [bench.logic.answersIn(target).node for target in targets]
    assert [node.GetName() for node in nodes] == ["Landmarks in A", "Landmarks in B"]
    for target, node in zip(targets, nodes, strict=True):
        answer = bench.answer(point_id, target)
        assert node.GetNthControlPointLabel(0) == "liver_dome"
        assert f"{answer.errorMm:.1f} mm" in node.GetNthControlPointDescription(0)
        assert node.GetNthControlPointAssociatedNodeID(0) == target.GetID()
        assert node.GetNthControlPointSelected(0)


def test_a_point_that_the_target_does_not_show_is_missing(bench, scene):
    target = add_upper_half(1)
    bench.ready(add_patient(0), target)
    point_id = bench.place("kidney_left_lower_pole")
    node = bench.logic.answersIn(target).node
    assert bench.answer(point_id, target).status == ABSENT
    assert node.GetNthControlPointPositionStatus(0) == node.PositionMissing
    assert bench.found(point_id, target) is None


@pytest.mark.parametrize("which", ["template", "target", "both"])
def test_parent_transforms_move_the_question_and_the_answer_and_nothing_else(bench, scene, which):
    plain_template, plain_target = add_patient(0, "T"), add_patient(1, "U")
    bench.ready(plain_template, plain_target)
    expected = bench.found(bench.place("liver_dome"), plain_target)
    bench.logic.setPoints(None)

    move = {"template": turned(25, (40, -30, 10)), "target": turned(-70, (-200, 15, 60))}
    parents = {
        key: add_transform(scene, matrix, key) if which in (key, "both") else None
        for key, matrix in move.items()
    }
    template, target = (
        add_patient(0, "T2", parents["template"]),
        add_patient(1, "U2", parents["target"]),
    )
    bench.ready(template, target)
    world = patient(0).points_ras["liver_dome"]
    if parents["template"] is not None:
        world = (move["template"] @ [*world, 1.0])[:3]
    point_id = bench.place("liver_dome", node=world)
    want = (move["target"] @ [*expected, 1.0])[:3] if parents["target"] is not None else expected
    assert np.allclose(bench.found(point_id, target), want, atol=1e-3)


def test_a_point_outside_the_template_is_reported_and_not_answered(bench, pair):
    point_id = bench.place("liver_dome", node=(0.0, 0.0, 5000.0))
    assert bench.reported
    assert "liver_dome: outside Prior" in bench.reported[-1]
    (row,) = bench.logic.rows()
    assert not row.inside
    assert row.answers == {}
    bench.drag(bench.logic.points, point_id, patient(0).points_ras["liver_dome"])
    assert bench.logic.rows()[0].inside
    assert bench.answer(point_id, pair[1]).status == MATCHED
    bench.drag(bench.logic.points, point_id, (0.0, 0.0, 5000.0))
    assert bench.logic.rows()[0].answers == {}


def test_the_two_possible_vertebrae_are_named_wherever_the_answer_is_shown(
    bench, pair, monkeypatch
):
    """The matches are those of the engine, with two levels that a scan without an end of the spine would give."""
    match = bench.relations.match

    def doubtful(*arguments):
        return [
            replace(
                each, status=np.full(len(each), UNCERTAIN), levels=np.full(len(each), "T12 or L1")
            )
            for each in match(*arguments)
        ]

    monkeypatch.setattr(bench.relations, "match", doubtful)
    point_id = bench.place("liver_dome")
    answer = bench.answer(point_id, pair[1])
    assert answer.text.endswith("; T12 or L1: the level of the spine is not certain")
    assert bench.logic.answersIn(pair[1]).node.GetNthControlPointDescription(0) == answer.text
    assert rowOf("liver_dome", pair[1], (0, 0, 0), answer)[COLUMNS.index("doubt")] == answer.doubt
    bench.logic.setByHand(point_id, pair[1], (1.0, 2.0, 3.0))
    moved = bench.answer(point_id, pair[1])
    assert "T12" not in "".join([moved.text, *rowOf("liver_dome", pair[1], (0, 0, 0), moved)])


def test_other_weights_replace_answers_and_keep_corrections(bench, pair, other_weights):
    first, second = bench.place("liver_dome"), bench.place("diaphragm_dome_right")
    bench.logic.setByHand(second, pair[1], (1.0, 2.0, 3.0))
    before = bench.answer(first, pair[1])
    bench.store.choose(bench.store.engine.choice._replace(weights=str(other_weights)))
    assert bench.store.map(pair[0]) is None
    bench.logic.prepare()
    finish(bench.store)
    after = bench.answer(first, pair[1])
    assert after.madeFrom != before.madeFrom
    assert np.allclose(bench.found(second, pair[1]), (1.0, 2.0, 3.0))
