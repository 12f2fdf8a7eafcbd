"""Landmarks in a real scene: matched against known truth, kept in step with what the user does, never stale."""

import numpy as np
import pytest
import slicer
import vtk
from scans import add_patient, add_points, add_transform, finish, make_store, patient, turned

from AnatomicalEmbeddingLib.Landmarks.AnswerList import ABSENT, MATCHED, MOVED, REMOVED, AnswerList
from AnatomicalEmbeddingLib.Landmarks.LandmarkLogic import LandmarkLogic
from AnatomicalEmbeddingLib.Landmarks.ResultsTable import COLUMNS, writeResults
from slicer_kit.scene import read_mrb, write_mrb

NAMES = ("carina", "diaphragm_dome_right", "kidney_left_lower_pole")


def tell(list_node, event: str, index: int) -> None:
    """Invoke an event of a point, as Slicer's markups widgets do for the mouse."""
    number = getattr(slicer.vtkMRMLMarkupsNode, event)
    list_node.InvokeCustomModifiedEvent(number, np.array([index], dtype=np.int32))


class Bench:
    """A template, targets and a logic, with the maps ready."""

    def __init__(self, scene, folder) -> None:
        self.scene = scene
        self.store = make_store(scene, folder)
        self.logic = LandmarkLogic(scene, self.store)
        self.said: list[str] = []
        self.logic.said.connect(self.said.append)

    def ready(self, template, *targets) -> None:
        self.logic.setScans(template, targets)
        self.logic.prepare()
        finish(self.store)

    def place(self, name: str, number: int = 0, node=None) -> str:
        """Put a known point of a patient into the template's list, as a click does; returns its ID."""
        if self.logic.points is None:
            self.logic.setPoints(add_points(self.scene, {}))
        world = patient(number).points_ras[name] if node is None else node
        points = self.logic.points
        return points.GetNthControlPointID(points.AddControlPointWorld(vtk.vtkVector3d(*world), name))

    def drag(self, list_node, point_id: str, world) -> None:
        """Drag a point, with the events of a mouse."""
        index = list_node.GetControlPointIndexByID(point_id)
        tell(list_node, "PointStartInteractionEvent", index)
        list_node.SetNthControlPointPositionWorld(index, *world)
        tell(list_node, "PointEndInteractionEvent", index)

    def answer(self, point_id: str, volume):
        return self.logic.answersIn(volume).answers[point_id]

    def found(self, point_id: str, volume):
        each = self.logic.answersIn(volume)
        return each.worldOf(each.answers[point_id])


@pytest.fixture
def bench(scene, map_folder):
    made = Bench(scene, map_folder)
    yield made
    made.logic.close()
    made.store.close()


@pytest.fixture
def pair(bench):
    template, target = add_patient(0, "Prior"), add_patient(1, "Current")
    bench.ready(template, target)
    return template, target


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
    point_id = bench.place("carina")
    nodes = [bench.logic.answersIn(target).node for target in targets]
    assert [node.GetName() for node in nodes] == ["Landmarks in A", "Landmarks in B"]
    for target, node in zip(targets, nodes, strict=True):
        answer = bench.answer(point_id, target)
        assert node.GetNthControlPointLabel(0) == "carina"
        assert f"{answer.errorMm:.1f} mm" in node.GetNthControlPointDescription(0)
        assert node.GetNthControlPointAssociatedNodeID(0) == target.GetID()
        assert node.GetNthControlPointSelected(0)


def test_the_mouse_goes_on_placing_in_the_templates_list(bench, pair, scene, logics):
    bench.logic.setPoints(add_points(scene, {}))
    logics["Markups"].SetActiveList(bench.logic.points)
    bench.place("carina")
    assert bench.logic.answersIn(pair[1]) is not None
    assert logics["Markups"].GetActiveListID() == bench.logic.points.GetID()


def test_a_point_that_the_target_does_not_show_is_missing(bench, scene):
    from AnatomicalEmbedding.cropping import crop_voxels

    whole = patient(1).volume
    low, high = whole.bounds_ras.copy()
    low[2] = patient(1).points_ras["kidney_left_lower_pole"][2] + 120.0
    upper = crop_voxels(whole, np.stack([low, high]))
    target = slicer.util.addVolumeFromArray(upper.voxels, upper.ijk_to_ras, name="Upper half")
    template = add_patient(0)
    bench.ready(template, target)
    point_id = bench.place("kidney_left_lower_pole")
    node = bench.logic.answersIn(target).node
    assert bench.answer(point_id, target).status == ABSENT
    assert node.GetNthControlPointPositionStatus(0) == node.PositionMissing
    assert bench.found(point_id, target) is None


