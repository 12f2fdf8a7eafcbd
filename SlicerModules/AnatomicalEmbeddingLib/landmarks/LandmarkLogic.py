"""Landmarks in one scan (the template), and their answers in the other scans (the targets).

A click causes four steps:

    place    `_onPlaced` in this file: a click has placed a point (`ListObserver` finds clicks among Slicer's events)
    match    `LandmarkMatcher`: finds the point in each target, with the expected error of the answer
    answer   `AnswerLists`: writes the answers to one point list for each target
    show     `LandmarkLogic.jumpTo`: moves all views to the point and its answers
"""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from AnatomicalEmbedding.landmarks.markups import ROI
from AnatomicalEmbedding.matching.status import ABSENT
from AnatomicalEmbedding.scan.points import Measurement

from ..shared import Views
from ..shared.maps.MapStore import READY
from ..shared.maps.SceneRelations import SceneRelations
from ..shared.Signal import Flag, Listener, Signal
from ..shared.VolumeNodes import fromWorld, holds, toWorld
from .AnswerList import MOVED, REMOVED, AnswerList
from .AnswerLists import AnswerLists, Row
from .ControlPoints import definedIds, fromNode, labelOf, makeIdsUnique, worldOf
from .Edges import edgesOf
from .LandmarkHistory import LandmarkHistory
from .LandmarkMatcher import LandmarkMatcher
from .LandmarkSets import confirm
from .ListObserver import ListObserver
from .Measurements import measurementIn, measurementOf


