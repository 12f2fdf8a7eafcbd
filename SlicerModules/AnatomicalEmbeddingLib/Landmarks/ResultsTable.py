"""Matches as a table node, which Slicer shows, saves and exports as CSV."""

from __future__ import annotations

import vtk

from .AnswerList import SOURCE_ROLE
from .LandmarkLogic import LandmarkLogic

COLUMNS = ("label", "scan", "r", "a", "s", "status", "expected_error_mm", "probability_within_10_mm")


def writeResults(scene, logic: LandmarkLogic):
    """The table node of a logic's matches, made or brought up to date: a row for each point and scan, world RAS mm."""
    node = _find(scene, logic.points)
    if node is None:
        node = scene.AddNewNodeByClass("vtkMRMLTableNode", f"{logic.points.GetName()} matches")
        node.SetNodeReferenceID(SOURCE_ROLE, logic.points.GetID())
    before = node.StartModify()
    node.RemoveAllColumns()
    for name in COLUMNS:
        column = vtk.vtkStringArray()
        column.SetName(name)
        node.AddColumn(column)
    for row in logic.rows():
        for target in logic.targets:
            answer = row.answers.get(target.GetID())
            if answer is not None:
                place = logic.answersIn(target).worldOf(answer)
                _addRow(node, row.label, target.GetName(), place, answer)
    node.EndModify(before)
    return node


def _addRow(node, label: str, scan: str, place, answer) -> None:
    where = ("", "", "") if place is None else [f"{value:.3f}" for value in place]
    known = answer.errorMm is not None and not answer.byHand
    worth = (f"{answer.errorMm:.2f}", f"{answer.probability:.3f}") if known else ("", "")
    number = node.AddEmptyRow()
    for column, text in enumerate((label, scan, *where, answer.status, *worth)):
        node.SetCellText(number, column, text)


def _find(scene, points):
    for n in range(scene.GetNumberOfNodesByClass("vtkMRMLTableNode")):
        node = scene.GetNthNodeByClass(n, "vtkMRMLTableNode")
        if node.GetNodeReference(SOURCE_ROLE) is points:
            return node
    return None
