"""Writes the points and the measurement of each scan that came from DICOM as a structured report (SR)."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from slicer.i18n import tr as _

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
from AnatomicalEmbedding.scan.points import PointList

from ..shared.DicomFiles import instanceFiles
from ..shared.SceneNodes import fileNames
from ..shared.VolumeNodes import fromWorld
from .AnswerLists import Row
from .ControlPoints import worldOf
from .LandmarkLogic import LandmarkLogic


class _ReportedPoint(NamedTuple):
    """A point that a scan shows. pointId: of the template's point. world: (3,) world mm. errorMm: expected error; None
    for a point that the user has placed."""

    pointId: str
    label: str
    world: np.ndarray
    text: str
    errorMm: float | None


def writeReports(logic: LandmarkLogic, folder: str | Path) -> str:
    """Write a file SCAN_LIST.sr.dcm for the template and for each target. LIST is the name of the chosen points.

    A point has one tracking UID in all these files. Scans without DICOM files are left out. If a file cannot be
    written, the other files are still written. Returns sentences for the user. Raises AnatomicalEmbeddingError if
    highdicom is not installed.
    """
    from AnatomicalEmbedding.dicom.source import read_source
    from AnatomicalEmbedding.dicom.sr import new_uids, write_points_report

    volumes = [logic.template, *logic.targets]
    names = fileNames([f"{volume.GetName()} {logic.points.GetName()}" for volume in volumes])
    rows = logic.rows()
    uids = dict(zip((row.pointId for row in rows), new_uids(len(rows)), strict=True))
    leftOut = []
    written = []
    notes = []
    for volume, name in zip(volumes, names, strict=True):
        files = instanceFiles(volume)
        if not files:
            leftOut.append(volume.GetName())
            continue
        reported = _pointsIn(logic, rows, volume)
        points = PointList(
            tuple(point.label for point in reported),
            fromWorld(volume, [point.world for point in reported]),
            tuple(point.text for point in reported),
        )
        errors = [point.errorMm for point in reported]
        pointUids = [uids[point.pointId] for point in reported]
        measurement = logic.measurementIn(volume)
        measurements = [] if measurement is None else [measurement]
        path = Path(folder, f"{name}.sr.dcm")
        try:
            source = read_source(volume.GetName(), files, instead=_("leave this scan out"))
            write_points_report(points, source, path, errors, pointUids, measurements)
            written.append(path.name)
        except AnatomicalEmbeddingError as error:
            notes.append(str(error))
    if written:
        text = _("Written to {folder}: {names}.")
        notes.insert(0, text.format(folder=folder, names=", ".join(written)))
    if leftOut:
        text = _("Without DICOM files, and left out: {names}.")
        notes.append(text.format(names=", ".join(leftOut)))
    return "\n".join(notes)


def _pointsIn(logic: LandmarkLogic, rows: list[Row], volumeNode) -> list[_ReportedPoint]:
    """Return the points that a scan shows."""
    points = []
    for row in rows:
        node = logic.points
        pointId = row.pointId
        errorMm = None
        if volumeNode is not logic.template:
            answer = row.answers.get(volumeNode.GetID())
            if answer is None:
                continue
            node = logic.answersIn(volumeNode).node
            pointId = answer.pointId
            errorMm = None if answer.byHand else answer.errorMm
        world = worldOf(node, pointId)
        if world is not None:
            text = node.GetNthControlPointDescription(node.GetControlPointIndexByID(pointId))
            points.append(_ReportedPoint(row.pointId, row.label, world, text, errorMm))
    return points