class LandmarkLogic(Listener):
    """The landmarks, their answers and the views that show them.

    An answer that the user has placed is one more example of its point: the point is found again in the other targets.

    Signal changed(): emitted when points, answers or undo steps have changed. Signal reported(sentence): a message for
    the user. Signal shown(pointId): all views have moved to this point and its answers.

    `setScans` sets template (volume node in which the user places points) and targets (volume nodes in which the points
    are found). `setPoints` sets points (the template's point list, line, angle, curve, plane or box). jumps: True to
    move all views to each point that was placed or moved. A scan without a map is embedded first; its views move when
    the answer in this scan is found.
    """

    def __init__(self, scene, relations: SceneRelations) -> None:
        self.scene = scene
        self.store = relations.store
        self._relations = relations
        self.changed = Signal()
        self.reported = Signal()
        self.shown = Signal()
        self.template = self.points = None
        self.targets: list = []
        self.jumps = True
        self.history = LandmarkHistory(scene)
        self._answers = AnswerLists(scene)
        self._matcher = LandmarkMatcher(relations, self._answers)
        self._ownViews = Views.OwnViews(scene)
        self._observer: ListObserver | None = None  # of the template's list
        self._answerObservers: dict[str, ListObserver] = {}  # of the answers, by ID of the target
        self._writing = Flag()  # set while this class, not the user, changes the lists
        self.active = ""  # ID of the point that the views were moved to last
        # ID of the point placed or moved last, until all scans have an answer to this point
        self._awaited = ""
        # IDs of points placed where they cannot be matched; `poll` deletes them
        self._refused: list[str] = []
        # edges of the planes and boxes: at the last `poll`, and when the answers were updated
        self._edges: tuple[list, list] = ([], [])
        self.atEnd(self._forgetAll)
        self.listen(self.store.changed, self._onMap)
        self.listen(relations.changed, self._updateLate)
        self.observe(scene, scene.NodeRemovedEvent, self._onNodeRemoved)
        self.observe(scene, scene.StartCloseEvent, lambda *_: self._forgetAll())
        for event in (scene.EndUndoEvent, scene.EndRedoEvent):
            self.observe(scene, event, lambda *_: self._updateAnswers())
        mouse = scene.GetNodeByID("vtkMRMLInteractionNodeSingleton")
        if mouse is not None:
            self.observe(mouse, mouse.InteractionModeChangedEvent, lambda *_: self.showInOwnViews())

    # -- the scans and the points ------------------------------------------------------------------------------------

    def setScans(self, template, targets: Sequence) -> None:
        """Choose the template and the targets. template: None for no template. A template in `targets` is ignored."""
        targets = [node for node in targets if node is not None and node is not template]
        if template is self.template and targets == self.targets:
            return
        self.template = template
        self.targets = targets
        if template is None:
            self.setPoints(None)
        self._linkAnswers()

    def setPoints(self, listNode) -> None:
        if listNode is self.points:
            return
        if self._observer is not None:
            self._observer.stop()
            self._observer = None
            self._placeAlsoIn(())
        self.points = listNode
        self._refused = []
        self._awaited = ""
        self.history = LandmarkHistory(self.scene)
        if listNode is not None:
            self._observer = ListObserver(
                listNode,
                self._onPlaced,
                self._onMoved,
                self._onEdited,
                lambda: self._writing,
                self._onPreview,
            )
        self._linkAnswers()

    def prepare(self) -> None:
        """Start to embed each scan that has no map, except scans whose embedding failed before."""
        if self.template is not None:
            self.store.request([self.template, *self.targets], retry=False)

    def poll(self) -> None:
        """Update answers and views if points were renamed, views show another volume, or a scan was transformed.

        Call this a few times a second, after `MapStore.poll`.
        """
        if self._ownViews.follow():
            self.showInOwnViews()
        # a change while a click is handled would disturb the clicked view
        if not Views.isPlacing(self.scene):
            self._placeAlsoIn(())
        while self._refused:
            self.deletePoint(self._refused.pop())
        with self._writing:
            self._answers.followVolumes()
        if self._isBox and self.points.GetNumberOfControlPoints() == 1:
            # after the second click, the control point is still the first corner
            self.points.UpdateControlPointsFromROI()
        haveChanged = self._edgesHaveChanged()
        if self._observer is not None and (self._observer.takeDirty() or haveChanged):
            self._updateAnswers()
            self._record()

    def _edgesHaveChanged(self) -> bool:
        """Return True once after the user has turned or resized a plane or box, when it stays as it is."""
        nodes = [answerList.node for answerList in self._answers.lists.values()]
        if self.points is not None:
            nodes.append(self.points)
        edges = list(filter(None, map(edgesOf, nodes)))
        before, updated = self._edges
        haveChanged = edges == before and edges != updated
        self._edges = edges, edges if haveChanged else updated
        return haveChanged

    @property
    def _isBox(self) -> bool:
        return self.points is not None and self.points.GetMarkupType() == ROI

    # -- answers -----------------------------------------------------------------------------------------------------

    def answersIn(self, volumeNode) -> AnswerList | None:
        """Return the list of answers of one target; None if the target has no list of answers yet."""
        return self._answers.lists.get(volumeNode.GetID())

    def rows(self) -> list[Row]:
        return self._answers.rows(self._matcher.outside)

    def measurementIn(self, volumeNode) -> Measurement | None:
        """Return what the template's line, angle or curve measures in the template or a target, see `Measurements`."""
        if self.points is None:
            return None
        if volumeNode is self.template:
            return measurementOf(self.points)
        answerList = self.answersIn(volumeNode)
        return None if answerList is None else measurementIn(self.points, answerList)

    def absences(self, pointId: str) -> dict[str, str]:
        """Return volume ID -> sentence for the user, for each scan that does not show the point."""
        row = self._row(pointId)
        if row is None:
            return {}
        return {
            volumeId: f"{row.label}: not in this scan"
            for volumeId, answer in row.answers.items()
            if answer.status in (ABSENT, REMOVED)
        }

    def placeIn(self, volumeNode) -> np.ndarray | None:
        """Return the place (3,) of the active point, or of its answer, in a scan, world mm. None without a place."""
        if self.points is None:
            return None
        if volumeNode is self.template:
            return worldOf(self.points, self.active)
        answer = self._answers.answersIn(volumeNode).get(self.active)
        return None if answer is None else self.answersIn(volumeNode).worldOf(answer)

    def jumpTo(self, pointId: str) -> None:
        """Make a point the active point, and move all views to the point and its answers."""
        self._awaited = ""
        self.active = pointId
        for node in [self.template, *self.targets]:
            place = None if node is None else self.placeIn(node)
            if place is not None:
                Views.jump(self.scene, node, place)
        self.shown.emit(pointId)

    def step(self, offset: int) -> None:
        """Move all views to the point that comes `by` places after the active point. After the last comes the first."""
        ids = [] if self.points is None else definedIds(self.points)
        if ids:
            start = ids.index(self.active) if self.active in ids else min(-offset, 0)
            self.jumpTo(ids[(start + offset) % len(ids)])

    def showInOwnViews(self) -> None:
        """Draw each list of points only in the views of its volume.

        While the user places points, a click in a target's view also adds a point to the template's list, although this
        view does not draw the list.
        """
        if None not in (self.points, self.template):
            Views.showOnlyIn(self.points.GetDisplayNode(), self.scene, self.template)
        if Views.isPlacing(self.scene) and not self._isBox:
            self._placeAlsoIn(self.targets)
        for answerList in self._answers.lists.values():
            Views.showOnlyIn(answerList.node.GetDisplayNode(), self.scene, answerList.volumeNode)

    def _placeAlsoIn(self, targets: Sequence) -> None:
        """Let a click in a view of a target in `targets` also add a point to the template's list."""
        if self.points is not None:
            Views.takeClicksIn(self.scene, self.points, targets)

    # -- steps after a click -----------------------------------------------------------------------------------------

    def _onPlaced(self, index: int) -> None:
        """Match the new point with this index, which a click has placed in a view of the template or of a target."""
        # `poll` matches the centre of a box, which Slicer makes of two corners
        if self.template is None or self._isBox:
            return
        makeIdsUnique(self.points)
        self.points.SetNthControlPointVisibility(index, True)
        pointId = self.points.GetNthControlPointID(index)
        volumeId = self.points.GetNthControlPointAssociatedNodeID(index)
        clicked = next((node for node in self.targets if node.GetID() == volumeId), None)
        if clicked is None:
            self._match(pointId)
        elif not self._placeFromTarget(pointId, index, clicked):
            return
        self._endStep(pointId)

    def _onMoved(self, index: int) -> None:
        pointId = self.points.GetNthControlPointID(index)
        confirm(self.points, pointId)
        self._match(pointId)
        self._endStep(pointId)

    def _onPreview(self, index: int) -> None:
        """In the template's views, hide point `index`, which follows the mouse, while the mouse is over a target."""
        over = self.points.GetNthControlPointAssociatedNodeID(index)
        self.points.SetNthControlPointVisibility(
            index, over not in [node.GetID() for node in self.targets]
        )

    def _placeFromTarget(self, pointId: str, index: int, clicked) -> bool:
        """Move a new point, clicked in a target, to the same anatomical place of the template. Return False on failure.

        Moving fails if a map is missing, if the click lies outside the target, or if the template does not show the
        place. Then `poll` deletes the point later, because the view still uses the point during the click.
        """
        template = self.template
        label = labelOf(self.points, pointId)
        inClicked = fromWorld(clicked, [worldOf(self.points, pointId)])
        why = self._whyUnplaced(clicked, inClicked)
        if not why:
            match = self._relations.match(clicked, inClicked, [template])[0]
            if match.status is not None and match.status[0] == ABSENT:
                why = f"{template.GetName()} does not seem to show this place"
        if why:
            self._refused.append(pointId)
            self.points.SetNthControlPointVisibility(index, False)
            isReady = all(self.store.map(n) is not None for n in (clicked, template))
            remedy = f"click in {template.GetName()}{'' if isReady else ', or wait'}"
            self.reported.emit(f"{label}: not placed, because {why}; {remedy}.")
            self.prepare()
            return False
        with self._writing:
            place = toWorld(template, match.points_ras)[0]
            self.points.SetNthControlPointPositionWorld(index, *place)
            self.points.SetNthControlPointAssociatedNodeID(index, template.GetID())
        self._match(pointId)
        self._answerByHand(pointId, clicked, MOVED, inClicked[0])
        self.reported.emit(
            f"{label}: placed in {clicked.GetName()}. Its place in {template.GetName()} was found by matching; "
            "check this place before you use it."
        )
        return True

    def _whyUnplaced(self, clicked, place: np.ndarray) -> str:
        """Return why a click in a target cannot be matched in the template; "" if it can. place: (1, 3) RAS mm."""
        for node in (clicked, self.template):
            if self.store.map(node) is None:
                return f"{node.GetName()} is not prepared yet"
        if not holds(clicked, place)[0]:
            return f"it lies outside {clicked.GetName()}"
        if not self._relations.reachable(clicked, [self.template]):
            return "between a CT and a film, points are found only if the template is the CT"
        return ""

    def _match(self, pointId: str) -> None:
        self.prepare()
        with self._writing:
            sentences = self._matcher.match(self.template, pointId)
        self._showAnswers(sentences)

    def _updateAnswers(self) -> None:
        """Match the points that lack an answer, and show all answers. Changes by this class itself do not count."""
        if self._writing:
            return
        sentences = []
        if self.points is not None and self.template is not None:
            with self._writing:
                self._answers.tidy()
                sentences = self._matcher.match(self.template)
        self._showAnswers(sentences)

    def _showAnswers(self, sentences: Sequence[str]) -> None:
        for volumeId, answerList in self._answers.lists.items():
            if volumeId not in self._answerObservers:
                self._answerObservers[volumeId] = self._observerOf(answerList)
                Views.showOnlyIn(
                    answerList.node.GetDisplayNode(), self.scene, answerList.volumeNode
                )
        for sentence in sentences:
            self.reported.emit(sentence)
        self.changed.emit()

    def _endStep(self, pointId: str) -> None:
        self._record()
        if self.jumps:
            self._jumpToAwaited(pointId)

    def _jumpToAwaited(self, pointId: str) -> None:
        """Move all views to a point. If a target lacks an answer, the views move again when the next maps are ready."""
        self.jumpTo(pointId)
        row = self._row(pointId)
        if row is not None and row.inside and len(row.answers) < len(self.targets):
            self._awaited = pointId

    # -- corrections by the user -------------------------------------------------------------------------------------

    def setByHand(self, pointId: str, volumeNode, pointWorld: Sequence[float]) -> None:
        """Set the user's own answer in a target. Matching does not change it.

        Args:
            pointId: ID of the template point.
            volumeNode: the target.
            pointWorld: place of the answer, (3,) world mm.
        """
        self._answerByHand(pointId, volumeNode, MOVED, fromWorld(volumeNode, [pointWorld])[0])

    def confirm(self, pointId: str, volumeNode) -> None:
        """Record that the place of a point, or of its answer in a target, is right: it is an example from now on."""
        if volumeNode is self.template:
            confirm(self.points, pointId)
            self._match(pointId)
            self._record()
            return
        answer = self._answers.answersIn(volumeNode).get(pointId)
        place = None if answer is None else self.answersIn(volumeNode).worldOf(answer)
        if place is not None:
            self.setByHand(pointId, volumeNode, place)

    def setNotVisible(self, pointId: str, volumeNode) -> None:
        """Record the user's decision that the scan does not show the point."""
        self._answerByHand(pointId, volumeNode, REMOVED, None)

    def renamePoint(self, pointId: str, label: str) -> None:
        index = self.points.GetControlPointIndexByID(pointId)
        if index >= 0 and self.points.GetNthControlPointLabel(index) != label:
            with self._writing:
                self.points.SetNthControlPointLabel(index, label)
            self._updateAnswers()
            self._record()

    def deletePoint(self, pointId: str) -> None:
        index = self.points.GetControlPointIndexByID(pointId)
        if index >= 0:
            self.points.RemoveNthControlPoint(index)

    def matchAgain(
        self, pointIds: Iterable[str] | None = None, volumeNode=None, corrections: bool = False
    ) -> None:
        """Match points again.

        Args:
            pointIds: IDs of template points; None for all points.
            volumeNode: one target; None for all targets.
            corrections: True to also replace the user's own answers.
        """
        if self.points is None:
            return
        with self._writing:
            self._answers.forget(
                definedIds(self.points) if pointIds is None else pointIds, volumeNode, corrections
            )
        self.prepare()
        self._updateAnswers()
        self._record()

    def undo(self) -> None:
        self._restore(self.history.undo)

    def redo(self) -> None:
        self._restore(self.history.redo)

    def _answerByHand(
        self, pointId: str, volumeNode, status: str, position: Sequence[float] | None
    ) -> None:
        with self._writing:
            self._answers.setByHand(pointId, volumeNode, status, position)
            # the place is one more example for the other targets
            sentences = self._matcher.match(self.template)
        self._showAnswers(sentences)
        self._record()

    def _onAnswerMoved(self, answerList: AnswerList, index: int) -> None:
        answerId = answerList.node.GetNthControlPointID(index)
        pointId = answerList.sourceOf(answerId)
        if pointId is not None:
            self._answerByHand(
                pointId, answerList.volumeNode, MOVED, fromNode(answerList.node, answerId)
            )

    def _onEdited(self) -> None:
        if self.points is not None and definedIds(self.points):
            self.prepare()
        self._updateAnswers()
        self._record()

    def _record(self, isStep: bool = True) -> None:
        if self.points is not None:
            self.history.record(self.points, self._answers.lists.values(), isStep)
            self.changed.emit()

    def _restore(self, step: Callable[[], bool]) -> None:
        if self.points is None:
            return
        with self._writing:
            restored = step()
        if restored:
            self._updateAnswers()
            self._record(isStep=False)

    # -- changes of maps and nodes -----------------------------------------------------------------------------------

    def _onMap(self, volumeId: str) -> None:
        """Match again when the map of the template or of a target is ready; else only show the progress."""
        nodes = [self.template, *self.targets]
        node = next((n for n in nodes if n is not None and n.GetID() == volumeId), None)
        if node is None:
            return
        if self.points is None or self.store.state(node).status != READY:
            self.changed.emit()
            return
        self._updateLate()

    def _updateLate(self) -> None:
        """Update the answers after a new map or a new correspondence, without an undo step.

        Views that show the answer to the active point follow this answer.
        """
        following = [node for node in self.targets if self._showsActive(node)]
        self._updateAnswers()
        for node in following:
            place = self.placeIn(node)
            if place is not None:
                Views.jump(self.scene, node, place, centre=False)
        self._record(isStep=False)
        if self._awaited and not self._writing:
            self._jumpToAwaited(self._awaited)

    def _showsActive(self, node) -> bool:
        viewPlace = Views.pointInSlices(Views.viewsOf(self.scene, node))
        place = self.placeIn(node)
        if viewPlace is None or place is None:
            return False
        return np.allclose(viewPlace, place, atol=0.5)

    def _onNodeRemoved(self, *_: object) -> None:
        """Stop using nodes that were removed from the scene, and targets whose list of answers was removed."""
        targets = []
        for node in self.targets:
            answerList = self.answersIn(node)
            if self._isHere(node) and (answerList is None or self._isHere(answerList.node)):
                targets.append(node)
        if self.points is not None and not self._isHere(self.points):
            self.setPoints(None)
        self.setScans(self.template if self._isHere(self.template) else None, targets)

    def _linkAnswers(self) -> None:
        """Find the lists of answers again, after the point list or the targets have changed."""
        for observer in self._answerObservers.values():
            observer.stop()
        self._answerObservers = {}
        self._matcher.outside = set()
        self._answers.link(self.points, self.targets)
        self.showInOwnViews()
        self._updateAnswers()
        self._record(isStep=False)

    def _observerOf(self, answerList: AnswerList) -> ListObserver:
        def corrected(index: int) -> None:
            self._onAnswerMoved(answerList, index)

        return ListObserver(
            answerList.node, corrected, corrected, self._onEdited, lambda: self._writing
        )

    def _forgetAll(self) -> None:
        self.setPoints(None)
        self.setScans(None, [])

    def _isHere(self, node) -> bool:
        return node is not None and self.scene.GetNodeByID(node.GetID()) is node

    def _row(self, pointId: str) -> Row | None:
        return next((row for row in self.rows() if row.pointId == pointId), None)
