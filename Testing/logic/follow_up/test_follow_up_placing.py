"""Test clicks in the views that place new lesions, places or axes, and how placing ends."""

import pytest
from follow_up_bench import LISTS, LONG

from AnatomicalEmbedding.followup.lesions import MOVED
from AnatomicalEmbeddingLib.shared.Views import isPlacing


@pytest.fixture
def volumes(bench, pair):
    return list(bench.logic.volumes.values())


def test_escape_ends_it_and_the_users_list_is_the_mouses_again(bench, pair):
    own = bench.scene.AddNewNodeByClass(LISTS, "the user's")
    bench.logic.placeLesion()
    mouse = bench.scene.GetNodeByID("vtkMRMLInteractionNodeSingleton")
    mouse.SetCurrentInteractionMode(mouse.ViewTransform)
    bench.logic.poll()
    assert not bench.logic.placing.active
    bench.logic.poll()
    assert bench.nodes(LISTS) == [own]
    assert (
        bench.scene.GetNodeByID("vtkMRMLSelectionNodeSingleton").GetActivePlaceNodeID()
        == own.GetID()
    )


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
    for start in (
        lambda: bench.logic.placeLesion("L1"),
        lambda: bench.logic.drawAxis("L1", "long"),
    ):
        start()
        bench.logic.undo()
        assert not bench.logic.placing.active
        assert not isPlacing(bench.scene)
        bench.logic.redo()
