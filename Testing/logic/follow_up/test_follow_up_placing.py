"""Clicks in the views: new lesions, places, axes; and how they end."""

import pytest
from follow_up_bench import LINES, LISTS, LONG, SHORT

from AnatomicalEmbedding.followup.lesions import CONFIRMED, MARKED, MOVED, Measurement
from AnatomicalEmbeddingLib.shared.Views import isPlacing


@pytest.fixture
def volumes(bench, pair):
    return list(bench.logic.volumes.values())


def test_a_click_marks_a_lesion_in_the_study_clicked_in(bench, pair, volumes):
    bench.logic.placeLesion()
    assert isPlacing(bench.scene)
    assert bench.logic.placing.what == "L1"
    bench.click(volumes[1], (1.0, 2.0, 3.0))
    assert bench.finding(pair[1]).state == MARKED
    assert bench.finding(pair[1]).point_ras == (1.0, 2.0, 3.0)
    assert bench.finding(pair[0]) is None
    assert not isPlacing(bench.scene)
    bench.logic.poll()
    assert len(bench.nodes(LISTS)) == 1, "the node of the click is gone"


def test_a_click_in_no_study_of_the_patient_is_reported(bench, pair):
    bench.logic.placeLesion()
    bench.click(None, (1.0, 2.0, 3.0))
    assert bench.logic.record.lesions == ()
    assert bench.reported[-1] == "Click in a slice view that shows one of the patient's studies."


def test_escape_ends_it_and_the_users_list_is_the_mouses_again(bench, pair):
    own = bench.scene.AddNewNodeByClass(LISTS, "the user's")
    bench.logic.placeLesion()
    mouse = bench.scene.GetNodeByID("vtkMRMLInteractionNodeSingleton")
    mouse.SetCurrentInteractionMode(mouse.ViewTransform)
    bench.logic.poll()
    assert not bench.logic.placing.active
    bench.logic.poll()
    assert bench.nodes(LISTS) == [own]
    assert bench.scene.GetNodeByID("vtkMRMLSelectionNodeSingleton").GetActivePlaceNodeID() == own.GetID()


def test_two_clicks_are_an_axis(bench, pair, volumes):
    prior, _current = pair
    bench.logic.mark(prior, (0.0, 0.0, 0.0))
    bench.logic.drawAxis("L1", "long")
    bench.click(volumes[0], LONG[0])
    assert bench.logic.placing.active
    assert bench.finding(prior).size.long_axis is None
    bench.click(volumes[0], LONG[1])
    assert bench.finding(prior).size.long_axis == LONG
    bench.logic.drawAxis("L1", "short")
    bench.click(volumes[0], *SHORT)
    size = bench.finding(prior).size
    assert (size.long_axis, size.short_axis, size.confirmed) == (LONG, SHORT, True)
    bench.logic.poll()
    assert len(bench.nodes(LINES)) == 2


def test_an_axis_drawn_anew_keeps_no_other_that_nobody_accepted(bench, pair, volumes):
    prior, current = pair
    bench.logic.mark(prior, (0.0, 0.0, 0.0))
    bench.propose(current, prior, place=(0.0, 0.0, 0.0), size=Measurement(LONG, SHORT))
    bench.logic.drawAxis("L1", "long")
    bench.click(volumes[1], *LONG)
    found = bench.finding(current)
    assert found.state == CONFIRMED
    assert found.size == Measurement(LONG, confirmed=True)


def test_a_proposal_off_the_axis_goes_to_its_middle(bench, pair, volumes):
    prior, current = pair
    bench.logic.mark(prior, (0.0, 0.0, 0.0))
    bench.propose(current, prior, place=(40.0, 0.0, 0.0))
    bench.logic.drawAxis("L1", "long")
    bench.click(volumes[1], *LONG)
    assert bench.finding(current).state == MOVED
    assert bench.finding(current).point_ras == (0.0, 0.0, 0.0)
    assert bench.finding(current).size.confirmed


def test_a_lesion_that_is_undone_while_it_is_placed_takes_no_click(bench, pair):
    bench.logic.mark(pair[0], (0.0, 0.0, 0.0))
    for start in (lambda: bench.logic.placeLesion("L1"), lambda: bench.logic.drawAxis("L1", "long")):
        start()
        bench.logic.undo()
        assert not bench.logic.placing.active
        assert not isPlacing(bench.scene)
        bench.logic.redo()


def test_another_tool_that_takes_the_mouse_keeps_its_way_of_placing(scene):
    from AnatomicalEmbeddingLib.followup.LesionClicks import LesionClicks

    mouse, selection = (scene.GetNodeByID(f"vtkMRML{name}NodeSingleton") for name in ("Interaction", "Selection"))
    mouse.SetPlaceModePersistence(0)
    placing = LesionClicks(scene)
    placing.start(None, "", "New lesion")
    mine = scene.AddNewNodeByClass("vtkMRMLMarkupsFiducialNode", "Mine")
    selection.SetReferenceActivePlaceNodeID(mine.GetID())
    mouse.SetPlaceModePersistence(1)
    placing.poll()
    assert not placing.active
    assert mouse.GetPlaceModePersistence() == 1
    assert isPlacing(scene)
