"""Linked views and crosshair: when the user moves to a place in one scan, all other scans show the same place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from AnatomicalEmbedding.matching.status import ABSENT
from AnatomicalEmbeddingLib.landmarks.AnatomicalCrosshair import AnatomicalCrosshair
from AnatomicalEmbeddingLib.shared import Views as SliceViews
from AnatomicalEmbeddingLib.shared.VolumeNodes import fromWorld, toWorld

from .views import Views, slice_to_ras

if TYPE_CHECKING:
    from .session import Session

_PLACE_COUNT = 24  # approximate number of points in a slice that are matched in all other scans


class Linking:
    """Links the views of all scans: after the user has scrolled in one scan, the other scans show the same part of the
    body. Sets the value `linked` of the page: True if the views are linked.
    """

    def __init__(self, session: Session, views: Views) -> None:
        self._session = session
        self._views = views
        self._linked = True
        self._scrolled: str | None = None
        views.scrolled.connect(self._on_scrolled)

    def toggle(self) -> None:
        self._linked = not self._linked
        self._scrolled = None

    def poll(self) -> None:
        """Move the views of the other scans, as soon as the view that the user has scrolled is drawn."""
        if self._scrolled is not None and not self._views.painter.busy:
            tag = self._scrolled
            self._scrolled = None
            self._move_others(tag)

    def publish(self, state) -> None:
        state.linked = self._linked

    def _on_scrolled(self, tag: str) -> None:
        if self._linked:
            self._scrolled = tag

    def _move_others(self, tag: str) -> None:
        scan, view, targets = self._views.same_orientation(tag)
        relations = self._session.relations
        source = None if scan is None else self._session.store.map(scan)
        reachable = relations.reachable(scan, [node for node, _ in targets])
        targets = [(node, target_view) for node, target_view in targets if node in reachable]
        if source is None or not targets:
            return
        places = _places_in(view.get_view_node(), scan, source)
        if not len(places):
            return
        answers = relations.match(scan, places, [node for node, _ in targets], "fast")
        for (node, target_view), matches in zip(targets, answers, strict=True):
            visible = slice(None) if matches.status is None else matches.status != ABSENT
            # if fewer, the scan shows another part of the body
            if len(matches.points_ras[visible]) >= len(places) / 2:
                middle = np.median(toWorld(node, matches.points_ras[visible]), axis=0)
                target_view.get_view_node().JumpSliceByOffsetting(*middle)


def _places_in(slice_node, scan, embedding) -> np.ndarray:
    """Return n places that are spread over the body in the slice which `slice_node` shows: (n, 3), RAS mm of the scan
    before its transforms. embedding: map of the scan."""
    matrix = slice_to_ras(slice_node)
    origin = fromWorld(scan, [matrix[:3, 3]])[0]
    axis = np.abs(matrix[:3, 2]).argmax()
    cell = np.linalg.inv(embedding.cell_to_ras) @ [*origin, 1.0]
    cells = embedding.body_index.numpy()
    cells = cells[cells[:, axis] == round(cell[axis])]
    cells = cells[:: max(1, len(cells) // _PLACE_COUNT)]
    places = cells @ embedding.cell_to_ras[:3, :3].T + embedding.cell_to_ras[:3, 3]
    places[:, axis] = origin[axis]
    return places[embedding.contains(places)] if len(places) else places


class Crosshair(AnatomicalCrosshair):
    """The crosshair. It moves only when all pictures are drawn, and then to the latest place of the mouse.

    Sets the value `crosshair` of the page: True if the crosshair is on.
    """

    def __init__(self, session: Session, views: Views) -> None:
        super().__init__(session.scene, session.relations)
        self._session = session
        self._views = views
        views.painter.idle.connect(self.poll)
        session.scans_changed.connect(self._follow_scans)
        session.on_close(self.close)

    def _follow_scans(self) -> None:
        self.volumes = list(self._session.scans)

    def toggle(self) -> None:
        self.setEnabled(not self.enabled)

    def poll(self) -> None:
        if not self._views.painter.busy:
            super().poll()

    def publish(self, state) -> None:
        state.crosshair = self.enabled

    def follow(self, volumeNode, pointWorld, sliceNode=None) -> None:
        """Move the crosshair, and all views, to a point.

        Args:
            volumeNode: the volume of the point.
            pointWorld: (3,) world mm.
            sliceNode: the view with the mouse, which is not moved, or None.
        """
        SliceViews.jump(self.scene, volumeNode, pointWorld, centre=False, without=sliceNode)
        super().follow(volumeNode, pointWorld, sliceNode)
