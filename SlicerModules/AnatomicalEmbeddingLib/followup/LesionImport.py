"""Lesions that are known already: point lists of the scene, and structured reports and records of earlier sessions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import numpy as np
from slicer.i18n import tr as _

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
from AnatomicalEmbedding.followup.lesion_lists import MarkedLesion, is_automatic, mark_lesions
from AnatomicalEmbedding.followup.lesions import Lesion
from AnatomicalEmbedding.followup.merge_records import TakenIn, joined, same_studies, taken_in
from AnatomicalEmbedding.followup.record import FollowUp
from AnatomicalEmbedding.followup.record_file import read_record

from ..landmarks.AnswerList import isAnswers
from ..landmarks.ControlPoints import definedIds, labelOf, worldOf
from ..shared.SceneNodes import nodesOf
from ..shared.VolumeNodes import fromWorld, holds
from .FollowUpLogic import FollowUpLogic
from .LesionPoints import isLesionList
from .StudyOrder import setDate

_NAMED = 3  # in one sentence


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
    in none of the patient's volumes. A point of the name that a person gave a lesion known from other studies is that
    lesion. Returns sentences on what was done, and what not.
    """
    points, sentences, notes = [], [], []
    for point in _points(logic, listNode, study):
        volume = logic.volumes[point.study]
        if holds(volume, [point.place])[0]:
            points.append(point)
        else:
            text = _("{label}: lies outside {volume} and was left out.")
            sentences.append(text.format(label=point.label, volume=volume.GetName()))
    before = logic.record

    def step(record: FollowUp) -> FollowUp:
        for key in logic.volumes:
            here = [MarkedLesion(p.label.strip(), tuple(p.place.tolist())) for p in points if p.study == key]
            done = mark_lesions(record, key, here)
            record = done.record
            notes.extend(done.notes)
        return record

    if not logic.apply(step):
        return sentences
    logic.prepare()
    return [*_counts(before, logic.record, listNode.GetName(), _lesionCount(points)), *notes, *sentences]


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
    """Take in what another record of the patient says, as one step: what a person has stated in this follow-up stays.
    Dates go to scans that have none. Returns sentences, and raises AnatomicalEmbeddingError, as `importFiles`.
    """
    before, found = logic.record, []
    if not any(study in logic.volumes for study in same_studies(before, other).values()):
        raise AnatomicalEmbeddingError(
            _(
                "{name}: is about none of the scans loaded (by DICOM series; by name and date where a scan has none); "
                "load a scan that it is about, or choose a file of this patient."
            ).format(name=name)
        )

    def step(record: FollowUp) -> FollowUp:
        found.append(taken_in(record, other))
        return found[-1].record

    if not logic.apply(step):
        return []
    logic.prepare()
    counts = _counts(before, logic.record, name, len(other.lesions))
    return [*counts, *_kept(found[-1], name), *_dated(logic, found[-1].record)]


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


def _lesionCount(points: Iterable[_Point]) -> int:
    """How many lesions points are of: those of one name that a person gave are one, in several studies."""
    count: Counter[str] = Counter()
    for (_study, label), here in Counter((point.study, point.label.strip()) for point in points).items():
        count[label] = count[label] + here if not label or is_automatic(label) else max(count[label], here)
    return count.total()


def _counts(before: FollowUp, after: FollowUp, name: str, given: int) -> list[str]:
    """What an import has brought."""
    known = {lesion.id: lesion for lesion in before.lesions}
    new = [each for each in after.lesions if each.id not in known]
    grown = [each for each in after.lesions if each.id in known and _sentences(each) != _sentences(known[each.id])]
    sentences = [_("{name}: holds no new lesion.").format(name=name)]
    if new:
        sentences = [
            _("{name}: new lesions: {lesions}.").format(name=name, lesions=", ".join(each.label for each in new))
        ]
    if grown:
        sentences.append(
            _("Known already, and now with more findings or sizes: {lesions}.").format(
                lesions=", ".join(each.label for each in grown)
            )
        )
    if given > len(new) + len(grown):
        sentences.append(_("Known already: {count}.").format(count=given - len(new) - len(grown)))
    return sentences


def _sentences(lesion: Lesion) -> dict:
    return {key: found for key, found in lesion.findings.items() if found.reviewed}


def _kept(found: TakenIn, name: str) -> list[str]:
    """What differs in another record."""
    sentences, record = [], found.record
    if found.kept:
        labels = {study.key: study.label for study in record.studies}
        places = [_("{lesion} in {study}").format(lesion=each, study=labels.get(key, key)) for each, key in found.kept]
        text = _("{count} findings differ from those of {name} and were kept as they are here: {places}.")
        if len(places) == 1:
            text = _("{count} finding differs from that of {name} and was kept as it is here: {places}.")
        sentences.append(text.format(count=len(places), name=name, places=_few(places)))
    if found.described:
        text = _("Described otherwise in {name}, and kept as they are here: {lesions}.")
        sentences.append(text.format(name=name, lesions=_few([record.lesion(each).label for each in found.described])))
    return sentences


def _dated(logic: FollowUpLogic, record: FollowUp) -> list[str]:
    """Give scans without a date that of the record."""
    dates = {study.key: study.date for study in record.studies if study.date is not None}
    dated = []
    for study in logic.patient.studies:
        day = dates.get(logic.studyOf(study.volume))
        if study.date is None and day is not None:
            setDate(study.volume, day.isoformat())
            dated.append(f"{study.volume.GetName()} {day.isoformat()}")
    return [_("Dates set, which Undo leaves as they are: {dates}.").format(dates=", ".join(dated))] if dated else []


def _few(names: list[str]) -> str:
    if len(names) <= _NAMED:
        return ", ".join(names)
    return _("{names} and {count} more").format(names=", ".join(names[:_NAMED]), count=len(names) - _NAMED)
