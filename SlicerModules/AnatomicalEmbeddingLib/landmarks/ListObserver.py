"""Reports each edit of a point list by the user exactly once, although an edit causes many events."""

from collections.abc import Callable

import slicer
import vtk

from .ControlPoints import isPreview


class ListObserver:
    """Observes a point list and calls a function for each edit. `index` is the index of the point.

    placed(index): the user placed a point. moved(index): the user released a dragged point. edited(): points were
    removed, or several points were placed at once. ignored(): returns True while the program itself changes the list;
    edits are then not reported. previewed(index): a new point follows the mouse. inHand: True while a point is dragged.

    For other changes, mostly of labels, no function is called, because they cause too many events. `takeDirty` returns
    True after these changes.
    """

    def __init__(
        self,
        node,
        pointPlaced: Callable[[int], None],
        moved: Callable[[int], None],
        edited: Callable[[], None],
        ignored: Callable[[], bool],
        previewed: Callable[[int], None] | None = None,
    ) -> None:
        self._node = node
        self._ignored = ignored
        self._previewed = previewed
        self._placed = pointPlaced
        self._moved = moved
        self._edited = edited
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
        """Return True if a point or its label was changed since this function last returned True.

        While a point is dragged, return False.
        """
        dirty = self._dirty and not self.inHand
        self._dirty = self._dirty and not dirty
        return dirty

    @vtk.calldata_type(vtk.VTK_INT)
    def _onDefined(self, caller, event: str, index: int | None = None) -> None:
        if self._ignored() or self.inHand:
            return
        # one event for several changes at once: it does not contain the index of a point
        if index is None:
            self._edited()
        else:
            self._placed(index)

    def _onStart(self, caller, event: str) -> None:
        self.inHand = True
        self._before = self._positions()

    def _onEnd(self, caller, event: str) -> None:
        self.inHand = False
        if not self._ignored():
            for index, (pointId, place) in enumerate(self._positions().items()):
                if self._before.get(pointId) != place:
                    self._moved(index)

    @vtk.calldata_type(vtk.VTK_INT)
    def _onAdded(self, caller, event: str, index: int | None = None) -> None:
        if self._previewed is not None and index is not None and isPreview(self._node, index):
            self._previewed(index)

    @vtk.calldata_type(vtk.VTK_INT)
    def _onModified(self, caller, event: str, index: int | None = None) -> None:
        if index is not None and isPreview(self._node, index):
            self._onAdded(caller, event, index)
        elif not self._ignored() and not self.inHand:
            self._dirty = True

    def _positions(self) -> dict[str, tuple[float, ...]]:
        node = self._node
        return {
            node.GetNthControlPointID(n): tuple(node.GetNthControlPointPosition(n))
            for n in range(node.GetNumberOfControlPoints())
        }

    def _onRemoved(self, caller, event: str) -> None:
        if not self._ignored():
            self._edited()
