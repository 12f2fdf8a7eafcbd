"""Applies the user's actions to the follow-up of one patient, proposes places of lesions, and shows the lesions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
from AnatomicalEmbedding.followup.lesions import LONG, PROPOSED, SHORT, WITH_PLACE, Axis, Point
from AnatomicalEmbedding.followup.record import FollowUp

from ..shared import Views
from ..shared.maps.MapStore import READY
from ..shared.maps.SceneRelations import SceneRelations
from ..shared.Signal import Listener, Signal
from ..shared.UndoStack import UndoStack
from ..shared.VolumeNodes import fromWorld, toWorld
from .LesionClicks import LesionClicks
from .LesionMirror import LesionMirror
from .StudyNodes import createRecord, findRecord, inStudies, keyedVolumes, studiesOf, writeRecord
from .StudyOrder import Patient

if TYPE_CHECKING:
    from AnatomicalEmbedding.embedding.map import EmbeddingMap
    from AnatomicalEmbedding.relations.relation import Relation

# a view that shows a greater width or height is zoomed in when it moves to a lesion
_LESION_MM = 150.0


class FollowUpLogic(Listener):
    """Keeps the follow-up of one patient. Places are in the RAS mm of the volume, before its parent transform. If a
    method cannot change the record, it emits `reported` with the reason and returns False or "".

    Signal changed(): the record or the undo history has changed. Signal reported(sentence): a message for the user.
    Signal touched(lesion, study): the user marked, moved or measured the lesion in a view of the study. Signal
    proposed(places): places were proposed, or proposed places have moved; a set of (lesion id, study key).

    volumes: the loaded volumes of the patient, study key -> node, in order of date. history: the records that undo and
    redo restore. node: the text node that stores the record in the scene; None before the first lesion is marked.
    mirror: shows the record in the views.
    """

    def __init__(self, scene, relations: SceneRelations) -> None:
        self.scene = scene
        self.store = relations.store
        self._relations = relations
        self.changed = Signal()
        self.reported = Signal()
        self.touched = Signal()
        self.proposed = Signal()
        self.placing = LesionClicks(scene)
        self.placing.completed.connect(self._onClicked)
        self.mirror = LesionMirror(scene)
        self.mirror.placed.connect(self._onPlaced)
        self.mirror.measured.connect(self._onMeasured)
        self.mirror.reported.connect(self.reported.emit)
        self._release()
        self.listen(self.store.changed, self._onMap)
        self.listen(relations.changed, self._onRelation)
        self.observe(scene, scene.NodeRemovedEvent, lambda *_: self._onNodeRemoved())
        self.observe(scene, scene.StartCloseEvent, lambda *_: self.setPatient(None))
        self.atEnd(self.placing.poll, self._release)

    # -- the patient -------------------------------------------------------------------------------------------------

    @property
    def record(self) -> FollowUp:
        """The record as it is now: all studies, lesions and findings of the patient."""
        return self.history.now

    def setPatient(self, patient: Patient | None) -> None:
        """Start the follow-up of a patient, or continue the patient's record in the scene. None ends the follow-up."""
        if patient is None or not patient.studies:
            if self.patient is not None:
                self._release()
                self.changed.emit()
            return
        keyed = keyedVolumes(self.scene)
        loaded = studiesOf(self.scene, patient)
        volumes = {study.key: keyed[study.key] for study in loaded}
        isSame = self.patient is not None and self.patient.key == patient.key
        isContinued = isSame and bool(volumes.keys() & self.volumes.keys())
        before = self.history
        # a scene loaded later may have a record
        if not isContinued or (self.node is None and not self.history.canUndo):
            node, record, problems = findRecord(self.scene, patient, volumes)
            if not isContinued or node is not None:
                self._release()
                self.node = node
                self.history = UndoStack(record)
                for problem in problems:
                    self.reported.emit(problem)
        self.patient = patient
        self.volumes = volumes
        self._shown = {
            study: node for study, node in self._shown.items() if volumes.get(study) is node
        }
        record = inStudies(self.record, loaded, self.record.studies)
        if record != self.record:
            self.history.refresh(record)
            self._renew()
        else:
            self._draw()
            if self.history is not before:
                self.changed.emit()

    def setShown(self, volumeNodes) -> None:
        """Set the volumes that the views show. The axes of lesions are drawn as lines only in these volumes."""
        volumes = {study: node for study, node in self.volumes.items() if node in volumeNodes}
        if volumes != self._shown:
            self._shown = volumes
            self._draw()

    def studyOf(self, volumeNode) -> str:
        """Return the study key of a volume; "" if the volume does not belong to this patient."""
        return next((study for study, node in self.volumes.items() if node is volumeNode), "")

    def prepare(self) -> None:
        """Start to make the maps of all scans without a map. Scans whose preparation has failed are skipped."""
        self.store.request(self.volumes.values(), retry=False)

    def poll(self) -> None:
        """Read the user's changes from the scene. Call `poll` a few times a second, after `MapStore.poll`."""
        self.placing.poll()
        self.mirror.poll()

    def openPlaces(self) -> list[tuple[str, str]]:
        """Return (lesion id, study key) of each unreviewed proposal in the loaded studies, in order of the studies."""
        unreviewed = self.record.unreviewed()
        return [(lesion.id, study.key) for lesion, study in unreviewed if study.key in self.volumes]

    # -- views -------------------------------------------------------------------------------------------------------

    def placeOf(self, lesion: str, study: str) -> np.ndarray | None:
        """Return a lesion's place in a study, (3,) world RAS mm; None if it has no place or the scan is not loaded."""
        finding = self.record.finding(lesion, study)
        volume = self.volumes.get(study)
        if finding is None or finding.point_ras is None or volume is None:
            return None
        return toWorld(volume, [finding.point_ras])[0]

    def jumpTo(self, lesion: str, studies: Iterable[str] | None = None) -> None:
        """Move the views of each study to the lesion's place in this study, and zoom in. studies: None for all."""
        for study in self.volumes if studies is None else studies:
            place = self.placeOf(lesion, study)
            if place is not None:
                Views.jump(self.scene, self.volumes[study], place, atMostMm=_LESION_MM)

    # -- actions of the user -----------------------------------------------------------------------------------------

    def mark(self, study: str, place: Point, lesion: str | None = None) -> str:
        """Mark a lesion at a place, or move it to the place. Then call `prepare`.

        Args:
            study: key of the study.
            place: (3,) RAS mm of the study.
            lesion: ID of the lesion; None for a new lesion.

        Returns:
            The ID of the lesion; "" if the record cannot be changed.
        """

        def step(record: FollowUp) -> FollowUp:
            if lesion is not None and record.finding(lesion, study) is not None:
                return record.move(lesion, study, place)
            return record.mark(study, place, lesion)

        marked = lesion or self.record.free_id()
        done = self.apply(step)
        self.prepare()
        return marked if done else ""

    def measure(
        self, lesion: str, study: str, longAxis: Axis | None, shortAxis: Axis | None
    ) -> bool:
        """Set a lesion's axes in a study. A place that no person has reviewed may move to the middle of an axis.

        Args:
            lesion: ID of the lesion.
            study: key of the study.
            longAxis, shortAxis: two ends each, RAS mm; None without the axis.
        """

        def step(record: FollowUp) -> FollowUp:
            placed = _placedOn(record, lesion, study, longAxis or shortAxis)
            return placed.measure(lesion, study, longAxis, shortAxis)

        return self.apply(step)

    def apply(self, step: Callable[..., FollowUp], *arguments: object, **changes: object) -> bool:
        """Replace the record by `step(record, ...)`, as one change for undo. Example: `apply(FollowUp.remove, "L1")`.

        If `step` raises AnatomicalEmbeddingError, nothing changes; the message is reported and False is returned.
        """
        try:
            record = step(self.record, *arguments, **changes)
        except AnatomicalEmbeddingError as error:
            self.reported.emit(str(error))
            self._draw()  # moves a dragged point back
            return False
        self.history.step(record)
        self._renew()
        return True

    def undo(self) -> None:
        """Restore the record as it was before the user's last change."""
        self._restore(self.history.undo)

    def redo(self) -> None:
        """Make the change again that the last undo reversed."""
        self._restore(self.history.redo)

    # -- the mouse ---------------------------------------------------------------------------------------------------

    def placeLesion(self, lesion: str | None = None) -> None:
        """Wait for a click in a view, and mark the lesion there. lesion: id of the lesion; None for a new lesion."""
        self.placing.start(lesion, "", lesion or self.record.free_id())

    def drawAxis(self, lesion: str, kind: str) -> None:
        """Wait for two clicks in a view: the ends of an axis of the lesion. kind: LONG or SHORT."""
        self.placing.start(lesion, kind, f"{lesion} {kind}")

    def _onClicked(self, lesion: str | None, kind: str, volumeNode, places: np.ndarray) -> None:
        """Mark, move or measure a lesion. kind: "" for its place, or the axis of which `places` are both ends."""
        study = self.studyOf(volumeNode)
        if not study:
            self.reported.emit(
                "The click was not in a study of this patient; click in a slice view of a study."
            )
            return
        ends = tuple(tuple(end) for end in fromWorld(volumeNode, places))  # one point, or two ends
        if not kind:
            self._onPlaced(study, ends[0], lesion)
            return
        finding = self.record.finding(lesion, study)
        axes = {kind: ends}  # replaces axes that no person has confirmed
        if finding is not None and finding.size.confirmed:
            axes = {**finding.size.axes, kind: ends}
        if self.measure(lesion, study, axes.get(LONG), axes.get(SHORT)):
            self.touched.emit(lesion, study)

    def _onPlaced(self, study: str, place: Point, lesion: str | None = None) -> None:
        marked = self.mark(study, place, lesion)
        if marked:
            self.touched.emit(marked, study)

    def _onMeasured(
        self, lesion: str, study: str, longAxis: Axis | None, shortAxis: Axis | None
    ) -> None:
        if self.apply(FollowUp.measure, lesion, study, longAxis, shortAxis):
            self.touched.emit(lesion, study)

    # -- the scene ---------------------------------------------------------------------------------------------------

    def _restore(self, step: Callable[[], bool]) -> None:
        """Undo or redo. Earlier records may lack studies that were loaded since; these are added."""
        before = self.record.studies
        loaded = [study for study in before if study.key in self.volumes]
        step()
        self.history.refresh(inStudies(self.record, loaded, (*before, *self.record.studies)))
        self._renew()

    def _draw(self) -> None:
        """Show the record in the views as it is now."""
        self.mirror.show(self.record, self.volumes, self._shown)

    def _renew(self) -> None:
        """Renew the proposals of the record, store the record in the scene, and update its nodes.

        Proposals that rest on a place that is gone are removed; missing places of lesions are proposed.
        """
        before = _placed(self.record)
        grounded = _withoutGroundless(self.record)
        self.history.refresh(self._withProposals(grounded))
        new = _placed(self.record) - before
        if self.node is None and self.record.lesions:
            self.node = createRecord(self.scene, self.patient)
        if self.node is not None:
            writeRecord(self.node, self.record)
        self._draw()
        lesions = {None, *(lesion.id for lesion in self.record.lesions)}  # None: a new lesion
        if self.placing.active and self.placing.lesion not in lesions:
            self.placing.stop()  # the lesion is gone whose place the user should click
        self.changed.emit()
        if new:
            self.proposed.emit({(lesion, study) for lesion, study, _place in new})

    def _withProposals(self, record: FollowUp) -> FollowUp:
        """Return `record` with new proposals in each study whose map or lesions have changed since the last call."""
        maps = {}
        for study, node in self.volumes.items():
            embedding = self.store.map(node)
            if embedding is not None:
                maps[study] = embedding
        if not maps:
            self._asked = {}
            return record
        from AnatomicalEmbedding.followup.proposing import find_places, keep_queries

        relations = {pair: self._relation(*pair) for pair in permutations(maps, 2)}
        questions = {study: _question(record, study, maps, relations) for study in maps}
        changed = [study for study in maps if questions[study] != self._asked.get(study, {})]
        record = keep_queries(record, maps)
        reasons: dict[str, dict[str, str]] = {}
        if changed:
            try:
                record, reasons = find_places(
                    record, changed, maps, relation_of=lambda *pair: relations[pair]
                )
            except AnatomicalEmbeddingError as error:
                self.reported.emit(str(error))
        for study, sentences in reasons.items():
            for lesion in sentences.keys() & questions[study].keys():
                self.reported.emit(sentences[lesion])
                record = record.forget(lesion, study)
        self._asked = {study: _question(record, study, maps, relations) for study in maps}
        self._requestRelations(record, maps)
        return record

    def _requestRelations(self, record: FollowUp, maps: Mapping[str, EmbeddingMap]) -> None:
        """Register the two scans of each proposal in the background. The result makes the proposal again."""
        for lesion, study in record.unreviewed():
            guess = lesion.findings[study.key].guess
            if guess is not None and {guess.source, study.key} <= maps.keys():
                volumes = self.volumes[guess.source], [self.volumes[study.key]]
                self._relations.request(*volumes, ofOnePatient=True)

    def _relation(self, source: str, target: str) -> Relation:
        """Return the relation of two studies, given their keys."""
        return self._relations.relation(
            self.volumes[source], self.volumes[target], isOnePatient=True
        )

    def _onMap(self, volumeId: str) -> None:
        node = next((node for node in self.volumes.values() if node.GetID() == volumeId), None)
        if node is not None and self.store.state(node).status == READY:
            self._renew()

    def _onRelation(self) -> None:
        if self.patient is not None:
            self._renew()

    def _onNodeRemoved(self) -> None:
        """Clear the follow-up if its node was removed, and forget the scans that were removed."""
        if self.node is not None and self.node.GetScene() is not self.scene:
            self.node = None
            if self.record.lesions:
                self.history.step(replace(self.record, lesions=()))
                self.reported.emit(
                    "The follow-up was deleted from the scene; press Undo to restore it."
                )
                self._renew()
        remaining = {
            study: node for study, node in self.volumes.items() if node.GetScene() is self.scene
        }
        if len(remaining) < len(self.volumes):
            self.volumes = remaining
            studies = tuple(
                study for study in self.patient.studies if study.volume.GetScene() is self.scene
            )
            self.patient = replace(self.patient, studies=studies)
            self.setShown(self._shown.values())
            self._draw()

    def _release(self) -> None:
        """End the follow-up of the patient. The record and its nodes stay in the scene."""
        self.placing.stop()
        self.mirror.stop()
        # study key -> `_question(...)` at the last proposal
        self._asked: dict[str, dict[str, tuple]] = {}
        self.history = UndoStack(FollowUp())
        self.patient: Patient | None = None
        self.node = None
        self.volumes: dict[str, object] = {}
        self._shown: dict[str, object] = {}


