"""Curves of a run as MRML nodes: right numbers, made once, and made again where they were removed."""

import numpy as np
import pytest
import slicer.util

from AnatomicalEmbeddingLib.training.TrainingCurves import TrainingCurves
from AnatomicalEmbeddingLib.training.TrainingLog import LossCurve, Validations
from slicer_kit.scene import nodes_of_class, read_mrb, write_mrb

KINDS = ("vtkMRMLTableNode", "vtkMRMLPlotSeriesNode", "vtkMRMLPlotChartNode")
PHANTOM, CENTRE = [9.0, 8.0], [np.nan, 7.0]


@pytest.fixture
def curves(scene):
    return TrainingCurves(scene)


def curve(steps):
    return LossCurve(list(range(1, steps + 1)), [1 / n for n in range(1, steps + 1)])


def validations(**errors):
    return Validations(np.array([10, 20]), {kind: np.array(values) for kind, values in errors.items()})


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


def count(scene):
    return [len(nodes_of_class(scene, kind)) for kind in KINDS]


def test_validation_chart_has_a_line_a_kind(curves):
    curves.showValidation(validations(phantom=PHANTOM, centre=CENTRE))
    assert curves.validationChart.GetTitle() == "Validation error (mm)"
    points = drawn(curves.validationChart)
    np.testing.assert_allclose(points["phantom"], [[10, 9], [20, 8]])
    np.testing.assert_allclose(points["centre"], [[10, np.nan], [20, 7]])
    colours = {tuple(curves.validationChart.GetNthPlotSeriesNode(n).GetColor()) for n in range(2)}
    assert len(colours) == 2


def test_a_saved_scene_is_gone_on_with(scene, curves, tmp_path):
    curves.showLoss(curve(3))
    curves.showValidation(validations(phantom=PHANTOM))
    write_mrb(scene, tmp_path / "scene.mrb")
    read_mrb(scene, tmp_path / "scene.mrb")
    np.testing.assert_allclose(drawn(curves.validationChart)["phantom"][:, 1], PHANTOM)
    curves.showLoss(curve(5))
    curves.showValidation(validations(phantom=PHANTOM))
    assert count(scene) == [2, 2, 2]
    assert len(drawn(curves.lossChart)["loss"]) == 5


def test_a_long_run_is_thinned_out_to_its_last_step(curves):
    curves.showLoss(curve(9999))
    points = drawn(curves.lossChart)["loss"]
    assert 1000 < len(points) <= 2000
    assert points[-1].tolist() == [9999, 1 / 9999]