@pytest.mark.parametrize("which", ["template", "target", "both"])
def test_parent_transforms_move_the_question_and_the_answer_and_nothing_else(bench, scene, which):
    plain_template, plain_target = add_patient(0, "T"), add_patient(1, "U")
    bench.ready(plain_template, plain_target)
    expected = bench.found(bench.place("carina"), plain_target)
    bench.logic.setPoints(None)

    move = {"template": turned(25, (40, -30, 10)), "target": turned(-70, (-200, 15, 60))}
    parents = {
        key: add_transform(scene, matrix, key) if which in (key, "both") else None for key, matrix in move.items()
    }
    template, target = add_patient(0, "T2", parents["template"]), add_patient(1, "U2", parents["target"])
    bench.ready(template, target)
    world = patient(0).points_ras["carina"]
    if parents["template"] is not None:
        world = (move["template"] @ [*world, 1.0])[:3]
    point_id = bench.place("carina", node=world)
    want = (move["target"] @ [*expected, 1.0])[:3] if parents["target"] is not None else expected
    assert np.allclose(bench.found(point_id, target), want, atol=1e-3)


def test_oblique_and_flipped_storage_gives_the_same_answer(bench):
    template, target = add_patient(0, "T"), add_patient(1, "U")
    volume = patient(1).volume
    flipped = volume.ijk_to_ras @ np.diag([-1.0, 1.0, 1.0, 1.0])
    flipped[:3, 3] = (volume.ijk_to_ras @ [volume.shape[2] - 1, 0, 0, 1.0])[:3]
    mirror = slicer.util.addVolumeFromArray(volume.voxels[:, :, ::-1].copy(), flipped, name="stored backwards")
    bench.ready(template, target, mirror)
    point_id = bench.place("carina")
    assert np.allclose(bench.found(point_id, mirror), bench.found(point_id, target), atol=1e-3)


def test_answers_follow_when_the_target_is_moved_afterwards(bench, pair, scene):
    point_id = bench.place("carina")
    before = bench.found(point_id, pair[1])
    matrix = turned(40, (10, 20, 30))
    pair[1].SetAndObserveTransformNodeID(add_transform(scene, matrix).GetID())
    bench.logic.reconcile()
    assert np.allclose(bench.found(point_id, pair[1]), (matrix @ [*before, 1.0])[:3], atol=1e-3)


def test_dragging_the_template_point_is_answered_on_release(bench, pair):
    point_id = bench.place("carina")
    bench.drag(bench.logic.points, point_id, patient(0).points_ras["kidney_left_lower_pole"])
    error = bench.found(point_id, pair[1]) - patient(1).points_ras["kidney_left_lower_pole"]
    assert np.linalg.norm(error) < 8.0
    assert bench.logic.answersIn(pair[1]).node.GetNumberOfControlPoints() == 1


@pytest.mark.parametrize("live", [True, False])
def test_answers_follow_the_drag_only_when_asked_to(bench, pair, live):
    point_id = bench.place("carina")
    bench.logic.live = live
    before, points = bench.found(point_id, pair[1]), bench.logic.points
    tell(points, "PointStartInteractionEvent", 0)
    points.SetNthControlPointPositionWorld(0, *patient(0).points_ras["diaphragm_dome_right"])
    moved = np.linalg.norm(bench.found(point_id, pair[1]) - before)
    tell(points, "PointEndInteractionEvent", 0)
    assert bool(moved > 20) is live


def test_rename_and_delete_are_mirrored_by_id(bench, pair):
    _first, second, third = (bench.place(name) for name in NAMES)
    points, node = bench.logic.points, bench.logic.answersIn(pair[1]).node
    points.SetNthControlPointLabel(1, "dome")
    bench.logic.poll()
    assert [node.GetNthControlPointLabel(n) for n in range(3)] == ["carina", "dome", NAMES[2]]
    kept = bench.found(third, pair[1])
    points.RemoveNthControlPoint(0)
    assert node.GetNumberOfControlPoints() == 2
    assert [row.pointId for row in bench.logic.rows()] == [second, third]
    assert np.array_equal(bench.found(third, pair[1]), kept)


