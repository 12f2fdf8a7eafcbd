"""The slice views of the scans that landmarks are in: which lists each shows, and moving all of them to a point."""

from __future__ import annotations

from ..shared import Views
from .ControlPoints import worldOf
from .LandmarkMatcher import LandmarkMatcher


class LandmarkViews:
    """Views of a matcher's template and targets. Nothing here observes the scene; `LandmarkLogic` says when."""

    def __init__(self, scene, matcher: LandmarkMatcher) -> None:
        self.scene = scene
        self._matcher = matcher
        self._ownViews = Views.OwnViews(scene)

    def jumpTo(self, pointId: str) -> None:
        """Move the views of every scan to a point and its answers."""
        matcher = self._matcher
        place = None if matcher.points is None else worldOf(matcher.points, pointId)
        if place is None or matcher.template is None:
            return
        Views.jump(self.scene, matcher.template, place)
        for each in matcher.lists.values():
            answer = each.answers.get(pointId)
            found = None if answer is None else each.worldOf(answer)
            if found is not None:
                Views.jump(self.scene, each.volumeNode, found)

    def restrict(self) -> None:
        """Restrict each list to the views of its volume, so that no scan shows the points of another.

        While points are being placed, the views of the targets take clicks as well, and go on showing answers alone.
        """
        points = self._matcher.points
        self.showOnlyIn(points, self._matcher.template)
        if points is not None and points.GetDisplayNode() is not None and Views.isPlacing(self.scene):
            Views.takeClicksIn(self.scene, points, self._matcher.targets)
        for each in self._matcher.lists.values():
            self.showOnlyIn(each.node, each.volumeNode)

    def release(self) -> None:
        """The mouse places points of the present list in its own views alone."""
        if self._matcher.points.GetDisplayNode() is not None:
            Views.takeClicksIn(self.scene, self._matcher.points, ())

    def showOnlyIn(self, listNode, volumeNode) -> None:
        """Restrict one list to the views of a volume."""
        if None not in (listNode, volumeNode) and listNode.GetDisplayNode() is not None:
            Views.showOnlyIn(listNode.GetDisplayNode(), self.scene, volumeNode)

    def follow(self) -> None:
        """Restrict the lists anew where views show other volumes than at the last look."""
        if self._ownViews.follow():
            self.restrict()
        if self._matcher.points is not None and not Views.isPlacing(self.scene):
            self.release()  # not at once: the view whose click has ended placing still works on the list