def _placed(record: FollowUp) -> set[tuple[str, str, Point | None]]:
    """Return the lesion id, the study key and the place of each finding in the record."""
    return {
        (lesion.id, study, finding.point_ras)
        for lesion in record.lesions
        for study, finding in lesion.findings.items()
    }


def _placedOn(record: FollowUp, lesion: str, study: str, axis: Axis | None) -> FollowUp:
    """Return the record with the lesion's place in the study moved to the middle of `axis`.

    The record is not changed if `axis` is None, if a person has reviewed the place, or if the place is a proposal at
    most half the length of the axis away from the middle.
    """
    if axis is None:
        return record
    middle = tuple(np.mean(axis, axis=0))
    finding = record.finding(lesion, study)
    if finding is None:
        return record.mark(study, middle, lesion)
    if finding.reviewed and finding.state in WITH_PLACE:
        return record
    if finding.state == PROPOSED and math.dist(finding.point_ras, middle) <= math.dist(*axis) / 2:
        return record
    return record.move(lesion, study, middle)


def _question(
    record: FollowUp,
    study: str,
    maps: Mapping[str, EmbeddingMap],
    relations: Mapping[tuple[str, str], Relation],
) -> dict[str, tuple]:
    """Return the values that determine the proposals in a study; a proposal is made again if its values change.

    Args:
        record: the record.
        study: key of the study.
        maps: study key -> map.
        relations: (study key, study key) -> relation from the first to the second study.

    Returns:
        Lesion id -> values, for each lesion whose place or axes may be proposed in the study.
    """

    def scanOf(key: str) -> str:
        return maps[key].provenance.scan_hash if key in maps else ""

    def kindOf(key: str) -> tuple[str, str]:
        relation = relations.get((key, study))
        return ("", "") if relation is None else (relation.found_by, relation.refusal)

    question = {}
    order = tuple((entry.key, entry.date) for entry in record.studies)
    weights = maps[study].provenance.weights_hash
    for lesion in record.lesions:
        finding = lesion.findings.get(study)
        if finding is not None and finding.reviewed:
            hasNoSize = finding.visible and not finding.size.confirmed
            if not hasNoSize:
                continue
        # of findings in other studies from which a place can be proposed
        sources = []
        for key, source in sorted(lesion.visible.items()):
            # an absent scan has no map, but perhaps a query
            if key != study and (key in maps or source.query.startswith(weights)):
                size = str(source.size)
                sources.append((key, scanOf(key), *kindOf(key), source.point_ras, size))
        if sources:
            question[lesion.id] = (weights, scanOf(study), order, finding is None, *sources)
    return question


def _withoutGroundless(record: FollowUp) -> FollowUp:
    """Return the record without proposals that were made from a finding that is now removed or not visible."""
    for lesion, study in record.unreviewed():
        guess = lesion.findings[study.key].guess
        if guess is None:
            continue
        source = lesion.findings.get(guess.source)
        if source is None or not source.visible:
            record = record.forget(lesion.id, study.key)
    return record
