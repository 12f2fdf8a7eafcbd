"""Test clicks and drags in real slice views: points of the template, answers, and views that follow."""

import numpy as np
import pytest

pytest.importorskip(
    "trame_slicer",
    reason="runs in an environment with trame-slicer[standalone]; `make test` makes it",
)

from mouse_views import MouseView
from scans import add_patient, add_points, finish, make_store, patient

from AnatomicalEmbedding.matching.status import MATCHED
from AnatomicalEmbeddingLib.landmarks.AnatomicalCrosshair import AnatomicalCrosshair
from AnatomicalEmbeddingLib.landmarks.AnswerList import MOVED
from AnatomicalEmbeddingLib.landmarks.LandmarkLogic import LandmarkLogic
from AnatomicalEmbeddingLib.shared.maps.SceneRelations import SceneRelations


class Bench:
    """A prior and a current scan, each in a view of its own, and the landmarks' logic."""

    def __init__(self, application, folder, parent=None) -> None:
        self.app = application
        self.scene = application.scene
        self.volumes = [add_patient(0, "Prior"), add_patient(1, "Current", parent)]
        for volume in self.volumes:
            volume.CreateDefaultDisplayNodes()
            display = volume.GetDisplayNode()
            display.SetAndObserveColorNodeID("vtkMRMLColorTableNodeGrey")
            display.SetAutoWindowLevel(False)
            display.SetWindowLevel(500, 40)
        self.views = [
            MouseView(application, tag, v)
            for tag, v in zip(("Prior", "Current"), self.volumes, strict=True)
        ]
        self.store = make_store(self.scene, folder)
        self.relations = SceneRelations(self.scene, self.store)
        self.logic = LandmarkLogic(self.scene, self.relations)
        self.logic.setScans(self.volumes[0], self.volumes[1:])
        self.logic.prepare()
        finish(self.store)
        self.points = add_points(self.scene, {})
        self.logic.setPoints(self.points)

    def place_mode(self, persistent: bool = False) -> None:
        self.app.markups_logic.place_node(self.points, persistent=persistent)

    def answer(self, n: int = 0):
        each = self.logic.answersIn(self.volumes[1])
        return each, each.answers[self.logic.rows()[n].pointId]

    def found(self, n: int = 0):
        each, answer = self.answer(n)
        return each.worldOf(answer)

    def close(self) -> None:
        self.logic.close()
        self.relations.close()
        self.store.close()


@pytest.fixture
def bench(application, scene, map_folder):
    made = Bench(application, map_folder)
    yield made
    made.close()


def centre(view) -> np.ndarray:
    matrix = view.node.GetSliceToRAS()
    return np.array([matrix.GetElement(n, 3) for n in range(3)])


def test_a_click_in_the_template_answers_and_moves_the_other_view(bench, pictures):
    bench.place_mode()
    bench.views[0].click(patient(0).points_ras["liver_dome"])
    clicked = np.array(bench.points.GetNthControlPointPositionWorld(0))
    # a pixel is that large
    assert np.linalg.norm(clicked - patient(0).points_ras["liver_dome"]) < 2.5
    assert bench.points.GetNthControlPointAssociatedNodeID(0) == bench.volumes[0].GetID()
    assert bench.answer()[1].status == MATCHED
    assert np.linalg.norm(bench.found() - patient(1).points_ras["liver_dome"]) < 9.0
    assert abs(centre(bench.views[1])[2] - bench.found()[2]) < 0.01
    for view, name in zip(bench.views, ("template", "target"), strict=True):
        view.picture(pictures / f"click-{name}.png")


def test_dragging_the_point_with_the_mouse_is_answered_on_release(bench):
    start = patient(0).points_ras["liver_dome"]
    bench.place_mode()
    bench.views[0].click(start)
    before = bench.found()
    at = np.array(bench.points.GetNthControlPointPositionWorld(0))
    bench.views[0].drag(at, at + [-40.0, 0, 0])
    moved = np.array(bench.points.GetNthControlPointPositionWorld(0))
    assert abs(moved[0] - at[0] + 40.0) < 4.0
    assert bench.found()[0] < before[0] - 20.0


def test_dragging_an_answer_with_the_mouse_is_a_correction(bench):
    bench.place_mode()
    bench.views[0].click(patient(0).points_ras["liver_dome"])
    before = bench.found()
    bench.views[1].drag(before, before + [20.0, 0, 0])
    assert bench.answer()[1].status == MOVED
    assert abs(bench.found()[0] - before[0] - 20.0) < 4.0


def test_the_anatomical_crosshair_follows_the_mouse(bench):
    crosshair = AnatomicalCrosshair(bench.scene, bench.relations)
    crosshair.volumes = bench.volumes
    crosshair.setEnabled(True)
    try:
        assert crosshair.enabled
        bench.views[0].move(patient(0).points_ras["liver_dome"])
        marker = crosshair.markers.of(bench.volumes[1])
        found = np.array(marker.GetNthControlPointPositionWorld(0))
        assert np.linalg.norm(found - patient(1).points_ras["liver_dome"]) < 10.0
        assert abs(centre(bench.views[1])[2] - found[2]) < 0.01
    finally:
        crosshair.close()
