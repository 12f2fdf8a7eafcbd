"""Test landmarks in scenes: deleted nodes, several point lists, saved files, and the table of answers."""

import numpy as np
import slicer
from scans import add_patient, finish, patient

from AnatomicalEmbedding.matching.status import MATCHED
from AnatomicalEmbeddingLib.landmarks.AnswerList import REMOVED
from AnatomicalEmbeddingLib.landmarks.ResultsTable import COLUMNS, writeResults
from slicer_kit.scene import read_mrb, write_mrb


def test_deleting_nodes_at_any_time_leaves_a_working_rest(bench, pair, scene):
    third = add_patient(2)
    bench.ready(pair[0], pair[1], third)
    point_id = bench.place("liver_dome")
    scene.RemoveNode(pair[1])
    assert bench.logic.targets == [third]
    assert [list(row.answers) for row in bench.logic.rows()] == [[third.GetID()]]
    scene.RemoveNode(bench.logic.answersIn(third).node)
    assert bench.logic.targets == []
    bench.logic.setScans(pair[0], [third])
    assert bench.answer(point_id, third).status == MATCHED
    scene.RemoveNode(bench.logic.points)
    assert bench.logic.points is None
    assert bench.logic.rows() == []
    scene.RemoveNode(pair[0])
    assert bench.logic.template is None


def test_closing_the_scene_lets_everything_go(bench, pair, scene):
    bench.place("liver_dome")
    scene.Clear(0)
    assert (bench.logic.template, bench.logic.targets, bench.logic.points) == (None, [], None)
    assert bench.logic.rows() == []
    assert not bench.logic.history.canUndo
    bench.logic.poll()


def test_an_mrb_keeps_answers_their_worth_and_the_pairing(bench, pair, scene, tmp_path):
    first, second = bench.place("liver_dome"), bench.place("diaphragm_dome_right")
    bench.logic.setByHand(second, pair[1], patient(1).points_ras["diaphragm_dome_right"])
    places = {point_id: bench.found(point_id, pair[1]) for point_id in (first, second)}
    answers = bench.logic.answersIn(pair[1]).answers
    read_mrb(scene, write_mrb(scene, tmp_path / "s.mrb"))

    template, target = (slicer.util.getNode(name) for name in ("Prior", "Current"))
    bench.logic.setScans(template, [target])
    bench.logic.setPoints(slicer.util.getNode("Landmarks"))
    assert bench.logic.answersIn(target).answers == answers
    for point_id, place in places.items():
        assert np.allclose(bench.found(point_id, target), place, atol=1e-3)
    bench.logic.prepare()
    finish(bench.store)
    assert (
        bench.logic.answersIn(target).answers == answers
    )  # same weights, same voxels: nothing is matched anew
    bench.place("kidney_left_lower_pole")
    assert len(bench.logic.rows()) == 3
    assert len({row.pointId for row in bench.logic.rows()}) == 3


def test_the_results_table_holds_every_match_and_is_updated_in_place(bench, pair, scene):
    first = bench.place("liver_dome")
    node = writeResults(scene, bench.logic)
    bench.place("diaphragm_dome_right")
    bench.logic.setNotVisible(first, pair[1])
    assert writeResults(scene, bench.logic) is node
    rows = [
        [node.GetCellText(r, c) for c in range(len(COLUMNS))] for r in range(node.GetNumberOfRows())
    ]
    assert [row[:2] for row in rows] == [
        ["liver_dome", "Current"],
        ["diaphragm_dome_right", "Current"],
    ]
    assert rows[0][2:] == ["", "", "", REMOVED, *[""] * 6]
    second = bench.logic.rows()[1].pointId
    assert np.allclose([float(v) for v in rows[1][2:5]], bench.found(second, pair[1]), atol=1e-3)
    assert rows[1][5] == MATCHED
