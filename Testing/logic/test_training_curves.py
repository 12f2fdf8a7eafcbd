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


def test_loss_chart_draws_the_curve(curves):
    curves.showLoss(curve(3))
    assert curves.lossChart.GetTitle() == "Training loss"
    (points,) = drawn(curves.lossChart).values()
    np.testing.assert_allclose(points, [[1, 1], [2, 1 / 2], [3, 1 / 3]])


def test_validation_chart_has_a_line_a_kind(curves):
    curves.showValidation(validations(phantom=PHANTOM, centre=CENTRE))
    assert curves.validationChart.GetTitle() == "Validation error (mm)"
    points = drawn(curves.validationChart)
    np.testing.assert_allclose(points["phantom"], [[10, 9], [20, 8]])
    np.testing.assert_allclose(points["centre"], [[10, np.nan], [20, 7]])
    colours = {tuple(curves.validationChart.GetNthPlotSeriesNode(n).GetColor()) for n in range(2)}
    assert len(colours) == 2


def test_updates_change_the_nodes_and_add_none(scene, curves):
    curves.showLoss(curve(3))
    curves.showValidation(validations(phantom=PHANTOM))
    nodes = [node.GetID() for kind in KINDS for node in nodes_of_class(scene, kind)]
    assert count(scene) == [2, 2, 2]
    for steps in (4, 5, 2):
        curves.showLoss(curve(steps))
        curves.showValidation(validations(phantom=[steps, steps]))
    assert [node.GetID() for kind in KINDS for node in nodes_of_class(scene, kind)] == nodes
    assert len(drawn(curves.lossChart)["loss"]) == 2
    np.testing.assert_allclose(drawn(curves.validationChart)["phantom"][:, 1], 2)


def test_kinds_come_and_go_with_the_run(scene, curves):
    curves.showValidation(validations(phantom=PHANTOM, centre=CENTRE))
    curves.showValidation(validations(landmark=[3.0, 2.0]))
    assert list(drawn(curves.validationChart)) == ["landmark"]
    assert count(scene) == [1, 1, 1]
    curves.showValidation(Validations(np.array([], dtype=int), {}))
    assert drawn(curves.validationChart) == {}


def test_after_the_scene_was_closed_nodes_are_made_anew(scene, curves):
    curves.showLoss(curve(3))
    scene.Clear(0)
    assert curves.lossChart is None
    curves.showLoss(curve(4))
    assert len(drawn(curves.lossChart)["loss"]) == 4
    assert count(scene) == [1, 1, 1]


@pytest.mark.parametrize("kind", KINDS)
def test_a_node_that_was_deleted_is_made_anew(scene, curves, kind):
    curves.showLoss(curve(3))
    scene.RemoveNode(nodes_of_class(scene, kind)[0])
    curves.showLoss(curve(4))
    assert len(drawn(curves.lossChart)["loss"]) == 4
    assert count(scene) == [1, 1, 1]


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


def test_tables_of_the_user_are_left_alone(scene, curves):
    own = scene.AddNewNodeByClass("vtkMRMLTableNode", "Training loss")
    own.AddColumn().SetName("mine")
    curves.showLoss(curve(2))
    assert own.GetTable().GetNumberOfColumns() == 1
    assert count(scene)[0] == 2


def test_a_long_run_is_thinned_out_to_its_last_step(curves):
    curves.showLoss(curve(9999))
    points = drawn(curves.lossChart)["loss"]
    assert 1000 < len(points) <= 2000
    assert points[-1].tolist() == [9999, 1 / 9999]


def test_folder_is_read(curves, tmp_path):
    (tmp_path / "loss.csv").write_text("step,loss,learning_rate,minutes\n1,2.0,1e-3,0.1\n2,1.0,1e-3,0.2\n3,0.")
    (tmp_path / "validation.csv").write_text("step,phantom\n2,9.0\n3,")
    curves.read(str(tmp_path))
    np.testing.assert_allclose(drawn(curves.lossChart)["loss"], [[1, 2], [2, 1.98]])
    np.testing.assert_allclose(drawn(curves.validationChart)["phantom"], [[2, 9]])
