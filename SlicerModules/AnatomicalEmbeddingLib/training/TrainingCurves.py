"""The curves of a run in the scene: tables, plot series and two charts, which are updated in place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import vtk
from slicer.util import NodeModify
from vtk.util.numpy_support import numpy_to_vtk

from ..shared.SceneNodes import nodesOf
from .TrainingLog import LossCurve, Validations

_ROLE = "AnatomicalEmbedding.Training"  # node attribute by which the nodes are found again, in a reloaded scene too
_MOST_POINTS = 2000  # of a curve: a plot shows no more, and its table is drawn anew at each update
_STEP = "step"
_LOSS = "loss"
COLOURS = ((0.12, 0.47, 0.71), (0.85, 0.33, 0.10), (0.17, 0.63, 0.17), (0.58, 0.40, 0.74))


class TrainingCurves:
    """Charts "Training loss" and "Validation error (mm)" of one run.

    Nodes are found by their role whenever they are needed: they are made again after the scene was closed or a user has
    deleted them, and found in a scene that was saved with them.
    """

    def __init__(self, scene) -> None:
        self.scene = scene

    @property
    def lossChart(self):
        """The chart node of the loss; None before `showLoss`, or after the scene was closed."""
        return self._find("loss chart", "vtkMRMLPlotChartNode")

    @property
    def validationChart(self):
        """The chart node of the validation errors; None before `showValidation`, or after the scene was closed."""
        return self._find("validation chart", "vtkMRMLPlotChartNode")

    def read(self, folder: str) -> None:
        """Show the curves in a run's folder."""
        self.showLoss(LossCurve.read(folder))
        self.showValidation(Validations.read(folder))

    def showLoss(self, curve: LossCurve) -> None:
        """Draw the running mean of the loss over the steps."""
        every = -(-len(curve.steps) // _MOST_POINTS) or 1
        steps, means = curve.steps[::-1][::every][::-1], curve.means[::-1][::every][::-1]  # the last one is shown
        self._show("loss", "Training loss", "Loss", steps, {_LOSS: means})

    def showValidation(self, validations: Validations) -> None:
        """Draw the median errors over the steps, a line a kind."""
        self._show(
            "validation", "Validation error (mm)", "Median error (mm)", validations.steps, validations.errorsMm, True
        )

    def _show(
        self,
        role: str,
        title: str,
        axis: str,
        steps: Sequence[int],
        columns: Mapping[str, Sequence[float]],
        marked: bool = False,
    ) -> None:
        table = self._findOrMake(f"{role} table", "vtkMRMLTableNode", title)
        chart = self._findOrMake(f"{role} chart", "vtkMRMLPlotChartNode", title)
        _fill(table, {_STEP: steps} | dict(columns))
        series = [
            self._series(f"{role} series {kind}", kind, table, COLOURS[n % len(COLOURS)], marked)
            for n, kind in enumerate(columns)
        ]
        for old in self._nodes(f"{role} series", "vtkMRMLPlotSeriesNode"):
            if old not in series:
                self.scene.RemoveNode(old)
        shown = [chart.GetNthPlotSeriesNodeID(n) for n in range(chart.GetNumberOfPlotSeriesNodes())]
        if shown != [node.GetID() for node in series]:
            with NodeModify(chart):
                chart.RemoveAllPlotSeriesNodeIDs()
                for node in series:
                    chart.AddAndObservePlotSeriesNodeID(node.GetID())
                chart.SetTitle(title)
                chart.SetXAxisTitle("Step")
                chart.SetYAxisTitle(axis)
                chart.SetLegendVisibility(True)

    def _series(self, role: str, kind: str, table, colour: tuple[float, float, float], marked: bool):
        node = self._findOrMake(role, "vtkMRMLPlotSeriesNode", kind)
        if node.GetTableNodeID() != table.GetID():
            with NodeModify(node):
                node.SetPlotType(node.PlotTypeScatter)
                node.SetMarkerStyle(node.MarkerStyleCircle if marked else node.MarkerStyleNone)
                node.SetLineStyle(node.LineStyleSolid)
                node.SetColor(*colour)
                node.SetAndObserveTableNodeID(table.GetID())
                node.SetXColumnName(_STEP)
                node.SetYColumnName(kind)
        return node

    def _findOrMake(self, role: str, className: str, name: str):
        node = self._find(role, className)
        if node is None:
            node = self.scene.AddNewNodeByClass(className, self.scene.GenerateUniqueName(name))
            node.SetAttribute(_ROLE, role)
        return node

    def _find(self, role: str, className: str):
        return next((n for n in self._nodes(role, className) if n.GetAttribute(_ROLE) == role), None)

    def _nodes(self, role: str, className: str) -> list:
        """Nodes whose role starts with `role`."""
        nodes = nodesOf(self.scene, className)
        return [node for node in nodes if (node.GetAttribute(_ROLE) or "").startswith(role)]


def _fill(tableNode, columns: Mapping[str, Sequence[float]]) -> None:
    """Give a table node these columns and no others, with one event."""
    table = vtk.vtkTable()
    for name, values in columns.items():
        array = numpy_to_vtk(np.asarray(values, dtype=np.float64), deep=True)
        array.SetName(name)
        table.AddColumn(array)
    with NodeModify(tableNode):
        tableNode.SetAndObserveTable(table)
