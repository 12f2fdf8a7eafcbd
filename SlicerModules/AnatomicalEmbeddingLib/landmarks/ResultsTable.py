"""Writes the matches into a table node, which Slicer can show, save and export as CSV."""

from __future__ import annotations

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
)


def writeResults(scene, logic: LandmarkLogic):
    """Write all matches into the table node of the point list, and return this node. Create the node if it is missing.

    The table has one row for each point and target. Positions are in world RAS mm.
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
        for row in logic.rows():
            for target in logic.targets:
                answer = row.answers.get(target.GetID())
                if answer is not None:
                    number = node.AddEmptyRow()
                    place = logic.answersIn(target).worldOf(answer)
                    for column, text in enumerate(rowOf(row.label, target, place, answer)):
                        node.SetCellText(number, column, text)
    return node


def rowOf(label: str, volumeNode, place, answer: Answer | None = None) -> tuple[str, ...]:
    """Return the texts of a row, in order of COLUMNS. place: (3,) world mm or None. answer: None for the template."""
    where = ("", "", "") if place is None else tuple(f"{value:.3f}" for value in place)
    status, worth = "template", ("", "", "")
    if answer is not None:
        status = answer.status
        if answer.errorMm is not None and not answer.byHand:
            worth = f"{answer.errorMm:.2f}", f"{answer.probability:.3f}", answer.doubt
    return (label, volumeNode.GetName(), *where, status, *worth)
