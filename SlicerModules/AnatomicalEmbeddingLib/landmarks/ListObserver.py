"""The user's edits of a point list, told from the many events that each edit causes."""

from __future__ import annotations

from collections.abc import Callable

import slicer
import vtk

from .ControlPoints import isPreview


class ListObserver:
    """Calls placed(index) when a point got its place, dragging(index) while it is dragged, moved(index) when it is
    released, edited() when points were removed or several placed at once, and previewed(index) while a new point
    follows the mouse. ignored(): are the present changes our own? inHand: a point is being dragged.

    Other changes, mostly of labels, come in great numbers: `takeDirty` reports them.
    """

    def __init__(
        self,
        node,
        placed: Callable[[int], None],
        moved: Callable[[int], None],
        dragging: Callable[[int], None] | None,
        edited: Callable[[], None],
        ignored: Callable[[], bool],
        previewed: Callable[[int], None] | None = None,
    ) -> None:
        self._node, self._ignored, self._previewed = node, ignored, previewed
        self._placed, self._moved, self._dragging, self._edited = placed, moved, dragging, edited
        self.inHand = self._dirty = False
        self._before: dict[str, tuple[float, ...]] = {}
        events = slicer.vtkMRMLMarkupsNode
        self._tags = [
            node.AddObserver(event, slot)
            for event, slot in (
                (events.PointPositionDefinedEvent, self._onDefined),
                (events.PointStartInteractionEvent, self._onStart),
                (events.PointEndInteractionEvent, self._onEnd),
                (events.PointAddedEvent, self._onAdded),
                (events.PointModifiedEvent, self._onModified),
                (events.PointRemovedEvent, self._onRemoved),
            )
        ]

    def stop(self) -> None:
        for tag in self._tags:
            self._node.RemoveObserver(tag)
        self._tags = []

    def takeDirty(self) -> bool:
        """Were there other changes since the last call? Changes during a drag are reported after it."""
        dirty = self._dirty and not self.inHand
        self._dirty = self._dirty and not dirty
        return dirty

    @vtk.calldata_type(vtk.VTK_INT)
    def _onDefined(self, caller, event: str, index: int | None = None) -> None:
        if self._ignored() or self.inHand:
            return
        if index is None:  # several changes at once come as one event that does not state which points
            self._edited()
        else:
            self._placed(index)

    def _onStart(self, caller, event: str) -> None:
        self.inHand = True
        self._before = self._places()

    def _onEnd(self, caller, event: str) -> None:
        self.inHand = False
        if not self._ignored():
            for index in self._changed():
                self._moved(index)

    @vtk.calldata_type(vtk.VTK_INT)
    def _onAdded(self, caller, event: str, index: int | None = None) -> None:
        if self._previewed is not None and index is not None and isPreview(self._node, index):
            self._previewed(index)

    @vtk.calldata_type(vtk.VTK_INT)
    def _onModified(self, caller, event: str, index: int | None = None) -> None:
        if index is not None and isPreview(self._node, index):
            self._onAdded(caller, event, index)
            return
        if self._ignored():
            return
        if not self.inHand:
            self._dirty = True
        elif self._dragging is not None:
            for index in self._changed():
                self._dragging(index)

    def _places(self) -> dict[str, tuple[float, ...]]:
        """Position of each point by its ID. The events of a drag do not state the point."""
        node = self._node
        return {
            node.GetNthControlPointID(n): tuple(node.GetNthControlPointPosition(n))
            for n in range(node.GetNumberOfControlPoints())
        }

    def _changed(self) -> list[int]:
        """Points that are elsewhere than when the drag began."""
        places = enumerate(self._places().items())
        return [n for n, (pointId, place) in places if self._before.get(pointId) != place]

    def _onRemoved(self, caller, event: str) -> None:
        if not self._ignored():
            self._edited()
