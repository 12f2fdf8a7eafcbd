"""Keeps the correspondences of scans of one patient in a scene. They are computed in the background."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..SceneNodes import haveOnePatient, isPatientSaid, setOnePatient
from ..Signal import Listener, Signal
from ..VolumeNodes import isFilm, snapshot
from .Worker import Worker

if TYPE_CHECKING:
    from AnatomicalEmbedding.registration.correspondence import Correspondence
    from AnatomicalEmbedding.registration.patient_scans import Refusal

    from .MapStore import MapStore


class Correspondences(Listener):
    """The correspondences between volumes that have a map. Signal changed(): a correspondence is ready or refused, or
    the user has said whether scans show one patient.

    A correspondence is forgotten, and its computation cancelled, if the map of one of its two volumes is removed or
    replaced.
    """

    def __init__(self, scene, store: MapStore) -> None:
        self.scene, self.store = scene, store
        self.changed = Signal()
        self._worker = Worker()
        self._waiting: list[tuple] = []  # pairs of volume nodes
        # IDs of two volumes -> their maps, and the result: a correspondence, or why the scans were refused
        self._known: dict[tuple, tuple[list, Correspondence | Refusal | None]] = {}
        self._failed: set[tuple] = set()  # IDs of two volumes; a refusal is a result and no failure
        self.listen(store.changed, self._onMap)
        self.atEnd(self._worker.end)

    @property
    def busy(self) -> bool:
        """True while a correspondence waits or is being computed."""
        return bool(self._waiting) or self._worker.busy

    def get(self, template, target) -> Correspondence | None:
        """Return the correspondence from one volume to another. None if it is not ready, or the scans were refused, or
        belong to different patients."""
        result = self.result(template, target)
        return None if _isRefusal(result) else result

    def refusal(self, template, target) -> str:
        """Return what speaks against one patient, for two scans that the user says show one patient; else ""."""
        result = self.result(template, target)
        isSaid = _isRefusal(result) and isPatientSaid(self.scene, template)
        return result.reason if isSaid else ""

    def result(self, template, target) -> Correspondence | Refusal | None:
        """Return the correspondence or the refusal of two scans. None if it is not ready, or the scans belong to
        different patients."""
        maps, found = self._known.get((template.GetID(), target.GetID()), ([], None))
        isCurrent = maps == [self.store.map(template), self.store.map(target)]
        return found if isCurrent and not self.areApart(template, target) else None

    def areApart(self, template, target) -> bool:
        """Return True if two CTs belong to different patients of the subject hierarchy."""
        return not isFilm(target) and haveOnePatient(self.scene, template, target) is False

    def say(self, volumeNodes: Sequence, isOne: bool) -> None:
        """Record the user's word that volumes show one patient, or different patients. See `setOnePatient`."""
        setOnePatient(self.scene, volumeNodes, isOne)
        self.changed.emit()

    def request(self, template, targets: Sequence, ofOnePatient: bool = False, retry: bool = True) -> None:
        """Start to compute the correspondences from one volume to others. Volumes without a map are left out.

        ofOnePatient: True if volumes without a patient in the subject hierarchy show one patient. If False, only
        targets that have the same patient as the template there are used. Two films, and a CT and a film, need not
        show one patient; but a place of a film has no single place in a CT, so from a film to a CT there is no
        correspondence. retry: True to also try the pairs whose computation failed before; pairs that do not show one
        patient are never tried again.
        """
        for target in targets:
            key = (template.GetID(), target.GetID())
            known = template is target or key in self._known or (key in self._failed and not retry)
            if known or None in (self.store.map(template), self.store.map(target)):
                continue
            if (isFilm(template) and not isFilm(target)) or self.areApart(template, target):
                continue
            if ofOnePatient or isFilm(target) or haveOnePatient(self.scene, template, target):
                self._known[key] = self._known[key[::-1]] = ([], None)
                self._waiting.append((template, target))

    def poll(self) -> None:
        """Store the results of the background thread. Start the next computation when all maps are made."""
        for event in self._worker.poll():
            if event.kind == "done":
                maps, found = event.result
                self._known[event.key] = maps, found
                self._known[event.key[::-1]] = maps[::-1], found if _isRefusal(found) else found.inverse()
                self.changed.emit()
            elif event.kind != "progress":
                for key in (event.key, event.key[::-1]):
                    del self._known[key]
                    self._failed.add(key)
        if self._waiting and not self._worker.busy and not self.store.busy:
            self._start(*self._waiting.pop(0))

    def _start(self, *nodes) -> None:
        maps, engine = [self.store.map(node) for node in nodes], self.store.engine
        if None in maps:  # voxels have changed while the pair waited
            self._forget(nodes[0].GetID())
            return
        copies = [snapshot(node) for node in nodes]

        def work(progress, cancelled) -> tuple[list, Correspondence | Refusal]:
            return maps, engine.pair([copy.volume() for copy in copies], maps, progress, cancelled)

        self._worker.submit(tuple(node.GetID() for node in nodes), work)

    def _onMap(self, volumeId: str) -> None:
        node = self.scene.GetNodeByID(volumeId)
        if node is None or self.store.map(node) is None:
            self._forget(volumeId)

    def _forget(self, volumeId: str) -> None:
        for key in [key for key in (*self._known, *self._failed) if volumeId in key]:
            self._known.pop(key, None)
            self._failed.discard(key)
            self._worker.cancel(key)
        self._waiting = [nodes for nodes in self._waiting if volumeId not in [node.GetID() for node in nodes]]


def _isRefusal(result) -> bool:
    from AnatomicalEmbedding.registration.patient_scans import Refusal

    return isinstance(result, Refusal)
