"""Last step after a click: move all views to the point and its answers. Each list is drawn in its volume's views."""

from __future__ import annotations

from collections.abc import Sequence

from ..shared import Views
from .AnswerLists import AnswerLists
from .ControlPoints import worldOf


class LandmarkViews:
    """Slice views of the template and the targets."""

    def __init__(self, scene) -> None:
        self.scene = scene
        self._ownViews = Views.OwnViews(scene)

    def jumpTo(self, template, points, pointId: str, answers: AnswerLists) -> None:
        place = None if points is None else worldOf(points, pointId)
        if place is None or template is None:
            return
        Views.jump(self.scene, template, place)
        for each in answers.lists.values():
            answer = each.answers.get(pointId)
            found = None if answer is None else each.worldOf(answer)
            if found is not None:
                Views.jump(self.scene, each.volumeNode, found)

    def restrict(self, template, points, targets: Sequence, answers: AnswerLists) -> None:
        """Draw each list only in the views of its volume.

        While the user places points, a click in a target's view also places a point of the template's list. The
        target's view does not draw this point.
        """
        self.showOnlyIn(points, template)
        if points is not None and points.GetDisplayNode() is not None and Views.isPlacing(self.scene):
            Views.takeClicksIn(self.scene, points, targets)
        for each in answers.lists.values():
            self.showOnlyIn(each.node, each.volumeNode)

    def showOnlyIn(self, listNode, volumeNode) -> None:
        if None not in (listNode, volumeNode) and listNode.GetDisplayNode() is not None:
            Views.showOnlyIn(listNode.GetDisplayNode(), self.scene, volumeNode)

    def placeInOwnViews(self, points) -> None:
        """Let clicks place points of the list only in the views that draw the list."""
        if points.GetDisplayNode() is not None:
            Views.takeClicksIn(self.scene, points, ())

    def endPlacing(self, points) -> None:
        """Call `placeInOwnViews` if the user places no points. Calling it in a click would disturb the clicked view."""
        if points is not None and not Views.isPlacing(self.scene):
            self.placeInOwnViews(points)

    def changed(self) -> bool:
        """True if a view shows another volume than at the last call."""
        return self._ownViews.follow()
