"""Import lesions from records and from point lists of the scene, and write the files of a follow-up."""

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
from slicer.i18n import tr as _

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
from AnatomicalEmbedding.followup.importing import adopt_record
from AnatomicalEmbedding.followup.lesion_lists import MarkedLesion, mark_lesions
from AnatomicalEmbedding.followup.record import FollowUp
from AnatomicalEmbedding.followup.record_file import read_record
from AnatomicalEmbedding.followup.study_inputs import same_studies

from ..landmarks.AnswerList import isAnswers
from ..landmarks.ControlPoints import definedIds, labelOf, worldOf
from ..shared.DicomFiles import instanceFiles
from ..shared.SceneNodes import nodesOf
from ..shared.VolumeNodes import fromWorld, holds, snapshot
from .FollowUpLogic import FollowUpLogic
from .LesionNodes import isLesionList
from .StudyOrder import setDate


def pointLists(scene) -> list:
    """Return the point lists with points, except hidden lists and this extension's lists of answers or lesions."""
    lists = nodesOf(scene, "vtkMRMLMarkupsFiducialNode")
    return [
        node
        for node in lists
        if definedIds(node)
        and not node.GetHideFromEditors()
        and not isAnswers(node)
        and not isLesionList(node)
    ]


def studiesOfPoints(logic: FollowUpLogic, listNode, study: str) -> list[str]:
    """Return the keys of the studies to which `importPoints` would assign points.

    Args:
        logic, listNode, study: as in `importPoints`.
    """
    marked = {key for key, _label, _place in _points(logic, listNode, study)}
    return [key for key in logic.volumes if key in marked]


def importPoints(logic: FollowUpLogic, listNode, study: str) -> list[str]:
    """Make a lesion from each point of a list, with the point's label as name. One undo reverses the whole import.

    If a lesion of another study has the same name as a point, the point is added to that lesion; see `mark_lesions`
    for all cases. A point belongs to the study of the volume in which it was placed. Returns sentences for the user.

    Args:
        logic: the follow-up.
        listNode: the list of points.
        study: key of the study for points that were placed in no volume of the patient.
    """
    marked: dict[str, list[MarkedLesion]] = {key: [] for key in logic.volumes}
    leftOut = []
    notes = []
    for key, label, place in _points(logic, listNode, study):
        volume = logic.volumes[key]
        if holds(volume, [place])[0]:
            marked[key].append(MarkedLesion(label.strip(), tuple(place.tolist())))
        else:
            text = _("{label}: the point lies outside {volume} and was not imported.")
            leftOut.append(text.format(label=label, volume=volume.GetName()))

    def step(record: FollowUp) -> FollowUp:
        for key, lesions in marked.items():
            record, sentences = mark_lesions(record, key, lesions)
            notes.extend(sentences)
        return record

    return [*_applied(logic, step, listNode.GetName()), *notes, *leftOut]


def importRecord(logic: FollowUpLogic, path: str | Path) -> list[str]:
    """Take the lesions of a .followup.json file over into this follow-up. One undo reverses the import.

    A scan without a date gets the date from the file; undo does not remove this date. Returns sentences for the user.
    Raises AnatomicalEmbeddingError, with the name of the file, if the file cannot be read or contains no study of a
    loaded scan, or if the follow-up already has lesions.
    """
    path = Path(path)
    earlier = read_record(path)
    if not set(same_studies(logic.record.studies, earlier.studies).values()) & set(logic.volumes):
        text = _(
            "{name}: contains no study of a loaded scan (compared by DICOM series, or by name and date if there is no "
            "series); load the scans of this file, or choose another file."
        )
        raise AnatomicalEmbeddingError(text.format(name=path.name))
    try:
        record = adopt_record(logic.record, earlier)
    except AnatomicalEmbeddingError as error:
        raise AnatomicalEmbeddingError(f"{path.name}: {error}") from error
    return [*_applied(logic, lambda _before: record, path.name), *_setDates(logic)]


def _points(logic: FollowUpLogic, listNode, study: str) -> Iterator[tuple[str, str, np.ndarray]]:
    """Yield (study key, label, place) for each point of a point list. The key is the study of the volume that the user
    clicked, or `study` if the user clicked no study. place: (3,) RAS mm of the study's volume."""
    for pointId in definedIds(listNode):
        index = listNode.GetControlPointIndexByID(pointId)
        clicked = logic.scene.GetNodeByID(listNode.GetNthControlPointAssociatedNodeID(index) or "")
        key = logic.studyOf(clicked) or study
        if key in logic.volumes:
            places = fromWorld(logic.volumes[key], [worldOf(listNode, pointId)])
            yield key, labelOf(listNode, pointId), places[0]


def _applied(logic: FollowUpLogic, step: Callable[[FollowUp], FollowUp], name: str) -> list[str]:
    """Replace the record by `step(record)`. Returns sentences for the user about new and changed lesions; [] if `step`
    failed. name: name of the imported file or list."""
    before = {lesion.id: lesion.reviewed for lesion in logic.record.lesions}
    if not logic.apply(step):
        return []
    logic.prepare()
    new = []
    grown = []
    for lesion in logic.record.lesions:
        if lesion.id not in before:
            new.append(lesion.label)
        elif lesion.reviewed != before[lesion.id]:
            grown.append(lesion.label)
    sentences = [_("{name}: contains no new lesion.").format(name=name)]
    if new:
        sentences = [_("{name}: new lesions: {lesions}.").format(name=name, lesions=", ".join(new))]
    if grown:
        text = _("Known lesions that have new findings or sizes: {lesions}.")
        sentences.append(text.format(lesions=", ".join(grown)))
    return sentences


def _setDates(logic: FollowUpLogic) -> list[str]:
    """Copy dates from the record to undated scans. Returns [a sentence on the new dates], or [] without new dates."""
    dates = {study.key: study.date for study in logic.record.studies if study.date is not None}
    dated = []
    for study in logic.patient.studies:
        day = dates.get(logic.studyOf(study.volume))
        if study.date is None and day is not None:
            setDate(study.volume, day.isoformat())
            dated.append(f"{study.name} {day.isoformat()}")
    text = _("Scans that got their date from the file (Undo does not remove the date): {dates}.")
    return [text.format(dates=", ".join(dated))] if dated else []


def exportFollowUp(
    logic: FollowUpLogic, folder: str | Path, kinds: Iterable[str]
) -> tuple[list[Path], list[str]]:
    """Write the chosen kinds of files, named after the patient. Raises the errors of the engine's `export`.

    Args:
        logic: the follow-up.
        folder: folder of the files.
        kinds: "csv", "html", "sr" (DICOM structured reports) or "record".

    Returns:
        The paths of the files, and sentences for the user.
    """
    from AnatomicalEmbedding.followup.export import HTML, export

    pictured = logic.volumes.items() if HTML in kinds else ()
    volumes = {study: snapshot(node).volume() for study, node in pictured}
    sources = {study: instanceFiles(node) for study, node in logic.volumes.items()}
    name = re.sub(r"[^\w.-]+", "-", f"follow-up {logic.patient.name}".strip()).strip(".-")
    return export(logic.record, folder, volumes, sources, name, kinds)
