"""Shows a follow-up in the scene as markups nodes, and reports the user's changes of these nodes."""

from collections.abc import Mapping
from functools import partial

from AnatomicalEmbedding.followup.lesions import LONG, SHORT
from AnatomicalEmbedding.followup.record import FollowUp

from ..landmarks.ListObserver import ListObserver
from ..shared import Views
from ..shared.Signal import Flag, Signal
from .LesionNodes import AxisLine, LesionPoints, showAxes


class LesionMirror:
    """Keeps the markups nodes of a follow-up. Its signals report changes made in a view or in the Markups module.

    Signal placed(study, place, lesion): the user moved a lesion's point, or added a point (lesion is None). Signal
    measured(lesion, study, longAxis, shortAxis): the user moved an end of an axis; None for an axis that the lesion
    does not have. Signal reported(sentence): a point or axis that the user deleted was restored. Places are in the RAS
    mm of the volume.
    """

    def __init__(self, scene) -> None:
        self.scene = scene
        self.placed = Signal()
        self.measured = Signal()
        self.reported = Signal()
        self._observers: dict[str, ListObserver] = {}  # node ID -> observer
        self._writing = Flag()
        self._ownViews = Views.OwnViews(scene)
        self.stop()

    def show(
        self, record: FollowUp, volumes: Mapping[str, object], visible: Mapping[str, object]
    ) -> None:
        """Set the points and lines to the values of a record. If the user is dragging a point, `poll` does this later.

        Args:
            record: the record.
            volumes: all volumes of the patient, study key -> node.
            visible: the volumes that views show, study key -> node. The axes of lesions are drawn only in these
                volumes.
        """
        self._record = record
        self._volumes = dict(volumes)
        self._shown = dict(visible)
        if self._inHand():
            self._edited = True
            return
        with self._writing:
            LesionPoints.removeLeftovers(self.scene)
            needed = set(self._points)  # a list of points that has become empty stays
            for lesion in record.lesions:
                needed |= lesion.findings.keys()
            self._points = {}
            for study, volume in self._volumes.items():
                if study in needed:
                    self._points[study] = LesionPoints.of(self.scene, volume)
                    self._points[study].show(record, study)
            self._lines = showAxes(self.scene, record, self._shown)
            self._observe()
        self.restrict()

    def restrict(self) -> None:
        """Show each node only in the views of the node's own volume."""
        for mark in (*self._points.values(), *self._lines):
            Views.showOnlyIn(mark.node.GetDisplayNode(), self.scene, mark.volumeNode)

    def poll(self) -> None:
        """Report the user's edits, then reset the edited nodes to the record. Call `poll` a few times a second."""
        if self._inHand():
            return
        self._ownViews.follow()
        nodes = [mark.node for mark in (*self._points.values(), *self._lines)]
        typed = [observer.takeDirty() for observer in self._observers.values()]
        if self._edited or any(typed) or not all(map(self._isHere, nodes)):
            self._edited = False
            self._report()

    def stop(self) -> None:
        """Stop observing the nodes, and forget them. The nodes remain in the scene."""
        for observer in self._observers.values():
            observer.stop()
        self._observers = {}
        self._record = FollowUp()
        self._volumes = {}
        self._shown = {}
        self._points: dict[str, LesionPoints] = {}  # study key -> its points
        self._lines: list[AxisLine] = []
        self._edited = False  # True after an edit of the user, which `poll` reports

    def _report(self) -> None:
        """Draw the points and axes of the record again. Emit a sentence for each point or axis that the user deleted,
        and `placed` for each point that the user added."""
        record = self._record
        sentences = []
        added = []
        for study, points in self._points.items():
            if not self._isHere(points.node):
                continue
            for lesion in points.missing(record, study):
                sentences.append(
                    f"{lesion}: its point was deleted and has been restored. If the scan does not show the lesion, "
                    "press Not visible or Outside. To delete the lesion in all studies, press Remove."
                )
            added += [(study, place) for place in points.unknownPoints()]
        for line in self._lines:
            if not self._isHere(line.node) or line.axis is None:
                sentences.append(
                    f"{line.lesion}: its {line.kind} axis was deleted and has been restored. Draw the axis again to "
                    "change it."
                )
        self.show(record, self._volumes, self._shown)
        for sentence in sentences:
            self.reported.emit(sentence)
        for study, place in added:
            self.placed.emit(study, place, None)

    def _inHand(self) -> bool:
        """Return True while the user drags a point or an end of an axis."""
        return any(
            observer.inHand and self.scene.GetNodeByID(nodeId)
            for nodeId, observer in self._observers.items()
        )

    def _observe(self) -> None:
        """Observe the nodes of all points and lines, and no other node."""
        marks = {mark.node.GetID(): mark for mark in (*self._points.values(), *self._lines)}
        for nodeId in self._observers.keys() - marks.keys():
            self._observers.pop(nodeId).stop()
        for nodeId in marks.keys() - self._observers.keys():
            mark = marks[nodeId]
            onMoved = self._onLineMoved if isinstance(mark, AxisLine) else self._onPointMoved
            self._observers[nodeId] = ListObserver(
                mark.node,
                self._onEdited,
                partial(onMoved, mark),
                self._onEdited,
                lambda: self._writing,
            )

    def _onEdited(self, index: int | None = None) -> None:
        # the view still uses the node at this moment; `poll` reports the edit later
        self._edited = True

    def _onPointMoved(self, points: LesionPoints, index: int) -> None:
        """Report the new place of a lesion's point. index: the moved control point."""
        lesion = points.lesionAt(index)
        if lesion:
            place = tuple(points.node.GetNthControlPointPosition(index))
            self.placed.emit(self._studyOf(points.volumeNode), place, lesion)

    def _onLineMoved(self, line: AxisLine, index: int) -> None:
        """Report an axis that the user moved, together with the lesion's other axis. index: the moved end."""
        study = self._studyOf(line.volumeNode)
        finding = self._record.finding(line.lesion, study)
        if line.axis is None or finding is None:
            return
        axes = {**finding.size.axes, line.kind: line.axis}
        self.measured.emit(line.lesion, study, axes.get(LONG), axes.get(SHORT))

    def _studyOf(self, volumeNode) -> str:
        return next(study for study, volume in self._volumes.items() if volume is volumeNode)

    def _isHere(self, node) -> bool:
        return node.GetScene() is self.scene
