"""Test points and lines of the scene: they show the record, and a change by the user changes the record."""

import numpy as np
from follow_up_bench import LONG, SHORT
from scans import add_transform, turned

from AnatomicalEmbedding.followup.lesions import MARKED
from AnatomicalEmbedding.followup.record import FollowUp


def test_states_are_reported_by_label_colour_and_description(bench, pair):
    prior, current = pair
    bench.logic.mark(prior, (1.0, 2.0, 3.0))
    bench.propose(current, prior)
    marked = bench.list_in(prior)
    proposed = bench.list_in(current)
    assert bench.labels(prior) == ["L1"]
    assert marked.GetNthControlPointSelected(0)
    assert bench.labels(current) == ["L1 proposed"]
    assert not proposed.GetNthControlPointSelected(0)
    assert proposed.GetDisplayNode().GetColor() != proposed.GetDisplayNode().GetSelectedColor()
    assert proposed.GetNthControlPointDescription(0) == "proposed: expected error 3.2 mm"
    bench.logic.apply(FollowUp.confirm, "L1", current)
    assert bench.labels(current) == ["L1"]
    assert proposed.GetNthControlPointSelected(0)
    assert proposed.GetNthControlPointDescription(0) == "confirmed"


def test_points_lie_where_the_volume_was_moved_to(bench):
    volume = bench.study("20230101")
    matrix = turned(30, (10, -20, 40))
    volume.SetAndObserveTransformNodeID(add_transform(bench.scene, matrix).GetID())
    (study,) = bench.open()
    bench.logic.mark(study, (1.0, 2.0, 3.0))
    expected = (matrix @ [1.0, 2.0, 3.0, 1.0])[:3]
    assert np.allclose(bench.list_in(study).GetNthControlPointPositionWorld(0), expected)
    assert np.allclose(bench.logic.placeOf("L1", study), expected)
    bench.logic.placeLesion()
    bench.click(volume, expected)
    assert np.allclose(bench.finding(study, "L2").point_ras, (1.0, 2.0, 3.0))


def test_what_is_deleted_in_the_scene_is_put_back_with_a_sentence(bench, pair):
    prior, _current = pair
    bench.logic.mark(prior, (0.0, 0.0, 0.0))
    bench.logic.mark(prior, (5.0, 0.0, 0.0))
    bench.logic.measure("L1", prior, LONG, None)
    bench.list_in(prior).RemoveNthControlPoint(0)
    bench.logic.poll()
    assert bench.labels(prior) == ["L1 20.0 mm", "L2"]
    assert bench.reported[-1].startswith("L1: its point was deleted and has been restored")
    bench.delete(bench.list_in(prior))
    bench.delete(bench.line("L1 long"))
    bench.logic.poll()
    assert bench.labels(prior) == ["L1 20.0 mm", "L2"]
    assert bench.finding(prior).size.long_axis == LONG
    assert bench.line("L1 long").GetNumberOfControlPoints() == 2
    assert all(bench.finding(prior, lesion).state == MARKED for lesion in ("L1", "L2"))


def test_name_and_lengths_of_a_lesion_are_one_text(bench, pair):
    """Texts of the lesion and of its axes would lie over each other, and over the lesion."""
    prior, _current = pair
    bench.logic.mark(prior, (0.0, 0.0, 0.0))
    bench.logic.apply(FollowUp.describe, "L1", name="hilar")
    bench.logic.measure("L1", prior, LONG, None)
    assert bench.labels(prior) == ["L1 hilar 20.0 mm"]
    bench.logic.measure("L1", prior, LONG, SHORT)
    assert bench.labels(prior) == ["L1 hilar 20.0 \u00d7 12.0 mm"]
    for kind in ("long", "short"):
        display = bench.line(f"L1 {kind}").GetDisplayNode()
        assert not display.GetPointLabelsVisibility()
        assert not display.GetPropertiesLabelVisibility()
        ends = display.GetGlyphScale() / 100 * 200  # pixels, in a view of 200
        assert display.GetLineThickness() * ends >= 1, "a line of less than a pixel is not drawn"
