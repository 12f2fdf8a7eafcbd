"""Test landmark sets in Slicer: placed in the template, found by all examples, saved with the user's corrections."""

import json

import numpy as np
import pytest
from landmark_bench import NAMES
from scans import add_patient, patient

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
from AnatomicalEmbedding.landmarks.landmark_set import read_landmark_set
from AnatomicalEmbedding.resources import resource
from AnatomicalEmbeddingLib.landmarks.LandmarkSets import isFromSet
from AnatomicalEmbeddingLib.landmarks.SetScans import openSet, saveSet


@pytest.fixture
def scans(bench):
    """The template and three targets, each another patient."""
    nodes = [add_patient(number, f"Patient {number}") for number in range(4)]
    bench.ready(*nodes)
    return nodes


def save(bench, path):
    return saveSet(bench.scene, bench.store, str(path), bench.logic.template, bench.logic.points)


def open_set(bench, path):
    nodes, sentence = openSet(bench.scene, bench.store, str(path), bench.logic.template)
    for node in reversed(nodes):
        bench.logic.setPoints(node)
    return nodes, sentence


def error_mm(bench, point_id, node, number, name) -> float:
    return float(np.linalg.norm(bench.found(point_id, node) - patient(number).points_ras[name]))


@pytest.fixture
def set_file(bench, scans, tmp_path):
    """A set with the true places of three points in the first three patients."""
    path = tmp_path / "trunk.landmarks.json"
    for name in NAMES:
        point_id = bench.place(name)
        for number in (1, 2):
            bench.logic.setByHand(point_id, scans[number], patient(number).points_ras[name])
    assert "9 points of 3 scans" in save(bench, path)
    bench.scene.RemoveNode(bench.logic.points)
    return path


def test_points_and_corrections_become_examples_and_no_machine_answer_does(bench, scans, set_file):
    landmark_set = read_landmark_set(set_file)
    assert landmark_set.names == NAMES
    for landmark in landmark_set.landmarks:
        places = [example.point_ras for example in landmark.examples]
        true = [patient(number).points_ras[landmark.name] for number in range(3)]
        np.testing.assert_allclose(sorted(places), sorted(map(tuple, true)), atol=0.01)


def test_points_of_another_template_are_no_examples_of_this_one(bench, scans, tmp_path):
    bench.logic.setScans(scans[3], scans[1:2])
    bench.place("liver_dome", 3)
    bench.logic.points.SetNthControlPointAssociatedNodeID(0, scans[3].GetID())
    bench.logic.setPoints(None)
    bench.logic.setScans(scans[0], scans[1:2])
    bench.place("carina")  # over another scan, as in a list of an earlier session
    bench.logic.points.SetNthControlPointAssociatedNodeID(0, scans[2].GetID())
    save(bench, tmp_path / "a.landmarks.json")
    assert read_landmark_set(tmp_path / "a.landmarks.json").names == ("carina",)


def test_an_opened_set_is_placed_in_the_template_and_found_by_all_its_examples(
    bench, scans, set_file
):
    bench.logic.setScans(scans[3], scans[:1])  # patient 3 has given no example
    nodes, sentence = open_set(bench, set_file)
    assert len(nodes) == 1
    assert "3 of 3 points are placed" in sentence
    points = bench.logic.points
    ids = [points.GetNthControlPointID(n) for n in range(3)]
    assert all(isFromSet(points, point_id) for point_id in ids)
    for n, name in enumerate(NAMES):
        place = np.array(points.GetNthControlPointPositionWorld(n))
        assert np.linalg.norm(place - patient(3).points_ras[name]) < 15
        # the examples of the set include the true place in this target
        assert error_mm(bench, ids[n], scans[0], 0, name) < 5


def test_a_point_that_is_moved_or_confirmed_is_the_users(bench, scans, set_file):
    bench.logic.setScans(scans[3], scans[:1])
    open_set(bench, set_file)
    points = bench.logic.points
    moved, confirmed, left = (points.GetNthControlPointID(n) for n in range(3))
    bench.drag(points, moved, patient(3).points_ras[NAMES[0]])
    bench.logic.confirm(confirmed, scans[3])
    assert [isFromSet(points, point_id) for point_id in (moved, confirmed, left)] == [0, 0, 1]
    save(bench, set_file)
    counts = {item.name: len(item.examples) for item in read_landmark_set(set_file).landmarks}
    assert [counts[name] for name in NAMES] == [4, 4, 3]
    bench.logic.confirm(left, scans[0])  # the answer in the target replaces its earlier example
    save(bench, set_file)
    assert len(read_landmark_set(set_file).landmarks[2].examples) == 3


def test_faults_are_one_sentence(bench, scans, set_file, tmp_path):
    bench.logic.setScans(scans[3], scans[:1])
    for path, text in [
        ("", "Choose a landmark set"),
        (tmp_path / "none.landmarks.json", "no such file"),
    ]:
        with pytest.raises(AnatomicalEmbeddingError, match=text):
            open_set(bench, path)
    open_set(bench, set_file)
    with pytest.raises(AnatomicalEmbeddingError, match="No point is yours"):
        save(bench, tmp_path / "new.landmarks.json")
    assert not (tmp_path / "new.landmarks.json").exists()
    document = json.loads(set_file.read_text())
    set_file.unlink()
    bench.logic.matchAgain()
    assert "cannot be read" in bench.reported[-1]
    document["weights_hash"] = "0" * 64
    set_file.write_text(json.dumps(document))
    bench.logic.matchAgain()
    assert "other weights" in bench.reported[-1]


def test_a_shipped_set_is_placed_and_never_changed(bench, scans):
    path = resource("Landmarks/trunk.landmarks.json")
    before = path.read_bytes()
    nodes, sentence = open_set(bench, path)
    assert nodes
    assert "points are placed" in sentence
    points = bench.logic.points
    carina = next(
        n
        for n in range(points.GetNumberOfControlPoints())
        if points.GetNthControlPointLabel(n) == "carina"
    )
    place = np.array(points.GetNthControlPointPositionWorld(carina))
    assert np.linalg.norm(place - patient(0).points_ras["carina"]) < 20
    bench.logic.confirm(points.GetNthControlPointID(carina), scans[0])
    with pytest.raises(AnatomicalEmbeddingError, match="came with this extension"):
        save(bench, path)
    assert path.read_bytes() == before
