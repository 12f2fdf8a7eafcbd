"""Writes the points and the measurement of each scan that came from DICOM as a structured report (SR)."""

from pathlib import Path

from slicer.i18n import tr as _

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
from AnatomicalEmbedding.scan.points import PointList

from ..shared.DicomFiles import instanceFiles
from ..shared.SceneNodes import fileNames
from ..shared.VolumeNodes import fromWorld
from .AnswerLists import Row
from .ControlPoints import worldOf
from .LandmarkLogic import LandmarkLogic


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
        points, errors, ids = _pointsIn(logic, rows, volume)
        pointUids = [uids[pointId] for pointId in ids]
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


def _pointsIn(
    logic: LandmarkLogic, rows: list[Row], volumeNode
) -> tuple[PointList, list[float | None], list[str]]:
    """Return the points that a scan shows, in its own RAS mm, their expected errors, and the IDs of the template's
    points. A point that the user has placed has no error."""
    labels = []
    places = []
    texts = []
    errors = []
    ids = []
    for row in rows:
        node = logic.points
        pointId = row.pointId
        error = None
        if volumeNode is not logic.template:
            answer = row.answers.get(volumeNode.GetID())
            if answer is None:
                continue
            node = logic.answersIn(volumeNode).node
            pointId = answer.pointId
            error = None if answer.byHand else answer.errorMm
        place = worldOf(node, pointId)
        if place is not None:
            index = node.GetControlPointIndexByID(pointId)
            labels.append(row.label)
            places.append(place)
            texts.append(node.GetNthControlPointDescription(index))
            errors.append(error)
            ids.append(row.pointId)
    return PointList(tuple(labels), fromWorld(volumeNode, places), tuple(texts)), errors, ids
