"""Draws the loss and the validation errors of a training run in Slicer's plot views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import slicer.util

from .TrainingLog import LossCurve

_MOST_POINTS = 2000  # largest number of points of a curve; more points would only make each update slower


class TrainingCurves:
    """The charts "Training loss" and "Validation error (mm)" of one run. Each drawing updates the existing chart.

    If the scene was closed, or the user has deleted a node of the chart, a new chart is made.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, dict] = {}  # title -> nodes of the chart, see `slicer.util.plot`

    def showLoss(self, curve: LossCurve):
        """Draw the running mean of the loss against the step. Returns the chart node; None if there are no steps."""
        every = -(-len(curve.steps) // _MOST_POINTS) or 1
        steps, means = (
            curve.steps[::-1][::every][::-1],
            curve.means[::-1][::every][::-1],
        )  # the last step is always drawn
        return self._show("Training loss", {"step": steps, "loss": means})

    def showValidation(self, validations: Sequence[Mapping[str, float]]):
        """Draw the median errors against the step, a line for each kind of point. Returns as `showLoss` does."""
        columns = dict.fromkeys(["step", *(kind for row in validations for kind in row)])
        errors = {kind: [row.get(kind, np.nan) for row in validations] for kind in columns}
        chart = self._show("Validation error (mm)", errors)
        for series in self._nodes["Validation error (mm)"].get("series", ()):
            series.SetMarkerStyle(series.MarkerStyleCircle)
        return chart

    def _show(self, title: str, columns: Mapping[str, Sequence[float]]):
        nodes = self._nodes.setdefault(title, {})
        known = [nodes[key] for key in ("chart", "table") if nodes] + nodes.get("series", [])
        if len(known) != 1 + len(columns) or any(node.GetScene() is None for node in known):
            nodes.clear()
        if not columns["step"]:
            return None
        chart = slicer.util.plot(np.stack(list(columns.values()), axis=1), 0, list(columns), title, False, nodes)
        chart.SetXAxisTitle("Step")
        return chart
