"""Writes the matches into a table node, which Slicer can show, save and export as CSV."""

from collections.abc import Iterator

import vtk
from slicer.util import NodeModify

from ..shared.SceneNodes import nodesOf
from .AnswerList import SOURCE_ROLE, Answer
from .LandmarkLogic import LandmarkLogic

COLUMNS = (
    "label",
    "scan",
    "r",
    "a",
    "s",
    "status",
    "expected_error_mm",
    "probability_within_10_mm",
    "doubt",
    "value",
    "unit",
    "margin_90_percent",
)


def writeResults(scene, logic: LandmarkLogic):
    """Write all matches into the table node of the point list, and return this node. Create the node if it is missing.

    The table has one row for each point and target, and one row for the length, angle or area in each scan. Positions
    are in world RAS mm. The true value lies within the margin with a probability of 90 %.
    """
    tables = nodesOf(scene, "vtkMRMLTableNode")
    node = next(
        (table for table in tables if table.GetNodeReference(SOURCE_ROLE) is logic.points), None
    )
    if node is None:
        node = scene.AddNewNodeByClass("vtkMRMLTableNode", f"{logic.points.GetName()} matches")
        node.SetNodeReferenceID(SOURCE_ROLE, logic.points.GetID())
    with NodeModify(node):  # one event for the whole table
        node.RemoveAllColumns()
        for name in COLUMNS:
            column = vtk.vtkStringArray()
            column.SetName(name)
            node.AddColumn(column)
        for texts in [*_pointRows(logic), *_measurementRows(logic)]:
            number = node.AddEmptyRow()
            for column, text in enumerate(texts):
                node.SetCellText(number, column, text)
    return node


def _pointRows(logic: LandmarkLogic) -> Iterator[tuple[str, ...]]:
    for row in logic.rows():
        for target in logic.targets:
            answer = row.answers.get(target.GetID())
            if answer is not None:
                yield rowOf(row.label, target, logic.answersIn(target).worldOf(answer), answer)


def _measurementRows(logic: LandmarkLogic) -> Iterator[tuple[str, ...]]:
    for volumeNode in (logic.template, *logic.targets):
        measurement = logic.measurementIn(volumeNode)
        if measurement is None:
            continue
        value = "" if measurement.value is None else f"{measurement.value:.2f}"
        margin = f"{measurement.margin:.2f}" if measurement.margin else ""
        status = measurement.status or "template"
        blank = ("", "", "")
        yield (
            *(measurement.quantity, volumeNode.GetName(), *blank, status, *blank),
            *(value, measurement.unit, margin),
        )


def rowOf(label: str, volumeNode, place, answer: Answer | None = None) -> tuple[str, ...]:
    """Return the texts of a row, in order of COLUMNS.

    Args:
        label: label of the point.
        volumeNode: the scan.
        place: (3,) world mm, or None.
        answer: None for the template.
    """
    where = ("", "", "") if place is None else tuple(f"{value:.3f}" for value in place)
    status = "template"
    worth = ("", "", "")
    if answer is not None:
        status = answer.status
        if answer.errorMm is not None and not answer.byHand:
            worth = f"{answer.errorMm:.2f}", f"{answer.probability:.3f}", answer.doubt
    noMeasurement = ("", "", "")  # the last columns are those of lengths, angles and areas
    return (label, volumeNode.GetName(), *where, status, *worth, *noMeasurement)