def test_undo_and_redo_restore_points_answers_and_ids(bench, pair):
    first, second = bench.place("carina"), bench.place("diaphragm_dome_right")
    places = [bench.found(point_id, pair[1]) for point_id in (first, second)]
    bench.logic.points.RemoveNthControlPoint(0)
    bench.logic.undo()
    assert [row.pointId for row in bench.logic.rows()] == [first, second]
    assert np.allclose([bench.found(point_id, pair[1]) for point_id in (first, second)], places)
    bench.logic.redo()
    assert [row.pointId for row in bench.logic.rows()] == [second]
    bench.logic.undo()
    bench.logic.undo()
    assert [row.pointId for row in bench.logic.rows()] == [first]
    bench.logic.undo()
    assert bench.logic.rows() == []
    assert not bench.logic.history.canUndo


def test_a_point_that_follows_the_mouse_is_no_step_to_undo(bench, pair):
    bench.ready(*pair)
    bench.place(NAMES[0])
    points = bench.logic.points
    said: list[str] = []
    bench.logic.changed.connect(lambda: said.append("changed"))
    with bench.logic._writes():  # the mouse adds it as what it is, which Python cannot
        preview = points.AddControlPoint(vtk.vtkVector3d(0, 0, 0))
        points.SetNthControlPointPosition(preview, 0, 0, 0, points.PositionPreview)
    bench.logic.poll()
    said.clear()
    for move in range(3):
        points.SetNthControlPointPositionWorld(preview, move, 0, 0, points.PositionPreview)
        bench.logic.poll()
    assert said == []
    points.RemoveNthControlPoint(preview)  # the mouse leaves the view
    bench.logic.undo()
    assert bench.logic.rows() == []
    bench.logic.redo()
    assert [row.label for row in bench.logic.rows()] == [NAMES[0]]


def test_points_placed_after_an_undo_get_ids_of_their_own(bench, pair):
    """MRML numbers from 1 again after a list was restored."""
    for name in NAMES:
        bench.place(name)
    bench.logic.points.RemoveNthControlPoint(0)
    bench.logic.undo()
    bench.place("heart_apex")
    ids = [row.pointId for row in bench.logic.rows()]
    assert len(set(ids)) == 4
    labels = {row.pointId: row.label for row in bench.logic.rows()}
    for point_id, label in labels.items():
        assert np.linalg.norm(bench.found(point_id, pair[1]) - patient(1).points_ras[label]) < 12.0


def test_the_scenes_own_undo_is_mirrored(bench, pair, scene):
    scene.SetUndoOn()
    try:
        first = bench.place("carina")
        bench.place("diaphragm_dome_right")
        bench.logic.points.SetUndoEnabled(True)
        scene.SaveStateForUndo()
        bench.logic.points.RemoveNthControlPoint(1)
        scene.Undo()
        assert len(bench.logic.rows()) == 2
        assert bench.logic.answersIn(pair[1]).node.GetNumberOfControlPoints() == 2
        assert bench.found(first, pair[1]) is not None
    finally:
        scene.SetUndoOff()
        scene.ClearUndoStack()


def test_a_moved_answer_is_a_correction_that_stays(bench, pair):
    point_id = bench.place("carina")
    node = bench.logic.answersIn(pair[1]).node
    corrected = bench.found(point_id, pair[1]) + [5.0, 0, 0]
    bench.drag(node, bench.answer(point_id, pair[1]).pointId, corrected)
    assert bench.answer(point_id, pair[1]).status == MOVED
    assert "by hand" in node.GetNthControlPointDescription(0)
    bench.logic.matchAgain()
    bench.place("diaphragm_dome_right")
    assert np.allclose(bench.found(point_id, pair[1]), corrected)

    bench.drag(bench.logic.points, point_id, patient(0).points_ras["carina"] + 2.0)
    answer = bench.answer(point_id, pair[1])
    assert np.allclose(bench.found(point_id, pair[1]), corrected)
    assert answer.outdated
    assert not node.GetNthControlPointSelected(0)

    bench.logic.matchAgain([point_id], pair[1], corrections=True)
    assert bench.answer(point_id, pair[1]).status == MATCHED
    assert np.linalg.norm(bench.found(point_id, pair[1]) - corrected) > 1.0


def test_deleting_an_answer_means_that_it_is_not_visible(bench, pair):
    point_id = bench.place("carina")
    node = bench.logic.answersIn(pair[1]).node
    node.RemoveNthControlPoint(0)
    assert bench.answer(point_id, pair[1]).status == REMOVED
    assert node.GetNthControlPointPositionStatus(0) == node.PositionMissing
    bench.logic.undo()
    assert bench.answer(point_id, pair[1]).status == MATCHED
    assert np.linalg.norm(bench.found(point_id, pair[1]) - patient(1).points_ras["carina"]) < 8.0


