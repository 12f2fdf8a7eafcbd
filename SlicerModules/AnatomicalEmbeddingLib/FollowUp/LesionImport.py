"""Lesions that are known already: point lists of the scene, and structured reports and records of earlier sessions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path

import numpy as np
from slicer.i18n import tr as _

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
from AnatomicalEmbedding.followup.joining import joined
from AnatomicalEmbedding.followup.lesion_lists import MarkedLesion, mark_lesions
from AnatomicalEmbedding.followup.lesions import Lesion
from AnatomicalEmbedding.followup.record import FollowUp
from AnatomicalEmbedding.followup.record_file import read_record

from ..Landmarks.AnswerList import isAnswers
from ..Landmarks.ControlPoints import definedIds, labelOf, worldOf
from ..SceneNodes import nodesOf
from ..VolumeNodes import fromWorld, holds
from .FollowUpLogic import FollowUpLogic
from .LesionPoints import isLesionList


@dataclass(frozen=True)
class _Point:
    label: str
    study: str
    place: np.ndarray


def pointLists(scene) -> list:
    """Point lists of the user's that hold points."""
    lists = nodesOf(scene, "vtkMRMLMarkupsFiducialNode")
    return [
        node
        for node in lists
        if definedIds(node) and not node.GetHideFromEditors() and not isAnswers(node) and not isLesionList(node)
    ]


def studiesOfPoints(logic: FollowUpLogic, listNode, study: str) -> list[str]:
    """Keys of the studies that the points of a list lie in: those that they were placed in, else `study`."""
    found = {point.study for point in _points(logic, listNode, study)}
    return [key for key in logic.volumes if key in found]


def importPoints(logic: FollowUpLogic, listNode, study: str) -> list[str]:
    """Each point of a list becomes a lesion that keeps its name, as one step. study: where points lie that were placed
    in none of the patient's volumes. A point of the name of a lesion known from other studies is that lesion. Returns
    sentences on what was done, and what not.
    """
    points, said = [], []
    for point in _points(logic, listNode, study):
        volume = logic.volumes[point.study]
        if holds(volume, [point.place])[0]:
            points.append(point)
        else:
            text = _("{label}: lies outside {volume} and was left out.")
            said.append(text.format(label=point.label, volume=volume.GetName()))
    before = logic.record

    def step(record: FollowUp) -> FollowUp:
        for key in logic.volumes:
            here = [MarkedLesion(p.label.strip(), tuple(p.place.tolist())) for p in points if p.study == key]
            record = mark_lesions(record, key, here)
        return record

    if not logic.apply(step):
        return said
    logic.prepare()
    return [*_counts(before, logic.record, listNode.GetName(), len(points)), *said]


def importFiles(logic: FollowUpLogic, paths: Iterable[str | Path]) -> list[str]:
    """Take in DICOM structured reports and .followup.json files of the patient, as one step; returns sentences.

    Raises AnatomicalEmbeddingError, naming the file, for what cannot be read or is about none of the loaded scans.
    """
    from AnatomicalEmbedding.followup.sr_reading import read_srs

    paths = [Path(path) for path in paths]
    reports = [path for path in paths if path.suffix.lower() != ".json"]
    records = [read_record(path) for path in paths if path not in reports]
    if reports:
        records.append(read_srs(reports))
    return importRecord(logic, reduce(joined, records, FollowUp()), ", ".join(path.name for path in paths))


def importRecord(logic: FollowUpLogic, other: FollowUp, name: str) -> list[str]:
    """Take in what another record of the patient says. Studies are the same by DICOM series; what a person has said in
    this follow-up stays. Returns sentences, and raises AnatomicalEmbeddingError, as `importFiles`.
    """
    before = logic.record
    loaded = [study for study in before.studies if study.key in logic.volumes]
    series = {study.series_uid for study in loaded if study.series_uid} | set(logic.volumes)
    if not any(study.key in series or study.series_uid in series for study in other.studies):
        raise AnatomicalEmbeddingError(
            _(
                "{name}: is about none of the scans loaded (by DICOM series); load a series that it is about, or "
                "choose a file of this patient."
            ).format(name=name)
        )
    if not logic.apply(lambda now: _keepingWhatWasSaid(now, joined(now, other))):
        return []
    logic.prepare()
    return _counts(before, logic.record, name, len(other.lesions))


def _points(logic: FollowUpLogic, listNode, study: str) -> list[_Point]:
    """With their places in the own RAS mm of the volumes that they lie in."""
    found = []
    for pointId in definedIds(listNode):
        index = listNode.GetControlPointIndexByID(pointId)
        clicked = logic.scene.GetNodeByID(listNode.GetNthControlPointAssociatedNodeID(index) or "")
        key = logic.studyOf(clicked) or study
        if key in logic.volumes:
            place = fromWorld(logic.volumes[key], [worldOf(listNode, pointId)])[0]
            found.append(_Point(labelOf(listNode, pointId), key, place))
    return found


def _counts(before: FollowUp, after: FollowUp, name: str, given: int) -> list[str]:
    """What an import has brought."""
    known = {lesion.id: lesion for lesion in before.lesions}
    new = [each for each in after.lesions if each.id not in known]
    grown = [each for each in after.lesions if each.id in known and _said(each) != _said(known[each.id])]
    said = [_("{name}: holds no new lesion.").format(name=name)]
    if new:
        said = [_("{name}: new lesions: {lesions}.").format(name=name, lesions=", ".join(each.label for each in new))]
    if grown:
        said.append(
            _("Known already, and now in more studies: {lesions}.").format(
                lesions=", ".join(each.label for each in grown)
            )
        )
    if given > len(new) + len(grown):
        said.append(_("Known already: {count}.").format(count=given - len(new) - len(grown)))
    return said


def _said(lesion: Lesion) -> dict:
    return {key: found for key, found in lesion.findings.items() if found.reviewed}


def _keepingWhatWasSaid(record: FollowUp, other: FollowUp) -> FollowUp:
    """`other`, whose ids and keys are the record's, with all that a person has said in the record."""
    lesions = []
    known = {lesion.id: lesion for lesion in record.lesions}
    for lesion in other.lesions:
        own = known.get(lesion.id)
        if own is not None:
            changes = {"name": own.name or lesion.name, "site": own.site or lesion.site}
            changes |= {"target": own.target, "nodal": own.nodal, "split_from": own.split_from or lesion.split_from}
            lesion = replace(lesion, findings={**lesion.findings, **_said(own)}, **changes)
        lesions.append(lesion)
    return replace(other, lesions=tuple(lesions))
