"""Test that marks of one scan are not drawn over another scan, although both have the same RAS mm."""

import numpy as np
import pytest

pytest.importorskip(
    "trame_slicer",
    reason="runs in an environment with trame-slicer[standalone]; `make test` makes it",
)

from mouse_views import MouseView
from scans import add_patient, add_points, make_store, patient

from AnatomicalEmbeddingLib.boxes.BoxNodes import WHOLE, BoxNode, FoundBox
from AnatomicalEmbeddingLib.followup.LesionClicks import LesionClicks
from AnatomicalEmbeddingLib.landmarks.LandmarkLogic import LandmarkLogic
from AnatomicalEmbeddingLib.shared import Views
from AnatomicalEmbeddingLib.shared.maps.SceneRelations import SceneRelations

PLACE = patient(0).points_ras["liver_dome"] - (0, 0, 20)
ASIDE = PLACE + (30, 20, 0)


class Bench:
    """Two scans of one grid in a view each, and landmarks of the first that are answered in the second."""

    def __init__(self, application, folder) -> None:
        self.app = application
        self.scene = application.scene
        self.volumes = [add_patient(0, "Prior"), add_patient(0, "Current")]
        for volume in self.volumes:
            volume.CreateDefaultDisplayNodes()
            volume.GetDisplayNode().SetAndObserveColorNodeID("vtkMRMLColorTableNodeGrey")
        self.views = [MouseView(application, f"own{v.GetName()}", v) for v in self.volumes]
        for view in self.views:
            view.node.JumpSlice(*PLACE)
        self.store = make_store(self.scene, folder)
        self.relations = SceneRelations(self.scene, self.store)
        self.logic = LandmarkLogic(self.scene, self.relations)
        self.logic.jumps = False

    def place(self) -> None:
        """The mouse places points of the first scan from now on."""
        self.logic.setScans(self.volumes[0], self.volumes[1:])
        self.logic.setPoints(add_points(self.scene, {}))
        self.app.markups_logic.place_node(self.logic.points, persistent=True)

    def pixels(self) -> list[np.ndarray]:
        return [view.pixels() for view in self.views]


@pytest.fixture
def bench(application, scene, map_folder):
    made = Bench(application, map_folder)
    yield made
    application.markups_logic.disable_place_mode()
    made.logic.close()
    made.relations.close()
    made.store.close()


def same(one: np.ndarray, other: np.ndarray) -> bool:
    return bool((one == other).all())


def test_points_that_are_being_placed(bench):
    """Without answers, which belong to the other scan: it is not prepared."""
    bench.place()
    plain = bench.pixels()
    bench.views[0].click(PLACE)
    bench.views[0].leave()
    placed = bench.pixels()
    assert not same(placed[0], plain[0])
    assert same(placed[1], plain[1])
    bench.views[1].move(ASIDE)
    over = bench.pixels()
    assert same(over[1], plain[1]), "the template's points are drawn over the other scan"
    assert same(over[0], placed[0]), (
        "what follows the mouse in the other scan is drawn over the template"
    )


def test_a_click_in_a_scan_that_is_not_prepared_places_nothing(bench):
    said = []
    bench.logic.reported.connect(said.append)
    bench.place()
    plain = bench.pixels()
    bench.views[1].click(PLACE)
    bench.views[1].leave()
    bench.logic.poll()
    assert bench.logic.rows() == []
    assert "not prepared yet" in said[0]
    assert all(map(same, bench.pixels(), plain))


def test_an_axis_of_which_one_end_is_placed(bench):
    placing = LesionClicks(bench.scene)
    ends = []
    placing.completed.connect(lambda lesion, kind, volume, places: ends.append((places, volume)))
    plain = bench.pixels()
    placing.start("L1", "long", "long axis")
    bench.views[1].click(PLACE)
    bench.views[1].move(PLACE + (15, 0, 0))
    drawn = bench.pixels()
    assert same(drawn[0], plain[0])
    assert not same(drawn[1], plain[1])
    bench.views[1].leave()
    bench.views[0].click(ASIDE)  # an axis lies in one scan
    assert ends == []
    bench.views[1].click(ASIDE)
    assert ends[0][1] is bench.volumes[1]
    placing.stop()
    placing.poll()


def test_marks_follow_their_scans_into_other_views_and_go_with_them(bench):
    """Boxes stand for all: whatever `showOnlyIn` was called for follows."""
    own = Views.OwnViews(bench.scene)
    box = BoxNode.create(bench.scene, "liver", bench.volumes[0], (1.0, 0.0, 1.0))
    box.write(np.array([PLACE - 30, PLACE + 30]), FoundBox("liver", WHOLE, 0.95, 1.0, (3.0,) * 6))
    own.follow()
    before = bench.pixels()
    assert not same(*before)
    for view, volume in zip(bench.views, bench.volumes[::-1], strict=True):  # they change places
        Views.compositeOf(bench.scene, view.node).SetBackgroundVolumeID(volume.GetID())
    own.follow()
    now = bench.pixels()
    assert same(now[1], before[0])
    assert same(now[0], before[1])
    bench.scene.RemoveNode(bench.volumes[0])
    for view in bench.views:
        Views.compositeOf(bench.scene, view.node).SetBackgroundVolumeID(bench.volumes[1].GetID())
    own.follow()
    assert all(same(each, before[1]) for each in bench.pixels())
