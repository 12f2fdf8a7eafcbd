"""Landmarks of one scan, answered in others: follows what the user does and keeps answers, views and undo in step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from AnatomicalEmbedding.matching.status import ABSENT

from ..shared.Flag import Flag
from ..shared.maps.MapStore import READY, MapStore
from ..shared.Signal import Listener, Signal
from ..shared.VolumeNodes import fromWorld, toWorld
from .AnswerList import MOVED, REMOVED, AnswerList
from .ControlPoints import definedIds, fromNode, labelOf, makeIdsUnique, worldOf
from .LandmarkHistory import LandmarkHistory
from .LandmarkMatcher import LandmarkMatcher, Row
from .LandmarkViews import LandmarkViews
from .ListObserver import ListObserver


class LandmarkLogic(Listener):
    """changed(): answers, rows or what can be undone have changed. reported(sentence): something the user should read.
    shown(pointId): all views have gone to a point and its answers.

    live: answers follow while a point is dragged, not only when it is released. jumps: the views of all scans go to a
    point that was placed or moved. Answers in scans that are not embedded yet come when they are, and the views go
    there then.
    """

    def __init__(self, scene, store: MapStore) -> None:
        self.scene, self.store = scene, store
        self.changed, self.reported, self.shown = Signal(), Signal(), Signal()
        self.live, self.jumps = False, True
        self.history = LandmarkHistory(scene)
        self._matcher = LandmarkMatcher(scene, store)
        self._matcher.reported.connect(self.reported.emit)
        self._matcher.listAdded.connect(self._watch)
        self._views = LandmarkViews(scene, self._matcher)
        self._observer: ListObserver | None = None
        self._answerObservers: list[ListObserver] = []
        self._writing = Flag()  # our own changes to lists are not the user's
        self._awaited = ""  # point that was placed, or moved, and is not answered in all scans yet
        self._strays: list[str] = []  # points that were clicked where they cannot be
        self.atEnd(self._release)
        self.listen(store.changed, self._onMap)
        self.observe(scene, scene.NodeRemovedEvent, self._onNodeRemoved)
        self.observe(scene, scene.StartCloseEvent, lambda *_: self._release())
        self.observe(scene, scene.EndUndoEvent, lambda *_: self.reconcile())
        self.observe(scene, scene.EndRedoEvent, lambda *_: self.reconcile())
        mouse = scene.GetNodeByID("vtkMRMLInteractionNodeSingleton")
        if mouse is not None:
            self.observe(mouse, mouse.InteractionModeChangedEvent, lambda *_: self.showInOwnViews())

    # -- what is worked on -------------------------------------------------------------------------------------------

    @property
    def template(self):
        """Volume node of the points, or None."""
        return self._matcher.template

    @property
    def targets(self) -> list:
        """Volume nodes that the points are found in."""
        return list(self._matcher.targets)

    @property
    def points(self):
        """The template's point list, or None."""
        return self._matcher.points

    @property
    def effort(self) -> str:
        """Of matching; see `AnatomicalEmbedding.matching.match.match_all`."""
        return self._matcher.effort

    @effort.setter
    def effort(self, effort: str) -> None:
        self._matcher.effort = effort

    def setScans(self, template, targets: Sequence) -> None:
        """Template volume and target volumes; the template is no target. None: nothing is worked on."""
        targets = [node for node in targets if node is not None and node is not template]
        if template is self.template and targets == self._matcher.targets:
            return
        self._matcher.template, self._matcher.targets = template, targets
        if template is None:
            self.setPoints(None)
        self._relink()

    def setPoints(self, listNode) -> None:
        """The template's point list, or None."""
        if listNode is self.points:
            return
        if self._observer is not None:
            self._observer.stop()
            self._observer = None
            self._views.release()
        self._matcher.points, self._strays = listNode, []
        self._awaited = ""
        self.history.clear()
        if listNode is not None:
            self._observer = ListObserver(
                listNode,
                self._onPlaced,
                self._onMoved,
                self._onDragging,
                self._onEdited,
                lambda: self._writing,
                self._onPreview,
            )
        self._relink()

    def prepare(self) -> None:
        """Start embedding of all scans that need it and have not failed before."""
        if self.template is not None:
            self.store.request([self.template, *self._matcher.targets], retry=False)

    def poll(self) -> None:
        """To be called a few times a second, after the store's: handles edits that came as many events, and lets
        the lists follow views that show another volume now, and volumes that lie below another transform.
        """
        self._views.follow()
        while self._strays:
            self.deletePoint(self._strays.pop())
        with self._writing:
            self._matcher.follow()
        if self._observer is not None and self._observer.takeDirty():
            self.reconcile()
            self._settle()

    # -- what there is -----------------------------------------------------------------------------------------------

    def answersIn(self, volumeNode) -> AnswerList | None:
        """The answers in one target, or None while there are none."""
        return self._matcher.lists.get(volumeNode.GetID())

    def rows(self) -> list[Row]:
        """A row for each point of the template, in its order."""
        return self._matcher.rows()

    def jumpTo(self, pointId: str) -> None:
        """Move the views of every scan to a point and its answers."""
        self._awaited = ""
        self._views.jumpTo(pointId)
        self.shown.emit(pointId)

    def absences(self, pointId: str) -> dict[str, str]:
        """By the ID of each volume that does not show a point, the sentence that says so."""
        row = next((row for row in self.rows() if row.pointId == pointId), None)
        answers = {} if row is None else row.answers
        return {
            volumeId: f"{row.label}: not in this scan"
            for volumeId, answer in answers.items()
            if answer.status in (ABSENT, REMOVED)
        }

    def showInOwnViews(self) -> None:
        """Restrict each list to the views of its volume. `poll` calls it when views show other volumes."""
        self._views.restrict()

    # -- what the user does ------------------------------------------------------------------------------------------

    def setByHand(self, pointId: str, volumeNode, pointWorld: Sequence[float]) -> None:
        """The user's own answer, which no matching overwrites."""
        self._byHand(pointId, volumeNode, MOVED, fromWorld(volumeNode, [pointWorld])[0])

    def setNotVisible(self, pointId: str, volumeNode) -> None:
        """The user says that the scan does not show the point."""
        self._byHand(pointId, volumeNode, REMOVED, None)

    def renamePoint(self, pointId: str, label: str) -> None:
        """Another label for a point and its answers."""
        index = self.points.GetControlPointIndexByID(pointId)
        if index >= 0 and self.points.GetNthControlPointLabel(index) != label:
            with self._writing:
                self.points.SetNthControlPointLabel(index, label)
            self.reconcile()
            self._settle()

    def deletePoint(self, pointId: str) -> None:
        """Delete a point, and its answers with it."""
        index = self.points.GetControlPointIndexByID(pointId)
        if index >= 0:
            self.points.RemoveNthControlPoint(index)

    def matchAgain(self, pointIds: Iterable[str] | None = None, volumeNode=None, corrections: bool = False) -> None:
        """Match some points, or all, in one volume or in all; corrections: also those answered by hand."""
        if self.points is None:
            return
        with self._writing:
            self._matcher.forget(definedIds(self.points) if pointIds is None else pointIds, volumeNode, corrections)
        self.prepare()
        self.reconcile()
        self._settle()

    def undo(self) -> None:
        """Back to before the last thing the user did to points or answers."""
        self._restore(self.history.undo)

    def redo(self) -> None:
        self._restore(self.history.redo)

    # -- keeping in step ---------------------------------------------------------------------------------------------

    def reconcile(self) -> None:
        """Make answers fit the template's points: new ones are matched, deleted ones go, labels are taken over."""
        if self._writing:
            return
        if self.points is not None and self.template is not None:
            with self._writing:
                self._matcher.tidy()
                self._matcher.matchMissing()
        self.changed.emit()

    def _relink(self) -> None:
        for observer in self._answerObservers:
            observer.stop()
        self._answerObservers = []
        self._matcher.link()
        self.showInOwnViews()
        self.reconcile()
        if self.points is not None:
            self.history.refresh(self.points, list(self._matcher.lists.values()))

    def _watch(self, each: AnswerList) -> None:
        def corrected(index: int) -> None:
            self._onAnswerMoved(each, index)

        self._answerObservers.append(
            ListObserver(each.node, corrected, corrected, None, self._onEdited, lambda: self._writing)
        )
        self._views.showOnlyIn(each.node, each.volumeNode)

    def _onPreview(self, index: int) -> None:
        """A point follows the mouse: over another scan it is not drawn, else the template would show it as well."""
        over = self.points.GetNthControlPointAssociatedNodeID(index)
        self.points.SetNthControlPointVisibility(index, over not in [node.GetID() for node in self._matcher.targets])

    def _onPlaced(self, index: int) -> None:
        if self.template is None:
            return
        makeIdsUnique(self.points)
        self.points.SetNthControlPointVisibility(index, True)
        pointId = self.points.GetNthControlPointID(index)
        volumeId = self.points.GetNthControlPointAssociatedNodeID(index)
        clicked = next((node for node in self._matcher.targets if node.GetID() == volumeId), None)
        if clicked is None:
            self._renew(pointId, self.effort)
        elif not self._takenFromTarget(pointId, index, clicked):
            return
        self._settled(pointId)

    def _onMoved(self, index: int) -> None:
        pointId = self.points.GetNthControlPointID(index)
        self._renew(pointId, self.effort)
        self._settled(pointId)

    def _onDragging(self, index: int) -> None:
        if self.live:
            self._renew(self.points.GetNthControlPointID(index), "fast")

    def _takenFromTarget(self, pointId: str, index: int, clicked) -> bool:
        """A click in a target's view: the template's point is where the template shows that place. Where that is not
        known the point goes, once the view has done with it: the same millimetres are another place in the template.
        """
        maps = [self.store.map(node) for node in (clicked, self.template)]
        inClicked = fromWorld(clicked, [worldOf(self.points, pointId)])
        if None in maps or not maps[0].contains(inClicked)[0]:
            self._strays.append(pointId)
            self.points.SetNthControlPointVisibility(index, False)
            unready = [node for node, each in zip((clicked, self.template), maps, strict=True) if each is None]
            why = f"outside {clicked.GetName()}" if not unready else f"{unready[0].GetName()} is not prepared yet"
            self.reported.emit(
                f"{labelOf(self.points, pointId)}: not placed, {why}; click in {self.template.GetName()}"
                f"{', or wait' if unready else ''}."
            )
            self.prepare()
            return False
        back = self.store.engine.match(maps[0], inClicked, maps[1:])[0]
        with self._writing:
            self.points.SetNthControlPointPositionWorld(index, *toWorld(self.template, back.points_ras)[0])
            self.points.SetNthControlPointAssociatedNodeID(index, self.template.GetID())
            self._matcher.matchMoved([pointId], self.effort)
            self._matcher.keepByHand(pointId, clicked, MOVED, inClicked[0])
        self.reported.emit(
            f"{labelOf(self.points, pointId)}: placed in {clicked.GetName()}; its place in {self.template.GetName()} "
            "was found by matching, look there before you rely on it."
        )
        return True

    def _renew(self, pointId: str, effort: str) -> None:
        self.prepare()
        with self._writing:
            self._matcher.matchMoved([pointId], effort)
        self.changed.emit()

    def _onAnswerMoved(self, each: AnswerList, index: int) -> None:
        answerId = each.node.GetNthControlPointID(index)
        pointId = each.sourceOf(answerId)
        if pointId is not None:
            self._byHand(pointId, each.volumeNode, MOVED, fromNode(each.node, answerId))

    def _byHand(self, pointId: str, volumeNode, status: str, position: Sequence[float] | None) -> None:
        with self._writing:
            self._matcher.keepByHand(pointId, volumeNode, status, position)
        self._settle()

    def _onEdited(self) -> None:
        """Points were removed, here or among the answers, or several were placed at once."""
        self.prepareIfUsed()
        self.reconcile()
        self._settle()

    def prepareIfUsed(self) -> None:
        """Start embedding when there is a point to match."""
        if self.points is not None and definedIds(self.points):
            self.prepare()

    def _onMap(self, volumeId: str) -> None:
        nodes = [self.template, *self._matcher.targets]
        node = next((n for n in nodes if n is not None and n.GetID() == volumeId), None)
        if node is None:
            return
        if self.points is not None and self.store.state(node).status == READY:
            self.reconcile()
            self.history.refresh(self.points, list(self._matcher.lists.values()))
            if self._awaited and not self._writing:
                self._jumpToNew(self._awaited)
        else:
            self.changed.emit()

    def _onNodeRemoved(self, *_: object) -> None:
        """Work on with what is left. A target whose answers were deleted is none any more."""
        here = [node for node in self._matcher.targets if self._isHere(node)]
        kept = [node for node in here if (each := self.answersIn(node)) is None or self._isHere(each.node)]
        if self.points is not None and not self._isHere(self.points):
            self.setPoints(None)
        self.setScans(self.template if self._isHere(self.template) else None, kept)

    def _release(self) -> None:
        self.setPoints(None)
        self.setScans(None, [])

    def _isHere(self, node) -> bool:
        return node is not None and self.scene.GetNodeByID(node.GetID()) is node

    def _settled(self, pointId: str) -> None:
        self._settle()
        if self.jumps:
            self._jumpToNew(pointId)

    def _jumpToNew(self, pointId: str) -> None:
        """Go to a point that was just placed, and again whenever another of its answers has come."""
        self.jumpTo(pointId)
        row = next((row for row in self.rows() if row.pointId == pointId), None)
        if row is not None and row.inside and len(row.answers) < len(self.targets):
            self._awaited = pointId

    def _settle(self) -> None:
        if self.points is not None:
            self.history.settle(self.points, list(self._matcher.lists.values()))
            self.changed.emit()

    def _restore(self, step: Callable[[], bool]) -> None:
        if self.points is None:
            return
        with self._writing:
            done = step()
        if done:
            self.reconcile()
            self.history.refresh(self.points, list(self._matcher.lists.values()))
            self.changed.emit()
