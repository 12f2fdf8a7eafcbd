"""Says where the points of one scan of a scene lie in its other scans. Registrations are computed in the background."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..SceneNodes import haveOnePatient, isPatientSaid, setOnePatient
from ..Signal import Listener, Signal
from ..VolumeNodes import fromEngine, isFilm, snapshot, toEngine
from .MapStore import MapStore
from .Worker import Worker

if TYPE_CHECKING:
    import numpy as np

    from AnatomicalEmbedding.embedding.map import EmbeddingMap
    from AnatomicalEmbedding.matching.match import Matches
    from AnatomicalEmbedding.relations.relation import Relation


class SceneRelations(Listener):
    """The relations between the volumes that have a map in `store`.

    A relation by maps is there at once. Two scans of one patient, two films, and a CT and a film get a better relation,
    which is computed in the background after `request`. It is forgotten, and its computation cancelled, if the map of
    one of its two volumes is removed or replaced. While `busy`, call `poll` a few times a second.

    Signal changed(): such a relation is ready, or the user has said whether scans show one patient.
    """

    def __init__(self, scene, store: MapStore) -> None:
        self.scene = scene
        self.store = store
        self.changed = Signal()
        self._worker = Worker()
        self._waiting: list[tuple] = []  # pairs of volume nodes
        # IDs of two volumes -> their maps, and their relation, which is None while it waits or is computed
        self._computed: dict[tuple, tuple[list[EmbeddingMap], Relation | None]] = {}
        # IDs of two volumes; a relation with a refusal has not failed
        self._failed: set[tuple] = set()
        self.listen(store.changed, self._onMap)
        self.atEnd(self._worker.end)

    @property
    def busy(self) -> bool:
        """True while a relation waits or is being computed."""
        return bool(self._waiting) or self._worker.busy

    def relation(
        self, template, target, effort: str = "standard", *, isOnePatient: bool | None = None
    ) -> Relation | None:
        """Return the relation of two scans as it is known now. None if points of the template cannot be found.

        Points cannot be found if a map is missing, or between a CT and a film before their relation is computed.

        Args:
            template, target: volume nodes.
            effort: effort of matching, see `AnatomicalEmbedding.matching.match.match_all`. Two films are matched with
                the effort "fast" before their relation is computed.
            isOnePatient: True if both scans are known to show one patient; default: as the user has said. If they
                seem not to, the relation has a refusal.
        """
        maps = [self.store.map(node) for node in (template, target)]
        if None in maps:
            return None
        computed = self.computed(template, target)
        if computed is not None and not computed.refusal:
            return computed
        if isFilm(template) != isFilm(target):
            return None
        from AnatomicalEmbedding.relations.relate import relate

        byMaps = relate(*maps, same_patient=False, effort="fast" if isFilm(template) else effort)
        if isOnePatient is None:
            isOnePatient = isPatientSaid(self.scene, template)
        if computed is not None and isOnePatient:
            return replace(byMaps, refusal=computed.refusal)
        return byMaps

    def computed(self, template, target) -> Relation | None:
        """Return the relation that was computed in the background. None if it is not ready, or the scans belong to
        different patients, or the template is a film and the target a CT: a film's place is a line in a CT."""
        maps, relation = self._computed.get((template.GetID(), target.GetID()), ([], None))
        isCurrent = maps == [self.store.map(template), self.store.map(target)]
        isLine = isFilm(template) and not isFilm(target)
        if isCurrent and not isLine and not self.areApart(template, target):
            return relation
        return None

    def areApart(self, template, target) -> bool:
        """Return True if two CTs belong to different patients of the subject hierarchy."""
        return not isFilm(target) and haveOnePatient(self.scene, template, target) is False

    def say(self, volumeNodes: Sequence, isOne: bool) -> None:
        """Record the user's word that volumes show one patient, or different patients. See `setOnePatient`."""
        setOnePatient(self.scene, volumeNodes, isOne)
        self.changed.emit()

    def reachable(self, template, targets: Sequence) -> list:
        """Return the targets in which points of the template can be found now."""
        return [node for node in targets if self.relation(template, node) is not None]

    def match(
        self, template, pointsRas: np.ndarray, targets: Sequence, effort: str = "standard"
    ) -> list[Matches]:
        """Find points of the template in targets that are `reachable`. Returns one `Matches` for each target.

        Args:
            template, targets: volume nodes.
            pointsRas: (N, 3) in the template's own RAS mm; the answers are in each target's own RAS mm.
            effort: see `relation`.
        """
        from AnatomicalEmbedding.relations.relation import matches_in_all

        relations = [self.relation(template, target, effort) for target in targets]
        answers = matches_in_all(relations, toEngine(template, pointsRas))
        return [
            replace(matches, points_ras=fromEngine(target, matches.points_ras))
            for target, matches in zip(targets, answers, strict=True)
        ]

    def doubts(self, template, pointsRas: np.ndarray, target, matches: Matches) -> list[str]:
        """Return what speaks against each answer in one target, as `doubt_of` says it; "" for nothing.

        The levels of the spine of two different people are not compared.

        Args:
            template, pointsRas, target: as in `match`.
            matches: the result of `match`.
        """
        from AnatomicalEmbedding.followup.doubts import doubt_of
        from AnatomicalEmbedding.registration import BY_REGISTRATION

        if isFilm(target):
            return [""] * len(matches)
        matches = replace(matches, points_ras=toEngine(target, matches.points_ras))
        relation = self.relation(template, target)
        source = self.store.map(template) if relation.found_by == BY_REGISTRATION else None
        points = toEngine(template, pointsRas)
        return [
            doubt_of(matches[[n]], point, source, self.store.map(target), relation)
            for n, point in enumerate(points)
        ]

    def request(
        self, template, targets: Sequence, ofOnePatient: bool = False, retry: bool = True
    ) -> None:
        """Start to compute the relations of one volume to others. Volumes without a map are left out.

        Two films, and a CT and a film, need not show one patient.

        Args:
            template, targets: volume nodes.
            ofOnePatient: True if volumes without a patient in the subject hierarchy show one patient. If False, only
                targets that have the same patient as the template there are used.
            retry: True to also try the pairs whose computation failed before.
        """
        for target in targets:
            key = (template.GetID(), target.GetID())
            isKnown = key in self._computed or (key in self._failed and not retry)
            if template is target or isKnown:
                continue
            if None in (self.store.map(template), self.store.map(target)):
                continue
            if (isFilm(template) and not isFilm(target)) or self.areApart(template, target):
                continue
            if ofOnePatient or isFilm(target) or haveOnePatient(self.scene, template, target):
                # no relation yet, in either direction
                self._computed[key] = self._computed[key[::-1]] = ([], None)
                self._waiting.append((template, target))

    def poll(self) -> None:
        """Store the results of the background thread. Start the next computation when all maps are made."""
        for event in self._worker.poll():
            if event.kind == "done":
                maps, relation = event.result
                self._computed[event.key] = maps, relation
                self._computed[event.key[::-1]] = maps[::-1], relation.inverse()
                self.changed.emit()
            elif event.kind != "progress":
                for key in (event.key, event.key[::-1]):
                    del self._computed[key]
                    self._failed.add(key)
        if self._waiting and not self._worker.busy and not self.store.busy:
            self._start(*self._waiting.pop(0))

    def _start(self, *nodes) -> None:
        """Start to compute the relation of two volumes. nodes: the template and the target."""
        maps = [self.store.map(node) for node in nodes]
        engine = self.store.engine
        if None in maps:  # voxels have changed while the pair waited
            self._forget(nodes[0].GetID())
            return
        copies = [snapshot(node) for node in nodes]

        def work(progress, cancelled) -> tuple[list[EmbeddingMap], Relation]:
            return maps, engine.relate(
                [copy.volume() for copy in copies], maps, progress, cancelled
            )

        self._worker.submit(tuple(node.GetID() for node in nodes), work)

    def _onMap(self, volumeId: str) -> None:
        node = self.scene.GetNodeByID(volumeId)
        if node is None or self.store.map(node) is None:
            self._forget(volumeId)

    def _forget(self, volumeId: str) -> None:
        """Drop all relations of a volume, and do not compute those that wait."""
        for key in [*self._computed, *self._failed]:
            if volumeId in key:
                self._computed.pop(key, None)
                self._failed.discard(key)
                self._worker.cancel(key)
        self._waiting = [
            nodes for nodes in self._waiting if volumeId not in [node.GetID() for node in nodes]
        ]