def test_not_visible_keeps_the_place_for_later(bench, pair):
    point_id = bench.place("carina")
    bench.logic.setNotVisible(point_id, pair[1])
    assert bench.found(point_id, pair[1]) is None
    bench.logic.setByHand(point_id, pair[1], patient(1).points_ras["carina"])
    assert np.allclose(bench.found(point_id, pair[1]), patient(1).points_ras["carina"])


def test_a_point_outside_the_template_is_told_and_not_answered(bench, pair):
    point_id = bench.place("carina", node=(0.0, 0.0, 5000.0))
    assert bench.said
    assert "carina: outside Prior" in bench.said[-1]
    (row,) = bench.logic.rows()
    assert not row.inside
    assert row.answers == {}
    bench.drag(bench.logic.points, point_id, patient(0).points_ras["carina"])
    assert bench.logic.rows()[0].inside
    assert bench.answer(point_id, pair[1]).status == MATCHED
    bench.drag(bench.logic.points, point_id, (0.0, 0.0, 5000.0))
    assert bench.logic.rows()[0].answers == {}


def test_a_click_in_a_targets_view_finds_the_place_in_the_template(bench, pair):
    bench.logic.setPoints(add_points(bench.scene, {}))
    points, place = bench.logic.points, patient(1).points_ras["carina"]
    with bench.logic._writes():  # the mouse sets the position and the view's volume before the point is defined
        index = points.AddControlPointWorld(vtk.vtkVector3d(*place), "carina")
        points.SetNthControlPointAssociatedNodeID(index, pair[1].GetID())
    tell(points, "PointPositionDefinedEvent", index)
    point_id = points.GetNthControlPointID(0)
    found = np.array(points.GetNthControlPointPositionWorld(0))
    assert np.linalg.norm(found - patient(0).points_ras["carina"]) < 8.0
    assert np.allclose(bench.found(point_id, pair[1]), place)
    assert bench.answer(point_id, pair[1]).status == MOVED
    assert "placed in Current" in bench.said[-1]


def test_points_placed_before_scans_are_ready_are_answered_then(bench):
    template, target = add_patient(0), add_patient(1)
    bench.logic.setScans(template, [target])
    point_id = bench.place("carina")
    assert bench.logic.answersIn(target) is None
    assert bench.store.busy
    finish(bench.store)
    assert np.linalg.norm(bench.found(point_id, target) - patient(1).points_ras["carina"]) < 8.0


def test_many_points_loaded_at_once_are_all_answered(bench, pair, scene):
    names = sorted(set(patient(0).points_ras) & set(patient(1).points_ras))
    bench.logic.setPoints(add_points(scene, {name: patient(0).points_ras[name] for name in names}))
    assert len(bench.logic.answersIn(pair[1]).answers) == len(names)


def test_points_added_in_one_batch_are_answered(bench, pair, scene):
    bench.logic.setPoints(add_points(scene, {}))
    points = bench.logic.points
    before = points.StartModify()
    for name in NAMES:
        points.AddControlPointWorld(vtk.vtkVector3d(*patient(0).points_ras[name]), name)
    points.EndModify(before)
    bench.logic.poll()
    assert len(bench.logic.answersIn(pair[1]).answers) == 3


def test_a_target_added_later_is_answered_and_a_removed_one_is_left_alone(bench, pair):
    point_id = bench.place("carina")
    third = add_patient(2)
    bench.ready(pair[0], pair[1], third)
    assert np.linalg.norm(bench.found(point_id, third) - patient(2).points_ras["carina"]) < 8.0
    node = bench.logic.answersIn(pair[1]).node
    bench.logic.setScans(pair[0], [third])
    bench.logic.points.RemoveNthControlPoint(0)
    assert node.GetNumberOfControlPoints() == 1


def test_deleting_nodes_at_any_time_leaves_a_working_rest(bench, pair, scene):
    third = add_patient(2)
    bench.ready(pair[0], pair[1], third)
    point_id = bench.place("carina")
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
    bench.place("carina")
    scene.Clear(0)
    assert (bench.logic.template, bench.logic.targets, bench.logic.points) == (None, [], None)
    assert bench.logic.rows() == []
    assert not bench.logic.history.canUndo
    bench.logic.poll()


