"""Test answers in two scans of one patient: first by matching, then by the correspondence, when it is ready."""

from dataclasses import replace

import numpy as np
import pytest
import slicer
import vtk
from landmark_bench import NAMES
from scans import add_bent_copy, add_patient, bent_copy, patient, put_under_one_patient, relate
from view_nodes import add_view

from AnatomicalEmbedding.anatomy.names import VERTEBRAE
from AnatomicalEmbeddingLib.shared import SceneNodes, Views


@pytest.fixture
def studies(bench, scene):
    """The template is the bent copy: the true places of its points in the patient are known exactly."""
    template, target = add_bent_copy(), add_patient(0, "Earlier")
    put_under_one_patient(scene, template, target)
    bench.ready(template, target)
    return template, target


def points_of_bent_copy() -> tuple[np.ndarray, np.ndarray]:
    """Points (n, 3) of the bent copy in and around the organs, and their true places (n, 3) in patient 0."""
    middle = np.mean([patient(0).points_ras[name] for name in NAMES], axis=0)
    rng = np.random.default_rng(1)
    points = middle + rng.uniform(-40, 40, (12, 3))
    return points, bent_copy().to_original(points)


def off_mm(bench, target, ids, places) -> np.ndarray:
    found = [bench.found(point_id, target) for point_id in ids]
    return np.linalg.norm(np.subtract(found, places), axis=1)


def settle(bench) -> None:
    relate(bench.relations, 300.0)


def test_answers_come_at_once_and_settle_when_the_correspondence_is_ready(bench, studies):
    _, target = studies
    points, places = points_of_bent_copy()
    ids = [bench.place(f"P{n}", node=point) for n, point in enumerate(points)]
    bench.logic.setByHand(ids[0], target, (1.0, 2.0, 3.0))
    first = off_mm(bench, target, ids[1:], places[1:])
    steps = bench.logic.history.canRedo
    settle(bench)
    settled = off_mm(bench, target, ids[1:], places[1:])
    assert np.median(settled) < 2.0  # half of a voxel of 4 mm
    assert np.median(settled) < np.median(first)
    assert bench.answer(ids[1], target).madeFrom.endswith("-registration")
    np.testing.assert_allclose(bench.found(ids[0], target), (1.0, 2.0, 3.0))
    assert bench.logic.history.canRedo == steps
    bench.logic.undo()
    np.testing.assert_allclose(off_mm(bench, target, ids[1:], places[1:]), settled, atol=1e-3)
    late = bench.place("late", node=points[3])
    assert off_mm(bench, target, [late], places[3:4])[0] == pytest.approx(settled[2], abs=1e-3)


def test_views_that_show_an_answer_follow_it_when_the_correspondence_moves_it(
    bench, studies, scene
):
    _, target = studies
    slicer.vtkMRMLSliceNode.AddDefaultSliceOrientationPresets(scene)
    views = [
        add_view(scene, f"of the target {o}", target, o) for o in ("Axial", "Sagittal", "Coronal")
    ]
    points, _ = points_of_bent_copy()
    point_id = bench.place("P", node=points[0])
    first = bench.found(point_id, target)
    assert np.allclose(Views.pointInSlices(views), first)
    settle(bench)
    second = bench.found(point_id, target)
    assert np.linalg.norm(second - first) > 0.1
    assert np.allclose(Views.pointInSlices(views), second, atol=0.01)
    views[0].JumpSliceByOffsetting(*(second + [0, 0, 40]))  # the user looks elsewhere
    elsewhere = Views.pointInSlices(views)
    bench.relations.say(studies, False)
    bench.relations.changed.emit()
    assert np.allclose(Views.pointInSlices(views), elsewhere)


def test_scans_that_no_patient_holds_together_are_not_registered(bench):
    template, target = add_bent_copy(), add_patient(0, "Earlier")
    bench.ready(template, target)
    bench.place("P", node=points_of_bent_copy()[0][0])
    assert not bench.relations.busy


@pytest.mark.parametrize("said", [True, False], ids=["the user says one patient", "nobody says it"])
def test_two_people_whom_the_user_calls_one_patient_get_uncertain_answers(bench, said):
    template, target = add_patient(0), add_patient(1, "Other")
    bench.ready(template, target)
    if said:
        bench.relations.say([template, target], True)
    ids = [bench.place(f"P{n}", node=patient(0).points_ras[name]) for n, name in enumerate(NAMES)]
    settle(bench)
    answers = [bench.answer(point_id, target) for point_id in ids]
    statuses = {answer.status for answer in answers}
    assert any(answer.doubt.startswith("two patients: ") for answer in answers) == said
    assert ("matched" in statuses) != said
    sentences = [
        text for text in bench.reported if "The points are matched, and uncertain." in text
    ]
    assert len(sentences) == said


@pytest.mark.parametrize(
    "higher", [0, 4], ids=["the levels agree", "the levels contradict each other"]
)
def test_levels_that_contradict_each_other_make_answers_uncertain(
    bench, studies, monkeypatch, higher
):
    _, target = studies
    maps = {node: bench.store.map(node) for node in studies}
    spine = maps[target].spine
    names = tuple(VERTEBRAE[VERTEBRAE.index(name) - higher] for name in spine.names)
    maps[target] = replace(maps[target], spine=replace(spine, names=names))
    monkeypatch.setattr(bench.store, "map", maps.get)
    ids = [bench.place(f"P{n}", node=point) for n, point in enumerate(points_of_bent_copy()[0])]
    settle(bench)
    answers = [bench.answer(point_id, target) for point_id in ids]
    assert any(answer.status == "matched" for answer in answers) == (not higher)
    contradicted = [answer for answer in answers if "the level of the spine is" in answer.text]
    assert len(contradicted) == len(ids) if higher else len(contradicted) < 3
    if higher:
        assert {answer.status for answer in contradicted} == {"uncertain"}


