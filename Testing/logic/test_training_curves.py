"""Curves of a run as MRML nodes: right numbers, made once, and made again where they were removed."""

import numpy as np
import pytest
import slicer.util

from AnatomicalEmbeddingLib.training.TrainingCurves import TrainingCurves
from AnatomicalEmbeddingLib.training.TrainingLog import LossCurve
from slicer_kit.scene import nodes_of_class


@pytest.fixture
def curves(scene):
    return TrainingCurves()


def curve(steps):
    return LossCurve(list(range(1, steps + 1)), [1 / n for n in range(1, steps + 1)])


def drawn(chart):
    """{series: its points} of a chart, as Slicer's plot view takes them."""
    found = {}
    for n in range(chart.GetNumberOfPlotSeriesNodes()):
        series = chart.GetNthPlotSeriesNode(n)
        columns = slicer.util.arrayFromTableColumn
        table = series.GetTableNode()
        x, y = (columns(table, name).copy() for name in (series.GetXColumnName(), series.GetYColumnName()))
        found[series.GetYColumnName()] = np.stack([x, y], axis=1)
    return found


def test_validation_chart_has_a_line_a_kind(curves):
    chart = curves.showValidation([{"step": 10, "phantom": 9.0}, {"step": 20, "phantom": 8.0, "centre": 7.0}])
    assert chart.GetTitle() == "Validation error (mm)"
    points = drawn(chart)
    np.testing.assert_allclose(points["phantom"], [[10, 9], [20, 8]])
    np.testing.assert_allclose(points["centre"], [[10, np.nan], [20, 7]])
    assert len({tuple(chart.GetNthPlotSeriesNode(n).GetColor()) for n in range(2)}) == 2


def test_curves_are_drawn_in_the_nodes_that_are_there_or_anew(scene, curves):
    chart = curves.showLoss(curve(3))
    assert curves.showLoss(curve(5)) is chart
    assert len(drawn(chart)["loss"]) == 5
    scene.RemoveNode(chart)
    assert len(drawn(curves.showLoss(curve(6)))["loss"]) == 6
    assert len(nodes_of_class(scene, "vtkMRMLTableNode")) == 1


def test_a_long_run_is_thinned_out_to_its_last_step(curves):
    points = drawn(curves.showLoss(curve(9999)))["loss"]
    assert 1000 < len(points) <= 2000
    assert points[-1].tolist() == [9999, 1 / 9999]
