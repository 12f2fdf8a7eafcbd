"""The anatomical crosshair: while the mouse moves over one scan, all other scans show the same anatomical place."""

import time
from collections.abc import Callable, Sequence

from ..shared import Views
from ..shared.maps.SceneRelations import SceneRelations
from ..shared.Markers import Markers
from ..shared.Signal import Listener, Signal
from ..shared.VolumeNodes import fromWorld, holds, toWorld

_INTERVAL = 1 / 60  # shortest time between the starts of two updates, seconds
_COLOUR = (0.2, 0.85, 1.0)  # of the crosshair; by eye


class AnatomicalCrosshair(Listener):
    """Follows the crosshair node of the scene, which the application moves with the mouse.

    volumes: the scans of the crosshair; scans without a map are ignored. Signal moved(volumeNode, pointWorld): emitted
    when the mouse points to another place in a scan. If the mouse moves fast, only its latest position is shown.
    """

    def __init__(
        self, scene, relations: SceneRelations, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.scene = scene
        self.store = relations.store
        self._relations = relations
        self.volumes: list = []
        self.moved = Signal()
        self._clock = clock
        self._next = -1.0
        self._pending: tuple | None = None
        self._observed: tuple | None = None
        self.markers = Markers(scene, "Anatomical crosshair", _COLOUR)
        self.observe(scene, scene.StartCloseEvent, self._onClosing)
        self.atEnd(lambda: self.setEnabled(False))

    @property
    def enabled(self) -> bool:
        return self._observed is not None

    def setEnabled(self, on: bool) -> None:
        if on == self.enabled:
            return
        if not on:
            node, tag = self._observed
            node.RemoveObserver(tag)
            self._observed = None
            self._forget()
            return
        node = self.scene.GetFirstNodeByClass("vtkMRMLCrosshairNode")
        if node is not None:
            tag = node.AddObserver(node.CursorPositionModifiedEvent, self._onCursor)
            self._observed = (node, tag)

    def poll(self) -> None:
        start = self._clock()
        if self._pending is not None and start >= self._next:
            place = self._pending
            self._pending = None
            self.follow(*place)
            # half of the time is left for drawing
            self._next = start + max(_INTERVAL, 2 * (self._clock() - start))

    def follow(self, volumeNode, pointWorld: Sequence[float], sliceNode=None) -> None:
        """Show the anatomical place of a point of one scan in all other scans.

        Args:
            volumeNode: the scan of the point.
            pointWorld: (3,) world mm.
            sliceNode: the view that contains the mouse and must not move, or None.
        """
        self.moved.emit(volumeNode, pointWorld)
        targets = [node for node in self.volumes if node is not volumeNode]
        place = fromWorld(volumeNode, [pointWorld])
        if self.store.map(volumeNode) is None or not holds(volumeNode, place)[0]:
            return
        self._relations.request(volumeNode, targets, retry=False)
        targets = self._relations.reachable(volumeNode, targets)
        answers = self._relations.match(volumeNode, place, targets, "fast")
        self.markers.hide(volumeNode)
        for node, matches in zip(targets, answers, strict=True):
            if matches.status is not None and matches.status[0] == "absent":
                self.markers.hide(node)
                continue
            world = toWorld(node, matches.points_ras)[0]
            self.markers.put(node, world)
            Views.jump(self.scene, node, world, centre=False, without=sliceNode)

    def _onCursor(self, caller, event: str) -> None:
        xyz = [0.0] * 3
        ras = [0.0] * 3
        sliceNode = caller.GetCursorPositionXYZ(xyz)
        if sliceNode is None or not caller.GetCursorPositionRAS(ras):
            return
        volume = Views.volumeIn(self.scene, sliceNode)
        if volume in self.volumes:
            self._pending = volume, tuple(ras), sliceNode
            self.poll()

    def _onClosing(self, caller, event: str) -> None:
        self.volumes = []
        self._forget()

    def _forget(self) -> None:
        self._pending = None
        self.markers.clear()
