"""Points of one scan, answered in others: follows what the user does to the template's list and keeps answers in step.

Points are paired by control point ID. Answers of maps that are not ready come when they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from . import Views
from .AnswerList import ABSENT, MATCHED, MOVED, REMOVED, UNCERTAIN, Answer, AnswerList
from .ControlPoints import definedIds, fromNode, labelOf, makeIdsUnique, worldOf
from .LandmarkHistory import LandmarkHistory
from .ListObserver import ListObserver
from .MapStore import READY, MapStore
from .Signal import Signal
from .VolumeNodes import fromWorld, toWorld


@dataclass(frozen=True)
class Row:
    """One point of the template: its ID and label, and by volume ID the answers there are, and whether it lies in the
    template.
    """

    pointId: str
    label: str
    answers: dict[str, Answer]
    inside: bool


class LandmarkLogic:
    """changed(): answers, rows or what can be undone have changed. said(sentence): something the user should read.

    live: answers follow while a point is dragged, not only when it is released. effort: see `match_targets`.
    """

    def __init__(self, scene, store: MapStore) -> None:
        self.scene, self.store = scene, store
        self.changed, self.said = Signal(), Signal()
        self.template = self.points = None
        self.targets: list = []
        self.live, self.effort, self.jumps = False, "standard", True
        self.history = LandmarkHistory(scene)
        self._lists: dict[str, AnswerList] = {}
        self._answerObservers: dict[str, ListObserver] = {}
        self._observer: ListObserver | None = None
        self._writing = False
        self._outside: set[str] = set()
        store.changed.connect(self._onMap)
        self._tags = [
            scene.AddObserver(event, slot)
            for event, slot in (
                (scene.NodeRemovedEvent, self._onSceneChanged),
                (scene.StartCloseEvent, lambda *_: self.setScans(None, [])),
                (scene.EndUndoEvent, lambda *_: self.reconcile()),
                (scene.EndRedoEvent, lambda *_: self.reconcile()),
            )
        ]

    # -- what is worked on -------------------------------------------------------------------------------------------

    def setScans(self, template, targets: Sequence) -> None:
        """Template volume and target volumes; the template is no target. None: nothing."""
        targets = [node for node in targets if node is not None and node is not template]
        if template is self.template and targets == self.targets:
            return
        self.template, self.targets = template, targets
        if template is None:
            self.setPoints(None)
        self._link()
        self.reconcile()

    def setPoints(self, listNode) -> None:
        """The template's point list."""
        if listNode is self.points:
            return
        if self._observer is not None:
            self._observer.stop()
        self.points, self._observer = listNode, None
        self.history.clear()
        if listNode is not None:
            self._observer = ListObserver(
                listNode, self._onPlaced, self._onMoved, self._onDragging, self._onEdited, lambda: self._writing
            )
        self._link()
        self.reconcile()
        if listNode is not None:
            self.history.refresh(listNode, list(self._lists.values()))

    def prepare(self) -> None:
        """Start embedding of all scans that need it."""
        if self.template is not None:
            self.store.request([self.template, *self.targets])

    def poll(self) -> None:
        """To be called a few times a second: takes over maps, and edits that came as a storm of events."""
        self.store.poll()
        if self._observer is not None and self._observer.takeDirty():
            self.reconcile()
            self._settle()

    def close(self) -> None:
        """Stop observing; nothing in the scene changes."""
        self.store.changed.disconnect(self._onMap)
        for tag in self._tags:
            self.scene.RemoveObserver(tag)
        self._tags = []
        self.setPoints(None)

    # -- what there is -----------------------------------------------------------------------------------------------

    def answersIn(self, volumeNode) -> AnswerList | None:
        return self._lists.get(volumeNode.GetID())

    def rows(self) -> list[Row]:
        """A row for each point of the template, in its order."""
        if self.points is None:
            return []
        known = {volumeId: each.answers for volumeId, each in self._lists.items()}
        return [
            Row(
                pointId,
                labelOf(self.points, pointId),
                {volumeId: answers[pointId] for volumeId, answers in known.items() if pointId in answers},
                pointId not in self._outside,
            )
            for pointId in definedIds(self.points)
        ]

    def jumpTo(self, pointId: str, besides=None) -> None:
        """Move the views of every scan to a point and its answers; the slice view `besides` stays."""
        place = None if self.points is None else worldOf(self.points, pointId)
        if place is None:
            return
        Views.jump(self.scene, self.template, place, besides=besides)
        for each in self._lists.values():
            answer = each.answers.get(pointId)
            found = None if answer is None else each.worldOf(answer)
            if found is not None:
                Views.jump(self.scene, each.volumeNode, found, besides=besides)

    # -- what the user does ------------------------------------------------------------------------------------------

    def setByHand(self, pointId: str, volumeNode, pointWorld: Sequence[float]) -> None:
        """The user's own answer, which no matching overwrites."""
        position = fromWorld(volumeNode, [pointWorld])[0]
        self._byHand(pointId, volumeNode, lambda old: replace(old, status=MOVED, outdated=False), position)

    def setNotVisible(self, pointId: str, volumeNode) -> None:
        """The user says that the scan does not show the point."""
        self._byHand(pointId, volumeNode, lambda old: replace(old, status=REMOVED, outdated=False), None)

    def matchAgain(self, pointIds: Iterable[str] | None = None, volumeNode=None, corrections: bool = False) -> None:
        """Match some points, or all, in one volume or in all; corrections: also those answered by hand."""
        chosen = set(definedIds(self.points) if pointIds is None else pointIds)
        for each in self._lists.values():
            if volumeNode is None or each.volumeNode is volumeNode:
                with self._writes():
                    answers = each.answers
                    for key in chosen & answers.keys():
                        if corrections or not answers[key].byHand:
                            each.remove(answers.pop(key))
                    each.keep(answers)
        self.prepare()
        self.reconcile()
        self._settle()

    def undo(self) -> None:
        self._restore(self.history.undo)

    def redo(self) -> None:
        self._restore(self.history.redo)

    # -- keeping in step ---------------------------------------------------------------------------------------------

    def reconcile(self) -> None:
        """Make answers fit the template's points: new ones are matched, deleted ones go, labels are taken over."""
        if self._writing:
            return
        with self._writes():
            if self.points is not None:
                makeIdsUnique(self.points)
                for each in self._lists.values():
                    self._tidy(each)
                self._matchMissing()
        self.changed.emit()

    def _tidy(self, each: AnswerList) -> None:
        each.follow()
        wanted, kept = set(definedIds(self.points)), {}
        for key, answer in each.answers.items():
            if key not in wanted:
                each.remove(answer)
            elif each.hasPoint(answer):
                each.rename(answer, labelOf(self.points, key))
                kept[key] = answer
            else:  # the user deleted the answer itself: the scan does not show it
                label = labelOf(self.points, key)
                gone = replace(answer, pointId="", status=REMOVED, outdated=False)
                kept[key] = each.write(key, label, (0.0, 0.0, 0.0), gone)
        if kept != each.answers:
            each.keep(kept)

    def _matchMissing(self) -> None:
        """Match what has no answer, or one by other weights or of other voxels, where both maps are there."""
        ids = definedIds(self.points)
        if self.template is None or not ids or not self.targets:
            return
        templateMap = self.store.map(self.template)
        if templateMap is None:
            return
        places = fromWorld(self.template, [worldOf(self.points, pointId) for pointId in ids])
        inside = templateMap.contains(places)
        self._tellOutside({pointId for pointId, there in zip(ids, inside, strict=True) if not there})
        groups: dict[tuple[int, ...], list] = {}
        for target in self.targets:
            targetMap = self.store.map(target)
            if targetMap is None:
                continue
            answers = self._listFor(target).answers
            source = madeFrom(templateMap, targetMap)
            missing = tuple(
                n for n, pointId in enumerate(ids) if inside[n] and _needsMatch(answers.get(pointId), source)
            )
            if missing:
                groups.setdefault(missing, []).append(target)
        for missing, targets in groups.items():
            self._match([ids[n] for n in missing], places[list(missing)], targets, self.effort)

    def _match(self, ids: list[str], places: np.ndarray, targets: list, effort: str) -> None:
        from AnatomicalEmbedding.errors import AnatomicalEmbeddingError

        templateMap = self.store.map(self.template)
        maps = [self.store.map(target) for target in targets]
        try:
            found = self.store.engine.match(templateMap, places, maps, effort)
        except AnatomicalEmbeddingError as error:
            self.said.emit(str(error))
            return
        for target, targetMap, matches in zip(targets, maps, found, strict=True):
            each, source = self._listFor(target), madeFrom(templateMap, targetMap)
            answers = each.answers
            with nodeModify(each.node):
                for n, pointId in enumerate(ids):
                    old = answers.get(pointId)
                    answer = replace(judgement(matches, n, source), pointId="" if old is None else old.pointId)
                    label = labelOf(self.points, pointId)
                    answers[pointId] = each.write(pointId, label, matches.points_ras[n], answer)
            each.keep(answers)

    def _tellOutside(self, outside: set[str]) -> None:
        new = [labelOf(self.points, pointId) for pointId in outside - self._outside]
        self._outside = outside
        if new:
            self.said.emit(
                f"{', '.join(new)}: outside {self.template.GetName()}; place the point inside the template's scan."
            )

    def _listFor(self, volumeNode) -> AnswerList:
        volumeId = volumeNode.GetID()
        if volumeId not in self._lists:
            found = AnswerList.find(self.scene, self.points, volumeNode)
            self._watch(found or AnswerList.create(self.scene, self.points, volumeNode), volumeId)
        return self._lists[volumeId]

    def _link(self) -> None:
        """Take up the answers' lists that the scene holds for the present template and targets."""
        for observer in self._answerObservers.values():
            observer.stop()
        self._lists, self._answerObservers, self._outside = {}, {}, set()
        if self.points is None or self.template is None:
            return
        for target in self.targets:
            found = AnswerList.find(self.scene, self.points, target)
            if found is not None:
                self._watch(found, target.GetID())
        self.showInOwnViews()

    def _watch(self, each: AnswerList, volumeId: str) -> None:
        makeIdsUnique(each.node)
        self._lists[volumeId] = each
        self._answerObservers[volumeId] = ListObserver(
            each.node,
            lambda n: self._onAnswerMoved(each, n),
            lambda n: self._onAnswerMoved(each, n),
            None,
            self._onEdited,
            lambda: self._writing,
        )
        self.showInOwnViews()

    def showInOwnViews(self) -> None:
        """Restrict each list to the views of its volume. To be called when views show other volumes."""
        for node, volume in [(self.points, self.template), *((e.node, e.volumeNode) for e in self._lists.values())]:
            if node is not None and volume is not None and node.GetDisplayNode() is not None:
                Views.showOnlyIn(node.GetDisplayNode(), self.scene, volume)

    # -- events ------------------------------------------------------------------------------------------------------

    def _onPlaced(self, index: int) -> None:
        makeIdsUnique(self.points)
        pointId = self.points.GetNthControlPointID(index)
        if not self._takenFromTarget(pointId, index):
            self._renew([pointId], self.effort)
        self._settle()
        if self.jumps:
            self.jumpTo(pointId)

    def _takenFromTarget(self, pointId: str, index: int) -> bool:
        """A click in a target's view: the template's point is where that place is in the template."""
        clicked = next(
            (t for t in self.targets if t.GetID() == self.points.GetNthControlPointAssociatedNodeID(index)), None
        )
        maps = None if clicked is None else (self.store.map(clicked), self.store.map(self.template))
        if maps is None or None in maps:
            return False
        place = worldOf(self.points, pointId)
        inClicked = fromWorld(clicked, [place])
        if not maps[0].contains(inClicked)[0]:
            return False
        back = self.store.engine.match(maps[0], inClicked, [maps[1]])[0]
        with self._writes():
            self.points.SetNthControlPointPositionWorld(index, toWorld(self.template, back.points_ras)[0])
            self.points.SetNthControlPointAssociatedNodeID(index, self.template.GetID())
        label = labelOf(self.points, pointId)
        self.said.emit(
            f"{label}: placed in {clicked.GetName()}; its place in {self.template.GetName()} was found by matching."
        )
        self._renew([pointId], self.effort)
        self.setByHand(pointId, clicked, place)
        return True

    def _onMoved(self, index: int) -> None:
        pointId = self.points.GetNthControlPointID(index)
        self._renew([pointId], self.effort)
        self._settle()
        if self.jumps:
            self.jumpTo(pointId)

    def _onDragging(self, index: int) -> None:
        if self.live:
            self._renew([self.points.GetNthControlPointID(index)], "fast")

    def _renew(self, ids: list[str], effort: str) -> None:
        """The template's points have moved: match them now; a user's own answers stay and are marked."""
        self.prepare()
        templateMap = self.store.map(self.template) if self.template is not None else None
        ids = [pointId for pointId in ids if worldOf(self.points, pointId) is not None]
        with self._writes():
            for each in self._lists.values():
                self._retract(each, ids, templateMap is not None and self.store.map(each.volumeNode) is not None)
            if templateMap is not None and ids:
                self._matchMoved(templateMap, ids, effort)
        self.changed.emit()

    def _matchMoved(self, templateMap, ids: list[str], effort: str) -> None:
        places = fromWorld(self.template, [worldOf(self.points, pointId) for pointId in ids])
        inside = templateMap.contains(places)
        self._tellOutside((self._outside - set(ids)) | {i for i, there in zip(ids, inside, strict=True) if not there})
        ready = [target for target in self.targets if self.store.map(target) is not None]
        for n, pointId in enumerate(ids):
            if inside[n]:
                free = [t for t in ready if not _isByHand(self._listFor(t).answers.get(pointId))]
                if free:
                    self._match([pointId], places[n : n + 1], free, effort)
            else:
                for each in self._lists.values():
                    self._retract(each, [pointId], False)

    def _retract(self, each: AnswerList, ids: list[str], soon: bool) -> None:
        """What was said of points where they were. A user's own answers stay and are marked; others go, but for those
        that are written anew at once (soon).
        """
        answers = each.answers
        for key in set(ids) & answers.keys():
            answer = answers[key]
            if answer.byHand:
                answers[key] = replace(answer, outdated=True)
                each.show(answers[key])
            elif not soon:
                each.remove(answers.pop(key))
        each.keep(answers)

    def _onAnswerMoved(self, each: AnswerList, index: int) -> None:
        pointId = each.node.GetNthControlPointID(index)
        source = each.sourceOf(pointId)
        if source is not None:
            self._byHand(
                source,
                each.volumeNode,
                lambda old: replace(old, status=MOVED, outdated=False),
                fromNode(each.node, pointId),
            )

    def _byHand(self, pointId: str, volumeNode, change: Callable[[Answer], Answer], position) -> None:
        with self._writes():
            each = self._listFor(volumeNode)
            answers = each.answers
            new = change(answers.get(pointId, Answer("", MOVED)))
            position = fromNode(each.node, new.pointId) if position is None and new.pointId else position
            place = (0.0, 0.0, 0.0) if position is None else position
            answers[pointId] = each.write(pointId, labelOf(self.points, pointId), place, new)
            each.keep(answers)
        self._settle()
        self.changed.emit()

    def _onEdited(self) -> None:
        """A point was removed, here or among the answers."""
        self.reconcile()
        self._settle()

    def _onMap(self, volumeId: str) -> None:
        nodes = [self.template, *self.targets]
        node = next((n for n in nodes if n is not None and n.GetID() == volumeId), None)
        if node is None:
            return
        if self.store.state(node).status == READY and self.points is not None:
            self.reconcile()
            self.history.refresh(self.points, list(self._lists.values()))
        else:
            self.changed.emit()

    def _onSceneChanged(self, *_: object) -> None:
        """A node has gone: work on with what is left."""
        gone = [each for each in self._lists.values() if self.scene.GetNodeByID(each.node.GetID()) is not each.node]
        here = [t for t in self.targets if self.scene.GetNodeByID(t.GetID()) is t]
        without = [t for t in here if not any(each is self._lists.get(t.GetID()) for each in gone)]
        if self.points is not None and self.scene.GetNodeByID(self.points.GetID()) is not self.points:
            self.setPoints(None)
        template = self.template
        if template is not None and self.scene.GetNodeByID(template.GetID()) is not template:
            template = None
        if template is not self.template or without != self.targets:
            self.setScans(template, without)

    def _settle(self) -> None:
        if self.points is not None:
            self.history.settle(self.points, list(self._lists.values()))
            self.changed.emit()

    def _restore(self, step: Callable[[], bool]) -> None:
        if self.points is None:
            return
        with self._writes():
            done = step()
        if done:
            self.reconcile()
            self.history.refresh(self.points, list(self._lists.values()))
            self.changed.emit()

    @contextmanager
    def _writes(self):
        """Our own changes to lists are not the user's."""
        before, self._writing = self._writing, True
        try:
            yield
        finally:
            self._writing = before


@contextmanager
def nodeModify(node):
    """One modified event for many changes."""
    before = node.StartModify()
    try:
        yield
    finally:
        node.EndModify(before)


def madeFrom(templateMap, targetMap) -> str:
    """Which weights and which voxels an answer is from."""
    of = templateMap.provenance
    return f"{of.weights_hash[:12]}-{of.scan_hash[:12]}-{targetMap.provenance.scan_hash[:12]}"


def judgement(matches, n: int, source: str) -> Answer:
    """What matching says of its n-th answer."""
    if matches.status is None:
        return Answer("", UNCERTAIN, madeFrom=source)
    status = {"matched": MATCHED, "absent": ABSENT}.get(str(matches.status[n]), UNCERTAIN)
    return Answer("", status, float(matches.expected_error_mm[n]), float(matches.probability[n]), source)


def _needsMatch(answer: Answer | None, source: str) -> bool:
    return answer is None or (not answer.byHand and answer.madeFrom != source)


def _isByHand(answer: Answer | None) -> bool:
    return answer is not None and answer.byHand