def test_a_changed_scan_loses_its_correspondence(bench, studies):
    template, target = studies
    bench.place("P", node=points_of_bent_copy()[0][0])
    settle(bench)
    assert bench.relations.computed(template, target) is not None
    target.GetImageData().Modified()
    assert bench.relations.computed(template, target) is None
    bench.store.clear()
    assert bench.relations.computed(template, target) is None
    assert not bench.relations.busy


def test_a_refusal_is_kept(bench, scene):
    template, target = add_patient(0), add_patient(1, "Stranger")
    put_under_one_patient(scene, template, target)
    bench.ready(template, target)
    bench.place("liver_dome")
    settle(bench)
    bench.place("kidney_left_lower_pole")
    assert not bench.relations.busy


def test_a_scan_read_with_a_patient_id_joins_its_patient_and_the_scene_gets_no_new_id(scene):
    hierarchy = slicer.vtkMRMLSubjectHierarchyNode.GetSubjectHierarchyNode(scene)
    imported, hit, other, another, unknown = (add_patient(0, f"CT {n}") for n in range(5))
    put_under_one_patient(scene, imported)
    miller = SceneNodes.ancestorOf(scene, imported, "Patient")
    hierarchy.SetItemUID(miller, "DICOM", "4711")
    for node, patient_id in ((hit, "4711"), (other, "0815"), (another, "0815"), (unknown, "")):
        SceneNodes.placeUnderPatient(scene, node, patient_id)
    assert SceneNodes.haveOnePatient(scene, imported, hit)
    assert SceneNodes.haveOnePatient(scene, other, another)
    assert not SceneNodes.haveOnePatient(scene, hit, other)
    assert not SceneNodes.haveOnePatient(scene, unknown, unknown)
    created = SceneNodes.ancestorOf(scene, other, "Patient")
    assert "0815" not in hierarchy.GetItemUID(created, "DICOM") + hierarchy.GetItemName(created)


def patient_names(scene, nodes) -> list[str]:
    hierarchy = slicer.vtkMRMLSubjectHierarchyNode.GetSubjectHierarchyNode(scene)
    return [hierarchy.GetItemName(SceneNodes.ancestorOf(scene, node, "Patient")) for node in nodes]


def test_the_user_says_that_scans_without_dicom_show_one_patient_or_different_patients(scene):
    one, other, third = nodes = [add_patient(0, f"CT {n}") for n in range(3)]
    assert SceneNodes.haveOnePatient(scene, one, other) is None
    SceneNodes.setOnePatient(scene, [one, other], True)
    assert SceneNodes.haveOnePatient(scene, one, other) is True
    assert SceneNodes.haveOnePatient(scene, *nodes) is None
    SceneNodes.setOnePatient(scene, nodes, False)
    assert SceneNodes.haveOnePatient(scene, one, other) is False
    assert len(set(patient_names(scene, nodes))) == 3
    SceneNodes.setOnePatient(scene, nodes, True)
    assert SceneNodes.haveOnePatient(scene, *nodes) is True
    hierarchy = slicer.vtkMRMLSubjectHierarchyNode.GetSubjectHierarchyNode(scene)
    items = vtk.vtkIdList()
    hierarchy.GetItemChildren(hierarchy.GetSceneItemID(), items)
    assert items.GetNumberOfIds() == 1  # patients without a scan are removed
    SceneNodes.removeNode(scene, third)


def test_a_patient_of_dicom_stays_the_patient_of_its_scans(scene):
    hierarchy = slicer.vtkMRMLSubjectHierarchyNode.GetSubjectHierarchyNode(scene)
    imported, later, added = (add_patient(0, f"CT {n}") for n in range(3))
    put_under_one_patient(scene, imported, later)
    miller = SceneNodes.ancestorOf(scene, imported, "Patient")
    hierarchy.SetItemUID(miller, "DICOM", "4711")
    SceneNodes.setOnePatient(scene, [added, imported, later], True)
    assert SceneNodes.ancestorOf(scene, added, "Patient") == miller
    SceneNodes.setOnePatient(scene, [added, imported, later], False)
    assert SceneNodes.haveOnePatient(scene, imported, later) is True
    assert SceneNodes.haveOnePatient(scene, imported, added) in (True, False)


def test_answers_follow_what_the_user_says_about_the_patient(bench, scene):
    template, target = add_bent_copy(), add_patient(0, "Earlier")
    bench.ready(template, target)
    points, places = points_of_bent_copy()
    ids = [bench.place(f"P{n}", node=point) for n, point in enumerate(points)]
    matched = off_mm(bench, target, ids, places)
    bench.relations.say([template, target], True)
    settle(bench)
    assert np.median(off_mm(bench, target, ids, places)) < 2.0
    bench.relations.say([template, target], False)
    again = off_mm(bench, target, ids, places)
    # on some processors, the rounding moves one answer
    assert np.isclose(again, matched, atol=0.01).sum() >= len(ids) - 1
    assert bench.relations.computed(template, target) is None
    bench.relations.request(template, [target], ofOnePatient=True)
    assert not bench.relations.busy
    bench.relations.say([template, target], True)
    settle(bench)
    assert np.median(off_mm(bench, target, ids, places)) < 2.0
