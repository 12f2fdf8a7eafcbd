"""Test lesions that are marked, moved and measured with the mouse in real slice views."""

import numpy as np
import pytest

pytest.importorskip(
    "trame_slicer",
    reason="runs in an environment with trame-slicer[standalone]; `make test` makes it",
)

from mouse_views import MouseView
from scans import add_patient, finish, make_store, patient

from AnatomicalEmbedding.followup.lesions import CONFIRMED, LONG, MARKED, MOVED, PROPOSED
from AnatomicalEmbeddingLib.followup.FollowUpLogic import FollowUpLogic
from AnatomicalEmbeddingLib.followup.LesionNodes import axisLines
from AnatomicalEmbeddingLib.followup.StudyOrder import patients, setDate
from AnatomicalEmbeddingLib.shared.maps.SceneRelations import SceneRelations
from AnatomicalEmbeddingLib.shared.Views import isPlacing

PLACE = patient(0).points_ras["carina"]


class Reading:
    """Two studies, a view each, and the follow-up of their patient."""

    def __init__(self, application, folder) -> None:
        self.scene = application.scene
        volumes = [add_patient(0, "Prior"), add_patient(1, "Current")]
        for volume, day in zip(volumes, ("2023-01-01", "2024-01-01"), strict=True):
            setDate(volume, day)
            volume.CreateDefaultDisplayNodes()
            volume.GetDisplayNode().SetAndObserveColorNodeID("vtkMRMLColorTableNodeGrey")
            volume.GetDisplayNode().SetAutoWindowLevel(False)
            volume.GetDisplayNode().SetWindowLevel(500, 40)
        self.views = [
            MouseView(application, tag, v)
            for tag, v in zip(("Prior", "Current"), volumes, strict=True)
        ]
        self.store = make_store(self.scene, folder)
        self.relations = SceneRelations(self.scene, self.store)
        self.logic = FollowUpLogic(self.scene, self.relations)
        self.logic.setPatient(patients(self.scene)[0])
        self.logic.setShown(volumes)
        self.prior, self.current = self.logic.volumes
        self.logic.prepare()
        finish(self.store)

    def axis(self, study):
        """The only line of an axis in a study."""
        (line,) = (
            line for line in axisLines(self.scene) if line.volumeNode is self.logic.volumes[study]
        )
        return line

    def finding(self, study, lesion="L1"):
        return self.logic.record.finding(lesion, study)

    def mark(self):
        self.logic.placeLesion()
        self.views[0].click(PLACE)
        self.logic.poll()


@pytest.fixture
def reading(application, scene, map_folder):
    made = Reading(application, map_folder)
    yield made
    made.logic.close()
    made.relations.close()
    made.store.close()


def test_one_click_marks_one_lesion_and_gives_the_mouse_back(reading):
    reading.mark()
    assert reading.finding(reading.prior).state == MARKED
    # a pixel is that large
    assert np.linalg.norm(np.subtract(reading.finding(reading.prior).point_ras, PLACE)) < 2.5
    assert reading.finding(reading.current).state == PROPOSED
    assert not isPlacing(reading.scene)
    assert not reading.logic.placing.active
    reading.views[0].click(PLACE + [30, 0, 0])
    assert len(reading.logic.record.lesions) == 1


def test_a_proposal_that_is_dragged_is_moved_and_nothing_else_is(reading):
    reading.mark()
    start = np.array(reading.finding(reading.current).point_ras)
    reading.views[1].drag(start, start + [20.0, 0, 0])
    reading.logic.poll()
    found = reading.finding(reading.current)
    assert found.state == MOVED
    assert abs(found.point_ras[0] - start[0] - 20.0) < 4.0
    assert np.linalg.norm(np.subtract(reading.finding(reading.prior).point_ras, PLACE)) < 2.5
    reading.logic.undo()
    assert reading.finding(reading.current).state == PROPOSED
    assert np.allclose(reading.finding(reading.current).point_ras, start)


def test_two_clicks_measure_and_an_end_that_is_dragged_measures_again(reading, pictures):
    reading.mark()
    middle = np.array(reading.finding(reading.current).point_ras)
    reading.logic.drawAxis("L1", LONG)
    reading.views[1].click(middle - [15, 0, 0])
    assert reading.logic.placing.active, "one end is not enough"
    reading.views[1].click(middle + [15, 0, 0])
    reading.logic.poll()
    found = reading.finding(reading.current)
    assert found.state == CONFIRMED, "who measures a lesion has seen it"
    assert found.size.confirmed
    assert abs(found.size.long_mm - 30) < 4
    assert not isPlacing(reading.scene)
    line = reading.axis(reading.current)
    reading.views[1].picture(pictures / "follow-up-axis.png")
    reading.views[1].drag(np.array(line.axis[1]), middle + [25, 0, 0])
    reading.logic.poll()
    assert abs(reading.finding(reading.current).size.long_mm - 40) < 4
    reading.logic.undo()
    assert abs(reading.finding(reading.current).size.long_mm - 30) < 4
    assert abs(reading.axis(reading.current).node.GetMeasurement("length").GetValue() - 30) < 4