def test_other_weights_replace_answers_and_keep_corrections(bench, pair):
    first, second = bench.place("carina"), bench.place("diaphragm_dome_right")
    bench.logic.setByHand(second, pair[1], (1.0, 2.0, 3.0))
    before = bench.answer(first, pair[1])
    bench.store.choose(bench.store.engine.choice._replace(weights="ape-ct-v3"))
    assert bench.store.map(pair[0]) is None
    bench.logic.prepare()
    finish(bench.store)
    after = bench.answer(first, pair[1])
    assert after.madeFrom.split("-")[0] != before.madeFrom.split("-")[0]
    assert np.allclose(bench.found(second, pair[1]), (1.0, 2.0, 3.0))


def test_an_mrb_keeps_answers_their_worth_and_the_pairing(bench, pair, scene, tmp_path):
    first, second = bench.place("carina"), bench.place("diaphragm_dome_right")
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
    assert bench.logic.answersIn(target).answers == answers  # same weights, same voxels: nothing is matched anew
    bench.place("kidney_left_lower_pole")
    assert len(bench.logic.rows()) == 3
    assert len({row.pointId for row in bench.logic.rows()}) == 3


def test_written_files_are_lps_and_exact(bench, pair, tmp_path):
    import json

    point_id = bench.place("carina")
    node = bench.logic.answersIn(pair[1]).node
    node.AddDefaultStorageNode()
    storage = node.GetStorageNode()
    storage.SetFileName(str(tmp_path / "a.mrk.json"))
    assert storage.WriteData(node)
    written = json.loads((tmp_path / "a.mrk.json").read_text())["markups"][0]
    assert written["coordinateSystem"] == "LPS"
    position = np.array(written["controlPoints"][0]["position"]) * [-1, -1, 1]
    assert np.allclose(position, bench.found(point_id, pair[1]), atol=1e-3)


def test_two_lists_of_one_template_do_not_mix(bench, pair, scene):
    bench.place("carina")
    first = bench.logic.points
    bench.logic.setPoints(add_points(scene, {}, "Second"))
    bench.place("diaphragm_dome_right")
    assert len(bench.logic.rows()) == 1
    assert AnswerList.find(scene, first, pair[1]).node is not bench.logic.answersIn(pair[1]).node
    bench.logic.setPoints(first)
    assert [row.label for row in bench.logic.rows()] == ["carina"]
    assert len(bench.logic.answersIn(pair[1]).answers) == 1


def test_two_volumes_of_one_name_get_answers_of_their_own(bench):
    template, targets = add_patient(0), [add_patient(1, "CT"), add_patient(2, "CT")]
    bench.ready(template, *targets)
    point_id = bench.place("carina")
    for number, target in enumerate(targets, start=1):
        assert np.linalg.norm(bench.found(point_id, target) - patient(number).points_ras["carina"]) < 8.0


def test_placeholders_without_a_place_are_no_question(bench, pair, scene):
    points = add_points(scene, {})
    points.AddControlPoint(vtk.vtkVector3d(0, 0, 0), "T12")
    points.UnsetNthControlPointPosition(0)
    bench.logic.setPoints(points)
    assert bench.logic.rows() == []
    points.SetNthControlPointPosition(0, *patient(0).points_ras["carina"])
    bench.logic.poll()
    assert [row.label for row in bench.logic.rows()] == ["T12"]
    assert len(bench.logic.answersIn(pair[1]).answers) == 1


def test_the_results_table_holds_every_match_and_is_updated_in_place(bench, pair, scene):
    first = bench.place("carina")
    node = writeResults(scene, bench.logic)
    bench.place("diaphragm_dome_right")
    bench.logic.setNotVisible(first, pair[1])
    assert writeResults(scene, bench.logic) is node
    rows = [[node.GetCellText(r, c) for c in range(len(COLUMNS))] for r in range(node.GetNumberOfRows())]
    assert [row[:2] for row in rows] == [["carina", "Current"], ["diaphragm_dome_right", "Current"]]
    assert rows[0][2:] == ["", "", "", REMOVED, "", ""]
    second = bench.logic.rows()[1].pointId
    assert np.allclose([float(v) for v in rows[1][2:5]], bench.found(second, pair[1]), atol=1e-3)
    assert rows[1][5] == MATCHED


def test_a_closed_logic_no_longer_answers(bench, pair):
    bench.place("carina")
    points, node = bench.logic.points, bench.logic.answersIn(pair[1]).node
    bench.logic.close()
    points.RemoveNthControlPoint(0)
    assert node.GetNumberOfControlPoints() == 1
