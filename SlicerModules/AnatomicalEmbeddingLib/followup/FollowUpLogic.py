"""The follow-up of one patient in a scene: what the user states, places proposed for lesions, and the nodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
from AnatomicalEmbedding.followup.lesions import PROPOSED, WITH_PLACE, Axis, Point
from AnatomicalEmbedding.followup.record import FollowUp
from AnatomicalEmbedding.followup.status import ABSENT, status_of

from ..shared import Views
from ..shared.maps.MapStore import READY, MapStore
from ..shared.Signal import Listener, Signal
from ..shared.UndoStack import UndoStack
from ..shared.VolumeNodes import toWorld
from .LesionClicks import LesionClicks
from .LesionMirror import LesionMirror
from .Proposer import Proposer
from .RecordNode import createRecord, findRecord, readRecord, writeRecord
from .StudyNodes import inStudies, keyedVolumes, studiesOf
from .StudyOrder import Patient

_LESION_MM = 150.0  # that views show across when they go to a lesion


class FollowUpLogic(Listener):
    """changed(): the record, or what can be undone, has changed. reported(sentence): something the user should read.
    touched(lesion, study): the user did something to it in a view. proposed(lesions): places of these were found
    in studies where nothing was known of them.

    volumes: the patient's volume nodes by study key, in order of time; studies of the record whose volumes are gone are
    not among them. Places given and kept are in a volume's own RAS mm. Methods that act on a lesion say why where it
    cannot be done, and return whether it was done.
    """

    def __init__(self, scene, store: MapStore) -> None:
        self.scene, self.store = scene, store
        self.changed, self.reported, self.touched, self.proposed = Signal(), Signal(), Signal(), Signal()
        self.patient: Patient | None = None
        self.volumes: dict[str, object] = {}
        self._clicks = LesionClicks(self)
        self.placing = self._clicks.placing
        self._history = UndoStack(FollowUp())
        self._node = None
        self._text = ""  # of the node, as we know it
        self._isNodeAdded = False  # to the scene, since the last poll
        self._shown: dict[str, object] = {}
        self._mirror = LesionMirror(scene)
        self._mirror.placed.connect(self._onPlaced)
        self._mirror.measured.connect(self._onMeasured)
        self._mirror.reported.connect(self.reported.emit)
        self._mirror.renamed.connect(lambda lesion, name: self.describe(lesion, name=name))
        self._proposer = Proposer(store)
        self._proposer.reported.connect(self.reported.emit)
        self.listen(store.changed, self._onMap)
        self.observe(scene, scene.NodeRemovedEvent, lambda *_: self._onNodeRemoved())
        self.observe(scene, scene.NodeAddedEvent, lambda *_: self._onNodeAdded())
        self.observe(scene, scene.StartCloseEvent, lambda *_: self.setPatient(None))
        self.atEnd(self.placing.poll, self._release)

    # -- what is worked on -------------------------------------------------------------------------------------------

    @property
    def record(self) -> FollowUp:
        """What is known of the patient's lesions."""
        return self._history.now

    @property
    def node(self):
        """The text node that keeps the record in the scene; None before the first lesion."""
        return self._node

    @property
    def canUndo(self) -> bool:
        return self._history.canUndo

    @property
    def canRedo(self) -> bool:
        return self._history.canRedo

    def setPatient(self, patient: Patient | None) -> None:
        """Work on a patient's studies, with the lesions that the scene holds for them; None: on nothing."""
        if patient is None or not patient.studies:
            if self.patient is not None:
                self._release()
                self.changed.emit()
            return
        keyed = keyedVolumes(self.scene)
        loaded = studiesOf(self.scene, patient, keyed)
        volumes = {study.key: keyed[study.key] for study in loaded}
        other = self.patient is None or self.patient.key != patient.key or not volumes.keys() & self.volumes.keys()
        before = self._history
        if other or (self._node is None and not self.canUndo):  # a scene loaded meanwhile may have brought a follow-up
            self._openRecord(patient, volumes, other)
        self.patient, self.volumes = patient, volumes
        self._shown = {study: node for study, node in self._shown.items() if volumes.get(study) is node}
        record = inStudies(self.record, loaded, self.record.studies)
        if record != self.record:
            self._history.refresh(record)
            self._show()
        else:
            self._mirror.show(self.record, self.volumes, self._shown)
            if self._history is not before:
                self.changed.emit()

    def setShown(self, volumeNodes) -> None:
        """The volumes that the views show: axes are lines in them."""
        ids = [node.GetID() for node in volumeNodes if node is not None]
        shown = {study: node for study, node in self.volumes.items() if node.GetID() in ids}
        if shown != self._shown:
            self._shown = shown
            self._mirror.show(self.record, self.volumes, shown)

    def studyOf(self, volumeNode) -> str:
        """Key of a volume; "" for one that is none of the patient's."""
        return next((study for study, node in self.volumes.items() if node is volumeNode), "")

    def prepare(self) -> None:
        """Start embedding of all scans that need it and have not failed before."""
        self.store.request(self.volumes.values(), retry=False)

    def poll(self) -> None:
        """To be called a few times a second, after the store's."""
        self.placing.poll()
        if self._node is not None or self._isNodeAdded:
            self._isNodeAdded = False
            self._readNode()
        self._mirror.poll()

    def openPlaces(self) -> list[tuple[str, str]]:
        """(lesion, study) of proposals that nobody has looked at, in the studies that are loaded; study by study."""
        unreviewed = self.record.unreviewed()
        return [(lesion.id, study.key) for lesion, study in unreviewed if study.key in self.volumes]

    # -- where things are --------------------------------------------------------------------------------------------

    def placeOf(self, lesion: str, study: str) -> np.ndarray | None:
        """(3,) world mm of a lesion, or None where it has no place, or its volume is not there."""
        found = self.record.finding(lesion, study)
        volume = self.volumes.get(study)
        if found is None or found.point_ras is None or volume is None:
            return None
        return toWorld(volume, [found.point_ras])[0]

    def jumpTo(self, lesion: str) -> None:
        """Move the views of every study to the lesion's place there, near enough to measure it."""
        for study, volume in self.volumes.items():
            place = self.placeOf(lesion, study)
            if place is not None:
                Views.jump(self.scene, volume, place, atMostMm=_LESION_MM)

    def showInOwnViews(self) -> None:
        """Restrict points and lines to the views of their volumes; `poll` does so too when views change."""
        self._mirror.restrict()

    # -- what the user does ------------------------------------------------------------------------------------------

    def mark(self, study: str, place: Point, lesion: str | None = None) -> str:
        """A lesion is here: a new one, or one known from other studies, whose place is corrected where it has one.
        Returns its id; "" where that could not be done.
        """

        def step(record: FollowUp) -> FollowUp:
            known = lesion is not None and record.finding(lesion, study) is not None
            return record.move(lesion, study, place) if known else record.mark(study, place, lesion)

        marked = lesion or self.record.free_id()
        done = self.apply(step)
        self.prepare()
        return marked if done else ""

    def confirm(self, lesion: str, study: str) -> bool:
        """The proposed place is right."""
        if status_of(self.record, lesion, study) == ABSENT:
            self.reported.emit(
                f"{lesion}: this scan does not seem to show its place. Press Outside or Not visible, or Move it where "
                "you see it."
            )
            return False
        return self.apply(lambda record: record.confirm(lesion, study))

    def notVisible(self, lesion: str, study: str) -> bool:
        """The scan shows the place, and no lesion there."""
        return self.apply(lambda record: record.not_visible(lesion, study))

    def outside(self, lesion: str, study: str) -> bool:
        """The scan does not show the place."""
        return self.apply(lambda record: record.outside(lesion, study))

    def merge(self, lesion: str, study: str, into: str) -> bool:
        """In this study the lesion is one with another."""
        return self.apply(lambda record: record.merge(lesion, study, into))

    def acceptSize(self, lesion: str, study: str) -> bool:
        """The axes shown are right as they are."""
        return self.apply(lambda record: record.accept_size(lesion, study))

    def measure(self, lesion: str, study: str, longAxis: Axis | None, shortAxis: Axis | None) -> bool:
        """The axes are these. A place that nobody has looked at goes to their middle where it lies off them."""

        def step(record: FollowUp) -> FollowUp:
            record = _placedOn(record, lesion, study, longAxis or shortAxis)
            return record.measure(lesion, study, longAxis, shortAxis)

        return self.apply(step)

    def describe(self, lesion: str, **changes: str | bool) -> bool:
        """Other name, site, target, nodal or split_from of a lesion."""
        return self.apply(lambda record: record.describe(lesion, **changes))

    def remove(self, lesion: str) -> bool:
        """Take a lesion out of all studies."""
        return self.apply(lambda record: record.remove(lesion))

    def apply(self, step: Callable[[FollowUp], FollowUp]) -> bool:
        """One step of the user's, that undo takes back: the record as `step` makes it. An AnatomicalEmbeddingError of
        it is reported, and nothing has changed.
        """
        self._readNode()
        try:
            record = step(self.record)
        except AnatomicalEmbeddingError as error:
            self.reported.emit(str(error))
            self._mirror.show(self.record, self.volumes, self._shown)  # what was dragged goes back
            return False
        self._history.step(record)
        self._show()
        return True

    def undo(self) -> None:
        """Back to before the last thing the user did."""
        self._restore(self._history.undo)

    def redo(self) -> None:
        self._restore(self._history.redo)

    # -- with the mouse ----------------------------------------------------------------------------------------------

    def placeLesion(self, lesion: str | None = None) -> None:
        """The next click in a view marks a new lesion, or is the place of a known one, in the study clicked in."""
        self._clicks.placeLesion(lesion)

    def drawAxis(self, lesion: str, kind: str) -> None:
        """The next two clicks in a view are the ends of the LONG or SHORT axis of a lesion, in the study clicked in."""
        self._clicks.drawAxis(lesion, kind)

    def _onPlaced(self, study: str, place: Point, lesion: str | None = None) -> None:
        self._touch(self.mark(study, place, lesion), study)

    def _onMeasured(self, lesion: str, study: str, longAxis: Axis | None, shortAxis: Axis | None) -> None:
        if self.apply(lambda record: record.measure(lesion, study, longAxis, shortAxis)):
            self._touch(lesion, study)

    def _touch(self, lesion: str, study: str) -> None:
        if lesion:
            self.touched.emit(lesion, study)

    # -- keeping in step ---------------------------------------------------------------------------------------------

    def _restore(self, step: Callable[[], bool]) -> None:
        self._readNode()
        before = self.record.studies
        loaded = [study for study in before if study.key in self.volumes]
        step()
        self._history.refresh(inStudies(self.record, loaded, (*before, *self.record.studies)))
        self._show()

    def _show(self) -> None:
        """Propose what is missing, keep the record in the scene, and show it."""
        known = _placed(self.record)
        self._history.refresh(self._proposer.propose(self.record, self.volumes))
        new = _placed(self.record) - known
        if self._node is None and self.record.lesions:
            self._node = createRecord(self.scene, self.patient)
        if self._node is not None:
            writeRecord(self._node, self.record)
            self._text = self._node.GetText()
        self._mirror.show(self.record, self.volumes, self._shown)
        self._clicks.follow(self.record)
        self.changed.emit()
        if new:
            self.proposed.emit({lesion for lesion, _study in new})

    def _openRecord(self, patient: Patient, volumes: Mapping[str, object], other: bool) -> None:
        """Go on with what the scene holds of a patient. other: than the one before."""
        node, record, problems = findRecord(self.scene, patient, volumes)
        if node is None and not other:
            return
        self._release()
        self._node, self._history = node, UndoStack(record)
        self._text = "" if node is None else node.GetText()
        for problem in problems:
            self.reported.emit(problem)

    def _readNode(self) -> None:
        """What another panel, or a script, has written of this patient since."""
        if self.patient is None or self.scene.IsBatchProcessing():
            return
        keep = self._history.step
        if self._node is None:
            self._node = findRecord(self.scene, self.patient, self.volumes)[0]
            keep = self._history.refresh  # it is no step of this user's
        if self._node is None or self._node.GetText() == self._text:
            return
        try:
            record = readRecord(self._node)
        except AnatomicalEmbeddingError as error:
            self.reported.emit(f"{error} What it held before was put back.")
        else:
            loaded = [study for study in self.record.studies if study.key in self.volumes]
            keep(inStudies(record, loaded, record.studies))
        self._show()

    def _onMap(self, volumeId: str) -> None:
        node = next((node for node in self.volumes.values() if node.GetID() == volumeId), None)
        if node is not None and self.store.state(node).status == READY:
            self._show()

    def _onNodeAdded(self) -> None:
        self._isNodeAdded = True

    def _onNodeRemoved(self) -> None:
        if self._node is not None and self._node.GetScene() is not self.scene:
            self._node = None
            if self.record.lesions:
                self._history.step(replace(self.record, lesions=()))
                self.reported.emit("The follow-up was deleted from the scene; Undo brings it back.")
                self._show()
        here = {study: node for study, node in self.volumes.items() if node.GetScene() is self.scene}
        if len(here) < len(self.volumes):
            self.volumes = here
            studies = tuple(each for each in self.patient.studies if each.volume.GetScene() is self.scene)
            self.patient = replace(self.patient, studies=studies)
            self.setShown(self._shown.values())
            self._mirror.show(self.record, self.volumes, self._shown)

    def _release(self) -> None:
        self.placing.stop()
        self._mirror.stop()
        self._proposer.forget()
        self._history = UndoStack(FollowUp())
        self.patient, self._node, self.volumes, self._shown = None, None, {}, {}


def _placed(record: FollowUp) -> set[tuple[str, str]]:
    """(lesion, study) of all places that are known."""
    return {(lesion.id, study) for lesion in record.lesions for study in lesion.findings}


def _placedOn(record: FollowUp, lesion: str, study: str, axis: Axis | None) -> FollowUp:
    """With a place for what is about to be measured: the axis' middle, unless a place near enough is known."""
    found = record.finding(lesion, study)
    if axis is None or (found is not None and found.reviewed and found.state in WITH_PLACE):
        return record
    middle = tuple(np.mean(axis, axis=0))
    if found is None:
        return record.mark(study, middle, lesion)
    if found.state == PROPOSED and math.dist(found.point_ras, middle) <= math.dist(*axis) / 2:
        return record
    return record.move(lesion, study, middle)
