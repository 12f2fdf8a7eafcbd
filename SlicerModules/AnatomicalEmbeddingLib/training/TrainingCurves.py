"""Draws the loss and the validation errors of a training run in Slicer's plot views."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import slicer.util

from .TrainingLog import LossCurve

# largest number of points of a curve; more points would only make each update slower
_MOST_POINTS = 2000


class TrainingCurves:
    """The charts "Training loss" and "Validation error (mm)" of one run. Each drawing updates the existing chart.

    If the scene was closed, or the user has deleted a node of the chart, a new chart is made.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, dict] = {}  # title -> nodes of the chart, see `slicer.util.plot`

    def showLoss(self, curve: LossCurve):
        """Draw the running mean of the loss at each step. Returns the chart node; None if the curve has no step yet."""
        count = len(curve.steps)
        every = max(math.ceil(count / _MOST_POINTS), 1)
        drawn = slice((count - 1) % every, None, every)  # the last step is always drawn
        columns = {"step": curve.steps[drawn], "loss": curve.means[drawn]}
        return self._show("Training loss", columns)

    def showValidation(self, validations: Sequence[Mapping[str, float]]):
        """Draw one line for each kind of median error. Returns the chart node; None if there is no validation yet."""
        # each column once, "step" first
        columns = dict.fromkeys(["step", *(kind for row in validations for kind in row)])
        errors = {kind: [row.get(kind, np.nan) for row in validations] for kind in columns}
        chart = self._show("Validation error (mm)", errors)
        for series in self._nodes["Validation error (mm)"].get("series", ()):
            series.SetMarkerStyle(series.MarkerStyleCircle)
        return chart

    def _show(self, title: str, columns: Mapping[str, Sequence[float]]):
        """Draw columns against the column "step". Returns the chart node; None before the first step.

        The nodes of the last drawing are used again if all are in the scene and the columns are as many as before.
        """
        nodes = self._nodes.setdefault(title, {})
        chart = nodes.get("chart")
        if chart is not None and chart.GetScene() is None:
            chart = None
        # the table, and a series for each column but "step": as many nodes as columns
        drawn = [nodes["table"], *nodes["series"]] if "table" in nodes else []
        present = [node for node in drawn if node.GetScene() is not None]
        isUsable = chart is not None and len(present) == len(drawn) == len(columns)
        if not isUsable or not columns["step"]:
            for node in present:
                node.GetScene().RemoveNode(node)
            nodes.clear()
            if chart is not None:
                nodes["chart"] = chart  # a view may show it
        if not columns["step"]:
            return nodes.get("chart")
        values = np.stack(list(columns.values()), axis=1)
        chart = slicer.util.plot(
            values, xColumnIndex=0, columnNames=list(columns), title=title, show=False, nodes=nodes
        )
        chart.SetXAxisTitle("Step")
        return chart
